"""Running sums on CUDA devices: a thread for each line, with what it carries in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.expr import Var
from ...ir.node import replace
from ...ir.stmt import AllocBuffer, Bind, BufferStore, For, Stmt, seq
from ...ir.types import Expr, prim_type
from ...op.common.loop_nests import loops, read, serial_loop
from ...op.common.type_rules import ONE, ZERO
from ...op.reduction.scan import lower_cumprod, lower_cumsum, lower_recurrence
from ...op.reduction.scan_loops import Carried
from ...op.reduction.sort_loops import index_at


def _scan(outs: Sequence[Buffer], axis: int, carried: Carried) -> Stmt:
    """Store in ``outs`` (of one shape) the results of what is carried along ``axis``."""
    shape = outs[0].shape
    state = [make_buffer(f"carried{n}", kind, (ONE,)) for n, kind in enumerate(carried.kinds)]

    def element(i: Sequence[Expr], following: Sequence[Expr]) -> Stmt:
        named = [Var("value", prim_type(kind)) for kind in carried.kinds]
        return seq(
            *[Bind(var, value) for var, value in zip(named, following)],
            *[BufferStore(buffer, var, (ZERO,)) for buffer, var in zip(state, named)],
            *[BufferStore(out, value, tuple(i)) for out, value in zip(outs, carried.results([*i], [*named]))],
        )

    def line(rest: list[Var]) -> Stmt:
        def first(t: Var) -> Stmt:
            i = [*index_at(rest, axis, t)]
            return element(i, carried.begin(i))

        def following(t: Var) -> Stmt:
            i = [*index_at(rest, axis, t + 1)]
            return element(i, carried.step(i, [read(buffer, (ZERO,)) for buffer in state]))

        length = shape[axis]
        return seq(
            *[AllocBuffer(buffer) for buffer in state],
            serial_loop(build.minimum(length, 1), first, "first"),
            serial_loop(length - 1, following, "t"),
        )

    return _parallel(loops([d for a, d in enumerate(shape) if a != axis], line), len(shape) - 1)


def _parallel(stmt: Stmt, depth: int) -> Stmt:
    if depth == 0:
        return stmt
    assert type(stmt) is For
    return replace(stmt, kind="parallel", body=_parallel(stmt.body, depth - 1))


LOWERINGS: dict[str, Callable[..., Any]] = {
    "R.cumsum": partial(lower_cumsum, scan=_scan),
    "R.cumprod": partial(lower_cumprod, scan=_scan),
    "R.grad.linear_recurrence": partial(lower_recurrence, scan=_scan),
}
