"""Running sums on CUDA devices: the lanes of a warp, or of a block, share a line along the last axis; along another axis each
thread has a line, with what it carries in registers.

Lanes that share a line have neighbours of it. Each adds what lanes below it have, at twice the distance each time (Hillis, Steele
1986, "Data parallel algorithms"); what the last one has goes on to the next part of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import StringImm, Var
from ...ir.node import replace
from ...ir.stmt import AllocBuffer, Bind, BufferStore, Evaluate, For, IfThenElse, Stmt, seq
from ...ir.types import Expr, prim_type
from ...op.common.loop_nests import loops, read, serial_loop
from ...op.common.type_rules import ONE, ZERO, product
from ...op.reduction.scan import lower_cumprod, lower_cumsum
from ...op.reduction.scan_loops import Carried
from ...op.reduction.sort_loops import index_at

WARP = 32
THREADS, MOST = 256, 1024
"""Threads that have a line, and those that have a long one."""
LONG = 4096
"""Elements of a long line."""
BLOCK = 128
"""Threads of a block that has several lines."""


def _scan(out: Buffer, axis: int, carried: Carried) -> Stmt:
    """Store in ``out`` what is carried along ``axis``."""
    shape = out.shape
    if axis == len(shape) - 1:
        return _along(out, carried)
    state = make_buffer("carried0", carried.kind, (ONE,))

    def element(i: Sequence[Expr], following: Expr) -> Stmt:
        named = Var("value", prim_type(carried.kind))
        stored = BufferStore(out, build.cast(named, carried.stored), tuple(i))
        return seq(Bind(named, following), BufferStore(state, named, (ZERO,)), stored)

    def line(rest: list[Var]) -> Stmt:
        def first(t: Var) -> Stmt:
            i = [*index_at(rest, axis, t)]
            return element(i, carried.begin(i))

        def following(t: Var) -> Stmt:
            i = [*index_at(rest, axis, t + 1)]
            return element(i, carried.combine(read(state, (ZERO,)), carried.term(i)))

        length = shape[axis]
        return seq(
            AllocBuffer(state),
            serial_loop(build.minimum(length, 1), first, "first"),
            serial_loop(length - 1, following, "t"),
        )

    return _parallel(loops([d for a, d in enumerate(shape) if a != axis], line), len(shape) - 1)


def _parallel(stmt: Stmt, depth: int) -> Stmt:
    if depth == 0:
        return stmt
    assert type(stmt) is For
    return replace(stmt, kind="parallel", body=_parallel(stmt.body, depth - 1))


def _along(out: Buffer, carried: Carried) -> Stmt:
    """The kernel that stores what is carried along the last axis."""
    combine, term = carried.combine, carried.term
    *rest, length = out.shape
    count, known = product(rest), build.int_value(length)
    threads = THREADS if known is None else MOST if known >= LONG else min(THREADS, 1 << max(0, known - 1).bit_length())
    lanes, is_whole = min(threads, WARP), known is not None and known <= threads
    warps, lines = threads // lanes, BLOCK // threads if threads <= WARP else 1
    own, before = [make_buffer(name, carried.kind, (ONE,), "local") for name in ("own", "before")]
    of_warps = make_buffer("of_warps", carried.kind, (build.const(warps + 1, "int64"),), "shared")

    def own_value() -> Expr:
        return read(own, (ZERO,))

    def keep(value: Expr, buffer: Buffer = own, at: Expr = ZERO) -> Stmt:
        return BufferStore(buffer, value, (at,))

    def part(line: Expr, tx: Var, number: Expr) -> Stmt:
        lane, warp, t = build.floormod(tx, lanes), build.floordiv(tx, lanes), number * threads + tx
        i = [*_places(line, rest), t]
        inside = build.logical_and(build.lt(line, count), build.lt(t, length))
        last = read(of_warps, (build.const(warps, "int64"),)) if warps > 1 else read(before, (ZERO,))
        made: list[Stmt] = [
            keep(build.const(0, carried.kind)),
            IfThenElse(inside, IfThenElse(build.eq(t, 0), keep(carried.begin(i)), keep(term(i)))),
        ]
        if not is_whole:
            goes_on = build.logical_and(build.eq(tx, 0), build.gt(number, 0))
            made.append(IfThenElse(goes_on, keep(combine(last, own_value()))))
        for distance in [1 << n for n in range(lanes.bit_length() - 1)]:
            below = Var("below", own_value().ty)
            made += [
                Bind(below, _shuffle("tvm_warp_shuffle_up", own_value(), distance, lanes)),
                IfThenElse(build.ge(lane, distance), keep(combine(below, own_value()))),
            ]
        if warps > 1:
            made.append(IfThenElse(build.eq(lane, lanes - 1), keep(own_value(), of_warps, warp)))
            made += [_sync(), keep(read(of_warps, (ZERO,)), before)]
            for number_of in range(1, warps - 1):
                value = combine(read(before, (ZERO,)), read(of_warps, (build.const(number_of, "int64"),)))
                made.append(IfThenElse(build.lt(number_of, warp), keep(value, before)))
            made.append(IfThenElse(build.gt(warp, 0), keep(combine(read(before, (ZERO,)), own_value()))))
            if not is_whole:
                at_end = keep(own_value(), of_warps, build.const(warps, "int64"))
                made += [IfThenElse(build.eq(tx, threads - 1), at_end), _sync()]
        elif not is_whole:
            made.append(keep(_shuffle("tvm_warp_shuffle", own_value(), lanes - 1, lanes), before))
        stored = BufferStore(out, build.cast(own_value(), carried.stored), tuple(i))
        return seq(*made, IfThenElse(inside, stored))

    def thread(bx: Var, ty: Var, tx: Var) -> Stmt:
        line = bx * lines + ty
        parts = part(line, tx, ZERO) if is_whole else serial_loop(
            build.ceildiv(length, threads), lambda number: part(line, tx, number), "part")  # fmt: skip
        return seq(*[AllocBuffer(buffer) for buffer in (own, before, *[of_warps] * (warps > 1))], parts)

    def bound(extent: Expr | int, axis: str, body: Callable[[Var], Stmt]) -> Stmt:
        number = extent if isinstance(extent, Expr) else build.const(extent, "int64")
        return replace(serial_loop(number, body, axis[-1]), kind="thread_binding", thread=axis)

    return bound(build.ceildiv(count, lines), "blockIdx.x", lambda bx: bound(lines, "threadIdx.y", lambda ty: bound(
        threads, "threadIdx.x", lambda tx: thread(bx, ty, tx))))  # fmt: skip


def _places(line: Expr, shape: Sequence[Expr]) -> list[Expr]:
    """The indices of a line by its number."""
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(build.floormod(line, extent))
        line = build.floordiv(line, extent)
    return [line, *reversed(found)] if shape else []


def _sync() -> Stmt:
    return Evaluate(build.intrinsic("tvm_storage_sync", StringImm("shared")))


def _shuffle(name: str, value: Expr, lane: int, lanes: int) -> Expr:
    numbers = [build.const(n, "int32") for n in (lane, lanes, WARP)]
    return build.intrinsic(name, build.const(0xFFFFFFFF, "uint32"), value, *numbers, dtype=build.dtype_of(value))


LOWERINGS: dict[str, Callable[..., Any]] = {
    "R.cumsum": partial(lower_cumsum, scan=_scan),
    "R.cumprod": partial(lower_cumprod, scan=_scan),
}
