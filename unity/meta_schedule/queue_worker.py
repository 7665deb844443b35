"""``work_off``: the candidates of a queue measured on a machine with their device, by an ordinary tuning.

Invariant: a candidate leaves the queue when its record is in the database, a task when it has its verdict and no candidate waits:
who is killed or interrupted goes on where he was, and the last verdict is about all that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from .builder import BuilderResult
from .core.measure_candidate import MeasureCandidate
from .database import Database
from .measure_callback import MeasureCallback
from .queue import FixedCandidates, MeasureQueue
from .runner import RunnerResult
from .tune import TuneOptions, database_of, show, tuned
from .tuning_loop import TaskScheduler


class Forget(MeasureCallback):
    """Takes candidates out of the queue when their records are written."""

    at_once = True

    def __init__(self, queue: MeasureQueue) -> None:
        self.queue = queue

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        strategy = task_scheduler.tasks[task_id].ctx.search_strategy
        for one in measure_candidates:
            if isinstance(strategy, FixedCandidates) and one.sch in strategy.numbers:
                self.queue.remove_candidate(strategy.numbers.pop(one.sch))


def work_off(
    file: MeasureQueue | str | Path, work_dir: str | Path | None = None, **options: Unpack[TuneOptions]
) -> Database:
    """Measure the candidates of a queue on this machine and return the database of what was measured; the table goes to standard
    error. Options: as in ``tune_tasks``; what the database has of the tasks counts (``resume``). Raises what it raises, and
    ScheduleError E461 for a file that is not a queue."""
    waits_in = file if isinstance(file, MeasureQueue) else MeasureQueue(file)
    waiting = waits_in.tasks()
    callbacks = MeasureCallback.create(options.get("measure_callbacks", "default"))
    options["measure_callbacks"] = [*callbacks, Forget(waits_in)]
    options["database"] = records = database_of(options.get("database", "sqlite"), work_dir)
    options["resume"] = True
    known = sum([len(records.records_of(one.workload.shash)) for one in waiting])
    tasks, weights = [one.context() for one in waiting], [one.weight for one in waiting]
    _, rows = tuned(tasks, weights, work_dir, known + sum([len(one.traces) + 1 for one in waiting]), **options)
    for one, task, row in zip(waiting, tasks, rows):
        strategy = task.search_strategy
        if isinstance(strategy, FixedCandidates) and strategy.all_ran() and not row.remark.startswith("failed"):
            waits_in.remove_task(one.number)
    show(rows)
    return records


__all__ = ["Forget", "work_off"]
