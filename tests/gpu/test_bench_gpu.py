"""The script for a machine with a GPU, on the emulated device."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT))

from benchmarks import bench_gpu  # noqa: E402
from benchmarks.gpu.instructions import differences, results_of, scalar_kernels  # noqa: E402
from benchmarks.gpu.programs import PROGRAMS  # noqa: E402
from unity.testing import emulated_gpu  # noqa: E402

pytestmark = pytest.mark.gpu


def asked(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the script writes."""
    bench_gpu.main([*arguments, "--json", str(folder / "found.json")])
    found = json.loads((folder / "found.json").read_text())
    assert isinstance(found, dict)
    return found


def test_every_part_at_tiny_sizes(tmp_path: Path) -> None:
    names = [program.name for program in PROGRAMS]
    found = asked(tmp_path, "--emulated", "--quick", "--only", "there", "instructions", "launch", "copies", *names)
    assert found["there"]["device"].startswith("Emulated")
    assert found["instructions"]["instructions"] > 30
    assert not found["instructions"]["differences"] and not found["instructions"]["failed"]
    assert found["launch"]["machine code, us a launch"] > 0 and len(found["copies"]) == 5
    assert [row["name"].rsplit(" ", 1)[0] for row in found["table"]] == names
    for row in found["table"]:
        assert row["seconds"].keys() == {"unity"} and row["notes"]["torch"].startswith("not there"), row


def test_models(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (row,) = asked(tmp_path, "--emulated", "--only", "perceptron")["table"]
    assert row["seconds"]["unity"] > 0, row


def test_without_a_device_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(bench_gpu, "device_count", lambda: 0)
    assert asked(tmp_path, "--only", "there").keys() == {"emulated", "there"}
    assert "There is no CUDA device here" in capsys.readouterr().out


def test_a_wrong_result_is_a_note_and_not_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(PROGRAMS[2]), "expected", lambda self, inputs: self.reference(*inputs) * 2)
    (row,) = asked(tmp_path, "--emulated", "--only", "softmax")["table"]
    assert not row["seconds"] and "values differ" in row["notes"]["unity"]


def test_an_instruction_that_differs_is_listed() -> None:
    (kernel,) = scalar_kernels(["int32"], 1)
    mine = results_of(kernel, emulated_gpu, "sm_80")
    other = {kind: [array.copy() for array in arrays] for kind, arrays in mine.items()}
    place = kernel.results["int32"].index("X[tx] * Y[tx]")
    other["int32"][0][32 * place + 5] += 1
    (line,) = differences(kernel, mine, other)
    assert "X[tx] * Y[tx]" in line and "1 of 32" in line
