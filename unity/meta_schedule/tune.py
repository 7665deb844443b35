"""``tune_tasks``: tasks to a database of measured schedules. ``tuned`` gives the rows of the table as well.

Here: the parts put together. Not here: the loop (`tuning_loop.py`), spaces and strategies, which modules have tasks
(`relax_integration.py`, `tir_integration.py`).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ..support.errors import ScheduleError
from .builder import Builder, LocalBuilder
from .core.part import check_numbers
from .core.tune_context import TuneContext, check_cores
from .cost_model.models import CostModel
from .database import Database, JSONDatabase, MemoryDatabase, SQLiteDatabase
from .database.workload import check_equality
from .measure_callback import MeasureCallback
from .queue import check_device, queued
from .report import Row, table
from .runner import LocalRunner, Runner
from .task_scheduler import TaskScheduler, create as task_scheduler_of

DATABASE = "database.db"
"""File of the database in the folder of a tuning."""


def database_of(kind: Database | str, work_dir: str | Path | None) -> Database:
    """A database by its kind: "sqlite" (without a folder in memory), "json" (files as TVM's), "memory". Raises ScheduleError E401
    for another kind, E461."""
    match kind:
        case "sqlite":
            return MemoryDatabase() if work_dir is None else SQLiteDatabase(Path(work_dir) / DATABASE)
        case "json":
            return JSONDatabase(work_dir=work_dir or ".")
    database: Database = Database.create(kind)
    return database


@contextlib.contextmanager
def _workers(builder: Builder | str, runner: Runner | str, cores: int | str) -> Iterator[tuple[Builder, Runner]]:
    """Builder and runner; those made here end with the block."""
    parts = Builder.create(builder, max_workers=cores if isinstance(cores, int) else None), Runner.create(runner)
    try:
        yield parts
    finally:
        for given, part in zip((builder, runner), parts):
            if isinstance(given, str) and isinstance(part, (LocalBuilder, LocalRunner)):
                part.close()


class TuneOptions(TypedDict, total=False):
    """The keyword arguments that all entry points have; what they mean and their defaults: ``tuned``."""

    num_trials_per_iter: int
    builder: Builder | str
    runner: Runner | str
    database: Database | str
    cost_model: CostModel | str
    measure_callbacks: str | MeasureCallback | Sequence[MeasureCallback]
    task_scheduler: TaskScheduler | str
    seed: int | None
    num_tuning_cores: int | str
    module_equality: str
    resume: bool


class QueueOptions(TuneOptions, total=False):
    """Those, and a queue that candidates are written to."""

    queue: Any


def tuned(
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    max_trials_per_task: int | None = None,
    *,
    num_trials_per_iter: int = 8,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "sqlite",
    cost_model: CostModel | str = "linear",
    measure_callbacks: str | MeasureCallback | Sequence[MeasureCallback] = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    seed: int | None = -1,
    num_tuning_cores: int | str = "logical",
    module_equality: str = "structural",
    resume: bool = False,
    queue: Any = None,
) -> tuple[Database, list[Row]]:
    """As ``tune_tasks``, with the rows of the table, which is not printed."""
    check_equality(module_equality)
    check_numbers(0, max_trials_global=max_trials_global, max_trials_per_task=max_trials_per_task)
    check_numbers(1, num_trials_per_iter=num_trials_per_iter)
    check_cores(num_tuning_cores=num_tuning_cores)
    if len(tasks) != len(task_weights):
        raise ScheduleError("E401", f"{len(tasks)} tasks have {len(task_weights)} weights", help="one for each task")
    for weight in task_weights:
        check_numbers(0, weight=weight)
    records = database_of(database, work_dir)
    if queue is not None:
        most = max_trials_global // max(1, len(tasks))
        return records, queued(queue, tasks, task_weights, min(most, max_trials_per_task or most), cost_model)
    for task in tasks:
        check_device(task)
    callbacks = MeasureCallback.create(measure_callbacks)
    with _workers(builder, runner, num_tuning_cores) as (build, run):
        rows = task_scheduler_of(task_scheduler, **({"seed": seed} if isinstance(task_scheduler, str) else {})).tune(
            tasks, task_weights, max_trials_global, max_trials_per_task, num_trials_per_iter, build, run, callbacks, records,
            CostModel.create(cost_model), resume,
        )  # fmt: skip
    return records, rows


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    max_trials_per_task: int | None = None,
    **options: Unpack[QueueOptions],
) -> Database:
    """Tune tasks and return the database of what was measured; the table of tasks goes to standard error.

    ``max_trials_global``: candidates of all tasks together; ``max_trials_per_task``: of one. ``num_trials_per_iter``: of one round
    (8). ``database``: a ``Database``, or "sqlite" (a file in ``work_dir``; without a folder in memory), "json" (TVM's files),
    "memory". ``task_scheduler``: "gradient" or "round-robin". ``seed`` starts every random choice (None and -1: from the
    system). ``num_tuning_cores``: processes that build; "logical" and "physical": one for each processor. ``resume``: trials that
    the database has count. ``cost_model``: "linear", "trees" (LightGBM; also "xgb"), "random", or a model, which all tasks teach.
    ``builder``, ``runner``, ``measure_callbacks``: parts in place of the usual ones. ``queue``: a file (or ``MeasureQueue``) that
    candidates for a device that is not here are written to, for ``work_off``.
    Ctrl-C ends the rounds and keeps what was measured. Raises ScheduleError E401 for numbers that try nothing and names that no
    part has, E461 for a database, E463 where no task can be built
    and run, or the device is not here and there is no queue.
    """
    records, rows = tuned(tasks, task_weights, work_dir, max_trials_global, max_trials_per_task, **options)
    show(rows)
    return records


def nth_seed(seed: int | None, index: int) -> int:
    """The seed of a task by its place; -1 where the system starts the choices."""
    return -1 if seed is None or seed < 0 else seed + index


def show(rows: Sequence[Row], others: Mapping[str, str] | None = None) -> None:
    """Print the table."""
    print(table(rows, dict(others or {})), file=sys.stderr)


__all__ = ["DATABASE", "QueueOptions", "TuneOptions", "database_of", "nth_seed", "show", "tune_tasks", "tuned"]
