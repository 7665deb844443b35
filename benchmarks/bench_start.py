"""Parsing speed, import time and first result. Run by hand: ``python benchmarks/bench_start.py``."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from unity.script import parse

ROOT = Path(__file__).resolve().parent.parent
KERNEL = """
    @T.prim_func
    def f{k}(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
        for i, j, k in T.grid(128, 128, 128):
            with T.block("mm"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def g{k}(x: R.Tensor((128, 128), "float32"), y: R.Tensor((128, 128), "float32")):
        with R.dataflow():
            lv0 = R.add(x, y)
            lv1 = R.multiply(lv0, y)
            lv2 = R.nn.relu(lv1)
            gv = R.call_dps(f{k}, (lv2, y), R.Tensor((128, 128), "float32"))
            R.output(gv)
        return gv
"""


def module_text(kernels: int) -> str:
    """A module of about 22 lines per kernel."""
    return "@I.ir_module\nclass M:" + "".join(KERNEL.format(k=k) for k in range(kernels))


def cpu(call, repeat: int = 5) -> float:
    """Least CPU seconds of some calls."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def process_seconds(command: list[str], environment: dict[str, str], repeat: int = 5) -> tuple[float, float]:
    """Median wall and CPU seconds of a process whose modules Python has compiled before (as after an installation)."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    walls, cpus = [], []
    for _ in range(repeat):
        start, before = time.perf_counter(), os.times()
        subprocess.run(command, check=True, capture_output=True, env={**inherited, **environment}, cwd=ROOT)
        walls.append(time.perf_counter() - start)
        after = os.times()
        cpus.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Print the figures."""
    for kernels in (5, 45, 450):
        text = module_text(kernels)
        lines = text.count("\n")
        mod = parse(text)
        read, written = cpu(lambda text=text: parse(text), 3), cpu(mod.script, 3)
        print(
            f"{lines:6} lines: parse {read * 1e3:7.1f} ms ({read / lines * 1e6:5.1f} us a line), print {written * 1e3:6.1f} ms"
        )
    python = sys.executable
    path = {"PYTHONPATH": str(ROOT)}
    bare, _ = process_seconds([python, "-c", "pass"], path)
    print(f"import unity: {(process_seconds([python, '-c', 'import unity'], path)[0] - bare) * 1e3:.0f} ms")
    example = [python, "examples/main_job.py"]
    process_seconds(example, path, 1)
    colds = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            colds.append(process_seconds(example, {**path, "UNITY_CACHE": folder}, 1))
    wall, used = [statistics.median(values) for values in zip(*colds, strict=True)]
    print(f"main job, process start to end: cold {wall:.2f} s ({used:.2f} s of CPU time)", end=", ")
    wall, used = process_seconds(example, path)
    print(f"warm {wall:.2f} s ({used:.2f} s of CPU time)")


if __name__ == "__main__":
    main()
