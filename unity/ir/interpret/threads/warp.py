"""Common work of threads: barriers, exchange between the lanes of a warp, reductions across threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...expr import Call, StringImm, Var
from ...scalar import BufferLoad, CommReducer
from ..common.arrays import Value
from ..common.expressions import Closure
from ..common.intrinsics import short_name
from .access import Locator
from .expressions import ExprCompiler
from .intrinsics import Effect, instruction, register
from .lanes import WARP, Mask


@instruction("tvm_storage_sync")
def _storage_sync(compiler: ExprCompiler, call: Call) -> Effect:
    scope = call.args[0].value if type(call.args[0]) is StringImm else ""
    wave, span = compiler.wave, call.span
    if scope not in ("shared", "shared.dyn", "warp", "global"):
        raise InterpreterError("E369", f"T.tvm_storage_sync of scope {scope!r}", span)

    def run(mask: Mask) -> None:
        wave.log.barriers += 1
        missing = wave.batch.warp_barrier(mask) if scope == "warp" else wave.batch.barrier(mask)
        if missing.size:
            wave.divergent(missing, mask, "warp" if scope == "warp" else "block", span)
        if scope == "global":
            wave.batch.grid_barrier()

    return run


@register("tvm_warp_activemask")
def _active_mask(compiler: ExprCompiler, call: Call) -> Closure:
    weights = np.uint32(1) << np.arange(WARP, dtype=np.uint32)

    def run(mask: Mask) -> Value:
        rows = mask.lanes.reshape(-1, WARP)
        return np.repeat((rows * weights).sum(axis=1, dtype=np.uint32), WARP)

    return run


@register("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor")
def _shuffle(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments as in TVM: mask, value, lane or distance, width, warp size."""
    name = short_name(call)
    value, where, width = compiler.visit(call.args[1]), compiler.index(call.args[2]), compiler.index(call.args[3])
    wave, span = compiler.wave, call.span

    def run(mask: Mask) -> Value:
        size = wave.batch.size
        lane = np.arange(size, dtype=np.int64)
        within = lane % WARP
        group = np.broadcast_to(width(mask), size)
        wrong = mask.lanes & ~np.isin(group, (1, 2, 4, 8, 16, 32))
        wave.refuse(wrong, lane, "E372", span, lambda _: f"T.{name}: the width must be a power of two up to 32")
        group = np.where(mask.lanes, group, WARP)
        amount = np.broadcast_to(where(mask), size)
        far = mask.lanes & ((amount < 0) | (amount >= WARP)) & (name != "tvm_warp_shuffle")
        wave.refuse(far, lane, "E372", span, lambda at: f"T.{name}: the distance must be 0 to 31, got {amount[at]}")
        first = within // group * group
        source = {
            "tvm_warp_shuffle": first + amount % group, "tvm_warp_shuffle_up": within - amount,
            "tvm_warp_shuffle_down": within + amount, "tvm_warp_shuffle_xor": within ^ amount,
        }[name]  # fmt: skip
        # lanes outside the group give the lane its own value; xor may reach groups before its own
        reach = (source < first + group) & ((source >= first) if name != "tvm_warp_shuffle_xor" else (source >= 0))
        source = np.where(reach, source, within) + lane - within
        absent = mask.lanes & ~mask.lanes[source]
        if absent.any():
            one = int(absent.argmax())
            exists = wave.batch.thread[source[one]] < wave.batch.geometry.thread_count
            wave.collective(f"T.{name}", one, int(source[one]) if exists else None, span, int(absent.sum()))
        found = np.asarray(value(mask))
        if found.ndim == 0:
            return found[()]
        if len(found) == 1:
            return found
        return found[source]

    return run


@instruction("tvm_thread_allreduce")
def _allreduce(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments as in TVM: number of values, values, condition, addresses of the results, thread variables."""
    if not compiler.reducers:
        raise InterpreterError("E372", "T.tvm_thread_allreduce stands outside a reduce_scope attribute", call.span)
    reducer: CommReducer = compiler.reducers[-1]
    count = len(reducer.lhs)
    values = [compiler.visit(a) for a in call.args[1 : 1 + count]]
    condition = compiler.visit(call.args[1 + count])
    targets = [_target(compiler, a) for a in call.args[2 + count : 2 + 2 * count]]
    axes = [a for a in call.args[2 + 2 * count :] if isinstance(a, Var)]
    identity = [compiler.visit(e) for e in reducer.identity]
    result = [compiler.visit(e) for e in reducer.result]
    wave, span = compiler.wave, call.span

    def run(mask: Mask) -> None:
        batch = wave.batch
        active = mask.where(condition(mask))
        state = []
        for value, neutral in zip(values, identity):
            row = np.broadcast_to(np.asarray(neutral(mask)), batch.size).copy()
            given = np.broadcast_to(np.asarray(value(active)), batch.size)
            row[active.lanes] = given[active.lanes]
            state.append(row)
        if batch.size != batch.plane:
            raise InterpreterError("E369", "T.tvm_thread_allreduce under virtual threads", span)
        missing = batch.barrier(mask)
        if missing.size:
            wave.divergent(missing, mask, "block", span)
        group, order = _groups(wave, axes)
        length = int(order.max()) + 1
        table = np.full((int(group.max()) + 1, length), -1, np.int64)
        lanes = np.flatnonzero(mask.lanes)
        table[group[lanes], order[lanes]] = lanes
        rows = table[table[:, 0] >= 0]
        step = length
        columns = [s[np.maximum(rows, 0)] for s in state]
        while step > 1:  # halves are combined, as the shared-memory tree does
            half = (step + 1) // 2
            rest = step - half
            left = [c[:, :rest] for c in columns]
            right = [c[:, half : half + rest] for c in columns]
            joined = _combine(wave, reducer, result, left, right, mask)
            for column, part in zip(columns, joined):
                column[:, :rest] = part
            step = half
        for target, column in zip(targets, columns):
            out = np.zeros(batch.size, column.dtype)
            out[rows.ravel()] = np.repeat(column[:, 0], length)
            target.store(mask, out, True)

    return run


def _combine(
    wave: Any, reducer: CommReducer, result: list[Closure], left: list[Any], right: list[Any], mask: Mask
) -> list[Any]:
    shape = left[0].shape
    for var, value in zip((*reducer.lhs, *reducer.rhs), (*left, *right)):
        wave.env[var] = value.ravel()
    everywhere = Mask(np.ones(left[0].size, np.bool_), wave.env)
    return [np.broadcast_to(np.asarray(r(everywhere)), left[0].size).reshape(shape) for r in result]


def _groups(wave: Any, axes: list[Var]) -> tuple[np.ndarray, np.ndarray]:
    """Group of each lane (the lanes that agree in block and the other thread axes) and its place within."""
    batch = wave.batch
    order = np.zeros(batch.size, np.int64)
    rest = batch.within.copy()
    stride = 1
    for axis in axes:
        coordinate = np.asarray(wave.env[axis]).astype(np.int64)
        tag = wave.tags.get(axis, "")
        kind, _, letter = tag.partition(".")
        if kind != "threadIdx":
            raise InterpreterError(
                "E372", f"T.tvm_thread_allreduce over {axis.name}, which is not an axis of threadIdx", axis.span
            )
        index, extents = "xyz".index(letter), batch.geometry.threads
        rest -= coordinate * math.prod(extents[:index])
        order += coordinate * stride
        stride *= extents[index]
    return rest, order


def _target(compiler: ExprCompiler, expr: Any) -> Locator:
    """The destination of a result: an element of a buffer, or the first one behind a pointer."""
    if isinstance(expr, BufferLoad):
        return compiler.locator(expr.buffer, expr.indices, None, "store", expr.span)
    raise InterpreterError("E372", "a result of T.tvm_thread_allreduce must be an element of a buffer", expr.span)
