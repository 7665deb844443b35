"""``Paths``: the programs that a task had, as the decisions that rules and passes asked for on the way to them.

What is asked next follows from the answers before, so a draw leads to a known program where it answers all that was asked for on
the way in the same way; what it says besides makes no difference. That takes no lowering. Not here: decisions (`sketch.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.function import PrimFunc
from ...ir.stmt import Block
from ...ir.walk import collect
from ...transform.tir.analysis.choices import SCHEDULE, Choice


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

    def leads_to_known(self, fn: PrimFunc) -> bool:
        """True if a program with decisions becomes what one before it became."""
        decided = {block.name: block.annotations.get(SCHEDULE) for block in collect(fn.body, Block)}
        at: Paths | None = self
        while at is not None and at.asked is not None:
            at = at.after.get(at.asked.answer(decided.get(at.asked.block)))
        return at is not None and at.is_end


__all__ = ["Paths"]
