"""The one word for those who want no more: ``unity.compile(tune=)``, ``python -m unity tune``, the passes of the search."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity import meta_schedule as ms
from unity.cli.main import main
from unity.ir.structural import structural_equal
from unity.relax import transform
from unity.script import parse
from unity.support.errors import FrontendError, ScheduleError
from unity.transform import legalize_ops

TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 9), "float32"), y: R.Tensor((9, 5), "float32")):
        z = R.matmul(x, y)
        return z
"""
X, Y = np.arange(27, dtype="float32").reshape(3, 9) % 5, np.arange(45, dtype="float32").reshape(9, 5) % 7


def test_compile_with_trials(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    mod = parse(TEXT)
    assert np.array_equal(unity.compile(mod, tune=3)["main"](X, Y).numpy(), X @ Y)
    said = capsys.readouterr().err
    assert "all tasks" in said and "3" in said
    assert np.array_equal(unity.compile(mod, tune=3)["main"](X, Y).numpy(), X @ Y)
    assert "all tasks" not in capsys.readouterr().err
    database = ms.database.SQLiteDatabase(tmp_path / "tuning.db")
    assert [r.verdict for r in database.get_all_tuning_records()].count("trial") == 3
    monkeypatch.setenv("UNITY_EXPLAIN", "1")
    unity.compile(mod, tune=database)
    assert "tuning.db: record" in capsys.readouterr().err
    unity.compile(mod)
    assert "tuning.db" not in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [0, -1, "all", True, 1.5])
def test_what_is_no_number_of_trials(wrong: Any) -> None:
    with pytest.raises(FrontendError, match="E989"):
        unity.compile(parse(TEXT), tune=wrong)
    with pytest.raises(FrontendError, match="E989"):
        unity.compile(parse(TEXT), tune=4, pipeline="legalize_ops")


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "model.py"
    script.write_text(TEXT)
    command = ["tune", str(script), "--trials", "2", "--work-dir", str(tmp_path / "records")]
    assert main([*command, "--show"]) == 0
    assert "all tasks" in capsys.readouterr().err
    records = ms.database.SQLiteDatabase(tmp_path / "records" / "database.db")
    assert [r.verdict for r in records.get_all_tuning_records()].count("trial") == 2
    assert main([*command, "--resume"]) == 0
    assert [r.verdict for r in records.get_all_tuning_records()].count("trial") == 2
    assert main([*command, "--op", "nothing"]) == 2
    assert "help: programs: matmul" in capsys.readouterr().err
    assert main(["tune", str(script), "--trials", "0"]) == 2


def test_an_interrupt_of_a_command_is_a_word(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    (tmp_path / "model.py").write_text(TEXT)
    monkeypatch.setattr("unity.cli.main.read_script", interrupt)
    assert main(["tune", str(tmp_path / "model.py"), "--trials", "2", "--work-dir", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_the_command_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    """Real builds and runs: what was measured stays, is counted, and does not come again."""
    script, folder, rng = tmp_path / "model.py", tmp_path / "records", random.Random(0)
    script.write_text(TEXT.replace("9", "33"))
    command = [sys.executable, "-m", "unity", "tune", str(script), "--work-dir", str(folder), "--resume", "--trials"]
    database = ms.database.SQLiteDatabase(folder / "database.db")
    for _ in range(2 * TIMES):
        wanted = len(database) + rng.randrange(1, 5)
        with subprocess.Popen([*command, "1000"], stderr=subprocess.DEVNULL) as process:
            while len(database) < wanted:
                assert process.poll() is None, "it ended before"
                time.sleep(0.005)
            time.sleep(rng.random() / 10)
            measured = len(database)
            process.kill()
        assert len(database) == len(database.get_all_tuning_records()) >= measured
    known = len(database)
    assert main([*command[3:], str(known + 2)]) == 0
    trials = [record for record in database.get_all_tuning_records() if record.verdict == "trial"]
    assert len(trials) == known + 2
    assert len({json.dumps(record.trace.as_json()) for record in trials}) == known + 2


def test_a_module_of_open_sizes(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    text = TEXT.replace("(3, 9)", '("n", 9)')
    executable = unity.compile(parse(text), tune=2, example_inputs=(X, Y))
    assert "not tuned" not in capsys.readouterr().err
    for n in (1, 2, 3, 40):
        rows = np.resize(X, (n, 9))
        assert np.array_equal(executable["main"](rows, Y).numpy(), rows @ Y)
    script = tmp_path / "model.py"
    script.write_text(text)
    command = ["tune", str(script), "--trials", "2", "--work-dir", str(tmp_path / "records")]
    assert main([*command, "--size", "n=8"]) == 0
    records = ms.database.SQLiteDatabase(tmp_path / "records" / "database.db").get_all_tuning_records()
    assert {r.args_info[0].shape for r in records} == {(8, 9)}
    assert main(command) == 0
    assert "n is not known" in capsys.readouterr().err
    assert main([*command, "--size", "n"]) == 2 and main([*command, "--size", "m=3"]) == 1


def test_passes(tmp_path: Path, capsys: Any) -> None:
    mod = legalize_ops(parse(TEXT))
    assert transform.MetaScheduleTuneIRMod({}, str(tmp_path), 2)(mod) is mod
    assert "all tasks" in capsys.readouterr().err
    database = ms.database.SQLiteDatabase(tmp_path / "database.db")
    (name,) = mod.prim_funcs()
    workload = ms.database.Workload(mod.prim_funcs()[name])
    sch = unity.Schedule(workload.mod)
    sch.annotate(sch.get_block("matmul"), "schedule", {"vectors": 1})
    fast = ms.database.TuningRecord(sch.trace, workload, [1e-9], unity.Target("llvm"), (), [1e-3], verdict="kept")
    database.commit_tuning_record(fast)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        applied = transform.MetaScheduleApplyDatabase(str(tmp_path), True)(mod)
    assert not structural_equal(applied, mod)
    with database:
        assert structural_equal(transform.MetaScheduleApplyDatabase()(mod), applied)
    assert np.array_equal(unity.build(applied)["main"](X, Y).numpy(), X @ Y)
    with ms.database.MemoryDatabase(), pytest.warns(UserWarning, match=f"{name} has no record in MemoryDatabase"):
        transform.MetaScheduleApplyDatabase(enable_warning=True)(mod)
    with pytest.raises(ScheduleError, match="no database"):
        transform.MetaScheduleApplyDatabase()(mod)
    transform.MetaScheduleTuneTIR(str(tmp_path), 1)(mod)
