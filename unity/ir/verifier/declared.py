"""Level 2 of the verifier: declared regions, parallel loops, copies. Reports only what is certain."""

from __future__ import annotations

from typing import Any

from ..analysis.lanes import stores_of_all
from ..analysis.regions import block_regions
from ..buffer import BufferRegion
from ..build import int_value, sub
from ..function import PrimFunc
from ..stmt import Block, For, IfThenElse
from ..structural import first_difference, structural_equal
from ..types import Expr
from ..walk import collect, fresh_copy
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
            for store in stores_of_all(loop) if loop.kind == "parallel" else ():
                text = f"every iteration of the parallel loop {loop.loop_var.name} writes the same elements of {store.buffer.name}"
                report.add("E351", text, store.span or loop)


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
