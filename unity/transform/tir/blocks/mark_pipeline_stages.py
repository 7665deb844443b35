"""mark_pipeline_stages: the annotations of a software pipeline go from the loop to the statements they are about.

A loop with ``software_pipeline_stage`` has a stage for each statement of its body (blocks and loops, as they are written), with
``software_pipeline_order`` the order in which they stand in the pipeline, and in ``software_pipeline_async_stages`` the stages
whose copies run beside the threads.

Rewrite: ``for k in T.serial(n, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}): { a; b }``
-> ``for k in range(n): { with T.attr(0, "software_pipeline", "0 0"): a; with T.attr(0, "software_pipeline", "1 1"): b }``; "0 0
async" for a stage that is asynchronous. So passes between this one and ``inject_software_pipeline`` may take statements apart.

Raises PassError E532 for annotations that do not fit the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.build import const
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import AttrStmt, BlockRealize, For, Stmt, seq, statements_of
from ....ir.walk import rewrite
from ....support.errors import PassError
from ...infra.passes import prim_func_pass

STAGE, ORDER, ASYNC = "software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"
MARK = "software_pipeline"
"""Key of the attribute of a statement: stage, place in the order, and "async" where it is asynchronous."""


def _numbers(given: Any, key: str, loop: For) -> list[int]:
    values = [getattr(item, "value", item) for item in given] if isinstance(given, Sequence) else [None]
    if not all([type(value) is int and value >= 0 for value in values]):
        raise PassError("E532", f"{key} of loop {loop.loop_var.name} must be a list of numbers", loop.span)
    return values  # type: ignore[return-value]


def _loop(loop: For) -> For:
    notes = loop.annotations or {}
    if STAGE not in notes:
        return loop
    stages = _numbers(notes[STAGE], STAGE, loop)
    orders = _numbers(notes.get(ORDER, tuple(range(len(stages)))), ORDER, loop)
    beside = _numbers(notes.get(ASYNC, ()), ASYNC, loop)
    if loop.kind not in ("serial", "unrolled"):
        raise PassError(
            "E532", f"a software pipeline cannot be made of the {loop.kind} loop {loop.loop_var.name}", loop.span
        )
    if sorted(orders) != list(range(len(stages))):
        raise PassError(
            "E532", f"{ORDER} of loop {loop.loop_var.name} is not an order of {len(stages)} statements", loop.span
        )
    marks = [f"{s} {o}{' async' if s in beside else ''}" for s, o in zip(stages, orders)]
    return replace(loop.without_notes(STAGE, ORDER, ASYNC), body=_marked(loop.body, marks, loop))


def _marked(body: Stmt, marks: list[str], loop: For) -> Stmt:
    if type(body) is BlockRealize and len(marks) > 1:
        return replace(body, block=replace(body.block, body=_marked(body.block.body, marks, loop)))
    parts = statements_of(body)
    if len(parts) != len(marks):
        raise PassError(
            "E532", f"loop {loop.loop_var.name} has {len(parts)} statements, {STAGE} names {len(marks)}", loop.span,
            help="give a stage to each block or loop that stands directly in the loop",
        )  # fmt: skip
    return seq(*[AttrStmt(const(0), MARK, mark, part) for part, mark in zip(parts, marks)])


@prim_func_pass()
def mark_pipeline_stages(func: PrimFunc) -> PrimFunc:
    """Give the statements of pipelined loops their stages."""
    return rewrite(func, {For: _loop})
