"""reorder, reorder_block_iter_var, add_unit_loop: the order of loops and iterators."""

from __future__ import annotations

import itertools

from ....ir.build import const
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.stmt import BlockRealize, For, Stmt
from ....ir.types import prim_type
from ....ir.walk import free_vars
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, ItemRef, LoopRef, Sref
from ..core.state import ScheduleState
from ..preconditions.conditions import (
    idle_loops,
    require_affine,
    require_blocks_only,
    require_complete_values,
    require_no_repetition,
    require_not_empty,
    require_own_cells,
)
from ..preconditions.coverage import why_not_independent
from ..preconditions.distinct import require_distinct
from ..preconditions.reducers import assume_free_steps
from .split_fuse import require_only_child


@primitive(
    checks=(
        "no loop twice",
        "one chain",
        "only children in a chain",
        "independent extents",
        "affine binding",
        "blocks only",
        "distinct cells",
        "spatial or reduction iterators",
    ),
    rewrite="for i: for j: f(i, j)  ->  for j: for i: f(i, j)",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nsch.reorder(k, j)',
)
def reorder(state: ScheduleState, *ordered_loops: LoopRef) -> None:
    """Put loops of one nest into the given order, outermost first; loops between them that are not named keep their places.

    Raises ScheduleError E424 if the loops are not a single chain or an extent would use a loop inside it, E413 if a block inside is
    not bound affinely, E414 for iterators that are neither spatial nor reductions.
    """
    if len(set(ordered_loops)) != len(ordered_loops):
        twice = next(s for s in ordered_loops if ordered_loops.count(s) > 1)
        refuse("E424", f"loop {twice.name} is named twice", "no loop twice", twice, "name each loop once")
    if len(ordered_loops) < 2:
        return
    chain = _chain(list(ordered_loops))
    top, bottom = chain[0], chain[-1]
    for outer, inner in itertools.pairwise(chain):
        require_only_child(outer, inner, "E424", f"reorder the loops inside {inner.name}, or those outside of it")
    wanted = iter(ordered_loops)
    named = set(ordered_loops)
    order = [next(wanted) if s in named else s for s in chain]
    position = {s.loop.loop_var: k for k, s in enumerate(order)}
    for k, sref in enumerate(order):
        for bound in (sref.loop.min, sref.loop.extent):
            late = [v for v in free_vars(bound) if position.get(v, -1) > k]
            if late:
                refuse(
                    "E424", f"the bounds of loop {sref.name} use {late[0].name}, which would be inside of it",
                    "independent extents", sref,
                    f"keep {late[0].name} outside of {sref.name}",
                )  # fmt: skip
    require_blocks_only(bottom)
    _require_free_order(state, bottom)
    for block in state.blocks_below(bottom):
        require_affine(state, block, top)
        require_own_cells(state, block)
        require_distinct(state, block, top)
        for axis in block.block.iter_vars:
            if axis.kind not in ("S", "R"):
                refuse("E414", f"iterator {axis.var.name} of block {block.name} is {axis.kind}",
                       "spatial or reduction iterators", block,
                       "declare the iterator with T.axis.spatial or T.axis.reduce where that is what it is")  # fmt: skip
    _require_free_reductions(state, bottom, chain, order)
    body = bottom.loop.body
    for sref in reversed(order):
        body = with_fields(sref.loop, body=body)
    state.replace(top, body)


def _require_free_reductions(state: ScheduleState, bottom: Sref, chain: list[Sref], order: list[Sref]) -> None:
    """Steps of a reduction change places only where their order does not matter, else the step is tested; a reduction that may
    have no step stays inside of loops over threads."""
    threads = [k for k, s in enumerate(order) if s.loop.thread is not None]
    outside = order[: threads[-1]] if threads else []
    if outside:
        require_not_empty(state, bottom, outside)
    for block in state.blocks_below(bottom):
        values = [v for axis, v in block.realize.bindings if axis.kind == "R"]
        used = {v for value in values for v in free_vars(value)}
        idle = idle_loops(block, chain) if used else []
        steps = [[s for s in each if s.loop.loop_var in used or s in idle] for each in (chain, order)]
        if idle and steps[0] != steps[1]:
            require_no_repetition(block, idle)
        if [s for s in chain if s.loop.loop_var in used] != [s for s in order if s.loop.loop_var in used]:
            assume_free_steps(state, block)
        _require_first_step_first(state, block, chain, order)


def _require_first_step_first(state: ScheduleState, block: Sref, chain: list[Sref], order: list[Sref]) -> None:
    """The initialisation runs where all reductions are at their first value. Of loops in another order that each count cells and
    steps together, another step of a cell may come before it: the step is then tested."""
    if block.block.init is None:
        return
    pairs = block.realize.bindings
    cells, steps = [{v for axis, value in pairs if axis.kind == kind for v in free_vars(value)} for kind in ("S", "R")]
    before, after = [[s for s in each if s.loop.loop_var in cells & steps] for each in (chain, order)]
    if before != after:
        loops = " and ".join([s.name for s in before])
        state.assumptions.append(
            f"the first step of {block.name} comes first though {loops} count its cells and its steps"
        )


def _require_free_order(state: ScheduleState, bottom: Sref) -> None:
    """Blocks that share the innermost loop read of each other only what the same iteration computed; else the step is
    tested."""
    blocks = state.blocks_below(bottom)
    if len(blocks) < 2:
        return
    require_complete_values(state, blocks)
    fault = why_not_independent(state, bottom)
    if fault is not None:
        state.assumptions.append(f"iterations are independent though {fault.reason}")


def _chain(loops: list[Sref]) -> list[Sref]:
    """The loops from the outermost to the innermost of the given, those between included."""
    wanted = set(loops)
    deepest = max(loops, key=lambda s: len(list(s.above())))
    found: list[Sref] = []
    missing = set(wanted)
    at: Sref | None = deepest
    while at is not None and not at.is_block:
        found.append(at)
        missing.discard(at)
        if not missing:
            return found[::-1]
        at = at.parent
    refuse(
        "E424",
        f"loop {next(iter(missing)).name} is in another nest than {deepest.name}",
        "one chain",
        loops,
        "reorder the loops of each nest by themselves",
    )


@primitive(checks=("a permutation",), rewrite="vi, vj = T.axis.remap(...)  ->  vj, vi = T.axis.remap(...)",
           example='sch.reorder_block_iter_var(sch.get_block("C"), [2, 0, 1])')  # fmt: skip
def reorder_block_iter_var(state: ScheduleState, block: BlockRef, new_order: list[int]) -> None:
    """Permute the iterators of a block: ``new_order[k]`` is the present position of the new k-th. Raises ScheduleError E424."""
    count = len(block.block.iter_vars)
    if sorted([n for n in new_order if isinstance(n, int)]) != list(range(count)) or len(new_order) != count:
        refuse(
            "E424",
            f"{new_order} is not a permutation of the {count} iterators of {block.name}",
            "a permutation",
            block,
            f"each of {', '.join([str(k) for k in range(count)])} once",
        )
    old = block.block
    new = with_fields(old, iter_vars=tuple([old.iter_vars[k] for k in new_order]))
    values = tuple([block.realize.iter_values[k] for k in new_order])
    state.replace(block, BlockRealize(values, block.realize.predicate, new), {old: new})


@primitive(rewrite="f  ->  for u in 1: f", example='u = sch.add_unit_loop(sch.get_block("C"))')
def add_unit_loop(state: ScheduleState, block_or_loop: ItemRef) -> LoopRef:
    """Put a loop of one iteration around a block or a loop. Raises ScheduleError E424 for the root block."""
    node = block_or_loop.node
    if block_or_loop.parent is None or node is None:
        refuse(
            "E424",
            "nothing can stand around the root block",
            "not the root block",
            block_or_loop,
            "a loop or a block inside of it",
        )
    ty = node.loop_var.ty if type(node) is For else prim_type("int64")
    var = Var("u", ty)
    body: Stmt = For(var, const(0, ty.dtype), const(1, ty.dtype), "serial", node)  # type: ignore[attr-defined]
    state.replace(block_or_loop, body)
    return state.sref(block_or_loop.func, var)
