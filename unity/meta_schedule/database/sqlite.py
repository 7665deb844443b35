"""``SQLiteDatabase``: a file of records that many processes write at once.

Each record is one transaction of a write-ahead log: a process that is killed loses at most the record it was writing. Records are
read by the question at hand, one program's at a time. Invariant: a file that another wrote, or that is damaged, gives records or
errors, never code that runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection

from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...support.arguments import guarded_class
from ...support.errors import UnityError
from ..core.tune_context import one_program
from .database import Database
from .record import TuningRecord, record_text
from .sqlite_file import SQLiteFile, as_json, packed
from .workload import Workload

SPARE = 8
"""Rows that are read where one is looked for: some may be damaged."""
TABLES = """
create table if not exists workload (shash text primary key, data blob not null) without rowid;
create table if not exists record (
  id integer primary key, shash text not null, features text not null, verdict text not null, seconds real, data blob not null,
  digest text not null
);
create index if not exists record_of on record (shash);
"""


@guarded_class
class SQLiteDatabase(SQLiteFile, Database, names=("sqlite",)):
    """Records in a file. Raises ScheduleError E461 for a file that is not a database of records."""

    tables = TABLES

    def commit_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> Workload:
        workload = Workload(one_program(mod), tuple(sorted(constants)))
        self._keep(workload)
        return workload

    def _keep(self, workload: Workload) -> None:
        with self._connection() as connection:
            known = connection.execute("select 1 from workload where shash = ?", (workload.shash,)).fetchone()
            if known is None:
                row = workload.shash, packed(json.dumps(workload.as_json()))
                connection.execute("insert or ignore into workload values (?, ?)", row)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self._keep(record.workload)
        text = record_text(record)
        digest = hashlib.sha256(record.workload.shash.encode() + text.encode()).hexdigest()
        seconds = record.seconds if record.is_valid() else None
        row = record.workload.shash, record.features, record.verdict, seconds, packed(text), digest
        with self._connection() as connection:
            connection.execute(
                "insert into record (shash, features, verdict, seconds, data, digest) values (?, ?, ?, ?, ?, ?)", row
            )

    def records_of(self, shash: str) -> list[TuningRecord]:
        return self._read("where shash = ? order by id", (shash,))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return self._read("order by id", ())

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        condition = "where shash = ? and seconds > 0 order by seconds, id limit ?"
        return self._read(condition, (workload.shash, top_k))

    def best(self, shash: str, features: str) -> TuningRecord | None:
        where = "where shash = ? and (features = ? or features = '') and seconds > 0"
        for order in ("and verdict != 'trial' order by id desc", "order by seconds, id"):
            found = self._read(f"{where} {order} limit {SPARE}", (shash, features))
            if found:
                return found[0]
        return None

    def _read(self, condition: str, values: tuple[object, ...]) -> list[TuningRecord]:
        """Records by a condition; those that are none are passed over, as those of another version are."""
        with self._connection() as connection:
            rows = connection.execute(f"select shash, data from record {condition}", values).fetchall()
            workloads: dict[str, Workload | None] = {}
            found = []
            for shash, data in rows:
                if shash not in workloads:
                    row = connection.execute("select data from workload where shash = ?", (shash,)).fetchone()
                    workloads[shash] = None if row is None else _workload(row[0], shash)
                workload = workloads[shash]
                if workload is not None:
                    with contextlib.suppress(UnityError):
                        found.append(TuningRecord.from_json(as_json(data), workload))
        return found

    def has_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> bool:
        shash = Workload(one_program(mod), tuple(sorted(constants))).shash
        with self._connection() as connection:
            return connection.execute("select 1 from workload where shash = ?", (shash,)).fetchone() is not None

    def __len__(self) -> int:
        with self._connection() as connection:
            return int(connection.execute("select count(*) from record").fetchone()[0])

    def state(self) -> str:
        digest = hashlib.sha256()
        with self._connection() as connection:
            for (row,) in connection.execute("select digest from record where seconds > 0 order by id"):
                digest.update(str(row).encode())
        return digest.hexdigest()


def _workload(data: object, shash: str) -> Workload | None:
    """The workload of a row; None where it is damaged or another one."""
    try:
        workload = Workload.from_json(as_json(data))
    except UnityError:
        return None
    return workload if workload.shash == shash else None


__all__ = ["SQLiteDatabase"]
