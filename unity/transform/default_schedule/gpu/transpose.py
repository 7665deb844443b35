"""The rule for stages that read along another axis than they write: tiles are transposed in shared memory.

Rewrite: ``Y[i, j] = f(X[j, i])`` -> ``T[io, jo, ji, ii] = X[jo * 32 + ji, io * 32 + ii]`` and
``Y[i, j] = f(T[i // 32, j // 32, j % 32, i % 32])``. The threads of a warp read contiguous elements, then write contiguous ones; a
padding word after each row of a tile puts their accesses in different banks. Each operand that is read so has a tile; of one that
is longer or shorter than the result, a tile has what lies inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from ....arith import Analyzer
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import (
    add,
    ceildiv,
    const,
    dtype_of,
    floordiv,
    floormod,
    ge,
    if_then_else,
    is_int,
    logical_and,
    lt,
    mul,
)
from ....ir.expr import IntImm, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Max, Min
from ....ir.stmt import AllocBuffer, BufferStore, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, rewrite, substitute, used_vars
from ...infra.backend import GpuMachine
from ...schedule import Schedule
from ...tir.analysis.loop_nests import slope, stride_class
from ..base import program_of, schedule_of
from ..nest_building import INT, iterators_of, nest_of, replace_nests
from .common.stages import Stage, is_simple, stages_of, variables

SIDE = 32
"""Rows and columns of a tile."""
WARPS = 8
"""Warps of a block."""
PADDING = 4
"""Bytes of padding after a row of a tile, at least one element."""
LEAST = 16
"""Least length of the axis that is written along for which tiles are transposed."""
LEAST_READ = 8
"""The same of the axis that is read along: without a tile each lane reads a segment of memory for one of the elements in it. 300
rows of 8 columns in float32 were 2400 segments instead of 300, counted by the emulated device and not timed on a real one."""


@dataclass(slots=True, frozen=True)
class Transpose:
    """A stage with its loads, no two of one element, that read along the iterator ``read`` while the store goes along ``write``."""

    stage: Stage
    loads: list[BufferLoad]
    read: Var
    write: Var

    @property
    def name(self) -> str:
        """The name of its block."""
        return self.stage.name


def transposes_of(sch: Schedule) -> list[Transpose]:
    """The stages that are not bound and read along another axis than they write."""
    return [found for found in [_transpose(stage) for stage in stages_of(sch)] if found is not None]


def _transpose(stage: Stage) -> Transpose | None:
    store = stage.store
    if store is None or stage.block.init is not None or not is_simple(stage):
        return None
    axes = {v: e for v, e in zip(variables(stage), stage.extents) if v is not None and _is_long(e, LEAST_READ)}
    write = next((v for v, e in axes.items() if stride_class(store, v) == 1 and _is_long(e, LEAST)), None)
    if write is None or store.buffer.dtype.itemsize > 8:
        return None
    found: Transpose | None = None
    for load in collect(store.value, BufferLoad):
        read = next((v for v in axes if v is not write and stride_class(load, v) == 1), None)
        across = [step for step in [slope(index, write) for index in load.indices[:-1]] if step != 0]
        if read is None or across != [1] or write in used_vars(load.indices[-1]) or collect(load, BufferLoad) != [load]:
            continue
        if found is None:
            found = Transpose(stage, [load], read, write)
        elif read is found.read and not any([structural_equal(load, other) for other in found.loads]):
            found.loads.append(load)
    return found


def _is_long(extent: Expr, least: int) -> bool:
    """True if tiles may go along an axis: blocks of an extent that is the least of two are not proved to read a tile each."""
    return extent.value >= least if type(extent) is IntImm else not collect(extent, (Min, Max))


def bind_transpose(sch: Schedule, transpose: Transpose, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a stage. The schedule continues with the program on tiles."""
    func, name = program_of(sch), transpose.name
    stage, block = transpose.stage, transpose.stage.block
    extents = dict(zip(variables(stage), stage.extents))
    room = gpu.static_shared_bytes // (SIDE * (SIDE + PADDING) * 8)  # tiles of the widest elements
    loads = transpose.loads[:room]
    tiles = [_tile(transpose, load, f"{name}_{n}" if n else name, extents) for n, load in enumerate(loads)]

    def cell(load: BufferLoad) -> Expr:
        return next((made.cell for made, other in zip(tiles, loads) if structural_equal(load, other)), load)

    store = stage.store
    assert store is not None
    value = rewrite(store.value, {BufferLoad: cell})
    after = replace(block, body=replace(store, value=value), reads=None, writes=None)
    nest = next(part for part in replace_nests(func.body, {}) if block in collect(part, type(block)))
    rewritten = rewrite(nest, {type(block): lambda b: after if b is block else b})
    nests = seq(*[tile.fill for tile in tiles], rewritten)
    body = seq(*[AllocBuffer(tile.buffer) for tile in tiles], *replace_nests(func.body, {block: nests}))
    sch = schedule_of(replace(func, body=body))
    sch.tests = False
    out = sch.get_block(name)
    loops = dict(zip(variables(stage), sch.get_loops(out)))
    lu, lv = loops[transpose.read], loops[transpose.write]
    rest = [
        loop
        for loop in sch.get_loops(out)
        if sch.get(loop).loop_var not in (sch.get(lu).loop_var, sch.get(lv).loop_var)
    ]
    row, repeat, y = sch.split(lu, [None, SIDE // WARPS, WARPS])
    column, x = sch.split(lv, [None, SIDE])
    sch.reorder(*rest, row, column, y, x, repeat)
    blocks = [*[loop for loop in rest if not is_int(sch.get(loop).extent, 1)], row, column]
    grid = blocks if len(blocks) == len(rest) + 2 else [*rest, row, column]
    fills = [sch.get_block(tile.name) for tile in tiles]
    for fill in fills:  # its tile is found by row and column, whose numbers may be symbols
        sch.compute_at(fill, column, preserve_unit_loops=True)
    sch.bind(sch.fuse(*grid, preserve_unit_iters=False), "blockIdx.x")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    for fill in fills:
        *_, by_v, by_u = sch.get_loops(fill)
        step, line = sch.split(by_v, [None, WARPS])
        sch.reorder(line, by_u, step)
        sch.bind(line, "threadIdx.y")
        sch.bind(by_u, "threadIdx.x")
        sch.unroll(step)
    sch.unroll(repeat)
    return sch, f"{name} transposed in tiles of {SIDE} x {SIDE}"


class _Tile(NamedTuple):
    """A tile in shared memory: the nest that fills it, whose block has a name, and the element in it that a load has."""

    name: str
    buffer: Buffer
    fill: Stmt
    cell: Expr


def _tile(transpose: Transpose, load: BufferLoad, name: str, extents: dict[Var | None, Expr]) -> _Tile:
    """The tile of a load."""
    stage, read, write = transpose.stage, transpose.read, transpose.write
    others = [v for v in variables(stage) if v is not None and v not in (read, write) and v in used_vars(load)]
    side, dtype = const(SIDE, INT), dtype_of(load)
    u, v = extents[read], extents[write]
    counts = (ceildiv(u, side), ceildiv(v, side))
    shape = [extents[o] for o in others]
    names = " ".join([*[f"o{k}" for k in range(len(others))], "uo", "vo", "vi", "ui"])
    axes = iterators_of(names, (*shape, *counts, side, side), "S" * (len(others) + 4))
    *outer, uo, vo, vi, ui = [axis.var for axis in axes]
    at_u, at_v = add(mul(uo, side), ui), add(mul(vo, side), vi)
    places: dict[Var, Expr] = {**dict(zip(others, outer)), read: at_u, write: at_v}
    indices = [substitute(index, places) for index in load.indices]
    ana = Analyzer()
    ana.bind_iterators(axes)
    guards = []  # tiles hang over, and the stage may read fewer elements than it writes
    for index, length in zip(indices, load.buffer.shape):
        guards += [] if ana.can_prove_greater_equal(index, 0) else [ge(index, 0)]
        guards += [] if ana.can_prove_less(index, length) else [lt(index, length)]
    element: Expr = replace(load, indices=tuple(indices))
    if guards:
        element = if_then_else(reduce(logical_and, guards), element, const(0.0 if dtype.is_float else 0, dtype))
    stored = load.buffer.dtype
    free = const(SIDE + max(1, PADDING // stored.itemsize), INT)
    buffer = make_buffer(f"{name}_tile", stored.name, (*shape, *counts, side, free), "shared")
    fill = nest_of(f"{name}_fill", axes, BufferStore(buffer, element, (*outer, uo, vo, vi, ui)))
    at = (*others, floordiv(read, side), floordiv(write, side), floormod(write, side), floormod(read, side))
    return _Tile(f"{name}_fill", buffer, fill, BufferLoad(buffer, at, prim_type(stored)))
