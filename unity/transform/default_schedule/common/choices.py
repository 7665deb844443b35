"""Decisions of rules and passes: each says its own choice, and a block may say another (``choose``).

Rewrite: ``sch.annotate(block, "schedule", {"rows": 8})`` -> the rule or pass that tiles the block takes 8 rows where it can. A
search writes such annotations; ``choices_of`` tells it which there are. Not here: what is chosen. Invariant: without annotations
every choice is the own one, and asking costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace as replace_fields
from numbers import Integral
from typing import Any

from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import Block
from ....ir.walk import collect, rewrite
from ....support.context_stack import ContextStack
from ....support.errors import PassError

SCHEDULE = "schedule"
"""Annotation of a block: a number by the name of a decision."""
PART = "schedule_part"
"""Annotation of a block that a rule made of another: the name of the other, whose annotation decides about it as well, and what
the names of its decisions begin with."""
INTRINSIC = "intrinsic"
"""The decision that is the name of a tensor intrinsic."""
LEAST_LANES = 4
"""Elements of a vector that is a part of a register."""


@dataclass(slots=True, frozen=True)
class Choice:
    """A decision about a block: the ``candidates``, the own one first, the most that fits here, and the one taken."""

    block: str
    name: str
    candidates: tuple[int, ...]
    most: int | None
    taken: int = field(compare=False)

    def answer(self, decided: Mapping[str, int] | None) -> int:
        """The candidate that is taken under the decisions of a block."""
        wanted = self.candidates[0] if decided is None else decided.get(self.name, self.candidates[0])
        taken = min(self.candidates, key=lambda option: abs(option - wanted))
        return taken if self.most is None else min(taken, self.most)


def decisions(block: Block) -> dict[str, Any] | None:
    """The decisions that the annotation of a block names. Raises PassError E532 for an annotation of another form."""
    found = block.annotations.get(SCHEDULE)
    if found is None:
        return None
    kinds = {INTRINSIC: str}
    if not isinstance(found, dict) or any([not isinstance(v, kinds.get(name, Integral)) for name, v in found.items()]):
        text = f"{SCHEDULE} of block {block.name} must be a dict from decisions to numbers"
        raise PassError("E532", text, block.span, help='write for example {"schedule": {"rows": 8}}')
    return found


def _part(block: Block) -> tuple[str, str]:
    """The block whose annotation decides about a block, and what the names of its decisions begin with. Raises PassError E532."""
    found = block.annotations.get(PART, (block.name, ""))
    if not isinstance(found, (tuple, list)) or [type(part) for part in found] != [str, str]:
        raise PassError("E532", f"{PART} of block {block.name} must be two texts", block.span)
    return found[0], found[1]


_WATCHED: ContextStack[list[Choice]] = ContextStack("choices")


def choose(block: Block, name: str, candidates: Iterable[int], own: int, most: int | None = None) -> int:
    """The decision that the annotation of a block names, else ``own``; of a decision that is not a candidate the nearest is taken.
    ``most``: the largest that fits where the decisions before this one are as they are."""
    decided, seen = decisions(block), _WATCHED.top
    if decided is None and seen is None:
        return own if most is None else min(own, most)
    whole, part = _part(block)
    choice = Choice(whole, part + name, tuple(dict.fromkeys([int(own), *candidates])), most, own)
    choice = replace_fields(choice, taken=choice.answer(decided))
    if seen is not None:
        seen.append(choice)
    return choice.taken


def choose_whether(block: Block, name: str, own: bool) -> bool:
    """The decision of a block between no and yes."""
    return bool(choose(block, name, (0, 1), own))


def choose_lanes(block: Block, full: int, own: int | None = None) -> int:
    """Elements of a vector: those of a register, or of a part of one, which lines that are hardly longer fill better."""
    parts = [full // part for part in (1, 2, 4) if full >= LEAST_LANES * part]
    return choose(block, "lanes", parts, full if own is None else own)


def part_of(block: Block, name: str) -> dict[str, Any]:
    """The annotations by which a block that is made of ``block`` has decisions of its own."""
    whole, part = _part(block)
    decided = {SCHEDULE: block.annotations[SCHEDULE]} if SCHEDULE in block.annotations else {}
    return {**decided, PART: (whole, f"{part}{name}_")}


@contextmanager
def choices_of() -> Iterator[list[Choice]]:
    """The choices that are made inside the ``with``, in order."""
    seen: list[Choice] = []
    with _WATCHED.inside(seen):
        yield seen


def is_decided(fn: PrimFunc) -> bool:
    """True if a block of a program has decisions."""
    return any([SCHEDULE in block.annotations for block in collect(fn.body, Block)])


def without_decisions(fn: PrimFunc) -> PrimFunc:
    """A program whose decisions were taken."""

    def plain(block: Block) -> Block:
        if SCHEDULE not in block.annotations:
            return block
        return replace(block, annotations={key: note for key, note in block.annotations.items() if key != SCHEDULE})

    return replace(fn, body=rewrite(fn.body, {Block: plain}))
