"""``Paths``: the programs that a task had, as the decisions that rules and passes asked for on the way to them.

What is asked next follows from the answers before, so a draw leads to a known program where it answers all that was asked for on
the way in the same way; what it says besides makes no difference. That takes no lowering. Not here: decisions (`sketch.py`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.function import PrimFunc
from ...ir.stmt import Block
from ...ir.walk import collect
from ...transform.default_schedule.common.choices import SCHEDULE, Choice
from ...transform.schedule import Trace

Decided = Mapping[str, Mapping[str, int] | None]
"""Answers of a draw: a number by the name of a decision, by block."""


def decided_in(fn: PrimFunc) -> Decided:
    """The decisions in the annotations of a program."""
    return {block.name: block.annotations.get(SCHEDULE) for block in collect(fn.body, Block)}


def decided_by(trace: Trace) -> Decided | None:
    """The decisions of a trace, as its program has them; None for a trace that does more than to decide."""
    values: dict[object, int] = {}
    names: dict[object, str] = {}
    decided: dict[str, Mapping[str, int] | None] = {}
    for inst in trace.insts:
        if inst.kind == "sample_categorical" and inst.decision is not None:
            values[inst.outputs[0]] = inst.args["candidates"][inst.decision]
        elif inst.kind == "get_block":
            names[inst.outputs[0]] = inst.args["name"]
        elif inst.kind == "annotate" and inst.args["ann_key"] == SCHEDULE and inst.args["block_or_loop"] in names:
            said = {name: values.get(value, value) for name, value in inst.args["ann_val"].items()}
            decided[names[inst.args["block_or_loop"]]] = said
        else:
            return None
    return decided


def drawn(trace: Trace, rng: random.Random) -> Trace:
    """A trace of decisions with all of them drawn."""
    decisions = {}
    for inst in trace.insts:
        if inst.kind == "sample_categorical":
            decisions[inst] = rng.choices(range(len(inst.args["candidates"])), inst.args["probs"])[0]
    return Trace(trace.insts, decisions)


@dataclass(slots=True)
class Paths:
    """A tree: the decision that is asked for, and what follows each answer; nothing is asked for at the end of a path."""

    asked: Choice | None = None
    is_end: bool = False
    """True where a program was reached."""
    after: dict[int, Paths] = field(default_factory=dict)

    def add(self, path: Sequence[Choice]) -> None:
        """Take the decisions of a program, in order."""
        at = self
        for choice in path:
            at.asked = choice
            at = at.after.setdefault(choice.taken, Paths())
        at.is_end = True

    def leads_to_known(self, decided: Decided) -> bool:
        """True if a program with these decisions becomes what one before it became."""
        at: Paths | None = self
        while at is not None and at.asked is not None:
            at = at.after.get(at.asked.answer(decided.get(at.asked.block)))
        return at is not None and at.is_end


__all__ = ["Decided", "Paths", "decided_by", "decided_in", "drawn"]
