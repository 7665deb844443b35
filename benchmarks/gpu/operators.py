"""Single operators on a CUDA device beside torch eager: the cases of ``benchmarks/operators``, each checked first.

    python -m benchmarks.gpu.operators [--only REGEX] [--jobs N] [--size large|small] [--json FILE] [--built FOLDER]
    python -m benchmarks.gpu.operators --build FOLDER

``--build`` builds the programs alone, on any machine, for ``--built``. Both sides are captured as CUDA graphs of several calls, so
that what launches cost the host is in neither; what cannot be captured is called. Processes build and check side by side, one at a
time measures. Rows are printed slowest first.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
CALLS = 5
"""Calls of a graph."""
ROUNDS = 5


def captured(torch: Any, run: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
    """A way to call ``run`` several times at once, and how often it does."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            kept = [run() for _ in range(CALLS)]
    except Exception:  # it waits for the host
        torch.cuda.synchronize()
        return run, 1
    return lambda: (graph.replay(), kept)[0], CALLS


def seconds(torch: Any, run: Callable[[], Any], calls: int, times: int) -> float:
    """Seconds of a call by the device's events."""
    begin, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / times / calls


def stored(case: Any, size: str) -> str:
    """The name of a program's file."""
    return re.sub(r"[^a-z0-9]+", "_", f"{case.group} {case.name} {size}".lower()) + ".unity"


def build(torch: Any, cases: list[Any], size: str, folder: Path) -> None:
    """Build the programs of cases into a folder, for sm_90a and for the devices before it."""
    import unity  # noqa: PLC0415 - as below
    from benchmarks.operators.case import seed  # noqa: PLC0415
    from benchmarks.operators.measure import _Model  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        seed()
        try:
            with torch.no_grad():
                made = unity.compile(
                    _Model(case.fn).eval(),
                    example_inputs=getattr(case, size)(),
                    target="cuda -arch=sm_90a -cubin=sm_90a",
                )
            made.save(folder / stored(case, size))
        except Exception as error:  # it is a row of the table later
            print(f"failed: {case.name}: {error}")


def measure(torch: Any, case: Any, size: str, target: str, lock: Any, built: Path | None) -> dict[str, Any]:
    """A row of the table."""
    import unity  # noqa: PLC0415 - once the process has chosen its device
    from benchmarks.operators.case import seed  # noqa: PLC0415
    from benchmarks.operators.measure import _differs, _Model  # noqa: PLC0415

    seed()
    row: dict[str, Any] = {"name": case.name, "group": case.group, "unity": 0.0, "torch": 0.0, "failed": "", "how": ""}
    inputs = tuple([value.cuda() for value in getattr(case, size)()])
    model = _Model(case.fn).eval()
    with torch.no_grad():
        expected = model(*inputs)
        if built is None:
            compiled = unity.compile(model, example_inputs=inputs, target=target)
        else:
            compiled = unity.load_model(built / stored(case, size))
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            found = compiled(*inputs)
            host = torch.utils._pytree.tree_map(
                lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, (found, expected)
            )
            row["failed"] = _differs(*host)
            if row["failed"]:
                return row
            ways = [captured(torch, lambda f=f: f(*inputs)) for f in (compiled, model)]
            once = sum([seconds(torch, run, 1, 2) for run, _ in ways])
            times = max(1, int(0.02 / ROUNDS / once))
            taken = [[seconds(torch, run, calls, times) for run, calls in ways] for _ in range(ROUNDS)]
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
    row["unity"], row["torch"] = [statistics.median(column) for column in zip(*taken)]
    row["how"] = "" if all([calls == CALLS for _, calls in ways]) else "called"
    return row


def child(options: argparse.Namespace) -> None:
    """The cases of one process; a line of JSON for each."""
    import torch  # noqa: PLC0415

    from benchmarks.bench_gpu import own_arch  # noqa: PLC0415
    from benchmarks.operators import elementwise, images, manipulate, reduction  # noqa: PLC0415
    from unity.ffi.cuda.context import context  # noqa: PLC0415
    from unity.support.errors import UnityError  # noqa: PLC0415

    torch.set_num_threads(1)
    part, parts = options.part
    cases = [*elementwise.CASES, *reduction.CASES, *manipulate.CASES, *images.CASES]
    cases = [case for case in cases if re.search(options.only, case.name)][part::parts]
    if options.build is not None:
        build(torch, cases, options.size, options.build)
        return
    target = f"cuda -arch={own_arch(context(0).arch)}"
    with Path(options.lock).open("w") as lock:
        for case in cases:
            try:
                row = measure(torch, case, options.size, target, lock, options.built)
            except Exception as error:  # what fails is a row of the table
                first = (str(error).strip().splitlines() or [""])[0]
                row = {"name": case.name, "group": case.group, "unity": 0.0, "torch": 0.0, "how": "",
                       "failed": f"{type(error).__name__}: {first[:150]}"}  # fmt: skip
                print(json.dumps(row), flush=True)
                if isinstance(error, UnityError) and error.code == "E737":
                    raise
                continue
            print(json.dumps(row), flush=True)


def main() -> None:
    """Measure what was asked for, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression that a case's name has; all by default")
    parser.add_argument("--size", choices=("large", "small"), default="large")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--build", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--built", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--part", type=int, nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--lock", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part is not None:
        child(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.gpu.operators", "--only", options.only, "--size", options.size]
        command += ["--lock", str(Path(folder, "lock"))]
        for name, value in (("--build", options.build), ("--built", options.built)):
            command += [name, str(value.resolve())] if value is not None else []
        outs = [Path(folder, f"{number}.jsonl") for number in range(options.jobs)]
        children = []
        for number, out in enumerate(outs):
            with out.open("w") as to:
                children.append(
                    subprocess.Popen([*command, "--part", str(number), str(options.jobs)], cwd=ROOT, stdout=to)
                )
        try:
            for process in children:
                process.wait()
        except KeyboardInterrupt:  # what was measured is shown
            for process in children:
                process.terminate()
        rows = [json.loads(line) for out in outs for line in out.read_text().splitlines() if line.startswith("{")]
    good = sorted([row for row in rows if not row["failed"]], key=lambda row: row["torch"] / row["unity"])
    for row in good:
        ratio = row["torch"] / row["unity"]
        print(f"{ratio:8.2f} {1e6 * row['unity']:10.1f} us {1e6 * row['torch']:10.1f} us  {row['name']} {row['how']}")
    for row in [row for row in rows if row["failed"]]:
        print(f"failed: {row['name']}: {row['failed']}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
