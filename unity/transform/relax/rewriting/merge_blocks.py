"""Neighbouring blocks of one kind are one block, as script has it."""

from __future__ import annotations

from collections.abc import Iterable

from ....ir.expr import BindingBlock, DataflowBlock


def join_blocks(blocks: Iterable[BindingBlock], dataflow: bool = False) -> tuple[BindingBlock, ...]:
    """The blocks without empty plain ones, neighbouring plain ones joined; dataflow blocks as well where asked."""
    made: list[BindingBlock] = []
    for block in blocks:
        last = made[-1] if made else None
        if type(block) is BindingBlock and not block.bindings:
            continue
        if last is not None and type(last) is type(block) and (dataflow or type(block) is not DataflowBlock):
            made[-1] = type(block)((*last.bindings, *block.bindings), last.span)
        else:
            made.append(block)
    return tuple(made)
