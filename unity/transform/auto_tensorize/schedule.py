"""Schedules that put a tensor intrinsic in the place of a block's inner loops.

Rewrite: ``C[n, h, w, c] += A[n, h + p, w + q, r] * W[p, q, r, c]`` and an intrinsic of a 4 x 4 product -> copies
``A2[nhw, pqr]``, ``W2[pqr, c]`` in tiles, loops over tiles, the intrinsic on each, and a copy out of ``C2[nhw, c]``. Not here: how
iterators are found (``mapping.py``). Invariant: everything is done by schedule primitives, each checked.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from ...arith.index_map import IndexMap
from ...ir.buffer import Buffer
from ...ir.build import const, int_value, is_int
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.scalar import FloorDiv, FloorMod
from ...ir.stmt import BufferStore
from ...ir.types import Expr
from ...ir.walk import free_vars
from ...support.errors import ScheduleError
from ..default_schedule.common.choices import INTRINSIC, SCHEDULE, decisions
from ..schedule import BlockRV, LoopRV, Schedule
from ..schedule.core.tensor_intrin import TensorIntrin
from ..tir.analysis.loop_nests import slope
from .dots import dot_named
from .mapping import (
    TensorizeInfo,
    get_tensorize_loop_mapping,
    iterators_in,
    iterators_of_description,
    loops_of_description,
)
from .pairing import Pairing

Tile = tuple[dict[Var, int], tuple[Expr, ...]]
"""The extents of the iterators of a tile, and its indices by them."""
LINE = 64
"""Bytes of neighbours that a copy takes together."""
_SCOPES = ("global", "shared", "shared.dyn", "local")
"""Scopes that plain copies fill."""


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder the loops of a block so that the innermost are those of an intrinsic's description.

    Returns the outermost of the inner loops, to be given to ``sch.tensorize``, or None where the loops do not fit; layouts are not
    looked at. ``allow_padding``: round extents up with ``pad_einsum`` first. Raises VerifyError E380 for an unknown intrinsic.
    """
    info = get_tensorize_loop_mapping(sch, block, _description(intrin_name), allow_padding)
    return None if info is None else _tile(sch, block, info)[1][0]


def auto_tensorize(sch: Schedule, block: BlockRV, intrin_name: str, side_by_side: int = 1) -> BlockRV:
    """Compute a block by a tensor intrinsic; returns the block of one application of it.

    The loops are used as they are where the operands lie as the intrinsic wants them. Otherwise iterators are fused, operands
    copied into tiles of the intrinsic's layout, extents rounded up with zeros, and the result copied out. ``side_by_side``: the
    most applications along each of the last two loops over results that are done in one step of the sum (how many is sampled), so
    that they share what they read. Raises ScheduleError E441 with the iterator or access that is in the way, or what a primitive
    refuses; the schedule is then as it was. Raises VerifyError E380 for an unknown intrinsic.
    """
    desc = _description(intrin_name)
    other = [buffer for buffer in desc.buffer_map.values() if buffer.scope not in _SCOPES]
    if other:
        text = f"{intrin_name} takes {other[0].name} in scope {other[0].scope!r}, which other intrinsics have to fill"
        raise ScheduleError(
            "E441", text, help="cache the operands there, and tensorize each copy by the intrinsic that loads it"
        )
    if dot_named(intrin_name) is not None:
        fits = iterators_of_description(sch, block, desc)
        if isinstance(fits, str):
            raise ScheduleError("E441", f"{intrin_name} does not compute block {sch.get(block).name}: {fits}")
        decided = decisions(sch.get(block)) or {}
        sch.annotate(block, SCHEDULE, {**decided, INTRINSIC: intrin_name})
        return block
    loops = loops_of_description(sch, block, desc)
    if not isinstance(loops, str):
        try:
            _apply(sch.copy(), block, *loops, intrin_name, side_by_side)
        except ScheduleError as problem:
            loops = problem.message
    if not isinstance(loops, str):
        return _apply(sch, block, *loops, intrin_name, side_by_side)
    found = iterators_of_description(sch, block, desc)
    if isinstance(found, str):
        raise ScheduleError("E441", f"{intrin_name} does not compute block {sch.get(block).name}: {found}")
    # a step that is refused leaves the schedule as it was
    _after_layout(sch.copy(), block, *found, intrin_name, side_by_side)
    return _after_layout(sch, block, *found, intrin_name, side_by_side)


def _after_layout(
    sch: Schedule, block: BlockRV, pairing: Pairing, fused: IndexMap, intrin_name: str, side_by_side: int
) -> BlockRV:
    """Lay the operands out as the intrinsic wants them, and put it in place."""
    _lay_out(sch, block, pairing, fused)
    loops = loops_of_description(sch, block, _description(intrin_name), number=pairing.number)
    assert not isinstance(loops, str), loops
    return _apply(sch, block, *loops, intrin_name, side_by_side)


def _description(intrin_name: str) -> PrimFunc:
    found = TensorIntrin.get(intrin_name)
    assert found is not None
    return found.desc


def _tile(sch: Schedule, block: BlockRV, info: TensorizeInfo) -> tuple[list[LoopRV], list[LoopRV]]:
    """Split the mapped loops; (the loops outside, the description's loops inside)."""
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
    outer: list[LoopRV] = []
    inner: dict[int, LoopRV] = {}
    mapped = {sch.get_sref(loop): wanted for loop, wanted in info.loop_map.items()}
    loops = [(loop, mapped.get(sch.get_sref(loop))) for loop in sch.get_loops(block)]
    for loop, wanted in loops:
        if wanted is None:
            outer.append(loop)
            continue
        extent = wanted.extent
        assert type(extent) is IntImm
        far, near = sch.split(loop, [None, extent.value])
        outer.append(far)
        inner[info.desc_loop_indexer[wanted]] = near
    nested = [inner[k] for k in sorted(inner)]
    sch.reorder(*outer, *nested)
    return outer, nested


def _apply(
    sch: Schedule, block: BlockRV, pairing: Pairing, info: TensorizeInfo, intrin_name: str, side_by_side: int
) -> BlockRV:
    """Tile a block, move its operands to the scopes of the intrinsic, and put the intrinsic in place of the inner loops."""
    outer, inner = _tile(sch, block, info)
    values, axes = sch.get_sref(block).realize.iter_values, sch.get(block).iter_vars
    reductions = {v for value, axis in zip(values, axes) if axis.kind == "R" for v in free_vars(value)}
    steps = [loop for loop in outer if sch.get(loop).loop_var in reductions]
    tiles = [loop for loop in outer if loop not in steps]
    near: list[LoopRV] = []
    for loop in [loop for loop in tiles if not is_int(sch.get(loop).extent, 1)][-2:] if side_by_side > 1 else ():
        far, part = sch.split(loop, sch.sample_perfect_tile(loop, 2, side_by_side))
        tiles[tiles.index(loop)] = far
        near.append(part)
    sch.reorder(*tiles, *steps, *near, *inner)
    for described, (_, access) in pairing.accesses.items():
        if described.scope == access.buffer.scope:
            continue
        if described is pairing.description.store.buffer:
            copy = sch.cache_write(block, 0, described.scope)
            if tiles:
                sch.reverse_compute_at(copy, tiles[-1])
        else:
            copy = sch.cache_read(block, _read_position(sch, block, access.buffer), described.scope)
            if outer:
                sch.compute_at(copy, (*tiles, *steps)[-1])
    if sch.get(block).init is not None:
        sch.decompose_reduction(block, (*steps, *near, *inner)[0])
    for loop in near:
        sch.unroll(loop)
    made = sch.blockize(inner[0])
    sch.tensorize(made, intrin_name)
    return made


def _read_position(sch: Schedule, block: BlockRV, buffer: Buffer) -> int:
    return [region.buffer for region in sch.get(block).reads].index(buffer)


def _lay_out(sch: Schedule, block: BlockRV, pairing: Pairing, fused: IndexMap) -> None:
    """Fuse the iterators of a block, round them up, and copy its operands into tiles."""
    description = pairing.description
    variables = [axis.var for axis in pairing.block.iter_vars]
    count = len(fused.final_indices) - len(description.loops)
    described_axes = [axis.var for axis in description.block.iter_vars]
    target: dict[Expr, Expr] = dict(zip(described_axes, fused.final_indices[count:]))
    sizes = dict(zip(described_axes, description.extents))
    copies: list[tuple[BlockRV, Tile]] = []
    result: tuple[BlockRV, Tile] | None = None
    lines: list[int] = []
    extents = {v: axis.domain.extent for v, axis in zip(fused.initial_indices, pairing.block.iter_vars)}
    for buffer, (described, access) in pairing.accesses.items():
        used = {
            fused.initial_indices[variables.index(v)] for e in access.indices for v in free_vars(e) if v in variables
        }
        lead = [e for e in fused.final_indices[:count] if e in used]
        iterators = iterators_in(described.indices)
        layout = (*lead, *[target[e] for e in iterators])
        to = IndexMap(fused.initial_indices, layout or (const(0),))
        tile = {e: sizes[e] for e in iterators}, described.indices
        if buffer is description.store.buffer:
            result = sch.reindex_cache_write(block, 0, "global", to), tile
        else:
            place = _read_position(sch, block, access.buffer)
            copies.append((sch.reindex_cache_read(block, place, "global", to), tile))
            steps = [int_value(n, 1) for v, n in extents.items() if iterators and slope(layout[-1], v) == 1]
            lines.append(gcd(LINE // described.buffer.dtype.itemsize, *steps[:1]))
    assert result is not None
    sch.transform_block_layout(block, fused)
    sch.pad_einsum(block, [1] * count + list(description.extents))
    for (copy, tile), line in zip(copies, lines):
        padded = [consumer for consumer in sch.get_consumers(copy) if not _same(sch, consumer, block)]
        if padded:
            _inline(sch, copy)
        copy = padded[0] if padded else copy
        _tiled(sch, copy, tile)
        last = sch.get_loops(copy)[-1]
        if padded and line > 1 and sch.get(last).kind == "serial" and int_value(sch.get(last).extent, 1) % line == 0:
            sch.vectorize(sch.split(last, [None, line])[-1])
    written, tile = result
    for consumer in sch.get_consumers(block):
        if not _same(sch, consumer, written):
            sch.compute_inline(consumer)
    _tiled(sch, block, tile)


def _inline(sch: Schedule, copy: BlockRV) -> None:
    """Inline a copy into the one that pads it: first it iterates over the cells that it writes."""
    _iterate_cells(sch, copy)
    sch.compute_inline(copy)


def _iterate_cells(sch: Schedule, copy: BlockRV) -> None:
    """Make the iterators of a copy those of the cells that it writes."""
    node = sch.get(copy)
    assert isinstance(node.body, BufferStore)
    cell = IndexMap(tuple([axis.var for axis in node.iter_vars]), node.body.indices)
    if cell.initial_indices != cell.final_indices:
        sch.transform_block_layout(copy, cell)


def _same(sch: Schedule, one: BlockRV, other: BlockRV) -> bool:
    return sch.get_sref(one) is sch.get_sref(other)


def _tiled(sch: Schedule, block: BlockRV, tile: Tile) -> None:
    """Lay out what a block writes in tiles of its last axes; groups along an iterator are written in vectors."""
    sizes, inside = tile
    if not sizes or len(inside) < 2:
        return  # one row after the other already

    def layout(*indices: Any) -> list[Any]:
        lead, last = indices[: -len(sizes)], indices[-len(sizes) :]
        within = {var: i % n for i, (var, n) in zip(last, sizes.items())}
        return [*lead, *[i // n for i, n in zip(last, sizes.values())], *[_index(e, within) for e in inside]]

    grouped = any([isinstance(e, (FloorDiv, FloorMod)) for e in inside])
    if grouped:
        _iterate_cells(sch, block)
    sch.transform_layout(block, ("write", 0), layout)
    if grouped:
        _iterate_cells(sch, block)
        *_, columns, group = sch.get_loops(block)
        sch.vectorize(sch.fuse(columns, group))


def _index(index: Expr, values: dict[Var, Any]) -> Any:
    """An index of a description's access: an iterator, its quotient or remainder, or zero."""
    if isinstance(index, (FloorDiv, FloorMod)):
        value, number = _index(index.a, values), int_value(index.b)
        return value // number if type(index) is FloorDiv else value % number
    return values[index] if isinstance(index, Var) else 0
