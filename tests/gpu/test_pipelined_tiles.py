"""Products without tensor cores in pipelines of copies: every tile, layout and type as PTX on the emulated device, whose findings are
races, missing barriers and values nobody wrote; which products the rule takes, and what it says to the assembler."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.target.cuda.codegen import ptx_of, write_programs
from unity.target.cuda.machine import machine_of
from unity.testing import emulated_gpu
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.default_schedule.gpu.products.pipelined_tiles import CHOICES
from unity.transform.default_schedule.gpu.rules import GPU_RULES
from unity.transform.infra.backend import GpuMachine, Machine

PRODUCT = """
@T.prim_func
def main(a: T.handle, b: T.handle, e: T.handle, c: T.handle):
    T.func_attr({{"tir.noalias": True}})
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, ({left}), "{dtype}"); B = T.match_buffer(b, ({right}), "{dtype}")
    E = T.match_buffer(e, ({m},), "{dtype}"); C = T.match_buffer(c, ({n}, {m}), "{dtype}")
    S = T.alloc_buffer(({n}, {m}), "{dtype}")
    for i, j, q in T.grid({n}, {m}, {k}):
        with T.block("S"):
            T.block_attr({{"schedule": {given}}})
            vi, vj, vq = T.axis.remap("SSR", [i, j, q])
            with T.init():
                S[vi, vj] = T.{dtype}(0)
            S[vi, vj] = S[vi, vj] + A[{at_left}] * B[{at_right}]
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = S[vi, vj] + E[vj]
"""


def product(n: Any, m: Any, k: Any, turned: str = "", dtype: str = "float32", **given: int) -> Any:
    """A product with a bias; ``turned`` has "a" and "b" for operands that lie across, ``given`` decisions of the schedule."""
    left, at_left = (f"{k}, {n}", "vq, vi") if "a" in turned else (f"{n}, {k}", "vi, vq")
    right, at_right = (f"{m}, {k}", "vj, vq") if "b" in turned else (f"{k}, {m}", "vq, vj")
    fields = {"n": n, "m": m, "k": k, "left": left, "right": right, "at_left": at_left, "at_right": at_right}
    return parse(PRODUCT.format(**fields, dtype=dtype, given=given))


def scheduled(fn: Any, gpu: GpuMachine | None = None) -> tuple[Any, str]:
    rules = [rule for rule in GPU_RULES if rule.name != "split"]
    found = schedule_function("main", fn, set(), Machine(gpu=gpu or GpuMachine()), rules)
    assert found is not None
    return found.func, found.reason


def run(sizes: tuple[int, int, int], turned: str = "", dtype: str = "float32", symbols: str = "", **given: int) -> str:
    """A product that is right on the emulated device without a finding; how it was scheduled."""
    n, m, k = sizes
    fn = product(*[name if name in symbols else size for name, size in zip("nmk", sizes)], turned, dtype, **given)
    func, reason = scheduled(fn)
    rng = np.random.default_rng(n + m + k)
    a, b, e = [rng.integers(-4, 5, shape).astype(dtype) for shape in ((n, k), (k, m), (m,))]
    put = [np.ascontiguousarray(x.T) if side in turned else x for x, side in ((a, "a"), (b, "b"))]
    program = unity.compile(unity.IRModule({"main": func}), target="cuda -arch=sm_80")
    with emulated_gpu(arch="sm_80") as gpu:
        c = unity.tensor(np.full((n, m), 77, dtype), device=unity.cuda(0))
        unity.VirtualMachine(program, unity.cuda(0))["main"](*put, e, c)
        assert not gpu.findings, gpu.findings
        np.testing.assert_array_equal(c.numpy(), a @ b + e)
    return reason


@pytest.mark.parametrize("symbols", ["", "nmk"])
@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_every_tile(number: int, symbols: str) -> None:
    reason = run((130, 68, 40), symbols=symbols, tile=number)
    assert "in tiles of" in reason and "ahead" in reason


@pytest.mark.parametrize("steps,stages", [(32, 2), (32, 3), (32, 4), (48, 3), (48, 4), (200, 2), (200, 4)])
def test_turns_that_are_fewer_than_the_stages(steps: int, stages: int) -> None:
    run((64, 64, steps), stages=stages, tile=1)


@pytest.mark.parametrize(
    "turned,dtype",
    [("", "float32"), ("ab", "float32"), ("a", "float64"), ("b", "float64"), ("", "int32"), ("ab", "int32")],
)  # each operand lies either way in every type
def test_any_layout_and_type(turned: str, dtype: str) -> None:
    assert "ahead" in run((64, 96, 72), turned, dtype)


@pytest.mark.parametrize("steps", [0, 1, 35])
def test_any_number_of_steps(steps: int) -> None:
    """Of none the result is what it begins with: nothing is read that nobody wrote."""
    run((33, 65, steps), symbols="nmk")


def test_what_the_rule_takes() -> None:
    def reason(n: Any, m: Any, k: Any, gpu: GpuMachine | None = None, **given: int) -> str:
        return scheduled(product(n, m, k, **given), gpu)[1]

    assert reason(4096, 4096, 4096) == "S in tiles of 128 x 128 by 16, copied 3 ahead"
    assert "64 x 128" in reason(1024, 1024, 1024, GpuMachine(processors=132))
    assert "32 x 64" in reason(512, 512, 1024, GpuMachine(processors=132))
    assert "ahead" not in reason(4096, 4096, 8) and "ahead" not in reason(4096, 4096, 4096, pipelined=0)
    assert "ahead" not in reason(4096, 4096, 4096, GpuMachine(capability=75))  # no asynchronous copies
    assert "ahead" in reason("n", "m", "k")


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90a"])
def test_two_blocks_share_a_processor(arch: str) -> None:
    """The kernel says so, and its shared memory leaves room for both; a turn has one barrier; results are written in vectors."""
    target = unity.Target(f"cuda -arch={arch}")
    func, _ = scheduled(product(4096, 4096, 4096), machine_of(target).gpu)
    written = write_programs(GPU_PIPELINE(unity.IRModule({"main": func})).prim_funcs(), target)
    text = ptx_of(written.device, written.arch)
    assert ".minnctapersm 2" in text and "st.global.v4" in text
    assert len(re.findall(r"\bbar(?:rier)?\.sync", text)) == 2  # before the first turn, and in each
