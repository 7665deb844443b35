"""``MeasureCandidate``: a point of the space that is to be built and run."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.function import PrimFunc
from ...support.arguments import checked_class
from ...transform.default_schedule.base import Scheduled
from ...transform.schedule import Schedule
from .arg_info import ArgInfo


@checked_class
@dataclass(slots=True, frozen=True, eq=False)
class MeasureCandidate:
    """A schedule, what it made of the program, and the arguments of the program before.

    ``sch.trace`` has the decisions. ``scheduled`` is what a build takes: the program, and its parameters that it takes packed
    (``args_info`` has them unpacked); where it is not given, that is the program as it stands. ``lowered`` is that program with its
    loops in place, by which a search tells candidates apart and ranks them; None for one that is only to be run. The default build
    is the candidate with ``is_default``.
    """

    sch: Schedule
    args_info: list[ArgInfo]
    scheduled: Scheduled = None  # type: ignore[assignment]
    lowered: PrimFunc | None = None
    is_default: bool = False

    def __post_init__(self) -> None:
        if self.scheduled is None:
            program = next(iter(self.sch.mod.prim_funcs().values()))
            object.__setattr__(self, "scheduled", Scheduled(program, "its trace"))


__all__ = ["MeasureCandidate"]
