"""Plain loops: float32 matrix product without a schedule, one thread, against numpy.

Run by hand: ``python benchmarks/bench_matmul.py [size ...]``. TVM 0.27's default build reaches 2 GFLOP/s at 512.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.pool import pool_symbols
from unity.ffi.targets.target import Target
from unity.ir.module import IRModule
from unity.script import parse
from unity.target.cpu.codegen import build_kernels
from unity.transform.default_schedule.apply import schedule_nests
from unity.transform.tir.pipeline import lower_prim_funcs

SOURCE = """
from unity.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def matmul(x: T.handle, w: T.handle, y: T.handle):
        n, k, m = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (n, k), "float32")
        W = T.match_buffer(w, (k, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j, p in T.grid(n, m, k):
            with T.block("mm"):
                vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]
"""


def best_time(call: Callable[..., object], *arguments: object) -> float:
    """Least seconds of ten calls."""
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        call(*arguments)
        best = min(best, time.perf_counter() - start)
    return best


def main(sizes: list[int]) -> None:
    """Print one line per size."""
    functions = parse(SOURCE).prim_funcs()
    start = time.perf_counter()
    library = build_kernels(lower_prim_funcs(schedule_nests(IRModule(functions)).prim_funcs()), Target("llvm"))
    print(f"compiled in {(time.perf_counter() - start) * 1e3:.0f} ms (0 when cached)")
    engine = Engine(pool_symbols())
    engine.add_object(library.object)
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(engine.address(library.symbols["matmul"]))
    for size in sizes:
        rng = np.random.default_rng(0)
        x, w = (rng.standard_normal((size, size)).astype("float32") for _ in range(2))
        y = np.zeros((size, size), "float32")
        arguments = (x.ctypes.data, w.ctypes.data, y.ctypes.data, size, size, size)
        ours = best_time(kernel, *arguments)
        numpy = best_time(np.matmul, x, w)
        error = np.abs(y - x @ w).max()
        work = 2 * size**3 / 1e9
        print(
            f"{size:5d}: {work / ours:7.1f} GFLOP/s, numpy {work / numpy:7.1f}, ratio {numpy / ours:.2f}, error {error:.1e}"
        )


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [128, 256, 512, 1024])
