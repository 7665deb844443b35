"""Loops that carry values along an axis, many lines side by side: what one line does in order, others do meanwhile.

Along another axis than the last, neighbours in memory are a vector. Along the last, a few lines go together, each with its values
in registers. Not here: what is carried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ffi.dtype import DataType
from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import IntImm, Var
from ...ir.stmt import AllocBuffer, Bind, BufferStore, For, Stmt, seq
from ...ir.types import Expr, prim_type
from ..common.loop_nests import read, serial_loop
from ..common.type_rules import ONE, ZERO

NEIGHBOURS = 256
"""Neighbours in memory that go together."""
VECTOR = 16
"""Elements of float32 in the longest vectors: the groups are whole ones."""
LINES = 4
"""Lines that go together where a step is a few instructions that wait for each other."""
SHARED = 1 << 15
"""Elements from which threads share the lines."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The carried value: its type, the first one and what joins it by the indices of an element, how they are joined (in any
    grouping), and the type in which it is stored.

    ``together`` is how many lines go together along the last axis: as many as hide the time a step takes (``LINES``), or one."""

    kind: DataType
    begin: Callable[[list[Expr]], Expr]
    term: Callable[[list[Expr]], Expr]
    combine: Callable[[Expr, Expr], Expr]
    stored: DataType
    together: int = 1


def scan_lines(out: Buffer, axis: int, carried: Carried) -> Stmt:
    """Store in ``out`` what is carried along ``axis``."""
    shape = out.shape
    rest = [a for a in range(len(shape)) if a != axis]
    if not rest:
        return _lines(out, axis, carried, {}, None, ONE, "serial")
    last = axis == len(shape) - 1
    beside = max(rest, key=lambda a: build.int_value(shape[a], NEIGHBOURS)) if last else rest[-1]
    width = carried.together
    outer = {a: build.index_var(f"i{a}") for a in rest if a != beside}

    def group(start: Expr, lanes: Expr, kind: str) -> Stmt:
        return _lines(out, axis, carried, {**outer, beside: start}, beside, lanes, kind)

    extent = shape[beside]
    if not last:
        size = _neighbours(extent)

        def neighbours(n: Var) -> Stmt:
            return group(n * size, build.minimum(extent - n * size, size), "serial")

        result = serial_loop(build.ceildiv(extent, size), neighbours, "group", _kind(shape))
    else:
        whole = extent // width
        lanes = build.const(width, "int64")
        result = seq(
            serial_loop(whole, lambda n: group(n * width, lanes, "unrolled"), "group", _kind(shape)),
            serial_loop(
                extent % width,
                lambda n: group(whole * width + n, ONE, "serial"), "line",
            ),
        )  # fmt: skip
    for a in sorted(outer, reverse=True):
        result = For(outer[a], ZERO, shape[a], "serial", result)
    return result


def _neighbours(extent: Expr) -> int:
    """Neighbours that go together: a remainder of less than half of ``NEIGHBOURS`` is shared out among the other groups."""
    known = build.int_value(extent, NEIGHBOURS)
    groups = max(1, (known + NEIGHBOURS // 2) // NEIGHBOURS)
    return max(NEIGHBOURS, -(-known // (groups * VECTOR)) * VECTOR)


def _kind(shape: Sequence[Expr]) -> str:
    """Symbolic extents are counted when the loop runs."""
    return "parallel" if math.prod([build.int_value(extent, SHARED) for extent in shape]) >= SHARED else "serial"


def _lines(
    out: Buffer, axis: int, carried: Carried, index: dict[int, Expr], beside: int | None, lanes: Expr, kind: str
) -> Stmt:  # fmt: skip
    """``lanes`` lines along ``axis`` from the indices ``index`` on, next to each other along the axis ``beside``."""
    room = lanes if type(lanes) is IntImm or beside is None else build.const(_neighbours(out.shape[beside]), "int64")
    state = make_buffer("carried0", carried.kind, (room,))

    def element(t: Expr, lane: Expr, following: Callable[[list[Expr]], Expr]) -> Stmt:
        i = [t if a == axis else index[a] + lane if a == beside else index[a] for a in range(out.ndim)]
        named = Var("value", prim_type(carried.kind))
        stored = BufferStore(out, build.cast(named, carried.stored), tuple(i))
        return seq(Bind(named, following(i)), BufferStore(state, named, (lane,)), stored)

    def side_by_side(body: Callable[[Expr], Stmt]) -> Stmt:
        lane = build.index_var("lane")
        return For(lane, ZERO, lanes, kind, body(lane), annotations={"vectorize": 1} if kind == "serial" else None)

    def following(t: Expr) -> Stmt:
        return side_by_side(
            lambda lane: element(t, lane, lambda i: carried.combine(read(state, (lane,)), carried.term(i)))
        )

    length = out.shape[axis]
    first = serial_loop(
        build.minimum(length, 1), lambda t: side_by_side(lambda lane: element(t, lane, carried.begin)), "first"
    )
    rest = serial_loop(length - 1, lambda t: following(t + 1), "t")
    return seq(AllocBuffer(state), first, rest)
