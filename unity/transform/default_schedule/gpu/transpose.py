"""The rule for stages that read along another axis than they write: tiles are transposed in shared memory.

Rewrite: ``Y[i, j] = f(X[j, i])`` -> ``T[io, jo, ji, ii] = X[jo * 32 + ji, io * 32 + ii]`` and
``Y[i, j] = f(T[i // 32, j // 32, j % 32, i % 32])``. The threads of a warp read contiguous elements, then write contiguous ones; a
padding word after each row of a tile puts their accesses in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....arith import Analyzer
from ....ir.buffer import make_buffer
from ....ir.build import add, ceildiv, const, dtype_of, floordiv, floormod, if_then_else, is_int, logical_and, lt, mul
from ....ir.expr import IntImm, Var
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Max, Min
from ....ir.stmt import AllocBuffer, BufferStore, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, rewrite, substitute, used_vars
from ...infra.backend import GpuMachine
from ...schedule import Schedule
from ...tir.analysis.loop_nests import stride_class
from ..base import program_of, schedule_of
from ..nest_building import INT, iterators_of, nest_of, replace_nests
from .common.stages import Stage, is_simple, stages_of, variables

SIDE = 32
"""Rows and columns of a tile."""
WARPS = 8
"""Warps of a block."""
LEAST = 16
"""Least length of both axes for which tiles are transposed."""


@dataclass(slots=True, frozen=True)
class Transpose:
    """A stage with the load that reads along the iterator ``read`` while the store goes along ``write``."""

    stage: Stage
    load: BufferLoad
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
    axes = [
        v
        for v, e in zip(variables(stage), stage.extents)
        if v is not None and (e.value >= LEAST if type(e) is IntImm else not collect(e, (Min, Max)))
    ]  # blocks of an extent that is the least of two are not proved to read a tile each
    write = next((v for v in axes if stride_class(store, v) == 1), None)
    if write is None or store.buffer.dtype.itemsize > 8:
        return None
    for load in collect(store.value, BufferLoad):
        read = next((v for v in axes if v is not write and stride_class(load, v) == 1), None)
        along = [index for index in load.indices if write in used_vars(index)]
        if read is not None and along == [write] and load.indices[-1] is read and collect(load, BufferLoad) == [load]:
            return Transpose(stage, load, read, write)
    return None


def bind_transpose(sch: Schedule, transpose: Transpose, gpu: GpuMachine) -> tuple[Schedule, str]:
    """Bind a stage. The schedule continues with the program on tiles."""
    func, name = program_of(sch), transpose.name
    stage, block = transpose.stage, transpose.stage.block
    extents = dict(zip(variables(stage), stage.extents))
    others = [
        v
        for v in variables(stage)
        if v is not None and v not in (transpose.read, transpose.write) and v in used_vars(transpose.load)
    ]
    side = const(SIDE, INT)
    u, v = extents[transpose.read], extents[transpose.write]
    counts = (ceildiv(u, side), ceildiv(v, side))
    shape = [extents[o] for o in others]
    names = " ".join([*[f"o{k}" for k in range(len(others))], "uo", "vo", "vi", "ui"])
    axes = iterators_of(names, (*shape, *counts, side, side), "S" * (len(others) + 4))
    *outer, uo, vo, vi, ui = [axis.var for axis in axes]
    at_u, at_v = add(mul(uo, side), ui), add(mul(vo, side), vi)
    values: dict[Var, Expr] = {**dict(zip(others, outer)), transpose.read: at_u, transpose.write: at_v}
    element: Expr = substitute(transpose.load, values)
    ana = Analyzer()
    inside = [
        lt(at, n) for at, n in ((at_u, u), (at_v, v)) if not ana.can_prove_equal(floormod(n, side), const(0, INT))
    ]
    if inside:
        dtype = dtype_of(element)
        element = if_then_else(inside[0] if len(inside) == 1 else logical_and(inside[0], inside[1]), element,
                               const(0.0 if dtype.is_float else 0, dtype))  # fmt: skip
    free = const(SIDE + max(1, 4 // transpose.load.buffer.dtype.itemsize), INT)
    tile = make_buffer(f"{name}_tile", transpose.load.buffer.dtype.name, (*shape, *counts, side, free), "shared")
    fill = nest_of(f"{name}_fill", axes, BufferStore(tile, element, (*outer, uo, vo, vi, ui)))
    cell = BufferLoad(
        tile,
        (
            *others,
            floordiv(transpose.read, side),
            floordiv(transpose.write, side),
            floormod(transpose.write, side),
            floormod(transpose.read, side),
        ),
        prim_type(tile.dtype),
    )
    store = stage.store
    assert store is not None
    value = rewrite(store.value, {BufferLoad: lambda load: cell if load is transpose.load else load})
    after = replace(block, body=replace(store, value=value), reads=None, writes=None)
    nest = next(part for part in replace_nests(func.body, {}) if block in collect(part, type(block)))
    rewritten = rewrite(nest, {type(block): lambda b: after if b is block else b})
    body = seq(AllocBuffer(tile), *replace_nests(func.body, {block: seq(fill, rewritten)}))
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
    first = sch.get_block(f"{name}_fill")
    sch.compute_at(
        first, column, preserve_unit_loops=True
    )  # its tile is found by row and column, whose numbers may be symbols
    sch.bind(sch.fuse(*grid, preserve_unit_iters=False), "blockIdx.x")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    *_, by_v, by_u = sch.get_loops(first)
    step, line = sch.split(by_v, [None, WARPS])
    sch.reorder(line, by_u, step)
    sch.bind(line, "threadIdx.y")
    sch.bind(by_u, "threadIdx.x")
    for loop in (step, repeat):
        sch.unroll(loop)
    return sch, f"{name} transposed in tiles of {SIDE} x {SIDE}"
