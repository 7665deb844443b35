"""The machine's roofline, measured once for each number of threads: arithmetic peak of float32 FMA and the bandwidth of memory.

Source of the model: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..ffi.machine_code.engine import Engine
from ..ffi.machine_code.llvm import CompileOptions
from ..ffi.native.pool import num_threads
from ..ffi.targets.target import runnable_processor

CHAINS = 12
"""Independent accumulators: latency times throughput of FMA on current processors, within 16 registers."""
_ROUNDS = 200_000
_STREAM_BYTES = 1 << 27


@dataclass(slots=True, frozen=True)
class Roofline:
    """``flops``: float32 operations per second of all ``threads``; ``bandwidth``: their bytes per second."""

    flops: float
    bandwidth: float
    threads: int

    def seconds(self, flops: float, moved: float) -> float:
        """The least time of a kernel that does ``flops`` operations and moves ``moved`` bytes."""
        return max(flops / self.flops, moved / self.bandwidth)


def _peak_ir(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    names = range(CHAINS)
    phis = [f"  %a{k} = phi {vector} [ splat (float {k + 1}.0), %entry ], [ %c{k}, %loop ]" for k in names]
    steps = []
    for k in names:
        steps.append(f"  %b{k} = fmul contract {vector} %a{k}, %scale")
        steps.append(f"  %c{k} = fadd contract {vector} %b{k}, %shift")
    sums = [f"  %s{k} = fadd {vector} %s{k - 1}, %c{k}" if k else f"  %s0 = fadd {vector} %c0, %c0" for k in names]
    lines = [
        f"define i32 @peak(i64 %n, ptr %out) \"prefer-vector-width\"=\"{lanes * 32}\" {{", "entry:",
        "  %x = load float, ptr %out", f"  %i0 = insertelement {vector} poison, float %x, i32 0",
        f"  %scale = shufflevector {vector} %i0, {vector} poison, <{lanes} x i32> zeroinitializer",
        f"  %shift = fmul {vector} %scale, splat (float 0.5)", "  br label %loop", "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]", *phis, *steps, "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %n", "  br i1 %more, label %loop, label %done", "done:", *sums,
        f"  %r = extractelement {vector} %s{CHAINS - 1}, i32 0", "  store float %r, ptr %out", "  ret i32 0", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def machine_roofline() -> Roofline:
    """Measure for the threads that parallel loops use now, once for each number of them: the best of a few rounds, about 0.1 s."""
    return _measured(num_threads())


@functools.cache
def _measured(threads: int) -> Roofline:
    lanes = runnable_processor().vector_bytes // 4
    engine = Engine().add_ir(_peak_ir(lanes), CompileOptions())
    peak = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)(engine.address("peak"))
    start = (ctypes.c_float * 1)(0.5)
    best = min([_seconds(lambda: peak(_ROUNDS, ctypes.addressof(start))) for _ in range(5)])
    source = np.ones(_STREAM_BYTES // 2, np.uint8)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    with ThreadPoolExecutor(threads) as pool:
        copy = min([_seconds(lambda: list(pool.map(lambda part: np.copyto(*part), parts))) for _ in range(4)])
    return Roofline(2.0 * lanes * CHAINS * _ROUNDS / best * threads, _STREAM_BYTES / copy, threads)


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
