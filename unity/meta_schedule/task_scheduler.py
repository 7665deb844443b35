"""The two orders of tasks: in turn, and by the gain that another round promises."""

from __future__ import annotations

import random

from .core.part import check_numbers
from .task_record import TaskRecord
from .tuning_loop import TaskScheduler


class RoundRobin(TaskScheduler, names=("round-robin",)):
    """Gives every task a round in turn."""

    def __init__(self, *, seed: int | None = -1) -> None:
        super().__init__()
        self._last = -1

    def next_task_id(self) -> int:
        """The task after the last one that can go on; -1 where none can."""
        count = len(self.tasks)
        for task_id in [(self._last + step) % count for step in range(1, count + 1)]:
            if not self.tasks[task_id].is_terminated:
                self._last = task_id
                return task_id
        return -1


class GradientBased(TaskScheduler, names=("gradient",)):
    """Gives the next round to the task whose share of the whole time is likely to shrink most: by what its last rounds gained,
    and by its time divided by its rounds. ``alpha``: the part of the former; ``window_size``: how many rounds count."""

    def __init__(self, *, alpha: float = 0.2, window_size: int = 3, seed: int | None = -1) -> None:
        super().__init__()
        check_numbers(0, 1, alpha=alpha)
        check_numbers(1, window_size=window_size)
        self.alpha, self.window_size = alpha, window_size
        self._random = random.Random(seed if seed is not None and seed >= 0 else None)

    def next_task_id(self) -> int:
        """The task that promises most; each has one round first, that of the largest share of the time before others."""
        open_tasks = [task_id for task_id, task in enumerate(self.tasks) if not task.is_terminated]
        fresh = [task_id for task_id in open_tasks if not self.tasks[task_id].rounds]
        if fresh or not open_tasks:
            return max(fresh, key=self._share, default=-1)
        promised = {task_id: self._expected_gain(self.tasks[task_id]) for task_id in open_tasks}
        most = max(promised.values())
        return self._random.choice([task_id for task_id, gain in promised.items() if gain == most])

    def _share(self, task_id: int) -> float:
        """Seconds of the whole that a task takes by default."""
        return self.tasks[task_id].task_weight * self.tasks[task_id].default_secs

    def _expected_gain(self, task: TaskRecord) -> float:
        """Seconds of the whole that a round of a task may save; a task that never ran promises nothing."""
        known = [secs for secs in task.history if secs != float("inf")]
        if not known:
            return 0.0
        window = min(self.window_size, len(known) - 1)
        gained = (known[-1 - window] - known[-1]) / window if window else known[-1]
        return task.task_weight * (self.alpha * gained + (1 - self.alpha) * known[-1] / len(task.history))


create = TaskScheduler.create
PyTaskScheduler = TaskScheduler

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler", "create"]
