"""``TensorInstructions``: the rule that computes a block by tensor intrinsics of one's own, through any map of its iterators.

Those of the machine are decisions of the default schedule (``instruction``, ``gather``). Not here: how iterators are matched
(``transform/auto_tensorize``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ffi.native.pool import num_threads
from ...ir.build import int_value
from ...support.errors import ScheduleError
from ...transform.auto_tensorize.schedule import auto_tensorize
from ...transform.schedule import BlockRV, Schedule
from ...transform.schedule.core.tensor_intrin import TensorIntrin, given_intrinsics
from .schedule_rule import ScheduleRule

SIDE_BY_SIDE = 8
"""Applications along one loop that share what they read, at most."""


class TensorInstructions(ScheduleRule, names=("tensor-instructions",)):
    """Gives a schedule as it is, and one for each of ``intrinsics`` that computes the block; names that nobody registered count
    for nothing. Without names: all that users have registered by the time the space is made."""

    def __init__(self, intrinsics: Sequence[str] | None = None) -> None:
        self.intrinsics = intrinsics

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules."""
        found = [sch]
        if sch.get(block).init is None:
            return found
        wanted = given_intrinsics() if self.intrinsics is None else self.intrinsics
        for name in [name for name in wanted if TensorIntrin.get(name, allow_missing=True) is not None]:
            copied = sch.copy()
            try:
                applied = auto_tensorize(copied, block, name, SIDE_BY_SIDE)
            except ScheduleError:
                continue
            if applied is not block:
                _share(copied, applied)
            found.append(copied)
        return found


def _share(sch: Schedule, applied: BlockRV) -> None:
    """Share the outermost loop that turns between threads, where there are several."""
    turning = [loop for loop in sch.get_loops(applied) if int_value(sch.get(loop).extent) != 1]
    if turning and num_threads() > 1:
        sch.parallel(turning[0])


__all__ = ["TensorInstructions"]
