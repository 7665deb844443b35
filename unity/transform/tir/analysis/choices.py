"""Decisions of rules and passes: each says its own choice, and a block may say another (``choose``).

Rewrite: ``sch.annotate(block, "schedule", {"rows": 8})`` -> the rule or pass that tiles the block takes 8 rows where it can. A
search writes such annotations; ``choices_of`` tells it which there are. Not here: what is chosen. Invariant: without annotations
every choice is the own one, and asking costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import Block
from ....ir.walk import collect, rewrite
from ....support.context_stack import ContextStack

SCHEDULE = "schedule"
"""Annotation of a block: a number by the name of a decision."""


@dataclass(slots=True, frozen=True)
class Choice:
    """A decision about a block: the ``candidates``, the own one first, and the one taken."""

    block: str
    name: str
    candidates: tuple[int, ...]
    taken: int


Choices = dict[tuple[str, str], Choice]
"""Choices by block and name, in the order in which they were made."""

_WATCHED: ContextStack[Choices] = ContextStack("choices")


def choose(block: Block, name: str, candidates: Iterable[int], own: int) -> int:
    """The decision that the annotation of a block names, else ``own``. Of a decision that is no candidate the nearest is taken."""
    decided, seen = block.annotations.get(SCHEDULE), _WATCHED.top
    if decided is None and seen is None:
        return own
    options = tuple(dict.fromkeys([int(own), *candidates]))
    wanted = own if decided is None else decided.get(name, own)
    taken = min(options, key=lambda option: abs(option - wanted))
    if seen is not None:
        seen[block.name, name] = Choice(block.name, name, options, taken)
    return taken


@contextmanager
def choices_of() -> Iterator[Choices]:
    """The choices that are made inside the ``with``."""
    seen: Choices = {}
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


__all__ = ["SCHEDULE", "Choice", "Choices", "choices_of", "choose", "is_decided", "without_decisions"]
