"""Products and convolutions of bytes and of bfloat16 through ``auto_tensorize`` beside the default rule, and beside the rule
where it copies no operands; one thread, CPU time of calls in turns, results compared. Weights are no constants.

    OMP_NUM_THREADS=1 python benchmarks/bench_tensorize.py [u8s8] [bf16] [--target "llvm -mcpu=cascadelake"]

The target is one that this machine runs; kinds that it has no dot product for are left out. Columns: microseconds of the rule
without copies, of the rule, of the automatic one; (rule without copies / automatic), (rule / automatic): above 1 the automatic
one is faster; its schedule.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.scheduled.measure import build, read, set_num_threads
from unity.ffi.targets.target import Target
from unity.ir.function import PrimFunc
from unity.target.cpu.backend import CPU, machine_of
from unity.tir.schedule.transform import auto_tensorize
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.base import Scheduled
from unity.transform.schedule import Schedule

KINDS = {
    "u8s8": (("uint8", "int8", "int32"), "dot_16x4_vnni_local"),
    "bf16": (("bfloat16", "bfloat16", "float32"), "dot_16x2_bf16_avx512_local"),
}
"""Types of data, weights and sums, and the intrinsic that is put in place."""
PROGRAM = """
@T.prim_func
def main(A: T.Buffer({a}, "{types[0]}"), B: T.Buffer({b}, "{types[1]}"), C: T.Buffer({c}, "{types[2]}")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for {loops} in T.grid({grid}):
        with T.block("C"):
            {axes} = T.axis.remap("{kinds}", [{loops}])
            with T.init():
                C[{output}] = T.{types[2]}(0)
            C[{output}] = C[{output}] + T.Cast("{types[2]}", A[{left}]) * T.Cast("{types[2]}", B[{right}])
"""
Form = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], str, str, str, str]
"""Shapes of A, B and C, extents and kinds of the iterators v0, v1, ..., indices of C, A and B."""


def product(m: int, n: int, k: int) -> Form:
    return (m, k), (k, n), (m, n), (m, n, k), "SSR", "v0, v1", "v0, v2", "v2, v1"


def turned(m: int, n: int, k: int) -> Form:
    return (k, m), (n, k), (m, n), (m, n, k), "SSR", "v0, v1", "v2, v0", "v1, v2"


def batch(b: int, m: int, n: int, k: int) -> Form:
    return (b, m, k), (b, k, n), (b, m, n), (b, m, n, k), "SSSR", "v0, v1, v2", "v0, v1, v3", "v0, v3, v2"


def conv(size: int, c: int, o: int, k: int, stride: int = 1) -> Form:
    i = (size - 1) * stride + k
    left = f"v0, v1 * {stride} + v4, v2 * {stride} + v5, v6"
    shapes = (1, i, i, c), (k, k, c, o), (1, size, size, o)
    return *shapes, (1, size, size, o, k, k, c), "SSSSRRR", "v0, v1, v2, v3", left, "v4, v5, v6, v3"


def channels_first(size: int, c: int, o: int, k: int) -> Form:
    shapes = (1, c, size + k - 1, size + k - 1), (o, c, k, k), (1, o, size, size)
    left, right = "v0, v4, v2 + v5, v3 + v6", "v1, v4, v5, v6"
    return *shapes, (1, o, size, size, c, k, k), "SSSSRRR", "v0, v1, v2, v3", left, right


FORMS = {
    "512 x 512 x 512": product(512, 512, 512), "1024 x 1024 x 1024": product(1024, 1024, 1024),
    "128 x 768 x 768": product(128, 768, 768), "197 x 768 x 768": product(197, 768, 768),
    "128 x 768 x 3072": product(128, 768, 3072), "256 x 1000 x 512": product(256, 1000, 512),
    "100 x 100 x 100": product(100, 100, 100), "255 x 257 x 250": product(255, 257, 250),
    "1023 x 1023 x 1023": product(1023, 1023, 1023), "both turned, 256 x 512 x 256": turned(256, 512, 256),
    "12 of 128 x 128 x 64": batch(12, 128, 128, 64),
    "3x3, 56, 64 to 64": conv(56, 64, 64, 3), "3x3, 28, 128 to 128": conv(28, 128, 128, 3),
    "3x3, 14, 256 to 256": conv(14, 256, 256, 3), "3x3, 7, 512 to 512": conv(7, 512, 512, 3),
    "1x1, 56, 64 to 256": conv(56, 64, 256, 1), "1x1, 14, 1024 to 256": conv(14, 1024, 256, 1),
    "3x3 / 2, 28, 128 to 128": conv(28, 128, 128, 3, 2), "1x1 / 2, 28, 256 to 512": conv(28, 256, 512, 1, 2),
    "7x7 / 2, 112, 3 to 64": conv(112, 3, 64, 7, 2), "3x3, 56, 3 to 32": conv(56, 3, 32, 3),
    "3x3, 28, 30 to 64": conv(28, 30, 64, 3), "channels first, 28, 64 to 64": channels_first(28, 64, 64, 3),
}  # fmt: skip


def program(form: Form, types: tuple[str, ...]) -> PrimFunc:
    """A sum of products."""
    a, b, c, grid, kinds, output, left, right = form
    loops, axes = [", ".join([f"{letter}{k}" for k in range(len(grid))]) for letter in "iv"]
    extents = ", ".join(map(str, grid))
    return read(
        PROGRAM.format(
            a=a, b=b, c=c, types=types, loops=loops, axes=axes, grid=extents, kinds=kinds, output=output, left=left,
            right=right,
        )
    )  # fmt: skip


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return rng.standard_normal(shape, "float32").astype(ml_dtypes.bfloat16)
    return rng.integers(*((0, 256) if dtype == "uint8" else (-128, 128)), shape).astype(dtype)


def decided(fn: PrimFunc, **decisions: int) -> PrimFunc:
    sch = Schedule(fn)
    sch.annotate("C", "schedule", decisions)
    return sch.mod.prim_funcs()["main"]


def automatic(fn: PrimFunc, intrinsic: str) -> PrimFunc:
    sch = Schedule(fn)
    auto_tensorize(sch, sch.get_block("C"), intrinsic)
    return sch.mod.prim_funcs()["main"]


def least(calls: list[Callable[[], None]], seconds: float) -> list[float]:
    """The least CPU time of each function, called in turns."""
    found = [math.inf] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, call in enumerate(calls):
            start = time.process_time()
            call()
            found[k] = min(found[k], time.process_time() - start)
    return found


def line(name: str, form: Form, kind: str, target: Target) -> float:
    """Print a line of the table; the last ratio."""
    types, intrinsic = KINDS[kind]
    fn, rng = program(form, types), np.random.default_rng(0)
    a, b = [values(rng, shape, dtype) for shape, dtype in zip(form[:2], types)]
    outputs, calls, made = [], [], []
    slow = intrinsic in machine_of(target).slow_intrinsics  # the rule would rather do without
    ruled = decided(fn, instruction=0, gather=2) if slow else fn
    for one in (decided(fn, instruction=0, gather=0), ruled, automatic(fn, intrinsic)):
        found = schedule_function("main", one, set(), machine_of(target), CPU.rules)
        made.append(found or Scheduled(one, "loops by passes"))
        kernel, output = build(made[-1].func), np.zeros(form[2], types[2])
        outputs.append(output)
        calls.append(lambda kernel=kernel, output=output: kernel.call(a, b, output))
        calls[-1]()
    for output in outputs:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-3, atol=1e-3 * float(np.abs(outputs[0]).max()))
    apart, rule, own = least(calls, 0.6)
    shown = " ".join([f"{t * 1e6:9.1f}" for t in (apart, rule, own)])
    print(f"{kind} {name:30} {shown} {apart / own:6.2f} {rule / own:6.2f}  {made[-1].reason}", flush=True)
    return rule / own


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--target", default="llvm")
    chosen = parser.parse_args()
    set_num_threads(1)
    with Target(chosen.target) as target:
        for kind in [kind for kind in chosen.kinds if KINDS[kind][1] in machine_of(target).intrinsics]:
            ratios = [line(name, form, kind, target) for name, form in FORMS.items()]
            mean = math.exp(sum([math.log(r) for r in ratios]) / len(ratios))
            print(
                f"{kind}: geometric mean {mean:.3f}, {sum([r >= 0.95 for r in ratios])} of {len(ratios)} at 0.95 or more"
            )
