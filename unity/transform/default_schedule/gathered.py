"""A contraction whose innermost reductions are one of whole groups, its operands copied to lie along it.

Rewrite: ``C[h, f] += A[h * 2 + p, c] * W[p, c, f]`` -> ``A_lines[h, p * 3 + c] = A[h * 2 + p, c]``, ``W_lines[p * 3 + c, f] =
W[p, c, f]``, zeros behind both up to a multiple, and ``C[h, f] += A_lines[h, k] * W_lines[k, f]``: what instructions that add
products of neighbours take. Weights that are constants come so from the build.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.buffer import make_buffer
from ...ir.build import add, const, dtype_of, int_value, mul
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import AllocBuffer, BufferStore, Stmt, seq, statements_of
from ...ir.types import Expr, prim_type
from ...ir.walk import free_vars, rewrite, substitute
from .contraction import Contraction, extent_of, is_parameter, steps_of
from .nest_building import iterator, nest_of, nest_over
from .packing import Packing, block_name

COPIED, MOVED = 12, 60
"""Steps without an instruction in the time of one element that is copied: in long runs of memory, and one by one."""
RUN = 16
"""Elements of a long run."""


@dataclass(slots=True, frozen=True)
class Gathered:
    """The program, the parameter that it takes as lines (None where it copies), and the axis of the weights that each of the
    lines' axes is; ``fused`` are those of the last."""

    func: PrimFunc
    weights: int | None
    axes: tuple[int, ...]
    fused: tuple[int, ...]
    depth: int

    def packing(self, found: Packing) -> Packing:
        """The layout of the lines as one of the weights."""
        outer, inner = [tuple([self.axes[k] for k in part]) for part in (found.outer, found.inner[:-1])]
        columns, last = self.axes[found.columns], self.fused
        return Packing(outer, columns, (*inner, *last), found.block, found.group, len(last), self.depth)


def fused_reductions(
    contraction: Contraction, multiple: int, speed: float, constant: bool
) -> tuple[float, tuple[IterVar, ...]] | None:
    """The cost of the program in steps without an instruction, and the reductions to join for that, with an instruction that takes
    a multiple of steps and is ``speed`` times as fast; None where an extent is a symbol or zero, or the
    operands are one."""
    alone = {axis.var for axis in contraction.reductions if axis.var in contraction.data.indices}
    order = sorted(contraction.reductions, key=lambda axis: axis.var in alone)
    known = all([extent_of(axis) for axis in contraction.block.iter_vars])
    if not known or contraction.data.buffer is contraction.weights.buffer:
        return None
    costs = [_cost(contraction, tuple(order[k:]), multiple, speed, constant) for k in range(len(order))]
    return min(costs, key=lambda found: found[0])


def _cost(
    contraction: Contraction, fused: tuple[IterVar, ...], multiple: int, speed: float, constant: bool
) -> tuple[float, tuple[IterVar, ...]]:
    by_var, fused_vars = {axis.var: axis for axis in contraction.block.iter_vars}, {axis.var for axis in fused}
    steps, depth = steps_of(fused), _round_up(steps_of(fused), multiple)
    cost = steps_of(contraction.block.iter_vars) / steps * depth / speed
    for load in (contraction.data,) if constant else (contraction.data, contraction.weights):
        elements = math.prod([int_value(n, 1) for _, n in _remaining_axes(load, fused_vars, by_var)]) * depth
        last = load.indices[-1]
        along = [
            extent_of(by_var[v]) or 1
            for v in free_vars(last)
            if v in by_var and (v in fused_vars or load is contraction.weights)
        ]
        cost += elements * (COPIED if max([1, *along]) >= RUN else MOVED)
    return cost, fused


def _round_up(steps: int, multiple: int) -> int:
    return -(-steps // multiple) * multiple


def gather(fn: PrimFunc, contraction: Contraction, fused: Sequence[IterVar], multiple: int, constant: bool) -> Gathered:
    """Make reductions one, rounded up to a multiple; ``constant``: the weights come as lines."""
    depth = _round_up(steps_of(fused), multiple)
    line = iterator("k", const(depth, dtype_of(fused[0].var)), "R")
    fused_vars = {axis.var for axis in fused}
    by_var = {axis.var: axis for axis in contraction.block.iter_vars}
    data = _remaining_axes(contraction.data, fused_vars, by_var)
    data.append((line.var, line.domain.extent))
    last = [v for v in contraction.weight_order if v in fused_vars][-1]
    order = [v for v in contraction.weight_order if v not in fused_vars or v is last]
    weights = [(line.var, line.domain.extent) if v is last else (v, by_var[v].domain.extent) for v in order]
    made: list[Stmt] = []
    loads, buffers = {}, []
    place = is_parameter(fn, contraction.weights.buffer) if constant else None
    for load, cells in ((contraction.data, data), (contraction.weights, weights)):
        source = load.buffer
        buffer = make_buffer(f"{source.name}_lines", source.dtype, [n for _, n in cells], "global")
        loads[source] = BufferLoad(buffer, tuple([e for e, _ in cells]), load.ty)
        if load is contraction.data or place is None:
            buffers.append(buffer)
            made += _copy(load, loads[source], line, fused)
    axes = (*[axis for axis in contraction.block.iter_vars if axis.var not in fused_vars], line)
    body = rewrite(contraction.block.body, {BufferLoad: lambda node: loads.get(node.buffer, node)})
    nest = nest_of(contraction.block.name, axes, body, contraction.block.init, contraction.block.annotations)
    statements = statements_of(fn.body)
    at = [block_name(stmt) for stmt in statements].index(contraction.block.name)
    buffer_map = fn.buffer_map
    if place is not None:
        buffer_map = {**buffer_map, fn.params[place]: loads[contraction.weights.buffer].buffer}
    func = seq(*[AllocBuffer(b) for b in buffers], *statements[:at], *made, nest, *statements[at + 1 :])
    where = {v: k for k, v in enumerate(contraction.weight_order)}
    joined = tuple([where[axis.var] for axis in fused])
    made_func = replace(fn, buffer_map=buffer_map, body=func)
    return Gathered(made_func, place, tuple([where[v] for v in order]), joined, depth)


def _remaining_axes(load: BufferLoad, fused_vars: set[Var], by_var: dict[Var, IterVar]) -> list[tuple[Expr, Expr]]:
    """The axes of the lines of an operand, but for the last: indices without one of ``fused_vars`` stay as they are,
    others by their other iterators."""
    cells: list[tuple[Expr, Expr]] = []
    for index, extent in zip(load.indices, load.buffer.shape):
        used = [v for v in dict.fromkeys(free_vars(index)) if v in by_var]
        if fused_vars.isdisjoint(used):
            cells.append((index, extent))
            continue
        known = [e for e, _ in cells]
        cells += [(v, by_var[v].domain.extent) for v in used if v not in fused_vars and v not in known]
    return cells


def _copy(load: BufferLoad, lines: BufferLoad, line: IterVar, fused: Sequence[IterVar]) -> list[Stmt]:
    """The nests that put zeros into lines, where any stay, and copy an operand there."""
    buffer, axes, parts = lines.buffer, [], []
    values: dict[Var, Expr] = {}
    source, cell = list(load.indices), list(lines.indices)
    for k, (index, extent) in enumerate(zip(lines.indices, buffer.shape)):
        if index is line.var:
            parts = [iterator(axis.var.name, axis.domain.extent) for axis in fused]
            values |= {axis.var: part.var for axis, part in zip(fused, parts)}
            axes += parts
            cell[k] = parts[0].var
            for part in parts[1:]:
                cell[k] = add(mul(cell[k], part.domain.extent), part.var)
            continue
        axis = iterator(f"v{k}", extent)
        axes.append(axis)
        cell[k] = axis.var
        source = [axis.var if by_var is index else e for by_var, e in zip(load.indices, source)]
        if isinstance(index, Var):
            values[index] = axis.var
    inside = BufferLoad(load.buffer, tuple([substitute(e, values) for e in source]), prim_type(load.buffer.dtype))
    made = [nest_of(buffer.name, axes, BufferStore(buffer, inside, tuple(cell)))]
    if steps_of(fused) < steps_of([line]):
        made.insert(0, nest_over(f"{buffer.name}_zero", buffer, lambda cell: const(0, load.buffer.dtype)))
    return made


__all__ = ["Gathered", "fused_reductions", "gather"]
