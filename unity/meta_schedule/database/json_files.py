"""``JSONDatabase``: two files as TVM's tuner keeps them, a line of JSON for each workload and each record.

``database_workload.json`` has ``[checksum, program, constants]``, ``database_tuning_record.json`` has
``[place of the workload, record]``. Files that TVM wrote are read as well: their traces and times; their programs are in a form of
TVM's own, so that the modules are given beside them. Not for many writers: that is ``SQLiteDatabase``.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ...ir.function import PrimFunc
from ...ir.module import IRModule
from ...support.errors import ScheduleError, using
from .memory import MemoryDatabase
from .record import TuningRecord
from .workload import Workload, check_equality


class JSONDatabase(MemoryDatabase, names=("json",)):
    """Records in two files, read at the beginning and written line by line.

    ``modules``: the programs of files that TVM wrote, in order. ``module_equality``: as in
    ``check_equality``. Raises ScheduleError E461 for lines that are not records, and where
    there are no files unless ``allow_missing``.
    """

    name = "JSONDatabase"

    def __init__(
        self,
        path_workload: str | Path | None = None,
        path_tuning_record: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        allow_missing: bool = True,
        module_equality: str = "structural",
        modules: Sequence[IRModule | PrimFunc] = (),
    ) -> None:
        super().__init__()
        check_equality(module_equality)
        if work_dir is None and (path_workload is None or path_tuning_record is None):
            raise ScheduleError("E461", "a JSONDatabase needs its two files, or work_dir=")
        folder = Path(work_dir or ".")
        self.path_workload = Path(path_workload or folder / "database_workload.json")
        self.path_tuning_record = Path(path_tuning_record or folder / "database_tuning_record.json")
        self._places: dict[str, int] = {}
        for path in (self.path_workload, self.path_tuning_record):
            with using(path):
                if not path.exists() and not allow_missing:
                    raise ScheduleError("E461", f"there is no file {path}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        known: list[Workload] = []
        for number, line in enumerate(_lines(self.path_workload)):
            data = _data(line)
            if number < len(modules):
                found = super().commit_workload(modules[number])
            elif isinstance(data, list) and len(data) == 2:
                raise ScheduleError(
                    "E461", f"{self.path_workload}: line {number + 1} has its program in a form of TVM's own",
                    help="give the programs in order: JSONDatabase(..., modules=[mod])",
                )  # fmt: skip
            else:
                workload = Workload.from_json(data)
                found = self.workloads.setdefault(workload.shash, workload)
            self._places.setdefault(found.shash, number)
            known.append(found)
        for line in _lines(self.path_tuning_record):
            match _data(line):
                case [int(number), data] if 0 <= number < len(known):
                    super().commit_tuning_record(TuningRecord.from_json(data, known[number]))
                case _:
                    raise ScheduleError("E461", f"{self.path_tuning_record} has a line that is not a record")

    def commit_workload(self, mod: IRModule | PrimFunc, constants: Collection[int] = ()) -> Workload:
        workload = super().commit_workload(mod, constants)
        if workload.shash not in self._places:
            _append(self.path_workload, workload.as_json())
            self._places[workload.shash] = len(self._places)
        return workload

    def commit_tuning_record(self, record: TuningRecord) -> None:
        self.commit_workload(record.workload.mod, record.workload.constants)
        _append(self.path_tuning_record, [self._places[record.workload.shash], record.as_json()])
        super().commit_tuning_record(record)


def _lines(path: Path) -> list[str]:
    """The lines of a file that may be missing. A last one without an end is cut off: its writer died."""
    with using(path):
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        return whole.decode().splitlines()


def _data(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ScheduleError("E461", f"a record is not JSON: {error}") from None


def _append(path: Path, data: object) -> None:
    """Add a line, or nothing where there is no room for it."""
    with using(path), open(path, "ab", buffering=0) as file:
        line, end = json.dumps(data, separators=(",", ":")).encode() + b"\n", file.tell()
        try:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(end)
            raise
