"""Transpositions through registers: a nest that writes along one axis and reads along another, in square blocks of vectors.

A block reads ``n`` vectors along the axis that is contiguous in the source, transposes them by log2(n) rounds of two-vector
shuffles, and computes ``n`` vectors along the axis that is contiguous in the target; each line of memory is touched once, whatever
the distance of rows. The last block ends with the loop, and computes some cells again, after the others where threads share them;
where few lines are left, a cell must be computed once, or an extent is a symbol, what is left beyond whole blocks is computed cell
by cell. Source of the rounds: Eklundh, "A fast computer method for matrix transposing", IEEE Transactions on Computers C-21(7),
1972.

Rewrite: ``for i, j: Y[i, j] = f(X[j, i])`` -> ``for io, jo: { v_r = X[jo * n + r, io * n : ..]; shuffles; t[c, :] = v_c;
for i: for j in vectorized(n): Y[..] = f(t[i, j]) }``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....ffi.dtype import DataType
from ....ir.buffer import make_buffer
from ....ir.build import add, const, dtype_of, floordiv, int_imm, int_value, is_int, minimum, mul, sub
from ....ir.expr import Call, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Let, Ramp, Select, Shuffle
from ....ir.stmt import AllocBuffer, Bind, BufferStore, For, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, fresh_copy, rewrite, substitute
from ...tir.analysis.loop_nests import Nest, is_choice, slope
from ..common.choices import choose, choose_whether
from .tiles import nested

LEAST_BITS, MOST_BITS = 16, 64
SHORTEST = 8
"""Elements of a vector that is a part of a register, at least: of fewer, cells one by one are often faster."""
LEAST_LEFT = 4
"""A block is done again from this part of its side on: fewer lines cost less cell by cell."""


@dataclass(slots=True, frozen=True)
class _Plan:
    """``along`` is contiguous in the target, ``across`` in the source ``source``; blocks of ``side`` x ``side``."""

    nest: Nest
    source: BufferLoad
    along: For
    across: For
    side: int


def _plan(order: list[For], nest: Nest, vector_bytes: int) -> _Plan | None:
    along, store = order[-1], nest.store
    source = [load for load in nest.loads if nest.stride(load, along) == 2]
    if not source or not all([structural_equal(load, source[0]) for load in source]):
        return None
    dtype = source[0].buffer.dtype
    plain = dtype.lanes == 1 and not dtype.is_bool and LEAST_BITS <= dtype.bits <= MOST_BITS
    if not plain or source[0].buffer.strides or store.buffer.strides:
        return None

    def goes_along(access: BufferLoad | BufferStore, loop: For) -> bool:
        forwards = bool(access.indices) and slope(access.indices[-1], nest.iterator[loop.loop_var].var) == 1
        return forwards and nest.stride(access, loop) == 1

    if not goes_along(store, along):
        return None
    lines = [loop for loop in order[:-1] if goes_along(source[0], loop)]
    lazy = collect(store.value, (Select, Let)) or any([is_choice(call) for call in collect(store.value, Call)])
    if len(lines) != 1 or lazy:
        return None
    full = max(2, vector_bytes // max(4, dtype.bits // 8))
    shorter = min([int_value(loop.extent, full) for loop in (along, lines[0])])
    sides = [side for side in (full, full // 2, full // 4) if 2 <= side <= shorter]
    own = max([side for side in sides if side >= min(full, SHORTEST)], default=0)
    side = choose(nest.block, "registers", [0, *sides], own)
    return _Plan(nest, source[0], along, lines[0], side) if side else None


def transposed(order: list[For], nest: Nest, vector_bytes: int, parallel: bool) -> Stmt | None:
    """The nest in blocks; None where it is not a transposition, or too small for one block."""
    plan = _plan(order, nest, vector_bytes)
    if plan is None:
        return None
    side, ty = plan.side, prim_type(dtype_of(plan.along.loop_var))
    size, zero = int_imm(side, ty), int_imm(0, ty)
    if dtype_of(plan.across.loop_var) is not ty.dtype:
        return None
    rest = [loop for loop in order if loop is not plan.along and loop is not plan.across]
    once = any([load.buffer.data is nest.store.buffer.data for load in nest.loads])
    shares_rest = parallel and not all([is_int(loop.extent, 1) for loop in rest])
    shared = parallel and not shares_rest
    last: Expr | None = None
    loops, corner, lefts = [], [], []
    for loop, name in ((plan.across, "row_block"), (plan.along, "column_block")):
        block, count = Var(name, ty), floordiv(loop.extent, size)
        first, extent = mul(block, size), int_value(loop.extent)
        is_shared = shared and int_value(loop.extent, 2 * side) >= 2 * side
        least = side if once or (is_shared and loop is plan.along) else side // LEAST_LEFT
        if extent is None or 0 < extent % side < least:
            lefts.append((loop, mul(count, size)))
        elif extent % side and is_shared:  # not beside the one before, which has some of its cells
            last = int_imm(extent - side, ty)
        elif extent % side:
            count, first = add(count, int_imm(1, ty)), minimum(first, int_imm(extent - side, ty))
        loops.append(For(block, zero, count, "parallel" if is_shared else "serial", plan.nest.realize))
        corner.append(first)
        shared = shared and not is_shared
    remainders = [_remainder(plan, loop, whole, lefts) for loop, whole in lefts]
    turned = not any([loop.kind == "parallel" for loop in loops]) and choose_whether(nest.block, "loop_0", False)
    blocks = nested(loops[::-1] if turned else loops, _block(plan, *corner))
    if shares_rest:
        return fresh_copy(_parallel(nested(rest, seq(blocks, *remainders))))
    made = nested(rest, seq(blocks, *[_parallel(part) if parallel else part for part in remainders]))
    if last is not None:
        made = seq(made, fresh_copy(nested([*rest, loops[1]], _block(plan, last, corner[1]))))
    return fresh_copy(made)


def _parallel(stmt: Stmt) -> Stmt:
    """The outermost loop of more than one iteration shared between threads."""
    if type(stmt) is not For:
        return stmt
    if is_int(stmt.extent, 1) and type(stmt.body) is For:
        return replace(stmt, body=_parallel(stmt.body))
    return replace(stmt, kind="parallel")


def _remainder(plan: _Plan, loop: For, whole: Expr, lefts: Sequence[tuple[For, Expr]]) -> Stmt:
    """Cells behind the whole blocks along a loop; along the other, columns behind those that rows cover."""
    values = {**plan.nest.axis, plan.nest.iterator[loop.loop_var].var: add(loop.loop_var, whole)}
    other = plan.along if loop is plan.across else plan.across
    covered = dict(lefts).get(other, other.extent) if loop is plan.along else other.extent
    body = replace(loop, extent=sub(loop.extent, whole), body=substitute(plan.nest.store, values))
    return fresh_copy(replace(other, extent=covered, body=body))


def _block(plan: _Plan, first_row: Expr, first_column: Expr) -> Stmt:
    """One block: vectors in, rounds of shuffles, vectors out."""
    side, source, dtype = plan.side, plan.source, plan.source.buffer.dtype
    nest = plan.nest
    across, along = [nest.iterator[loop.loop_var].var for loop in (plan.across, plan.along)]
    others = {it: var for it, var in nest.axis.items() if it not in (across, along)}
    index_type = prim_type(dtype_of(plan.along.loop_var))
    vector = prim_type(dtype.with_lanes(side))
    parts: list[Stmt] = []
    lines: list[Var] = []
    for n in range(side):
        values = {**others, across: first_row, along: add(first_column, int_imm(n, index_type))}
        indices = [substitute(e, values) for e in source.indices]
        last = indices[-1]
        step = const(1, dtype_of(last))
        indices[-1] = Ramp(last, step, side, prim_type(dtype_of(last).with_lanes(side)))
        lines.append(Var(f"line{n}", vector))
        parts.append(Bind(lines[-1], BufferLoad(source.buffer, tuple(indices), vector)))
    distance = side // 2
    while distance:
        for n in range(side):
            if n & distance:
                continue
            pair = (lines[n], lines[n + distance])
            low = [k if not k & distance else side + k - distance for k in range(side)]
            high = [k + distance if not k & distance else side + k for k in range(side)]
            for place, picks in ((n, low), (n + distance, high)):
                made = Var(lines[place].name, vector)
                parts.append(Bind(made, Shuffle(pair, tuple([const(k, "int32") for k in picks]), vector)))
                lines[place] = made
        distance //= 2
    lanes = prim_type(DataType("int64").with_lanes(side))
    tile = make_buffer(f"{source.buffer.name}_lines", dtype, (side * side,), "local")
    for n, line in enumerate(lines):
        where = Ramp(const(n * side, "int64"), const(1, "int64"), side, lanes)
        parts.append(BufferStore(tile, line, (where,)))
    row, lane = Var("row", index_type), Var("lane", index_type)
    cell = add(mul(row, int_imm(side, index_type)), lane)
    read = BufferLoad(tile, (cell,), prim_type(dtype))
    store = rewrite(nest.store, {BufferLoad: lambda load: read if structural_equal(load, source) else load})
    out = substitute(store, {**others, across: add(first_row, row), along: add(first_column, lane)})
    zero, count = int_imm(0, index_type), int_imm(side, index_type)
    parts.append(For(row, zero, count, "unrolled", For(lane, zero, count, "vectorized", out)))
    return seq(AllocBuffer(tile), *parts)
