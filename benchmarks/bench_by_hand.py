"""Matrix products scheduled by primitives (``scheduled/by_hand.py``) beside torch, one thread, process time of interleaved calls.

    OMP_NUM_THREADS=1 python benchmarks/bench_by_hand.py [float32] [bfloat16]

bfloat16 uses AMX tiles where the processor has them, else dot products of pairs.
Columns: our median, torch's median, torch / ours (above 1: ours is faster), GFLOP/s, largest difference over the largest value.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.scheduled.by_hand import bfloat16, bfloat16_tiles, float32
from benchmarks.scheduled.measure import build, set_num_threads
from unity.ffi.targets.target import runnable_processor

SIZES = (512, 1024, 2048)
WORK = 1e10
"""Multiplications per measurement."""


def timed(call: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    call()
    return time.process_time() - start


def product(kind: str, n: int) -> None:
    """One line of the table."""
    pairs = bfloat16_tiles if "amx-bf16" in runnable_processor().features else bfloat16
    kernel = build((float32 if kind == "float32" else pairs)(n, n, n).mod["main"])
    dtype = np.dtype("float32") if kind == "float32" else np.dtype(ml_dtypes.bfloat16)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32).astype(dtype) for _ in range(2))
    out = np.zeros((n, n), dtype)
    x, y = (
        (torch.from_numpy(v.view(np.int16)).view(torch.bfloat16) if dtype.itemsize == 2 else torch.from_numpy(v))
        for v in (a, b)
    )
    wanted = torch.empty_like(x)
    ours, theirs = [], []
    for _ in range(max(5, min(60, int(WORK / n**3)))):
        ours.append(timed(lambda: kernel.call(a, b, out)))
        theirs.append(timed(lambda: torch.mm(x, y, out=wanted)))
    mine, peer = statistics.median(ours), statistics.median(theirs)
    found = wanted.float().numpy()
    error = np.abs(out.astype("float32") - found).max() / np.abs(found).max()
    name = f"{kind} {n}"
    print(
        f"{name:15} {mine * 1e3:8.2f} ms {peer * 1e3:8.2f} ms {peer / mine:6.2f} {2 * n**3 / mine / 1e9:7.0f}  {error:.1e}"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    set_num_threads(1)
    for kind in sys.argv[1:] or ("float32", "bfloat16"):
        for n in SIZES:
            product(kind, n)
