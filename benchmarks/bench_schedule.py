"""Time of a schedule of 50 steps on a block under three loops, per block, and of a replay of its trace."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from unity.script import parse
from unity.transform.schedule import Schedule

PROGRAM = """
@I.ir_module
class Matmul:
    @T.prim_func
    def main(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32"), D: T.Buffer((1024, 1024), "float32")):
        C = T.alloc_buffer((1024, 1024), "float32")
        for i, j, k in T.grid(1024, 1024, 1024):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(1024, 1024):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))
"""


def loops_only(sch: Schedule) -> None:
    """Splits (every other one with a predicate), reorders and fusions, 50 steps."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    for number in range(5):
        i0, i1 = sch.split(i, [None, 8])
        j0, j1 = sch.split(j, [None, 16 if number % 2 else 15])
        k0, k1 = sch.split(k, [None, 4])
        sch.reorder(i0, j0, k0, i1, k1, j1)
        sch.reorder(i0, i1, j0, j1, k0, k1)
        i, j, k = sch.fuse(i0, i1), sch.fuse(j0, j1), sch.fuse(k0, k1)
        sch.annotate(k, "note", 1)
        sch.unannotate(k, "note")
    sch.parallel(i)


def tiled(sch: Schedule) -> None:
    """Multi-level tiling with caches, 50 steps."""
    block = sch.get_block("C")
    local = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, i1, i2, i3 = sch.split(i, sch.sample_perfect_tile(i, 4, 16, decision=[8, 4, 4, 8]))
    j0, j1, j2, j3 = sch.split(j, sch.sample_perfect_tile(j, 4, 64, decision=[4, 4, 4, 16]))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, 16, decision=[128, 8]))
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    sch.reverse_compute_at(local, j1)
    for index in (0, 1):
        cache = sch.cache_read(block, index, "shared")
        sch.compute_at(cache, k0)
        fused = sch.fuse(*sch.get_loops(cache)[-2:])
        outer, inner = sch.split(fused, [None, 4])
        sch.vectorize(inner)
        sch.annotate(outer, "note", index)
    sch.reverse_compute_inline(sch.get_block("D"))
    sch.annotate(block, "pragma_auto_unroll_max_step", 64)
    ij = sch.fuse(i0, j0)
    sch.parallel(ij)
    sch.vectorize(j3)
    sch.unroll(i3)
    init = sch.decompose_reduction(block, k0)
    sch.vectorize(sch.get_loops(init)[-1])
    while len(sch.trace.insts) < 50:
        sch.get_loops(block)


def measure(apply: Callable[[Schedule], None]) -> None:
    """CPU milliseconds: the median of seven, of the schedule and of the replay of its trace."""
    module = parse(PROGRAM)
    direct, replay, steps = [], [], 0
    for _ in range(7):
        sch = Schedule(module)
        start = time.process_time()
        apply(sch)
        direct.append(time.process_time() - start)
        steps = len(sch.trace.insts)
        again = Schedule(module)
        start = time.process_time()
        sch.trace.apply_to_schedule(again)
        replay.append(time.process_time() - start)
    times = ", ".join(
        [f"{name} {statistics.median(t) * 1e3:.1f} ms" for name, t in (("applied", direct), ("replayed", replay))]
    )
    print(f"{apply.__name__}: {steps} steps, {times} of CPU time")


if __name__ == "__main__":
    for schedule in (loops_only, tiled):
        measure(schedule)
