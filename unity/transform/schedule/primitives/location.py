"""sample_compute_location: a random place for compute_at. The choice may also be "leave it at the root" or "inline it".

Such a choice is not a loop: it is a LoopRV that stands for a ``Mark``, which compute_at and reverse_compute_at alone understand.
"""

from __future__ import annotations

from typing import Any

from ..core.refuse import Refused, refuse
from ..core.registry import ROWS, SAMPLE, Row, Sampled, primitive
from ..core.sref import BlockRef, LoopRef, Sref
from ..core.state import ScheduleState
from ..preconditions.coverage import common_ancestor
from ..preconditions.dependence import block_scope
from ..preconditions.ownership import require_owned

AT_ROOT, INLINE = -1, -2
"""Decisions that are not positions in the list of loops (TVM's numbers)."""
MOVES = {"compute_at": "compute_inline", "reverse_compute_at": "reverse_compute_inline"}
"""Primitives that take a mark, and what they do with the mark "inline"."""


class Mark(Sref):
    """A location that is not a loop: "root" (where the block stands) or "inline"."""

    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        super().__init__("", None, None)
        self.word = word
        self.gone = f"<{word}>"


@primitive(kind=SAMPLE, checks=("a valid decision",),
           example='loop = sch.sample_compute_location(sch.get_block("C"), decision=0)\n'
                   'sch.compute_at(sch.get_block("C"), loop)')  # fmt: skip
def sample_compute_location(state: ScheduleState, block: BlockRef, decision: int | None = None) -> LoopRef:
    """Choose where ``compute_at`` may put a block: a loop around its consumers, the root (where it stands), or inline. Returns a
    loop for ``compute_at``.

    Each legal choice is equally likely. ``decision``: number of the loop, from the outside in, among those that ``compute_at``
    accepts; -1 is the root, -2 inline. Raises ScheduleError E428 for a decision that is not legal here.
    """
    loops, choices = legal_locations(state, block)
    location = decision if decision is not None else state.rng.choice(choices)
    if location not in choices:
        refuse("E428", f"the decision {location!r} is none of the legal locations {sorted(choices)} of block {block.name}",
               "a valid decision", block,
               f"decision={max(choices)}, or none to choose anew")  # fmt: skip
    made = loops[location] if location >= 0 else Mark("root" if location == AT_ROOT else "inline")
    return Sampled(made, location)  # type: ignore[return-value]


def legal_locations(state: ScheduleState, block: Sref) -> tuple[list[Sref], list[int]]:
    """The loops that ``compute_at`` accepts for a block, from the outside in, and all legal decisions."""
    loops = [s for s in _around_consumers(state, block) if _legal(state, "compute_at", block, s)]
    inline = [INLINE] if _legal(state, "compute_inline", block) else []
    return loops, [*range(len(loops)), *inline, AT_ROOT]


def _around_consumers(state: ScheduleState, block: Sref) -> list[Sref]:
    """Loops around all consumers of a block, from the outside in."""
    scope = block_scope(state, block)
    consumers = scope.consumers(block)
    if not consumers:
        return []
    at = common_ancestor(*consumers)
    around = [at, *at.above()]
    return [s for s in around[: around.index(scope.root)] if not s.is_block][::-1]


def _legal(state: ScheduleState, name: str, *arguments: Any) -> bool:
    """True if a primitive applies here (it is tried and undone)."""
    with state.trial():
        try:
            ROWS[name].apply(state, *arguments)
            require_owned(state)
        except Refused:
            return False
        return not state.assumptions


def run_at_mark(state: ScheduleState, row: Row, arguments: dict[str, Any]) -> bool:
    """Run compute_at or reverse_compute_at on a mark; False where no argument is one.

    Refuses E428 for a mark given to another step."""
    mark = next((v for v in arguments.values() if isinstance(v, Mark)), None)
    if mark is None:
        return False
    if row.name not in MOVES:
        refuse(
            "E428",
            f"{row.name} takes a loop, the sampled location is {mark.word!r}",
            "a loop",
            nearest="give it to compute_at or reverse_compute_at",
        )
    if mark.word == "inline":
        ROWS[MOVES[row.name]].apply(state, arguments["block"])
    return True
