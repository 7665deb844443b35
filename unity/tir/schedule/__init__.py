"""``unity.tir.schedule``: schedules of tensor programs, by TVM's names."""

from ...transform.schedule import (
    BlockRV,
    ExprRV,
    Instruction,
    LoopRV,
    SBlockRV,
    Schedule,
    ScheduleError,
    ScheduleState,
    Trace,
)

__all__ = [
    "BlockRV", "ExprRV", "Instruction", "LoopRV", "SBlockRV", "Schedule", "ScheduleError", "ScheduleState", "Trace",
]  # fmt: skip
