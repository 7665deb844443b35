"""The tensor program of a product of few rows with weights of 8 or 4 bits (two rows in a byte), a scale for each column of a group.

Integers are widened to float32 (signed nibbles by two shifts) and summed without their scale, which is multiplied once for each
group. The sums of a tile stay in registers (few rows times vectors of a panel). Not here: how weights are rounded
(``quantize_weights.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from .... import te
from ....ir import build
from ....ir.analysis.reductions import REDUCTION
from ....ir.buffer import Buffer, make_buffer
from ....ir.expr import IntImm, Var
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, Stmt, seq
from ....ir.types import Expr, prim_type
from ....op.common.loop_nests import read, serial_loop
from ...tir.analysis.parallel_cost import SHARED_WORK
from ...tir.buffers.inject_prefetch import prefetch_of

LANES = 16
MOST_ROWS = 4
"""Rows of data that share widened weights."""
SUMS = 16
"""Vectors of sums of a group in a tile: they stay in registers, those of all groups rest in cache in the meantime."""
AHEAD = 16
"""Steps by which the weights are fetched ahead."""
_BYTE = prim_type("int8")
_FLOAT = prim_type("float32")
_INT = prim_type("int32")


def _number(value: int) -> Expr:
    return build.const(value, "int64")


def _shifted(way: str, value: Expr, bits: int) -> Expr:
    """An int32 shifted left or right."""
    return build.intrinsic(f"shift_{way}", value, build.const(bits, "int32"))


def _loop(extent: int, body: Callable[[Var], Stmt], name: str, kind: str = "unrolled") -> Stmt:
    return serial_loop(_number(extent), body, name, kind)


def _in_vectors(buffer: Buffer, value: Callable[[Var, Var, Var], Expr], rows: int, vectors: int) -> Stmt:
    """``buffer[row, vector, lane] = value(..)`` for a tile."""

    def cell(r: Var, v: Var) -> Stmt:
        return _loop(LANES, lambda i: BufferStore(buffer, value(r, v, i), (r, v, i)), "lane", "vectorized")

    return _loop(rows, lambda r: _loop(vectors, lambda v: cell(r, v), "vector"), "row")


class _Tile:
    """``rows`` rows of data by the columns of some vectors of a panel."""

    def __init__(self, ins: list[Buffer], outs: list[Buffer], rows: int, bits: int) -> None:
        self.x, self.weights, self.scales = ins
        self.out = outs[0]
        self.flat = self.x.ndim == 1
        self.rows, self.bits = rows, bits
        lines, width = self.weights.shape[1:]
        groups = self.scales.shape[1]
        assert type(lines) is IntImm and type(width) is IntImm and type(groups) is IntImm
        self.pairs = lines.value * (8 // bits) // 2 // groups.value
        most = max(1, SUMS // rows)
        self.vectors = max([n for n in range(1, most + 1) if width.value // LANES % n == 0])
        self.parts = width.value // LANES // self.vectors

    def write(self, lead: tuple[Expr, ...], first: Expr, panel: Expr) -> Stmt:
        """The tile that begins at row ``first`` of the last leading axis."""
        return _loop(self.parts, lambda part: self.part(lead, first, panel, part), "part", "serial")

    def pair(self, line: Callable[[Expr], Expr], index: Expr) -> tuple[tuple[Var, Var], list[Stmt]]:
        """The weights of two neighbouring rows as float32, and what binds them; ``line`` reads a byte."""
        low, high, byte = Var("low", _FLOAT), Var("high", _FLOAT), Var("byte", _INT)
        if self.bits == 8:
            lines = [build.add(build.mul(index, 2), n) for n in (0, 1)]
            return (low, high), [Bind(w, build.cast(line(at), "float32")) for w, at in zip((low, high), lines)]
        return (low, high), [
            Bind(byte, build.cast(line(index), "int32")),
            Bind(low, build.cast(_shifted("right", _shifted("left", byte, 28), 28), "float32")),
            Bind(high, build.cast(_shifted("right", byte, 4), "float32")),
        ]

    def fetched(self, panel: Expr, index: Expr) -> list[Stmt]:
        """Fetches what is read `AHEAD` steps later, of this panel or the next, which lies behind it: so few bytes are read for each
        instruction that the processor does not come to them early enough by itself."""
        lines = 2 if self.bits == 8 else 1
        panels, count = self.weights.shape[:2]
        last = build.sub(build.mul(build.sub(panels, panel), count), 1)
        at = [build.minimum(build.add(build.mul(build.add(index, AHEAD), lines), n), last) for n in range(lines)]
        return [prefetch_of(BufferLoad(self.weights, (panel, line, _number(0)), _BYTE), 3) for line in at]

    def part(self, lead: tuple[Expr, ...], first: Expr, panel: Expr, part: Var) -> Stmt:
        """The tile on some vectors of its panel."""
        names = ["total", "some", "others"] if self.rows * self.vectors < SUMS else ["total", "some"]
        total, *some = [make_buffer(name, "float32", (self.rows, self.vectors, LANES), "local") for name in names]
        zero = build.const(0.0, "float32")

        def at(r: Expr) -> tuple[Expr, ...]:
            return () if self.flat else (*lead, build.add(first, r))

        def column(v: Expr, i: Expr) -> Expr:
            return build.add(build.mul(build.add(build.mul(part, self.vectors), v), LANES), i)

        def step(g: Var, k: Var, v: Var, i: Var) -> Stmt:
            index = build.add(build.mul(g, self.pairs), k)
            weights, binds = self.pair(lambda line: read(self.weights, (panel, line, column(v, i))), index)

            def row(r: Var) -> Stmt:
                parts = []
                for offset, weight in enumerate(weights):
                    data = read(self.x, (*at(r), build.add(build.mul(index, 2), offset)))
                    chain = some[offset % len(some)]
                    value = build.add(read(chain, (r, v, i)), build.mul(data, weight))
                    store = BufferStore(chain, value, (r, v, i))
                    parts.append(AttrStmt(build.const(0, "int32"), REDUCTION, 1, store))
                return seq(*parts)

            return seq(*binds, _loop(self.rows, row, "row"))

        def sums(g: Var, k: Var) -> Stmt:
            return seq(
                *self.fetched(panel, build.add(build.mul(g, self.pairs), k)),
                _loop(self.vectors, lambda v: _loop(LANES, lambda i: step(g, k, v, i), "lane", "vectorized"), "vector"),
            )

        def joined(g: Var, r: Var, v: Var, i: Var) -> Expr:
            whole = reduce(build.add, [read(chain, (r, v, i)) for chain in some])
            return build.add(read(total, (r, v, i)), build.mul(whole, read(self.scales, (panel, g, column(v, i)))))

        def grouped(g: Var) -> Stmt:
            return seq(
                *[_in_vectors(chain, lambda r, v, i: zero, self.rows, self.vectors) for chain in some],
                _loop(self.pairs, lambda k: sums(g, k), "k", "serial"),
                _in_vectors(total, lambda r, v, i: joined(g, r, v, i), self.rows, self.vectors),
            )

        def stored(r: Var, v: Var) -> Stmt:
            def lane(i: Var) -> Stmt:
                return BufferStore(self.out, read(total, (r, v, i)), (*at(r), panel, column(v, i)))

            return _loop(LANES, lane, "lane", "vectorized")

        return seq(
            *[AllocBuffer(buffer) for buffer in (total, *some)],
            _in_vectors(total, lambda r, v, i: zero, self.rows, self.vectors),
            serial_loop(self.scales.shape[1], grouped, "g"),
            _loop(self.rows, lambda r: _loop(self.vectors, lambda v: stored(r, v), "vector"), "row"),
        )


def _over(extents: list[Expr], body: Callable[..., Stmt]) -> Stmt:
    """Serial loops around ``body(variables)``."""
    if not extents:
        return body()
    return serial_loop(extents[0], lambda i: _over(extents[1:], lambda *rest: body(i, *rest)), "i")


def few_bit_product(x: te.Tensor, weights: te.Tensor, scales: te.Tensor, bits: int) -> te.Tensor:
    """``x`` (.., rows) by int8 ``weights`` (panels, lines, width) with ``scales`` (panels, groups, width) -> (.., panels, width). A
    line holds one row of 8 ``bits``, two of 4; the rows of a group are even."""
    lead = x.shape[:-1]
    panels, _, width = weights.shape

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        last: Expr = lead[-1] if lead else _number(1)
        before = lead[:-1]

        def tiles(panel: Var, *outer: Var) -> Stmt:
            def tile(rows: int, first: Expr) -> Stmt:
                return _Tile(ins, outs, rows, bits).write(outer, first, panel)

            if not lead:
                return tile(1, _number(0))
            whole, rest = build.floordiv(last, MOST_ROWS), build.floormod(last, MOST_ROWS)
            done = build.mul(whole, MOST_ROWS)
            parts = []
            if not build.is_int(whole, 0):
                parts.append(serial_loop(whole, lambda m: tile(MOST_ROWS, build.mul(m, MOST_ROWS)), "m"))
            if type(rest) is IntImm:
                parts += [tile(rest.value, done)] if rest.value else []
            else:
                parts.append(serial_loop(rest, lambda m: tile(1, build.add(done, m)), "m"))
            return seq(*parts)

        work = [build.int_value(n, 1) for n in (*x.shape, panels, width)]
        large = math.prod(work) >= SHARED_WORK
        return serial_loop(
            panels,
            lambda p: _over(list(before), lambda *outer: tiles(p, *outer)),
            "p",
            "parallel" if large else "serial",
        )

    made = te.extern([(*lead, panels, width)], [x, weights, scales], emit, f"matmul_int{bits}", "float32")
    return made[0]
