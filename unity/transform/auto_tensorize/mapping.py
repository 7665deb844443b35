"""Iterators of a block that are those of an intrinsic's description.

``get_tensorize_loop_mapping`` finds one loop for each loop of the description; ``get_auto_tensorize_mapping_info`` finds all
iterators that select the same operands, to be fused (a convolution becomes a product that way). Not here: what is done with them
(``schedule.py``). Invariant: an iterator maps to one of the same kind that selects elements of the same operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...arith.index_map import IndexMap
from ...ir.buffer import Buffer
from ...ir.build import add, const, dtype_of, index_var, int_value, is_int, mul
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.scalar import FloorDiv, FloorMod, IterVar
from ...ir.stmt import For
from ...ir.types import Expr
from ...ir.walk import used_vars
from ...support.recursion import deep_recursion
from ..schedule import BlockRV, LoopRV, Schedule
from ..tir.analysis.loop_nests import slope
from .pairing import Pairing, describe, pairings

_T = TypeVar("_T")


@dataclass(slots=True, frozen=True)
class TensorizeInfo:
    """Loops of a block that are loops of a description.

    ``loop_map``: the description's loop of each; ``desc_loop_indexer``: the position of each of the description's loops;
    ``block_iter_paddings``: for each iterator of the block the number to a multiple of which its extent has to be rounded up, None
    where all fit.
    """

    loop_map: dict[LoopRV, For]
    desc_loop_indexer: dict[For, int]
    block_iter_paddings: list[int] | None


@dataclass(slots=True, frozen=True)
class AutoTensorizeMappingInfo:
    """Iterators of a block fused to those of a description.

    ``mappings``: maps from the block's iterators to those that no iterator of the description stands for, followed by one for each
    of the description's. ``lhs_buffer_map``: the description's buffer of each of the block's; ``rhs_buffer_indices``: the
    iterators that index each of the description's buffers; ``lhs_iters``, ``rhs_iters``: the iterators of the block and of the
    description.
    """

    mappings: list[IndexMap]
    lhs_buffer_map: dict[Buffer, Buffer]
    rhs_buffer_indices: dict[Buffer, list[Var]]
    lhs_iters: list[IterVar]
    rhs_iters: list[IterVar]


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that can be split so that the inner parts are what a description computes, up to layouts.

    ``allow_padding``: extents need not be multiples of the description's. None where a loop of the description has none.
    """
    found = loops_of_description(sch, block, desc_func, allow_padding)
    return None if isinstance(found, str) else found[1]


def loops_of_description(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc, allow_padding: bool = False, number: int | None = None
) -> tuple[Pairing, TensorizeInfo] | str:
    """The accesses and loops of ``get_tensorize_loop_mapping``, or what is in its way; ``number``: of the pairing wanted."""
    return _first(sch, block, desc_func, lambda pairing: _loops(sch, block, pairing, allow_padding), number)


def _first(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc, find: Callable[[Pairing], _T | str], number: int | None = None
) -> tuple[Pairing, _T] | str:
    """The first pairing with the description of which something is found, and that; first come those whose operands lie most like
    the description's. Else the first reason."""
    with deep_recursion():
        description = describe(desc_func)
        found = description if isinstance(description, str) else pairings(description, sch.get(block))
        if isinstance(found, str):
            return found
        reason = ""
        for pairing in sorted(found, key=_score, reverse=True):
            made = find(pairing) if number in (None, pairing.number) else reason
            if not isinstance(made, str):
                return pairing, made
            reason = reason or made
        return reason


def _score(pairing: Pairing) -> int:
    axes = pairing.block.iter_vars
    found = [
        [_agreements(pairing, axes[k], axis) for k in _counterparts(pairing, axis)]
        for axis in pairing.description.block.iter_vars
    ]
    return sum([max(counts, default=0) for counts in found])


def _loops(sch: Schedule, block: BlockRV, pairing: Pairing, allow_padding: bool) -> TensorizeInfo | str:
    description, axes = pairing.description, pairing.block.iter_vars
    values = sch.get_sref(block).realize.iter_values
    loops = sch.get_loops(block)
    chosen: dict[int, int] = {}
    loop_map: dict[LoopRV, For] = {}
    for index, (axis, extent) in reversed(list(enumerate(zip(description.block.iter_vars, description.extents)))):
        left = [k for k in _counterparts(pairing, axis) if k not in chosen]
        if not left:
            return _missing(pairing, axis)
        whole = [k for k in left if _extent(axes[k]) % extent == 0 or allow_padding]
        if not whole:
            return f"iterator {axes[left[-1]].var.name} runs {_extent(axes[left[-1]])} times, no multiple of {extent}"
        best = max(whole, key=lambda k: (_agreements(pairing, axes[k], axis), k))
        loop = _loop_of(sch, values[best], loops, extent, allow_padding)
        if loop is None or loop in loop_map:
            return f"iterator {axes[best].var.name} has no loop of its own that runs a multiple of {extent} times"
        chosen[best] = extent
        loop_map[loop] = description.loops[index]
    paddings = [n if (n := chosen.get(k, 1)) > 1 and _extent(axis) % n else 1 for k, axis in enumerate(axes)]
    order = {loop: position for position, loop in enumerate(description.loops)}
    return TensorizeInfo(loop_map, order, paddings if max(paddings, default=1) > 1 else None)


def _counterparts(pairing: Pairing, axis: IterVar) -> list[int]:
    """Positions of the block's iterators that can be one of the description's: the same kind, operands, and a known extent."""
    return [k for k in _alike(pairing, axis) if _extent(pairing.block.iter_vars[k]) > 0]


def _alike(pairing: Pairing, axis: IterVar) -> list[int]:
    wanted = pairing.buffers_of(axis, described=True)
    return [
        k for k, own in enumerate(pairing.block.iter_vars)
        if own.kind == axis.kind and pairing.buffers_of(own, described=False) == wanted
    ]  # fmt: skip


def _missing(pairing: Pairing, axis: IterVar) -> str:
    for own in [pairing.block.iter_vars[k] for k in _alike(pairing, axis)]:
        if not _extent(own):
            return f"iterator {own.var.name} of block {pairing.block.name} is not from 0 to a constant"
    operands = sorted([pairing.accesses[buffer][1].buffer.name for buffer in pairing.buffers_of(axis, described=True)])
    kind = "reduction" if axis.kind == "R" else "spatial"
    return (
        f"no {kind} iterator of block {pairing.block.name} selects elements of {' and '.join(operands)} alone, as "
        f"{axis.var.name} of the description does"
    )


def _extent(axis: IterVar) -> int:
    """Iterations, 0 where they are not known or do not start from zero."""
    return (int_value(axis.domain.extent) or 0) if is_int(axis.domain.min, 0) else 0


def _agreements(pairing: Pairing, own: IterVar, axis: IterVar) -> int:
    """The number of operands along which two iterators go through the same axis, counted from the last."""
    count = 0
    for described, access in pairing.accesses.values():
        pairs = zip(reversed(described.indices), reversed(access.indices))
        count += any([d is axis.var and slope(t, own.var) == 1 for d, t in pairs])
    return count


def _loop_of(sch: Schedule, value: Expr, loops: Sequence[LoopRV], extent: int, allow_padding: bool) -> LoopRV | None:
    """The innermost loop that an iterator follows step by step, and that is long enough."""
    for loop in reversed(loops):
        node = sch.get(loop)
        count = int_value(node.extent)
        if slope(value, node.loop_var) == 1 and count and (count % extent == 0 or allow_padding):
            return loop
    return None


# ---- all iterators that select the same operands


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """The map under which a block's iterators become those of a description, where one exists; layouts have to follow it."""
    found = iterators_of_description(sch, block, desc_func)
    return None if isinstance(found, str) else _info(*found)


def is_tensorizable(sch: Schedule, block: BlockRV, desc_func: PrimFunc) -> bool:
    """True if a block computes what a description says, after a change of its iterators and of the layouts of its operands."""
    return not isinstance(iterators_of_description(sch, block, desc_func), str)


def iterators_of_description(sch: Schedule, block: BlockRV, desc_func: PrimFunc) -> tuple[Pairing, IndexMap] | str:
    """The accesses and the map of ``get_auto_tensorize_mapping_info``, or what is in its way."""
    return _first(sch, block, desc_func, _fused)


def _fused(pairing: Pairing) -> IndexMap | str:
    axes, described = pairing.block.iter_vars, pairing.description.block.iter_vars
    for access, _ in pairing.accesses.values():
        if not _by_iterators(access.indices, {axis.var for axis in described}):
            return f"the description does not access {access.buffer.name} by its iterators"
    wanted = [pairing.buffers_of(axis, described=True) for axis in described]
    if len({(axis.kind, operands) for axis, operands in zip(described, wanted)}) != len(described):
        return "two iterators of the description select the same operands"
    groups = [_counterparts(pairing, axis) for axis in described]
    if [] in groups:
        return _missing(pairing, described[groups.index([])])
    taken = {k for group in groups for k in group}
    variables = [index_var(axis.var.name, dtype_of(axis.var).name) for axis in axes]
    rest = [variables[k] for k in range(len(axes)) if k not in taken]
    return IndexMap(tuple(variables), (*rest, *[_fuse(group, variables, axes) for group in groups]))


def _by_iterators(indices: Sequence[Expr], iterators: set[Var]) -> bool:
    """True if indices are iterators, each once, or quotient and remainder of one by the same number; zeros aside."""
    inside = [e for e in indices if not is_int(e, 0)]
    cut = [e for e in inside if isinstance(e, (FloorDiv, FloorMod))]
    sizes = {(e.a, int_value(e.b)) for e in cut}
    halves = {(type(e), e.a, int_value(e.b)) for e in cut}
    found = [*[e for e in inside if e not in cut], *[var for var, _ in sizes]]
    whole = len(halves) == len(cut) == 2 * len(sizes)
    return whole and len(set(found)) == len(found) and all([isinstance(e, Var) and e in iterators for e in found])


def _fuse(group: Sequence[int], variables: Sequence[Var], axes: Sequence[IterVar]) -> Expr:
    """Iterators as one, the last fastest."""
    made: Expr = variables[group[-1]]
    stride = _extent(axes[group[-1]])
    for k in reversed(group[:-1]):
        made = add(mul(variables[k], const(stride, dtype_of(made))), made)
        stride *= _extent(axes[k])
    return made


def iterators_in(indices: Sequence[Expr]) -> list[Var]:
    """The iterators that indices use, in order."""
    return list(dict.fromkeys([var for e in indices for var in used_vars(e)]))


def _info(pairing: Pairing, index_map: IndexMap) -> AutoTensorizeMappingInfo:
    described = {buffer: iterators_in(access.indices) for buffer, (access, _) in pairing.accesses.items()}
    return AutoTensorizeMappingInfo(
        [index_map],
        {access.buffer: buffer for buffer, (_, access) in pairing.accesses.items()},
        described,
        list(pairing.block.iter_vars),
        list(pairing.description.block.iter_vars),
    )
