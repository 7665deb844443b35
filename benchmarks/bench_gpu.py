"""Everything that a machine with a GPU is to be asked in one visit.

    python -m benchmarks.bench_gpu [--quick] [--only NAME ...] [--without PEER ...] [--budget SECONDS] [--jobs N] [--json FILE]
        [--emulated]

What is there; the tests with the marker ``gpu`` on the device; the emulated device against it, instruction by instruction; what a
launch and copies cost; then the table: products, softmax, norms, chains, attention, models, beside torch, torch.compile, Triton and
cuBLAS (``torch.matmul``). Ratios come from one run, peers in turn, medians; outputs are checked before anything is timed. Parts and
rows are named by ``--only`` (parts of names: "there", "tests", "instructions", "launch", "copies", "softmax", ...). What is missing
on the machine is said in its row. ``--emulated`` does all of it at tiny sizes on the emulated device, where times mean nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.clock import Clock  # noqa: E402
from benchmarks.gpu.costs import copies, launch_costs  # noqa: E402
from benchmarks.gpu.instructions import compare  # noqa: E402
from benchmarks.gpu.programs import PROGRAMS  # noqa: E402
from benchmarks.gpu.rows import ABSENT, UNITY, Row, Setting, program_row, reason  # noqa: E402
from benchmarks.gpu.there import what_is_there  # noqa: E402
from unity.ffi.cuda.context import context  # noqa: E402
from unity.ffi.cuda.driver import device_count  # noqa: E402
from unity.target.cuda.arch import ARCHS, DEFAULT_ARCH  # noqa: E402
from unity.testing import emulated_gpu  # noqa: E402

TESTS = ("tests/gpu", "-m", "gpu", "-q", "-p", "no:cacheprovider", "--tb=short", "-n0")
_SECONDS = 1200


def run_tests(quick: bool, emulated: bool) -> dict[str, Any]:
    """The tests with the marker ``gpu``, by pytest where it is; they take the device of the machine themselves."""
    if importlib.util.find_spec("pytest") is None:
        return {"pytest": ABSENT}
    only = ["-k", "test_matrix_and_copy_instructions_give" if emulated else "test_cuda_values or test_devices_emulated"]
    options = [option for option in TESTS if option != "-n0" or importlib.util.find_spec("xdist")]
    command = [sys.executable, "-m", "pytest", *options, *(only if quick or emulated else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"result": f"took longer than {_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    return {"status": done.returncode, "result": lines[-1] if lines else done.stderr[-2000:],
            "failed": [line for line in lines if line.startswith(("FAILED", "ERROR"))]}  # fmt: skip


def peers(emulated: bool) -> tuple[Any, dict[str, Callable[..., Any]], dict[str, str]]:
    """torch where it has a CUDA device, kernels in Triton, and why they are not there."""
    notes: dict[str, str] = {}
    torch, kernels = None, {}
    if emulated:
        notes["torch"] = notes["Triton"] = f"{ABSENT}: on an emulated device"
        return torch, kernels, notes
    try:
        import torch  # noqa: PLC0415

        if not torch.cuda.is_available():
            torch, notes["torch"] = None, f"{ABSENT}: it sees no CUDA device"
    except ImportError as error:
        notes["torch"] = reason(error)
    try:
        from benchmarks.gpu.triton_kernels import KERNELS as kernels  # noqa: PLC0415
    except Exception as error:  # a Triton of another version
        notes["Triton"] = reason(error)
    return torch, kernels if torch is not None else {}, notes


def table(setting: Setting, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """The rows that are asked for, each when it is measured."""
    for program in PROGRAMS:
        for size in program.sizes[setting.size]:
            if wanted(f"{program.name} {size}"):
                try:
                    yield program_row(program, size, setting)
                except Exception as error:  # such as memory: the other rows go on
                    yield Row(f"{program.name} {size}", notes={"all": reason(error)})
    if not (wanted("models") or any([wanted(name) for name in ("ResNet-50", "BERT-base", "decode", "perceptron")])):
        return
    try:
        from benchmarks.gpu.models import MODELS, model_row  # noqa: PLC0415
    except ImportError as error:
        yield Row("models", notes={"all": reason(error)})
        return
    for model in MODELS:
        if setting.size in model.sizes and (wanted(model.name) or wanted("models")):
            try:
                yield model_row(model, setting)
            except Exception as error:  # as above
                yield Row(model.name, notes={"all": reason(error)})


def shown(row: Row) -> str:
    """A row as lines."""
    times = ", ".join([f"{name} {1e6 * taken:,.1f} us" for name, taken in row.seconds.items()])
    ratios = ", ".join([f"{ratio:.2f} x {name}" for name, ratio in row.ratios().items()])
    aims = ", ".join([f"{aim:g} x {name}" for name, aim in row.wanted.items()])
    head = f"{row.name}: {times or 'not measured'}" + (f"; {row.rate}" if row.rate else "")
    notes = "".join([f"\n    {name}: {note}" for name, note in row.notes.items()])
    return head + (f"\n    {ratios} (aim: {aims})" if ratios else "") + notes


def own_arch(name: str) -> str:
    """The architecture to compile for on a device that calls itself ``name``: its own where it is known, else the default."""
    return f"{name}a" if f"{name}a" in ARCHS else name if name in ARCHS else DEFAULT_ARCH


def bench(
    quick: bool,
    emulated: bool,
    only: list[str],
    without: tuple[str, ...] = (),
    budget: float = 0,
    jobs: int = os.cpu_count() or 1,
    mode: str = "max-autotune",
) -> dict[str, Any]:
    """All parts asked for, printed as they come; the same as data."""

    def wanted(name: str) -> bool:
        return not only or any([part.lower() in name.lower() for part in only])

    def part(name: str, make: Callable[[], dict[str, Any]]) -> None:
        if not wanted(name):
            return
        try:
            found[name] = make()
        except Exception as error:  # a part that fails takes no other with it
            found[name] = {"failed": reason(error)}
        print(f"\n## {name}")
        for key, value in found[name].items():
            several = isinstance(value, list)
            print(f"{key}: {len(value) if several else f'{value:,.4g}' if isinstance(value, float) else value}")
            for line in value if several else ():
                print(f"    {line}")
        sys.stdout.flush()

    found: dict[str, Any] = {"emulated": emulated}
    size = "tiny" if emulated else "quick" if quick else "full"
    in_force: Any = emulated_gpu("sm_80", races=False, traffic=False) if emulated else nullcontext()
    with in_force:
        part("there", what_is_there)
        if not device_count():
            print(f"\nThere is no CUDA device here; --emulated runs all of it on the emulated one. unity is {ABSENT}.")
            return found
        part("tests", lambda: run_tests(quick, emulated))
        part("instructions", lambda: compare(emulated, quick, jobs))
        torch, kernels, notes = peers(emulated)
        first = context(0)
        clock, target = Clock(first), f"cuda -arch={own_arch(first.arch)}"
        part("launch", lambda: launch_costs(first, target, torch, emulated))
        part("copies", lambda: copies(first, clock, emulated, quick))
        setting = Setting(first, clock, target, torch, kernels, size, 0 if emulated else budget or (0.5 if quick else 1.5),
                          1 if emulated else 5 if quick else 15, notes, without, mode)  # fmt: skip
        print("\n## table")
        found["table"] = []
        for row in table(setting, wanted):
            print(shown(row), flush=True)
            found["table"].append({"name": row.name, "seconds": row.seconds, "ratios": row.ratios(), "wanted": row.wanted,
                                   "rate": row.rate, "notes": row.notes})  # fmt: skip
        ours = sum([UNITY in row["seconds"] for row in found["table"]])
        print(f"\n{ours} of {len(found['table'])} rows have a time of unity.")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one size of each, fewer rounds")
    parser.add_argument("--emulated", action="store_true", help="tiny sizes on the emulated device")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="parts of the names of parts and rows")
    parser.add_argument(
        "--without", nargs="*", default=[], metavar="PEER", help="peers that are not asked: torch.compile, Triton"
    )
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="of timing for each row")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes that compare instructions"
    )
    parser.add_argument("--mode", default="max-autotune", help="of torch.compile for models")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    found = bench(
        options.quick,
        options.emulated,
        options.only,
        tuple(options.without),
        options.budget,
        options.jobs,
        options.mode,
    )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
