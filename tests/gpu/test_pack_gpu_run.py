"""The folder for a machine with a GPU: its runner on the emulated device, in a process that cannot import the compiler's parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_programs import device_function

import unity
from unity.target.cuda.codegen import write_programs
from unity.testing import emulated_gpu
from unity.transform.default_schedule.gpu.products import tensor_cores

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tools"))

import pack_gpu_run  # noqa: E402

pytestmark = pytest.mark.gpu
HIDDEN = ("llvmlite", "lark")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder, and one of packages that refuse to be imported."""
    made = tmp_path_factory.mktemp("packed")
    pack_gpu_run.main([str(made), "--size", "tiny", "--only", "product", "softmax", "--cubins"])
    hide(made / "hidden", HIDDEN)
    return made


def hide(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f'raise ImportError("{name} is hidden")\n')


def run(folder: Path, hidden: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The runner, away from the repository."""
    environment = {**os.environ, "PYTHONPATH": str(hidden), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(folder / "run_packed.py"), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def winners(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(
        folder, folder / "hidden", "--emulated", "--budget", "0", "--write", str(folder / "found.json"), *arguments
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "found.json").read_text())
    assert isinstance(found, list)
    return found


def test_every_variant_is_right_and_one_wins(folder: Path) -> None:
    packed = json.loads((folder / "manifest.json").read_text())["programs"]
    assert [len(row["variants"]) > 1 for row in packed] == [True, True, False]
    for row, found in zip(packed, winners(folder), strict=True):
        assert found["program"] == row["program"] and not found["wrong"] and not found["findings"], found
        runs = {variant["name"] for variant in row["variants"] if not variant["arch"].endswith("a")}  # on an sm_80
        assert found["seconds"].keys() == runs
        assert found["winner"] in found["seconds"]


def test_wrong_variants_are_left_out(folder: Path) -> None:
    """One with wrong arguments, one whose kernel stores outside of its memory and takes the context with it, one without a file."""
    text = (folder / "manifest.json").read_text()
    manifest = json.loads(text)
    (row,) = [row for row in manifest["programs"] if row["program"] == "softmax"]
    (good,) = row["variants"]

    def changed(name: str, **step: Any) -> dict[str, Any]:
        return {**good, "name": name, "steps": [{**good["steps"][0], **step}]}

    grid = [1 << 12, 1, 1]
    row["variants"] = [
        changed("swapped", arguments=[1, 0]),
        changed("outside", blockIdx=grid),
        good,
        {**good, "name": "no file", "ptx": "x"},
    ]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        (found,) = winners(folder, "--only", "softmax")
    finally:
        (folder / "manifest.json").write_text(text)
    assert found["winner"] == good["name"] and found["wrong"].keys() == {"swapped", "outside", "no file"}
    assert "outside the device's memory" in found["wrong"]["outside"]


def test_kernels_of_warpgroups_get_their_tensor_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such code fits one device alone; where it is run, copies by tensor maps find their tensors."""
    monkeypatch.setattr(tensor_cores, "CHOICES", ())
    what = ["--size", "tiny", "--only", "product bfloat16", "--cubins", "--arch"]
    pack_gpu_run.main([str(tmp_path), *what, "sm_75", "sm_90a"])
    hide(tmp_path / "hidden", HIDDEN)
    (row,) = json.loads((tmp_path / "manifest.json").read_text())["programs"]
    names = {v["name"] for v in row["variants"] if v["arch"] == "sm_90a" and v["steps"][0]["maps"]}
    assert len(names) == 2 and not names & winners(tmp_path)[0]["seconds"].keys()
    (found,) = winners(tmp_path, "--emulated", "sm_90a")
    assert names <= found["seconds"].keys() and not found["wrong"] and not found["findings"], found


def test_barriers_have_a_name_that_llvm_20_knows() -> None:
    """``bench_packed.py`` takes the llvmlite that is there, such as numba's: an intrinsic that it does not know becomes a call of a
    function that no driver has."""
    line = 'Y[tx] = X[tx]\nT.tvm_storage_sync("shared")\nY[tx] = X[tx] + X[0]'
    made = write_programs({"kernel": device_function(line, X="float32", Y="float32")}, unity.Target("cuda"))
    assert "llvm.nvvm.barrier0" in made.device.text and "barrier.cta" not in made.device.text


def test_the_runner_needs_numpy_and_the_driver_alone(folder: Path, tmp_path: Path) -> None:
    hide(tmp_path / "more", (*HIDDEN, "ml_dtypes", "torch", "scipy"))
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path / 'more')!r}, {str(folder / 'driver')!r}]\n"
        "from unity.ffi.cuda import context, driver, image, launch, memory, module\n"
        "from benchmarks.gpu import clock, programs\n"
        "assert driver.__file__.startswith(sys.path[1])\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300)


def test_the_script_runs_from_the_folder(folder: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(folder / "bench_packed.py"),
        "--emulated",
        "--only",
        "softmax",
        "--json",
        str(tmp_path / "a.json"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=120, capture_output=True)
    (row,) = json.loads((tmp_path / "a.json").read_text())["table"]
    assert row["seconds"]["unity"] > 0


def test_a_saved_program_of_the_folder_runs(folder: Path) -> None:
    x = np.random.default_rng(0).standard_normal((8, 64)).astype("float16")
    with emulated_gpu():
        vm = unity.VirtualMachine(unity.load(folder / "programs" / "softmax-64.unity"), unity.cuda(0))
        found = vm["main"](x).numpy()
    np.testing.assert_allclose(found.astype("float32").sum(1), 1, atol=1e-2)
