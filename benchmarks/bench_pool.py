"""Cost of a parallel region, idle and with a busy second process on the machine.

Run: ``python benchmarks/bench_pool.py``.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time

import numpy as np

from unity.ffi.machine_code.engine import Engine
from unity.ffi.native.pool import ensure_pool, num_threads, pool_symbols

KERNELS = """
declare i32 @unity_parallel_for(ptr, ptr, i64, i64)

; a chain of dependent multiplications: about 4 cycles an element, one store a chunk
define i32 @work(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %x = phi i64 [ %begin, %entry ], [ %z, %loop ]
  %y = mul i64 %x, 6364136223846793005
  %z = add i64 %y, %i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  %p = getelementptr i64, ptr %ctx, i64 %begin
  store i64 %z, ptr %p
  ret i32 0
}

define void @regions(ptr %ctx, i64 %total, i64 %chunk, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %status = call i32 @unity_parallel_for(ptr @work, ptr %ctx, i64 %total, i64 %chunk)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""


def busy() -> None:
    """Use one core until killed."""
    while True:
        pass


def region_times(regions: ctypes._CFuncPtr, total: int, chunk: int, count: int, repeats: int) -> list[float]:
    """Microseconds per region, sorted."""
    array = np.zeros(total, np.int64)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        regions(array.ctypes.data, total, chunk, count)
        times.append((time.perf_counter() - start) / count * 1e6)
    return sorted(times)


def main() -> None:
    """Print one line per case."""
    ensure_pool()
    engine = Engine(symbols=pool_symbols()).add_ir(KERNELS)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    regions = signature(engine.address("regions"))
    print(f"{num_threads()} threads, {os.cpu_count()} cores; microseconds per region: median, worst of the repeats")
    for label, total, chunk, count in (
        ("empty, 2 chunks", 2, 1, 1000),
        ("empty, 8 chunks", 8, 1, 1000),
        ("20,000 steps, 8 chunks", 20_000, 2_500, 200),
        ("20,000 steps, 2 chunks", 20_000, 10_000, 200),
        ("20,000 steps, serial", 20_000, 20_000, 200),
    ):
        times = region_times(regions, total, chunk, count, 30)
        print(f"{label:28} idle machine: {times[len(times) // 2]:8.2f} {times[-1]:8.2f}")
    process = multiprocessing.get_context("spawn").Process(target=busy, daemon=True)
    process.start()
    time.sleep(1.0)
    for label, total, chunk, count in (("empty, 8 chunks", 8, 1, 200), ("20,000 steps, 8 chunks", 20_000, 2_500, 50)):
        times = region_times(regions, total, chunk, count, 50)
        print(f"{label:28} busy process: {times[len(times) // 2]:8.2f} {times[-1]:8.2f}")
    process.kill()


if __name__ == "__main__":
    main()
