"""The lowering of attention: blocks of rows against blocks of keys, with the softmax carried along.

For each block of rows the keys pass by block after block; kept are the highest score, the sum of the weights and the mixed values
of each row, which a higher score scales down ("online softmax": Milakov, Gimelshein 2018, arXiv 1805.02867; blocked as in Dao et
al. 2022, "FlashAttention", arXiv 2205.14135). Memory does not grow with the number of scores; keys that a causal mask hides from
a whole block are not read; any lengths, symbolic or not, run the same program.

Many rows stand across vectors, with keys and values read in place, one element for all rows of a vector. Few rows (one new token)
read keys and values along vectors. Heads that share keys are rows of one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import te
from ...ir import build
from ...ir.analysis.reductions import NUMBERS
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import Var
from ...ir.stmt import AllocBuffer, Bind, BufferStore, Stmt, seq
from ...ir.types import Expr
from ..common.loop_nests import read, reduction_nest, serial_loop, spatial_nest, unit_loop
from ..common.lowering import broadcast_indices
from ..common.type_rules import ONE, ZERO, is_one

ROWS = 64
"""Rows of a block, scores of which stay in cache with a block of keys."""
LAST_ROWS = 16
"""Rows of the blocks that what is left is cut into."""
KEYS = 64
"""Keys of a block."""
FEW_ROWS = 8
"""Rows that do not fill a vector."""
MANY_KEYS = 256
"""Keys of a block where rows are few."""
LOWEST = float("-inf")


@dataclass(slots=True, frozen=True)
class Tensor4:
    """A tensor of four axes in some order: ``at(batch, head, position, element)``. A digit is one more axis, read at that index."""

    buffer: Buffer
    order: str

    def at(self, batch: Expr, head: Expr, position: Expr, element: Expr) -> Expr:
        """Its element."""
        return read(self.buffer, self.row_index(batch, head, position, element))

    def row_index(self, batch: Expr, head: Expr, position: Expr, element: Expr) -> tuple[Expr, ...]:
        """Indices of an element."""
        given = {"B": batch, "H": head, "S": position, "D": element}
        return tuple([given[axis] if axis in given else build.const(int(axis), "int64") for axis in self.order])

    def size(self, letter: str) -> Expr:
        """Size along an axis."""
        return self.buffer.shape[self.order.index(letter)]


@dataclass(slots=True, frozen=True)
class Attention:
    """A computation of attention. ``shift``: a row sees keys up to its own number plus this, None: all of them; ``bias``: added
    to the scores, or bool: true where a key is seen; ``empty``: the value of a row that sees no key."""

    query: Tensor4
    key: Tensor4
    value: Tensor4
    out: Tensor4
    bias: Buffer | None
    scale: Expr
    shift: Expr | None
    empty: float | None
    wide: str

    def emit(self) -> Stmt:
        """The program."""
        heads, shared = self.query.size("H"), self.key.size("H")
        group = heads // shared
        rows = self.query.size("S") * group
        outer = self.query.size("B") * shared
        parts = []
        for count, first, size in _pieces(rows):
            blocks = outer * count

            def block(n: Var, count: Expr = count, first: Expr = first, size: int = size) -> Stmt:
                position, start, batch, head = [build.index_var(name) for name in ("place", "start", "batch", "head")]
                return seq(
                    Bind(position, n // count),
                    Bind(start, first + (n - position * count) * size),
                    Bind(batch, position // shared),
                    Bind(head, position % shared),
                    _Block(self, batch, head, group, rows, start, size).emit(),
                )

            kind = "serial" if is_one(blocks) else "parallel"
            parts.append(serial_loop(blocks, block, "block", kind))
        return seq(*parts)


def _pieces(rows: Expr) -> list[tuple[Expr, Expr, int]]:
    """(how many blocks, first row, rows of each) that cover all rows."""
    number = build.int_value(rows)
    if number is None:
        whole = rows // ROWS
        left = rows - whole * ROWS
        return [(whole, ZERO, ROWS), (build.ceildiv(left, LAST_ROWS), whole * ROWS, LAST_ROWS)]
    if number <= FEW_ROWS:
        return [(ONE, ZERO, number)] if number else []
    count, rest = divmod(number, ROWS)
    size = -(-rest // LAST_ROWS) * LAST_ROWS
    found = [
        (build.const(count, "int64"), ZERO, ROWS),
        (ONE, build.const(count * ROWS, "int64"), size),
    ]
    return [piece for piece, used in zip(found, (count, rest)) if used]


class _Block:
    """One block of rows of one head of the keys."""

    def __init__(
        self, what: Attention, batch: Expr, head: Expr, group: Expr, rows: Expr, start: Expr, size: int
    ) -> None:
        self.what, self.batch, self.head, self.group, self.rows = what, batch, head, group, rows
        self.start, self.size, self.few = start, size, size <= FEW_ROWS
        self.keys = what.key.size("S")
        self.width, self.mixed = what.key.size("D"), what.value.size("D")
        self.step = MANY_KEYS if self.few else KEYS
        self.high, self.new, self.total, self.away = [self.buffer(n, size) for n in ("high", "new", "total", "away")]

    def buffer(self, name: str, *shape: Expr | int) -> Buffer:
        return make_buffer(name, self.what.wide, shape)

    def pair(self, name: str, other: Expr | int) -> Buffer:
        """A buffer over rows and something else."""
        return self.buffer(name, self.size, other) if self.few else self.buffer(name, other, self.size)

    def at(self, row: Expr, other: Expr) -> tuple[Expr, Expr]:
        """A cell of such a buffer."""
        return (row, other) if self.few else (other, row)

    def row_index(self, row: Expr) -> tuple[Expr, Expr]:
        """(head, position in the sequence) of a row of the block."""
        number = self.start + row
        if is_one(self.group):
            return self.head, number
        head = self.head * self.group + number % self.group
        return head, number // self.group

    def inside(self, row: Expr) -> Expr:
        """A row of the block, that of the last one beyond the end."""
        return build.minimum(row, self.rows - 1 - self.start)

    def emit(self) -> Stmt:
        """Start, all blocks of keys, the result."""
        query, mixed = self.pair("query", self.width), self.pair("mixed", self.mixed)
        wide, what = self.what.wide, self.what
        start = [AllocBuffer(b) for b in (self.high, self.new, self.total, self.away, query, mixed)]
        load = [self.load_query(query)]
        lowest, zero = build.const(LOWEST, wide), build.const(0.0, wide)
        begin = [
            spatial_nest(self.high, lambda i: lowest),
            spatial_nest(self.total, lambda i: zero),
            spatial_nest(mixed, lambda a, b: zero),
        ]
        seen = self.keys
        if what.shift is not None:
            last = self.row_index(self.inside(build.const(self.size - 1, "int64")))[1]
            seen = build.maximum(build.minimum(self.keys, last + what.shift + 1), ZERO)
        blocks = serial_loop(
            build.ceildiv(seen, self.step),
            lambda c: self.keys_block(c * self.step, seen, query, mixed),
            "keys",
        )
        return seq(*start, *load, *begin, blocks, self.finish(mixed))

    def load_query(self, query: Buffer) -> Stmt:
        """The rows of the query, scaled."""
        what = self.what

        def value(row: Expr, d: Expr) -> Expr:
            head, position = self.row_index(self.inside(row))
            return build.cast(what.query.at(self.batch, head, position, d), what.wide) * what.scale

        if self.few:
            return spatial_nest(query, value)
        lines = self.buffer("query_rows", self.size, self.width)
        return seq(
            AllocBuffer(lines), spatial_nest(lines, value), spatial_nest(query, lambda d, i: read(lines, (i, d)))
        )

    def keys_block(self, first: Expr, seen: Expr, query: Buffer, mixed: Buffer) -> Stmt:
        """A block of keys."""
        what, at = self.what, self.at
        count = build.minimum(seen - first, self.step)
        part_of = at(build.const(self.size, "int64"), count)
        raw, scores, weights = [self.pair(n, self.step) for n in ("raw", "scores", "weights")]
        top, added = self.buffer("top", self.size), self.buffer("added", self.size)
        part = self.pair("part", self.mixed)
        lowest = build.const(LOWEST, what.wide)

        def product(i: Expr, j: Expr, d: Expr) -> Expr:
            key = what.key.at(self.batch, self.head, first + j, d)
            return read(query, at(i, d)) * build.cast(key, what.wide)

        def score(i: Expr, j: Expr) -> Expr:
            value = read(raw, at(i, j))
            head, position = self.row_index(self.inside(i))
            if what.bias is not None:
                given = self.biased(head, position, first + j)
                if what.bias.dtype.is_bool:
                    value = build.select(given, value, lowest)
                else:
                    value = value + build.cast(given, what.wide)
            if what.shift is not None:
                limit = self.row_index(i)[1] + what.shift
                value = build.select(build.le(first + j, limit), value, lowest)
            return value

        def finite(i: Expr) -> Expr:
            value = read(self.new, (i,))
            return build.select(build.eq(value, lowest), 0.0, value)

        def exp(x: Expr) -> Expr:
            return build.intrinsic("exp", x)

        def both(fn: Any) -> Any:
            """A function of (row, other, ..) with the first two in the order of the buffers."""
            return fn if self.few else lambda a, b, *rest: fn(b, a, *rest)

        def weighted(i: Expr, e: Expr, j: Expr) -> Expr:
            return read(weights, at(i, j)) * build.cast(what.value.at(self.batch, self.head, first + j, e), what.wide)

        masked = what.bias is not None or what.shift is not None
        result = scores if masked else raw
        return seq(
            *[AllocBuffer(b) for b in (raw, weights, top, added, part)],
            *([AllocBuffer(scores)] if masked else []),
            reduction_nest(raw, [self.width], both(product), extents=part_of),
            *([spatial_nest(scores, both(score), part_of)] if masked else []),
            reduction_nest(
                top, [count], lambda i, j: read(result, at(i, j)), build.maximum, LOWEST, reduction=NUMBERS
            ),
            spatial_nest(self.new, lambda i: build.maximum(read(self.high, (i,)), read(top, (i,)))),
            spatial_nest(weights, both(lambda i, j: exp(read(result, at(i, j)) - finite(i))), part_of),
            spatial_nest(self.away, lambda i: exp(read(self.high, (i,)) - finite(i))),
            reduction_nest(added, [count], lambda i, j: read(weights, at(i, j))),
            spatial_nest(self.total, lambda i: read(self.total, (i,)) * read(self.away, (i,)) + read(added, (i,))),
            spatial_nest(self.high, lambda i: read(self.new, (i,))),
            reduction_nest(part, [count], both(weighted)),
            spatial_nest(mixed, both(lambda i, e: read(mixed, at(i, e)) * read(self.away, (i,)) + read(part, at(i, e)))),
        )  # fmt: skip

    def biased(self, head: Expr, row: Expr, key: Expr) -> Expr:
        """The bias of a score, broadcast."""
        bias = self.what.bias
        assert bias is not None
        shape = (self.what.query.size("B"), self.what.query.size("H"), self.what.query.size("S"), self.keys)
        picked = broadcast_indices(bias.shape, (self.batch, head, row, key), shape)
        return read(bias, [te.to_scalar(i, "int64") for i in picked])

    def finish(self, mixed: Buffer) -> Stmt:
        """Divide and store the rows that there are."""
        what = self.what
        lines = self.buffer("lines", self.size, self.mixed)

        def value(i: Expr, e: Expr) -> Expr:
            total = read(self.total, (i,))
            result = build.div(read(mixed, self.at(i, e)), total)
            if what.empty is None:
                return result
            return build.select(build.eq(total, 0.0), build.const(what.empty, what.wide), result)

        def row(i: Var) -> Stmt:
            head, position = self.row_index(i)

            def element(e: Var) -> Stmt:
                return BufferStore(
                    what.out.buffer,
                    build.cast(read(lines, (i, e)), what.out.buffer.dtype),
                    what.out.row_index(self.batch, head, position, e),
                )

            return unit_loop(self.mixed, element)

        many = build.minimum(self.size, self.rows - self.start)
        return seq(AllocBuffer(lines), spatial_nest(lines, value), serial_loop(many, row, "row"))
