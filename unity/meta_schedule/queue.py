"""``MeasureQueue``: candidates for a device that is not here, in a file that a machine with the device works off.

``queued`` writes the candidates of tasks that the cost model ranks highest. Not here: how they are measured (`queue_worker.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ffi.device import device
from ..ffi.targets.target import Target
from ..support.arguments import guarded_class
from ..support.errors import ScheduleError
from ..transform.infra.backend import backend_of
from ..transform.schedule import Schedule, Trace
from .core.measure_candidate import MeasureCandidate
from .core.tune_context import CostModel, TuneContext
from .cost_model import models as models  # what is imported has its name
from .database.sqlite_file import SQLiteFile, as_json, packed
from .database.workload import Workload
from .report import Row
from .search.replay import ReplayTrace
from .space.space_generator import PostOrderApply


@guarded_class
class MeasureQueue(SQLiteFile):
    """Tasks and candidates that wait. Raises ScheduleError E461 for a file that is not a queue."""

    tables = """
create table if not exists queued_task (id integer primary key, shash text not null, data blob not null);
create table if not exists queued_candidate (id integer primary key, task integer not null, data blob not null)
"""

    def put(self, context: TuneContext, weight: float, candidates: Sequence[MeasureCandidate]) -> None:
        """Write a task and its candidates, at once."""
        workload = Workload(context.mod, context.constants)
        sizes = [{var.name: size for var, size in given.items()} for given in (context.sizes, context.other_sizes)]
        data = [context.task_name, weight, str(context.target), workload.as_json(), *sizes]
        row = workload.shash, packed(json.dumps(data))
        texts = [packed(json.dumps(one.sch.trace.as_json())) for one in candidates]
        with self._connection() as connection:
            connection.execute("begin immediate")
            task = connection.execute("insert into queued_task (shash, data) values (?, ?)", row).lastrowid
            for text in texts:
                connection.execute("insert into queued_candidate (task, data) values (?, ?)", (task, text))
            connection.execute("commit")

    def __len__(self) -> int:
        with self._connection() as connection:
            return int(connection.execute("select count(*) from queued_candidate").fetchone()[0])

    def tasks(self) -> list[Queued]:
        """The tasks that wait. Raises ScheduleError E461 for rows that are not tasks."""
        with self._connection() as connection:
            tasks = connection.execute("select id, data from queued_task order by id").fetchall()
            rows = connection.execute("select id, task, data from queued_candidate order by id").fetchall()
        found = {number: _task(number, as_json(data)) for number, data in tasks}
        for number, task, data in rows:
            if task in found:
                found[task].traces[number] = Trace.from_json(as_json(data))
        return list(found.values())

    def remove_candidate(self, number: int) -> None:
        """Forget a candidate."""
        with self._connection() as connection:
            connection.execute("delete from queued_candidate where id = ?", (number,))

    def remove_task(self, number: int) -> None:
        """Forget a task and what is left of its candidates."""
        with self._connection() as connection:
            connection.execute("delete from queued_candidate where task = ?", (number,))
            connection.execute("delete from queued_task where id = ?", (number,))


@dataclass(slots=True)
class Queued:
    """A task that waits. ``traces``: those of its candidates by their numbers in the file."""

    number: int
    name: str
    weight: float
    target: Target
    workload: Workload
    sizes: dict[str, int]
    other_sizes: dict[str, int]
    traces: dict[int, Trace] = field(default_factory=dict)

    def context(self) -> TuneContext:
        """The task, whose candidates are those that wait."""
        return TuneContext(
            self.workload.mod, target=self.target, space_generator=PostOrderApply(), search_strategy=FixedCandidates(self.traces),
            task_name=self.name, constants=self.workload.constants, sizes=self.sizes, other_sizes=self.other_sizes,
        )  # fmt: skip


def _task(number: int, data: Any) -> Queued:
    match data:
        case [str(name), (int() | float()) as weight, str(target), workload, dict(sizes), dict(others)] if all(
            [type(size) is int for size in (*sizes.values(), *others.values())]
        ):
            return Queued(number, name, weight, Target(target), Workload.from_json(workload), sizes, others)
    raise ScheduleError("E461", "a row of the queue is not a task")


class FixedCandidates(ReplayTrace):
    """The strategy of candidates that are there already. ``numbers``: those that were given out and have no record, by their
    schedules."""

    def __init__(self, traces: dict[int, Trace]) -> None:
        super().__init__()
        self.waiting = dict(traces)
        self.numbers: dict[Schedule, int] = {}

    def all_ran(self) -> bool:
        """True if every candidate that is one has its record."""
        return not self.waiting and not self.numbers

    def _others(self, count: int) -> list[MeasureCandidate]:
        candidates: list[MeasureCandidate] = []
        while self.waiting and len(candidates) < count:
            number = next(iter(self.waiting))
            found = self.sampler.new(self.sampler.replay(self.waiting.pop(number), False))
            if found is not None:
                self.numbers[found.sch] = number
                candidates.append(found)
        return candidates


def queued(
    queue: MeasureQueue | str | Path,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    trials: int,
    cost_model: CostModel | str,
) -> list[Row]:
    """Write the candidates of tasks that a cost model ranks highest, "traffic" where none is given, and the rows that say so."""
    file = queue if isinstance(queue, MeasureQueue) else MeasureQueue(queue)
    model = CostModel.create("traffic" if cost_model == "linear" else cost_model)
    rows = []
    for context, weight in zip(tasks, task_weights, strict=True):
        strategy = context.strategy
        strategy.pre_tuning(trials + 1, trials + 1, context.generate_design_space(), None, model)
        candidates = [one for one in strategy.generate_measure_candidates() or [] if not one.is_default]
        file.put(context, weight, candidates)
        said = f"{len(candidates)} candidates wait in {file.name}"
        rows.append(Row(context.task_name, weight, math.inf, math.inf, 0, said))
    return rows


def check_device(context: TuneContext) -> None:
    """Raise ScheduleError E463 where the device of a task is not here."""
    kind = backend_of(context.target).runtime.device.name
    if not device(kind).exist:
        raise ScheduleError("E463", f"there is no {kind} device here to measure on",
                            help='write candidates for a machine that has one: queue="queue.db", --queue queue.db')  # fmt: skip


__all__ = ["FixedCandidates", "MeasureQueue", "Queued", "check_device", "queued"]
