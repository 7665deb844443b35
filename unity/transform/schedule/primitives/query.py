"""Queries: find blocks and loops. They change nothing."""

from __future__ import annotations

from ..core.refuse import refuse
from ..core.registry import QUERY, STEP, primitive
from ..core.sref import BlockRef, ItemRef, LoopRef, Sref, loops_of
from ..core.state import ScheduleState
from ..core.tree import ROOT
from ..preconditions.dependence import block_scope


def _find(state: ScheduleState, name: str, func_name: str | None) -> Sref:
    if func_name is None:
        refuse(
            "E407", f"which function has the block {name!r}? The module has several", "known function",
            nearest="pass func_name=, or call work_on first",
        )  # fmt: skip
    root = state.root(func_name)
    found = [sref for sref in state.index[func_name].values() if sref.is_block and sref.name == name]
    if len(found) == 1:
        return found[0]
    if name == ROOT and root not in found:
        return root
    if not found:
        known = ", ".join([s.name for s in state.index[func_name].values() if s.is_block and s is not root]) or "none"
        refuse("E407", f"{func_name} has no block {name!r}", "the block exists", nearest=f"its blocks are: {known}")
    refuse("E407", f"{func_name} has {len(found)} blocks named {name!r}", "unique name", found,
           "walk from the outside: get_child_blocks(root) gives them one by one")  # fmt: skip


@primitive(kind=QUERY, checks=("the block exists", "unique name"), example='block = sch.get_block("C")')
def get_block(state: ScheduleState, name: str, func_name: str | None = None) -> BlockRef:
    """Return the block ``name`` of a function (None: the one set by ``work_on``). Raises ScheduleError E407 for none or several."""
    return _find(state, name, func_name)


@primitive(kind=QUERY, checks=("the block exists", "unique name"), example='block = sch.get_sblock("C")')
def get_sblock(state: ScheduleState, name: str, func_name: str | None = None) -> BlockRef:
    """Newer name of ``get_block``."""
    return _find(state, name, func_name)


@primitive(kind=QUERY, example='i, j, k = sch.get_loops(sch.get_block("C"))')
def get_loops(state: ScheduleState, block: BlockRef) -> list[LoopRef]:
    """Return the loops around a block within its enclosing block, from the outside in."""
    return loops_of(block)


@primitive(kind=QUERY, example='first, second = sch.get_child_blocks(sch.get_block("root"))')
def get_child_blocks(state: ScheduleState, block_or_loop: ItemRef) -> list[BlockRef]:
    """Return the blocks directly inside a block or a loop, with nothing but loops between, in program order."""
    return list(state.blocks_below(block_or_loop))


@primitive(kind=QUERY, example='(c,) = sch.get_producers(sch.get_block("D"))')
def get_producers(state: ScheduleState, block: BlockRef) -> list[BlockRef]:
    """Return the blocks of the same scope that write what this block reads, in program order."""
    return block_scope(state, block).producers(block)


@primitive(kind=QUERY, example='(d,) = sch.get_consumers(sch.get_block("C"))')
def get_consumers(state: ScheduleState, block: BlockRef) -> list[BlockRef]:
    """Return the blocks of the same scope that read what this block writes, in program order."""
    return block_scope(state, block).consumers(block)


@primitive(kind=QUERY, example='(d,) = sch.get_output_blocks(sch.get_block("root"))')
def get_output_blocks(state: ScheduleState, scope_block: BlockRef) -> list[BlockRef]:
    """Return the blocks inside a scope that write buffers allocated outside it, in program order."""
    return [block for block in state.blocks_below(scope_block) if block_scope(state, block).is_output(block)]


@primitive(kind=STEP, rewrite="nothing: a mark in the trace")
def enter_postproc(state: ScheduleState) -> None:
    """Mark the point in the trace after which postprocessing begins."""
