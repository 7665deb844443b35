"""The command line, run as a function and once as a process."""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from pathlib import Path

import pytest

import unity
from unity.cli.main import FAILED, FINE, USAGE, build_parser, main
from unity.ffi.targets.target import default_target
from unity.meta_schedule.database.sqlite_file import SQLiteFile
from unity.script import parse
from unity.support.errors import OptionError
from unity.support.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        y: R.Tensor((n, 4), "float32") = R.add(x, x)
        return y
"""
OLD = """\
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_tir("my.f", (x,), out_sinfo=R.Tensor((4,), "float32"))
        return y
"""
BAD = """\
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.nn.rellu(x)
    z = R.add(x, unknown)
    return x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.py"


def test_print_writes_canonical_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("@R.function\ndef f(x: R.Tensor((4,), 'float32')):\n    return R.exp(R.exp(x))\n")
    assert main(["print", str(file)]) == FINE
    out = capsys.readouterr().out
    assert out.count("R.exp(") == 2 and parse(out) is not None


def test_print_tvm_dialect_and_color(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(OLD)
    assert main(["print", str(file), "--dialect", "tvm"]) == FINE
    assert "R.call_dps_packed(" in capsys.readouterr().out
    assert main(["print", str(file), "--color", "always"]) == FINE
    assert "\x1b[" in capsys.readouterr().out


def test_print_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert main(["print", "-"]) == FINE
    assert capsys.readouterr().out == GOOD


def test_check_prints_every_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(BAD)
    assert main(["check", str(file)]) == FAILED
    err = capsys.readouterr().err
    assert err.count("error[E") == 2 and f"{file}:3:" in err and f"{file}:4:" in err and "2 errors" in err
    assert "Traceback" not in err
    file.write_text(GOOD)
    assert main(["check", str(file)]) == FINE
    assert "fine" in capsys.readouterr().out


def test_check_verifies(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("return y", "return n_undefined"))
    assert main(["check", str(file)]) == FAILED
    assert "error[E" in capsys.readouterr().err


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "e001"]) == FINE
    assert "**Cause.**" in capsys.readouterr().out
    assert main(["explain"]) == FINE
    assert "E001: " in capsys.readouterr().out
    assert main(["explain", "E999"]) == USAGE
    assert "E005" in capsys.readouterr().err


def test_upgrade(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(OLD)
    assert main(["upgrade", str(file), "--check"]) == FAILED
    assert main(["upgrade", str(file), "--diff"]) == FINE
    assert "-        y = R.call_tir(" in capsys.readouterr().out
    assert file.read_text() == OLD
    assert main(["upgrade", str(file), "--in-place"]) == FINE
    assert "call_dps" in file.read_text() and "out_sinfo" not in file.read_text()
    assert main(["upgrade", str(file), "--check"]) == FINE


def test_opt_lists_and_refuses(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == FINE
    file.write_text(GOOD)
    assert main(["opt", str(file)]) == FINE  # the empty pipeline changes nothing
    assert GOOD in capsys.readouterr().out
    file.write_text('@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    return R.exp(x)\n')
    assert main(["opt", str(file), "-p", "legalize_ops"]) == FINE  # a function alone is the module of it
    assert "def exp(" in capsys.readouterr().out
    assert main(["opt", str(file), "-p", "no_such_pass"]) == FAILED
    assert "E502" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["UNITY_DUMP", "UNITY_KEEP", "--work-dir"])
def test_what_cannot_be_a_folder(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder asked for in vain is an error in words."""
    (tmp_path / "plain").write_text("")
    place = str(tmp_path / "plain" / "folder")
    monkeypatch.setenv("UNITY_CACHE", "off")
    with pytest.raises(OptionError, match="cannot be a folder") as caught:
        if option == "--work-dir":
            SQLiteFile(Path(place) / "file")
        else:
            monkeypatch.setenv(option, place)
            unity.compile(parse(GOOD))
    assert caught.value.code == "E001"


@pytest.mark.parametrize("name", [name for name, row in OPTIONS.items() if row.kind is int])
@pytest.mark.parametrize("text", ["-3", "many"])
def test_a_bad_number_is_told_by_builds_of_the_cache_too(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    unity.compile(parse(GOOD))
    monkeypatch.setenv(name, text)
    with pytest.raises(OptionError, match=name) as caught:
        unity.compile(parse(GOOD))
    assert caught.value.code == "E001"


@pytest.mark.parametrize("option", ["mcpu", "mattr", "num-cores"])
def test_an_option_of_a_target_without_its_value(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITY_TARGET", f"llvm -{option}")
    with pytest.raises(OptionError, match=option) as caught:
        default_target()
    assert caught.value.code == "E001"


@pytest.mark.parametrize(
    "arguments",
    [
        ["print", "-"], ["print", "FILE"], ["check", "-"], ["cache", "zz"], ["tune", "--work-off", "/no/such/queue"],
        ["tune", "GOOD", "--op", "nosuch", "--work-dir", "DIR"],
    ],
)  # fmt: skip
def test_what_a_command_cannot_use(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to work on is an error in words, never a silent success."""
    bytes_ = b"\xff\xfe\x00"
    (tmp_path / "bad.py").write_bytes(bytes_)
    (tmp_path / "good.py").write_text(GOOD)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes_)))
    given = {"FILE": "bad.py", "GOOD": "good.py", "DIR": "tuning"}
    assert main([str(tmp_path / given[a]) if a in given else a for a in arguments]) == USAGE
    assert "E004" in capsys.readouterr().err


def test_bad_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["print", "/no/such/file.py"]) == USAGE
    assert "E004" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["frobnicate"])
    assert stopped.value.code == USAGE


def test_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unity", "version"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("unity ")


def test_the_page_has_every_command_with_its_options() -> None:
    rows = (ROOT / "docs" / "command_line.md").read_text().splitlines()
    (commands,) = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for name, parser in commands.choices.items():
        told = " ".join([row for row in rows if row.startswith(f"| `{name}")])
        assert told, name
        for action in parser._actions:
            names = [option for option in action.option_strings if option not in ("-h", "--help")]
            assert not names or any([option in told for option in names]), (name, names)
