"""The plain-loop matrix product against TVM's default build of the same loops, interleaved in one process, one thread.

Needs the extra ``peers``. Run by hand: ``python benchmarks/bench_tvm.py [size ...]``.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

os.environ.setdefault("UNITY_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import tvm

import unity
import unity.script

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer(({n}, {n}), "float32"), W: T.Buffer(({n}, {n}), "float32"), Y: T.Buffer(({n}, {n}), "float32")):
        for i, j, p in T.grid({n}, {n}, {n}):
            with T.block("mm"):
                vi, vj, vp = T.axis.remap("SSR", [i, j, p])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vp] * W[vp, vj]
"""


def seconds(call, *arguments) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def main(sizes: list[int]) -> None:
    """Print one line per size: medians of five interleaved calls, outputs checked."""
    for size in sizes:
        mod = unity.script.parse(TEXT.format(n=size))
        ours = unity.VirtualMachine(unity.compile(mod))["main"]
        text = mod.script(dialect="tvm")
        theirs = tvm.compile(tvm.script.from_source(text), target="llvm")["main"]
        rng = np.random.default_rng(0)
        x, w = (rng.standard_normal((size, size)).astype("float32") for _ in range(2))
        y = np.zeros((size, size), "float32")
        on_tvm = [tvm.runtime.tensor(a) for a in (x, w, y)]
        times = [(seconds(ours, x, w, y), seconds(theirs, *on_tvm)) for _ in range(5)]
        np.testing.assert_allclose(y, x @ w, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(on_tvm[2].numpy(), x @ w, rtol=1e-3, atol=1e-3)
        a, b = (statistics.median(side) for side in zip(*times))
        work = 2 * size**3 / 1e9
        print(f"{size:5d}: unity {work / a:7.1f} GFLOP/s, TVM {work / b:7.2f} GFLOP/s, ratio {b / a:.1f}")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [128, 256, 512])
