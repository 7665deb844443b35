"""Databases of tuning records: what is written is found again by any process; what others wrote runs nothing."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs_of_tests import add_one

import unity
from unity import meta_schedule as ms
from unity.ffi.targets.target import Target
from unity.ir.structural import structural_digest, structural_equal
from unity.meta_schedule.database.record import DEFAULT, KEPT
from unity.meta_schedule.database.workload import machine_features
from unity.script import tir as T
from unity.support.errors import ScheduleError
from unity.transform.default_schedule.base import Scheduled
from unity.transform.default_schedule.packing import Packing

TARGET = Target("llvm -mcpu=x86-64-v2")


@T.prim_func
def renamed(P: T.Buffer((8, 16), "float32"), Q: T.Buffer((8, 16), "float32")):
    T.func_attr({"global_symbol": "other"})
    for a, b in T.grid(8, 16):
        with T.block("add"):
            v, w = T.axis.remap("SS", [a, b])
            Q[v, w] = P[v, w] + T.float32(1)


def schedule(factor: int = 4) -> unity.Schedule:
    sch = unity.Schedule(ms.database.Workload(add_one).mod)
    _, j = sch.get_loops(sch.get_block("add"))
    _, inner = sch.split(j, [None, factor])
    sch.vectorize(inner)
    return sch


def record(secs: float, factor: int = 4, **more: Any) -> ms.database.TuningRecord:
    workload = ms.database.Workload(add_one)
    info = ms.TensorInfo.from_prim_func(add_one)
    return ms.database.TuningRecord(schedule(factor).trace, workload, [secs], TARGET, info, **more)


def databases(folder: Path) -> list[ms.Database]:
    return [
        ms.database.MemoryDatabase(),
        ms.database.SQLiteDatabase(folder / "records.db"),
        ms.database.JSONDatabase(work_dir=folder / "json"),
        ms.database.UnionDatabase(ms.database.MemoryDatabase()),
        ms.database.OrderedUnionDatabase(ms.database.MemoryDatabase()),
    ]


def test_records_are_found_under_other_names(tmp_path: Path) -> None:
    assert structural_digest(add_one.without_attr("global_symbol")) == structural_digest(
        renamed.without_attr("global_symbol")
    )
    for database in databases(tmp_path):
        assert not database.has_workload(add_one) and len(database) == 0
        for secs, factor in ((3e-6, 2), (1e-6, 4), (2e-6, 8)):
            database.commit_tuning_record(record(secs, factor))
        assert len(database) == 3 and database.has_workload(renamed)
        best = database.query_tuning_record(renamed, TARGET)
        assert best is not None and best.run_secs == [1e-6] and best.args_info[0].shape == (8, 16)
        assert database.query_tuning_record(renamed, Target("llvm -mcpu=x86-64-v3")) is None
        assert [r.seconds for r in database.get_top_k(ms.database.Workload(add_one), 2)] == [1e-6, 2e-6]
        found = database.query(renamed, TARGET, kind="ir_module")
        assert structural_equal(found, schedule(4).mod)
        pruned = ms.database.MemoryDatabase()
        database.dump_pruned(pruned)
        assert [r.seconds for r in pruned.get_all_tuning_records()] == [1e-6]
        with pytest.raises(ScheduleError, match="no kind"):
            database.query(add_one, TARGET, kind="trace")


def test_constants_are_part_of_the_key() -> None:
    database = ms.database.MemoryDatabase()
    database.commit_workload(add_one, constants=(0,))
    assert database.has_workload(renamed, (0,)) and not database.has_workload(renamed)


def test_files_are_read_again(tmp_path: Path) -> None:
    for make in (
        lambda: ms.database.SQLiteDatabase(tmp_path / "a.db"),
        lambda: ms.database.JSONDatabase(work_dir=tmp_path / "b"),
    ):
        packed = Scheduled(add_one, "a rule", {0: Packing((), 1, (0,), 8)})
        make().commit_tuning_record(record(2e-6, scheduled=packed, default_secs=[3e-6], verdict=KEPT))
        (found,) = make().get_all_tuning_records()
        assert found.verdict == KEPT and found.gain == pytest.approx(1.5) and found.features == machine_features(TARGET)
        assert found.scheduled is not None and found.scheduled.packed == packed.packed
        assert structural_equal(found.scheduled.func, add_one)
        state = make().state()
        make().commit_tuning_record(record(1e-6))
        assert make().state() != state


def test_a_full_disk_spoils_no_file(tmp_path: Path) -> None:
    """A line that finds no room is taken back: what was there, and what comes later, is read again."""
    database = ms.database.JSONDatabase(work_dir=tmp_path)
    database.commit_tuning_record(record(2e-6))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for room in (0, 40):
        resource.setrlimit(resource.RLIMIT_FSIZE, (database.path_tuning_record.stat().st_size + room, limits[1]))
        try:
            with pytest.raises(ScheduleError, match="E461"):
                database.commit_tuning_record(record(1e-6))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)
    database.commit_tuning_record(record(3e-6))
    again = ms.database.JSONDatabase(work_dir=tmp_path)
    assert (
        [r.seconds for r in again.get_all_tuning_records()]
        == [r.seconds for r in database.get_all_tuning_records()]
        == [2e-6, 3e-6]
    )
    database.path_workload.write_bytes(b"\xff\n")
    for folder in (tmp_path, database.path_workload):  # no text; a file where a folder belongs
        with pytest.raises(ScheduleError, match="E461"):
            ms.database.JSONDatabase(work_dir=folder)


def test_traces_of_tvm_are_read(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    trace = [
        [["GetBlock", [], ["add", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]],
         ["SamplePerfectTile", ["l2"], [2, 16], ["v3", "v4"]], ["Split", ["l2", "v3", "v4"], [1], ["l5", "l6"]],
         ["EnterPostproc", [], [], []], ["Vectorize", ["l6"], [], []]],
        [[2, [4, 4]]],
    ]  # fmt: skip
    args = [["TENSOR", "float32", [8, 16]]] * 2
    (tmp_path / "database_workload.json").write_text('["1234", "AAAA"]\n')
    lines = [
        [0, [trace, [5e-6], {"kind": "llvm", "keys": ["cpu"], "mcpu": "x86-64-v2"}, args]],
        [0, [trace, None, None, args]],
        [0, [[trace[0], [[2, [2, 8]]]], [1e10], {"kind": "llvm", "keys": ["cpu"], "mcpu": "x86-64-v3"}, args]],
    ]
    text = "".join([json.dumps(line) + "\n" for line in lines])
    (tmp_path / "database_tuning_record.json").write_text(text + '[0, [["half of')
    with pytest.raises(ScheduleError, match="form of TVM's own"):
        ms.database.JSONDatabase(work_dir=tmp_path)
    database = ms.database.JSONDatabase(work_dir=tmp_path, modules=[add_one])
    assert len(database) == 3
    assert structural_equal(database.query_ir_module(renamed, TARGET), schedule(4).mod)
    assert database.query_tuning_record(renamed, "llvm -mcpu=x86-64-v3") is None, "of a candidate that failed"
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    assert "5.0 us): the default was not measured" in compiled_text(database, capsys)


def test_unions_prefer(tmp_path: Path) -> None:
    slow, fast = ms.database.MemoryDatabase(), ms.database.MemoryDatabase()
    slow.commit_tuning_record(record(5e-6))
    fast.commit_tuning_record(record(1e-6))
    assert ms.database.UnionDatabase(slow, fast).query_tuning_record(add_one, TARGET).seconds == 1e-6
    assert ms.database.OrderedUnionDatabase(slow, fast).query_tuning_record(add_one, TARGET).seconds == 5e-6


# ---- builds


def compiled_text(database: ms.Database | None, capsys: Any) -> str:
    with TARGET:
        if database is None:
            unity.build(add_one, TARGET)
        else:
            with database:
                assert ms.Database.current() is database
                unity.build(add_one, TARGET)
    return capsys.readouterr().err


def test_a_build_says_which_record_it_takes(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    database = ms.database.MemoryDatabase()
    assert "MemoryDatabase: no record" in compiled_text(database, capsys)
    database.commit_tuning_record(record(2e-6, default_secs=[3e-6]))
    assert "(trial, 2.0 us): 1.50 times as fast as the default" in compiled_text(database, capsys)
    database.commit_tuning_record(record(3e-6, default_secs=[3e-6], verdict=DEFAULT))
    assert "the default is as fast" in compiled_text(database, capsys)
    assert "MemoryDatabase" not in compiled_text(None, capsys)


def test_records_of_other_machines_are_not_taken(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    database = ms.database.MemoryDatabase()
    database.commit_tuning_record(record(1e-6, features=machine_features(TARGET, threads=77)))
    database.commit_tuning_record(record(1e-6, features=machine_features(Target("llvm -mcpu=x86-64-v4"))))
    assert "no record" in compiled_text(database, capsys)


def test_a_build_with_a_database_is_another_entry_of_the_cache(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    wrong = add_one.script().replace("T.float32(1", "T.float32(2")
    other = unity.script.parse(wrong)
    database = ms.database.MemoryDatabase()
    database.commit_tuning_record(record(1e-6, default_secs=[2e-6], scheduled=Scheduled(other, "another program")))
    x = np.zeros((8, 16), "float32")

    def result() -> float:
        out = np.zeros_like(x)
        unity.build(add_one)["add_one"](x, out)
        return float(out[0, 0])

    database = ms.database.MemoryDatabase()
    database.commit_tuning_record(
        record(1e-6, default_secs=[2e-6], scheduled=Scheduled(other, ""), features=machine_features(Target("llvm")))
    )
    assert result() == 1.0
    with database:
        assert result() == 2.0
    assert result() == 1.0


# ---- processes that die, files that lie

WRITER = """
import sys
import threading
from unity import meta_schedule as ms
from unity.meta_schedule.database.record import TuningRecord
from unity.script import parse
from unity.transform.schedule import Trace
database = ms.database.SQLiteDatabase(sys.argv[1])
workload = database.commit_workload(parse(open(sys.argv[2]).read()))
print("ready", flush=True)
for number in range(10**9):
    database.commit_tuning_record(TuningRecord(Trace(), workload, [float(sys.argv[3]) + number], None))
    print(number, flush=True)
"""


def test_killed_writers_lose_at_most_what_they_were_writing(tmp_path: Path) -> None:
    path, script = tmp_path / "records.db", tmp_path / "program.py"
    script.write_text(add_one.script())
    writers = []
    for place in range(3):
        command = [sys.executable, "-c", WRITER, str(path), str(script), str(place * 1e6 + 1)]
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]))
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    assert writers[0].stdout is not None and writers[0].stdout.readline() == "0\n"
    time.sleep(0.5)
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    said = []
    for writer in writers:
        assert writer.stdout is not None
        numbers = [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        writer.wait()
        said.append(numbers[-1] + 1 if numbers else 0)
    said[0] = max(said[0], 1)  # the line that was read above
    database = ms.database.SQLiteDatabase(path)
    found = [r.seconds for r in database.get_all_tuning_records()]
    assert sqlite3.connect(path).execute("pragma integrity_check").fetchone() == ("ok",)
    for place, count in enumerate(said):
        own = sorted([secs - place * 1e6 - 1 for secs in found if place * 1e6 < secs < place * 1e6 + 1e6])
        assert own == list(range(len(own))) and count <= len(own) <= count + 1


def test_a_new_file_that_many_open_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def open_one(path: Path) -> int:
        together.wait(60)
        database = ms.database.SQLiteDatabase(path)
        try:
            return len(database)
        finally:
            database.close()

    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            assert list(pool.map(open_one, [tmp_path / f"{number}.db"] * 8)) == [0] * 8


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(ScheduleError, match="E461"):
        ms.database.SQLiteDatabase(path)


HOSTILE: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[]",
    "times": {"run_secs": ["fast"]},
    "code": {"program": "import os\nos.system('touch ran')"},
    "a call into C": {"program": add_one.script().replace("A[x, y] + T.float32(1.0)", 'T.call_extern("float32", "getpid")')},
    "another shape": {"program": add_one.script().replace("(8, 16)", "(8, 17)").replace("grid(8, 16)", "grid(8, 17)")},
    "an axis that is none": {"program": add_one.script(), "packed": [[0, [7], 1, [0], 8, 1, 0, 0]]},
    "a place that is none": {"program": add_one.script(), "packed": [[9, [], 1, [0], 8, 1, 0, 0]]},
    "a block of none": {"program": add_one.script(), "packed": [[0, [], 1, [0], 0, 1, 0, 0]]},
    "a line that is too short": {"program": add_one.script().replace("(8, 16)", "(2, 4, 8)"), "packed": [[0, [], 1, [0], 8, 1, 1, 4]]},
    "a primitive that is none": {"trace": {"format": "unity.trace", "version": 1, "insts": [{"kind": "system", "args": {}, "outputs": []}]}},
    "a verdict": {"verdict": "mine"},
    "a target": {"target": "llvm -mcpu=;rm"},
}  # fmt: skip


@pytest.mark.parametrize("lie", HOSTILE, ids=str)
def test_hostile_records_run_nothing(lie: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "records.db"
    database = ms.database.SQLiteDatabase(path)
    database.commit_tuning_record(record(2e-6, default_secs=[4e-6]))
    data = HOSTILE[lie]
    if isinstance(data, dict):
        data = json.dumps({**record(1e-6, default_secs=[4e-6], verdict=KEPT).as_json(), **data})
    row = (
        database.get_all_tuning_records()[0].workload.shash,
        machine_features(TARGET),
        "kept",
        1e-6,
        zlib.compress(data.encode()),
        "",
    )
    connection = sqlite3.connect(path)
    connection.execute(
        "insert into record (shash, features, verdict, seconds, data, digest) values (?, ?, ?, ?, ?, ?)", row
    )
    connection.commit()
    with database:
        executable = unity.build(add_one, TARGET)
    x, out = np.ones((8, 16), "float32"), np.zeros((8, 16), "float32")
    executable["add_one"](x, out)
    assert (out == 2).all() and os.listdir(tmp_path) and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("damage", [b"", b"x", zlib.compress(b"[" * 100_000), zlib.compress(b"\xff\xfe")])
def test_damaged_rows_are_passed_over(damage: bytes, tmp_path: Path) -> None:
    database = ms.database.SQLiteDatabase(tmp_path / "records.db")
    database.commit_tuning_record(record(2e-6))
    connection = sqlite3.connect(tmp_path / "records.db")
    with connection:
        connection.execute("update record set data = ?", (damage,))
    assert database.get_all_tuning_records() == [] and database.query_tuning_record(add_one, TARGET) is None
    with connection:
        connection.execute("update workload set data = ?", (damage,))
    assert database.get_all_tuning_records() == []
