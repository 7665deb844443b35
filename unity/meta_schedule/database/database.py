"""``Database``: records by program, and what a build takes from them.

``with database:`` makes the builds inside use it. Here: what all databases share, made of what each answers in its own way: commit,
all records. Invariant: a build takes a record only for the program, constants, machine and number of threads it was measured for,
and only where it was faster than the default.
"""

from __future__ import annotations

import hashlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from ...ffi.targets.target import Target, target as make_target
from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...support.arguments import guarded_class
from ...support.errors import ScheduleError
from ...support.options import bool_option
from ...transform.default_schedule.apply import SCHEDULES
from ...transform.default_schedule.base import Scheduled
from ...transform.infra.backend import Machine
from ...transform.schedule import Schedule
from ..core.part import Part
from ..core.tune_context import one_program
from .record import DEFAULT, TRIAL, TuningRecord, record_text
from .workload import Workload, machine_features, workload_hash


@guarded_class
class Database(metaclass=Part):
    """Records by program."""

    what, usual = "kind of database", "json"
    name = "database"
    """Its name in explanations."""

    @classmethod
    def create(cls, kind: Any = "", *args: Any, **options: Any) -> Any:
        """As for every part; a function of a schedule is a database as well."""
        is_function = callable(kind) and not hasattr(kind, "commit_workload")
        return Part.create(cls, "schedule_fn", kind) if is_function else Part.create(cls, kind, *args, **options)

    @abstractmethod
    def commit_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> Workload:
        """The workload of a program, which is written if it was not there."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Write a record."""

    def records_of(self, shash: str) -> list[TuningRecord]:
        """The records of the workload with a checksum, in the order in which they came."""
        return [record for record in self.get_all_tuning_records() if record.workload.shash == shash]

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records."""

    @abstractmethod
    def has_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> bool:
        """True if there is a program equal to this one."""

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    # ---- asking

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest valid records of a workload."""
        found = [record for record in self.records_of(workload.shash) if record.is_valid()]
        return sorted(found, key=lambda record: record.seconds)[:top_k]

    def query_tuning_record(
        self, mod: IRModule | PrimFunc, target: Target | str | None = None, workload_name: str = "",
        constants: Collection[int] = (),
    ) -> TuningRecord | None:  # fmt: skip
        """The record that is best for a program on a target; None where there is none."""
        program = next(iter(one_program(mod).prim_funcs().values()))
        return self.best(workload_hash(program, constants), machine_features(make_target(target)))

    def query_schedule(
        self, mod: IRModule | PrimFunc, target: Target | str | None = None, workload_name: str = ""
    ) -> Schedule | None:
        """The schedule of the best record."""
        found = self.query_tuning_record(mod, target)
        return None if found is None else found.schedule()

    def query_ir_module(
        self, mod: IRModule | PrimFunc, target: Target | str | None = None, workload_name: str = ""
    ) -> IRModule | None:
        """The module that the best record gives."""
        found = self.query_schedule(mod, target)
        return None if found is None else found.mod

    def query(
        self, mod: IRModule | PrimFunc, target: Target | str | None = None, *, workload_name: str = "", kind: str = "schedule"
    ) -> Any:  # fmt: skip
        """The best ``record``, ``schedule`` or ``ir_module`` of a program. Raises ScheduleError E401 for another kind."""
        ways: dict[str, Callable[..., Any]] = {
            "record": self.query_tuning_record,
            "schedule": self.query_schedule,
            "ir_module": self.query_ir_module,
        }
        if kind not in ways:
            raise ScheduleError("E401", f"no kind {kind!r} of answer", help=f"one of: {', '.join(ways)}")
        return ways[kind](mod, target, workload_name)

    def best(self, shash: str, features: str) -> TuningRecord | None:
        """The record of a workload that is best on a machine: the last verdict where there is one, else the fastest trial."""
        found = [r for r in self.records_of(shash) if r.is_valid() and (r.features == features or not r.features)]
        verdicts = [record for record in found if record.verdict != TRIAL]
        return verdicts[-1] if verdicts else min(found, key=lambda record: record.seconds, default=None)

    def best_records(self) -> list[TuningRecord]:
        """The best record of each workload and machine."""
        keys = dict.fromkeys([(r.workload.shash, r.features) for r in self.get_all_tuning_records()])
        found = [self.best(shash, features) for shash, features in keys]
        return [record for record in found if record is not None]

    def dump_pruned(self, destination: Database) -> None:
        """Write the best record of each workload and machine into another database."""
        for record in self.best_records():
            destination.commit_workload(record.workload.mod, record.workload.constants)
            destination.commit_tuning_record(record)

    # ---- in a build

    def lookup(
        self, name: str, fn: PrimFunc, constants: Collection[int], target: Target, machine: Machine
    ) -> Scheduled | None:
        """The program as the best record schedules it; None where no record is faster than the default.

        Asked by the pass that schedules programs. ``UNITY_EXPLAIN=1`` prints which record was taken, or why none was.
        """
        found = self.best(workload_hash(fn, constants), machine_features(target, machine))
        said, taken = "no record", None
        if found is not None and not is_winner(found):
            said = f"{_described(found)}: the default is as fast"
        elif found is not None:
            gain = (
                f"{found.gain:.2f} times as fast as the default"
                if found.default_secs
                else "the default was not measured"
            )
            said = f"{_described(found)}: {gain}"
            try:
                taken = found.program(fn)
            except ScheduleError as error:
                said = f"{_described(found)}: {error.message}"
        if bool_option("UNITY_EXPLAIN"):
            print(f"{name}: {self.name}: {said}", file=sys.stderr)
        return taken

    def state(self) -> str:
        """A checksum of what builds take from the database: part of the keys of cached builds."""
        digest = hashlib.sha256()
        for record in self.get_all_tuning_records():
            if record.verdict != TRIAL or record.is_valid():
                digest.update(record.workload.shash.encode() + record_text(record).encode())
        return digest.hexdigest()

    def __enter__(self) -> Database:
        SCHEDULES.push(self)
        return self

    def __exit__(self, *_: object) -> None:
        SCHEDULES.pop()

    @staticmethod
    def current() -> Database | None:
        """The innermost database in force."""
        found = SCHEDULES.top
        return found if isinstance(found, Database) else None


def is_winner(record: TuningRecord) -> bool:
    """True if a record is not known to be as slow as the default."""
    return record.verdict != DEFAULT and not (record.default_secs and record.gain <= 1.0)


def _described(record: TuningRecord) -> str:
    """A record in a few words."""
    reason = f", {record.reason}" if record.reason else ""
    return f"record {record.workload.shash[:12]} ({record.verdict}, {record.seconds * 1e6:.1f} us{reason})"


__all__ = ["Database"]
