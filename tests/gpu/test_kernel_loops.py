"""Loops and index arithmetic of kernels: 32 bits where they hold every index, unrolled loops left to LLVM but where an instruction is
told the turn."""

from __future__ import annotations

import pytest

from unity import Target
from unity.ir.module import IRModule
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.target.cuda.codegen import write_programs
from unity.transform.tir.loops.unroll_loop import unroll_loop


def lowered(text: str) -> IRModule:
    return GPU_PIPELINE(IRModule({"main": parse(text)}, {}, {}))


@pytest.mark.parametrize(("rows", "small"), [(65536, True), (65537, False)])
def test_indices_are_counted_in_32_bits_where_they_fit(rows: int, small: bool) -> None:
    module = lowered(f"""
@T.prim_func
def main(A: T.Buffer(({rows}, 32768), "float32"), B: T.Buffer(({rows}, 32768), "float32")):
    for row in T.thread_binding({rows}, thread="blockIdx.x"):
        for step in range(128):
            for lane in T.thread_binding(256, thread="threadIdx.x"):
                B[row, step * 256 + lane] = A[row, 32767 - step * 256 - lane]
""")
    text = write_programs(module.prim_funcs(), Target("cuda -arch=sm_80")).device.text
    assert ("mul nsw i32" in text) is small is ("mul nsw i64" not in text)


def test_a_loop_is_written_out_where_an_instruction_is_told_its_turn() -> None:
    def loops(value: str) -> str:
        func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in T.unroll(4):
        A[i] = {value}
""")
        return str(unroll_loop.with_options(explicit=False).on(func).script())

    assert '"unroll": 4' in loops("A[i] + T.float32(1)")
    assert '"unroll"' not in loops("T.tvm_warp_shuffle(T.uint32(255), A[i], i, 32, 32)")
