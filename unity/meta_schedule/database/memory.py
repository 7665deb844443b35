"""Databases that hold nothing of their own: in memory, over others, and of a schedule function."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ffi.targets.target import Target, target as make_target
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...support.arguments import guarded_class
from ...support.errors import ScheduleError
from ...transform.default_schedule.base import Scheduled
from ...transform.infra.backend import Machine
from ...transform.schedule import Schedule
from ..core.tune_context import one_program
from .database import Database
from .record import TuningRecord
from .workload import Workload


@guarded_class
class MemoryDatabase(Database, names=("memory",)):
    """Records of this process."""

    name = "MemoryDatabase"

    def __init__(self) -> None:
        self.workloads: dict[str, Workload] = {}
        self.records: dict[str, list[TuningRecord]] = {}

    def commit_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> Workload:
        workload = Workload(one_program(mod), tuple(sorted(constants)))
        return self.workloads.setdefault(workload.shash, workload)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.workloads.setdefault(record.workload.shash, record.workload)
        self.records.setdefault(record.workload.shash, []).append(record)

    def records_of(self, shash: str) -> list[TuningRecord]:
        return list(self.records.get(shash, ()))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return [record for found in self.records.values() for record in found]

    def has_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> bool:
        return Workload(one_program(mod), tuple(sorted(constants))).shash in self.workloads


class UnionDatabase(Database, names=("union",)):
    """Several databases as one: the best record of any. What is committed goes to the first."""

    name = "UnionDatabase"

    def __init__(self, *databases: Database) -> None:
        if not databases:
            raise ScheduleError("E401", f"a {type(self).__name__} needs a database")
        self.databases = databases

    def commit_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> Workload:
        return self.databases[0].commit_workload(mod, constants)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.databases[0].commit_tuning_record(record)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return [record for database in self.databases for record in database.get_all_tuning_records()]

    def has_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> bool:
        return any([database.has_workload(mod, constants) for database in self.databases])

    def best(self, shash: str, features: str) -> TuningRecord | None:
        found = [r for r in [database.best(shash, features) for database in self.databases] if r is not None]
        return min(found, key=lambda record: record.seconds, default=None)

    def state(self) -> str:
        return " ".join([database.state() for database in self.databases])


class OrderedUnionDatabase(UnionDatabase, names=("ordered_union",)):
    """Several databases as one: the best record of the first that has any."""

    name = "OrderedUnionDatabase"

    def best(self, shash: str, features: str) -> TuningRecord | None:
        for database in self.databases:
            found = database.best(shash, features)
            if found is not None:
                return found
        return None


class ScheduleFnDatabase(MemoryDatabase, names=("schedule_fn",)):
    """A schedule function in place of records: it schedules the programs for which it returns True."""

    name = "ScheduleFnDatabase"

    def __init__(self, schedule_fn: Callable[[Schedule], bool]) -> None:
        super().__init__()
        self.schedule_fn = schedule_fn

    def query_tuning_record(
        self, mod: IRModule | PrimFunc, target: Target | str | None = None, workload_name: str = "",
        constants: Collection[int] = (),
    ) -> TuningRecord | None:  # fmt: skip
        scheduled = self._made(mod)
        return (
            None
            if scheduled is None
            else TuningRecord(scheduled.trace, Workload(one_program(mod)), None, make_target(target))
        )

    def _made(self, mod: IRModule | PrimFunc) -> Schedule | None:
        sch = Schedule(one_program(mod))
        return sch if self.schedule_fn(sch) else None

    def lookup(
        self, name: str, fn: PrimFunc, constants: Collection[int], target: Target, machine: Machine
    ) -> Scheduled | None:
        sch = self._made(fn)
        return None if sch is None else TuningRecord(sch.trace, Workload(one_program(fn))).program(fn)

    def state(self) -> str:
        """Nothing tells what a function does: the builds are not cached."""
        return ""


__all__ = ["MemoryDatabase", "OrderedUnionDatabase", "ScheduleFnDatabase", "UnionDatabase"]
