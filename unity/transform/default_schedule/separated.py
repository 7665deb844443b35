"""The rule for large windows: a reduction over their first axis, then one over the others.

Rewrite: ``Y[i, j] = join over p, q of X[i + p, j + q]`` ->
``P[i, x] = join over p of X[i + p, x]; Y[i, j] = join over q of P[i, j + q]``.
A window of 7 x 7 then takes 14 steps in place of 49. This reassociates, as reductions may. The nests that result are tiled as any
other: the program is not marked as scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...ir.buffer import make_buffer
from ...ir.build import int_value
from ...ir.function import PrimFunc, may_alias
from ...ir.node import replace
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import AllocBuffer, Block, BufferStore, Stmt, seq, statements_of
from ...ir.types import prim_type
from ...ir.walk import collect, free_vars, fresh_copy, rewrite, substitute
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import JOINS, Nest, cell_nest, neutral_value, reduced_value
from .base import Rule, Scheduled
from .common.choices import choose_whether, part_of
from .nest_building import nest_of, output_axes

GAIN = 1.5
"""Steps by those that are left from which on the rule takes a window: what lies between the two costs a store and loads."""


def schedule_separated(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Separate every window of a program that stands in no other loop."""
    if may_alias(fn):
        return "its arguments may share memory"
    statements = statements_of(fn.body)
    parts = [part for stmt in statements for part in _separated(stmt)]
    buffers = [part for part in parts if type(part) is AllocBuffer and part not in statements]
    if not buffers:
        return "no window that takes fewer steps axis by axis"
    names = ", ".join([part.buffer.name for part in buffers])
    return Scheduled(replace(fn, body=seq(*buffers, *[part for part in parts if part not in buffers])), names)


def _separated(stmt: Stmt) -> list[Stmt]:
    nest = cell_nest(stmt)
    found = None if nest is None else _along(nest.block)
    if nest is None or found is None or not _is_worth(nest.block, *found):
        return [stmt]
    return _split_nest(nest, *found)


def _along(block: Block) -> tuple[BufferLoad, int, IterVar, IterVar] | None:
    """The load of a reduction over windows, the first of its axes that one moves along, the iterators of its place and its step."""
    store, init = block.body, block.init
    value = reduced_value(store) if type(store) is BufferStore and type(init) is BufferStore else None
    if type(store) is not BufferStore or type(init) is not BufferStore or value is None or free_vars(init.value):
        return None
    dtype, loads = store.buffer.dtype, collect(value, BufferLoad)
    if dtype.is_bool or (dtype.is_float and dtype.bits < 32) or len(loads) != 1:
        return None
    (load,) = loads
    axes = {axis.var: axis for axis in block.iter_vars}
    used = [[axes[var] for var in free_vars(index) if var in axes] for index in load.indices]
    steps = [axis for axis in block.iter_vars if axis.kind == "R"]
    outside = free_vars(rewrite(value, {BufferLoad: lambda node: neutral_value(type(store.value), dtype, init.value)}))
    if outside or len(steps) < 2 or None in [int_value(extent) for extent in load.buffer.shape]:
        return None
    for at, here in enumerate(used):
        others = {axis for position, there in enumerate(used) if position != at for axis in there}
        rows, along = [axis for axis in here if axis.kind == "S"], [axis for axis in here if axis.kind == "R"]
        if len(rows) == len(along) == 1 and not others & set(here) and others & set(steps):
            return load, at, rows[0], along[0]
    return None


def _is_worth(block: Block, load: BufferLoad, place: int, row: IterVar, step: IterVar) -> bool:
    """True if it was decided, where it takes fewer steps."""
    extents = {axis: int_value(axis.domain.extent) for axis in block.iter_vars}
    known = [extent for extent in extents.values() if extent]
    if len(known) < len(extents):
        return False
    steps, shape = extents[step] or 1, [int_value(extent, 1) for extent in load.buffer.shape]
    whole, rows = math.prod(known), math.prod(shape) // shape[place] * (extents[row] or 1)
    left = rows * steps + whole // steps
    return left < whole and choose_whether(block, "separate", whole >= GAIN * left)


def _split_nest(nest: Nest, load: BufferLoad, place: int, row: IterVar, step: IterVar) -> list[Stmt]:
    """The reduction along ``step`` into a buffer with the rows in place of an axis of what is read, and the rest of it."""
    block, store = nest.block, nest.store
    assert type(block.init) is BufferStore
    join, value, dtype = JOINS[type(store.value)], reduced_value(store), prim_type(store.buffer.dtype)
    shape = [*load.buffer.shape[:place], row.domain.extent, *load.buffer.shape[place + 1 :]]
    lines = make_buffer(f"{store.buffer.name}_{step.var.name}", store.buffer.dtype, shape, "global")
    axes = output_axes(lines)
    cell = tuple([axis.var for axis in axes])
    index = substitute(load.indices[place], {row.var: cell[place]})
    read = replace(load, indices=(*cell[:place], index, *cell[place + 1 :]))
    assert value is not None
    step_value = rewrite(value, {BufferLoad: lambda node: read})
    first = BufferStore(lines, join(BufferLoad(lines, cell, dtype), step_value), cell)
    start = neutral_value(type(store.value), store.buffer.dtype, block.init.value)
    noted = part_of(block, step.var.name)
    along = nest_of(lines.name, [*axes, step], first, BufferStore(lines, start, cell), noted)
    left = [axis for axis in block.iter_vars if axis is not step]
    at = (*load.indices[:place], row.var, *load.indices[place + 1 :])
    second = replace(store, value=join(BufferLoad(store.buffer, store.indices, dtype), BufferLoad(lines, at, dtype)))
    rest = nest_of(block.name, left, second, block.init, block.annotations)
    return [AllocBuffer(lines), *[part for stmt in (along, rest) for part in _separated(fresh_copy(stmt))]]


SEPARATED = Rule("separated", schedule_separated)
