"""Speed of the CPU math library against torch, one thread, on arrays that stay in the cache.

Run from the repository: ``PYTHONPATH=.:tests/target python benchmarks/bench_math.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from math_kernel import math_kernel

COUNT = 32_768

TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "pow": torch.pow, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "atan2": torch.atan2, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "erf": torch.erf, "sigmoid": torch.sigmoid, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "round": torch.round,
    "fmod": torch.fmod, "hypot": torch.hypot,
}  # fmt: skip


def best_time(work: Callable[[], object], seconds: float = 0.03) -> float:
    """Shortest time of one call within a small budget."""
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print nanoseconds per element and the ratio to torch (above 1: this library is faster)."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    print(
        f"{'function':10}"
        + "".join(f"{dtype + ' ns':>14}{'torch ns':>10}{'ratio':>7}" for dtype in ("float32", "float64"))
    )
    for name, reference in TORCH.items():
        line = f"{name:10}"
        for dtype, lanes in (("float32", 16), ("float64", 8)):
            kernel = math_kernel(name, dtype, lanes)
            unit = rng.uniform(0.05, 0.95, COUNT)
            x = (unit + 1 if name == "acosh" else unit if name in ("asin", "acos", "atanh") else unit * 5).astype(dtype)
            arrays = [x, rng.permutation(x)][: kernel.row.arguments]
            out = np.empty_like(x)
            pointers = [array.ctypes.data for array in arrays]
            target = out.ctypes.data
            own = best_time(partial(kernel.call, target, COUNT, *pointers)) / COUNT * 1e9
            tensors = [torch.from_numpy(array) for array in arrays]
            result = torch.from_numpy(out)
            theirs = best_time(partial(reference, *tensors, out=result)) / COUNT * 1e9
            line += f"{own:14.3f}{theirs:10.3f}{theirs / own:7.2f}"
        print(line)


if __name__ == "__main__":
    main()
