"""Measure callbacks: what happens with the results of a round: into the database, to the cost model, files removed."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .builder import BuilderResult
from .core.measure_candidate import MeasureCandidate
from .core.part import Part
from .database.record import TuningRecord
from .runner import RunnerResult

if TYPE_CHECKING:
    from .tuning_loop import TaskScheduler


class MeasureCallback(metaclass=Part):
    """Hears of every round; ``at_once``: of each candidate as it has been measured."""

    what = "measure callback"
    at_once = False

    @abstractmethod
    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        """A round of a task has ended, or one of its candidates was measured."""

    @classmethod
    def create(cls, kind: Any = "default", *args: Any, **options: Any) -> list[MeasureCallback]:
        """Callbacks by name, "default" for all; one or several as a list. Raises ScheduleError E401 for an unknown one."""
        if isinstance(kind, str):
            kind = [name for name in cls.kinds if kind in (name, "default")] or kind
        return [
            Part.create(cls, one, *args, **options) for one in (kind if isinstance(kind, (list, tuple)) else [kind])
        ]


class AddToDatabase(MeasureCallback, names=("add-to-database",)):
    """Writes every candidate as a record as soon as it was measured, failures too; the program itself only of those that are the
    best so far."""

    at_once = True

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        task = task_scheduler.tasks[task_id]
        for candidate, result in zip(measure_candidates, runner_results):
            record = TuningRecord(
                candidate.sch.trace, task.workload, result.run_secs, task.ctx.target, candidate.args_info,
                result.reference_secs, reason=result.error_msg or candidate.scheduled.reason,
            )  # fmt: skip
            if record.seconds < task.best_written:
                task.best_written = record.seconds
                record = record.with_program(candidate.scheduled)
            task_scheduler.database.commit_tuning_record(record)


class UpdateCostModel(MeasureCallback, names=("update-cost-model",)):
    """Lets the cost model learn from the candidates that ran."""

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        if task_scheduler.cost_model is not None:
            context = task_scheduler.tasks[task_id].ctx
            task_scheduler.cost_model.update(context, measure_candidates, runner_results)


class RemoveBuildArtifact(MeasureCallback, names=("remove-build-artifact",)):
    """Removes the files of the round."""

    def apply(
        self, task_scheduler: TaskScheduler, task_id: int, measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult], runner_results: Sequence[RunnerResult],
    ) -> None:  # fmt: skip
        for result in builder_results:
            if result.artifact_path is not None and result.artifact_path != task_scheduler.tasks[task_id].default_path:
                with contextlib.suppress(OSError):
                    os.unlink(result.artifact_path)


PyMeasureCallback = MeasureCallback

__all__ = ["AddToDatabase", "MeasureCallback", "PyMeasureCallback", "RemoveBuildArtifact", "UpdateCostModel"]
