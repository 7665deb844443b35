"""Level 2 of the verifier: declared regions, parallel loops, copies. Reports only what is certain."""

from __future__ import annotations

from typing import Any

from ..analysis.regions import block_regions
from ..buffer import Buffer, BufferRegion
from ..build import int_value, sub
from ..expr import IntImm, Var
from ..function import PrimFunc
from ..scalar import BufferLoad
from ..stmt import (
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
)
from ..structural import first_difference, structural_equal
from ..types import Expr
from ..walk import collect, free_vars, fresh_copy
from .report import Report


def check_deep(fn: Any, report: Report) -> None:
    """Check one function of a module that is valid at level 1."""
    difference = first_difference(fn, fresh_copy(fn))
    if difference is not None:
        report.add("E352", f"a copy of the function differs at {difference}", fn)
    if isinstance(fn, PrimFunc):
        for block in collect(fn.body, Block):
            _regions(block, report)
        for loop in collect(fn.body, For):
            if loop.kind == "parallel":
                _parallel(loop, report)


def _regions(block: Block, report: Report) -> None:
    if block.reads is None or block.writes is None or not (block.iter_vars or block.reads or block.writes):
        return
    if collect(block.body, IfThenElse) or block.match_buffers:
        return
    reads, writes = block_regions(block, derive=True)
    for region in writes:
        _covered(block, region, block.writes, "writes", report)
    for region in reads:
        _covered(block, region, (*block.reads, *block.writes), "reads", report)


def _covered(block: Block, region: BufferRegion, declared: tuple[BufferRegion, ...], what: str, report: Report) -> None:
    same = [d for d in declared if d.buffer is region.buffer]
    if not same:
        text = f"block {block.name} {what} {region.buffer.name} and does not declare it"
        report.add("E350", text, block, f"add it to T.{what}(...)")
        return
    if len(same) > 1:
        return
    for axis, (needed, given) in enumerate(zip(region.region, same[0].region)):
        low = _constant(needed.min, given.min)
        extent = int_value(needed.extent)
        limit = int_value(given.extent)
        if low is not None and extent is not None and limit is not None and not (low >= 0 and low + extent <= limit):
            text = f"block {block.name} {what} axis {axis} of {region.buffer.name} beyond the declared region"
            report.add("E350", text, block)


def _constant(a: Expr, b: Expr) -> int | None:
    """``a - b`` when it is certainly a constant."""
    if structural_equal(a, b):
        return 0
    difference = sub(a, b)
    return int_value(difference)


def _parallel(loop: For, report: Report) -> None:
    """A store that does not depend on the loop variable, into a buffer from outside, made in every iteration."""
    if type(loop.extent) is not IntImm or loop.extent.value < 2:
        return
    dependent: set[Var] = {loop.loop_var}
    local: set[Buffer] = set()
    conditional: set[int] = set()
    for branch in collect(loop.body, IfThenElse):
        conditional.update([id(s) for s in collect(branch, BufferStore)])
    for realize in collect(loop.body, BlockRealize):
        if not (type(realize.predicate) is IntImm and realize.predicate.value):
            conditional.update([id(s) for s in collect(realize.block, BufferStore)])
        if realize.block.init is not None:
            conditional.update([id(s) for s in collect(realize.block.init, BufferStore)])
        local.update(realize.block.alloc_buffers)
    local.update([s.buffer for s in collect(loop.body, (AllocBuffer, AllocConst, DeclBuffer))])
    _grow(loop, dependent)
    for store in collect(loop.body, BufferStore):
        if store.buffer in local or id(store) in conditional or store.predicate is not None:
            continue
        if any([v in dependent for i in store.indices for v in free_vars(i)]) or any(
            [collect(i, BufferLoad) for i in store.indices]
        ):
            continue
        text = (
            f"every iteration of the parallel loop {loop.loop_var.name} writes the same elements of {store.buffer.name}"
        )
        report.add("E351", text, store.span or loop)


def _grow(loop: For, dependent: set[Var]) -> None:
    """Add the variables whose values depend on the loop variable, until nothing changes."""
    changed = True
    while changed:
        before = len(dependent)
        for bind in collect(loop.body, Bind):
            if any([v in dependent for v in free_vars(bind.value)]):
                dependent.add(bind.var)
        for inner in collect(loop.body, For):
            if any([v in dependent for e in (inner.min, inner.extent) for v in free_vars(e)]):
                dependent.add(inner.loop_var)
        for realize in collect(loop.body, BlockRealize):
            for iter_var, value in zip(realize.block.iter_vars, realize.iter_values):
                if any([v in dependent for v in free_vars(value)]):
                    dependent.add(iter_var.var)
        changed = len(dependent) != before
