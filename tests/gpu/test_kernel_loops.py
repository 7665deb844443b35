"""Loops and index arithmetic of kernels: 32 bits where they hold every index, unrolled loops left to the code generator but where
an instruction is told the turn."""

from __future__ import annotations

import re

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity import Target
from unity.ir.interpret import run
from unity.ir.module import IRModule
from unity.script import parse
from unity.target import GPU_PIPELINE
from unity.target.cuda.codegen import write_programs
from unity.transform.tir.loops.hoist_if_then_else import MARK, hoist_if_then_else
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
    assert '"unroll": 4' in loops('T.ptx_cp_async(A.data, i, A.data, i + 1, 4, i < 3, dtype="float32")')
    assert '"unroll": 4' in loops("T.ptx_ex2(A[i])")
    assert '"unroll"' not in loops("T.tvm_warp_shuffle(T.uint32(255), A[i], i, 32, 32)")


@pytest.mark.parametrize("first, extent", [(0, "n"), (2, "n"), (3, "11"), (0, "8")])
def test_a_loop_runs_some_turns_at_once_and_then_the_rest(first: int, extent: str) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((32,), "int64"), n: T.int64):
    for i in T.serial({first}, {first} + {extent}, annotations={{"unroll": 4}}):
        A[i] = A[i] * 2 + i
""")
    made = unroll_loop.with_options(explicit=False).on(func)
    assert str(made.script()).count('"unroll": 4') == 1 and str(made.script()).count("] * ") == (
        1 if extent == "8" else 2
    )
    for n in (0, 1, 3, 4, 7, 8):
        given, expected = np.arange(32), np.arange(32)
        run(made, None, given, n)
        run(func, None, expected, n)
        assert (given == expected).all()


def test_a_loop_whose_turn_decides_registers_alone_is_left_to_llvm() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float16"), C: T.Buffer((16,), "float32")):
    for i in T.unroll(4):
        T.ptx_mma("m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, i * 4, A.data, i, C.data, i * 4, False, dtype="float32")
""")
    assert '"unroll": 4' in str(unroll_loop.with_options(explicit=False).on(func).script())


@pytest.mark.gpu
def test_what_memory_holds_is_no_part_of_what_is_known_of_an_index() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((64,), "float32")):
    for t in T.thread_binding(2, thread="threadIdx.x"):
        with T.block("b"):
            vt = T.axis.spatial(2, t)
            at = T.alloc_buffer((1,), "int64", scope="local")
            few = T.alloc_buffer((1,), "int32", scope="local")
            few[0] = T.int32(3)
            at[0] = vt * 32
            for i in T.unroll(4):
                B[at[0]] = A[i] + T.Cast("float32", vt)
                B[8 + vt * 32 + i] = T.Select(T.max(T.Cast("int64", few[0]), T.int64(0)) % 4 + i < 5, T.float32(1), T.float32(2))
                at[0] = at[0] + i + 1
""")
    executable = unity.compile(func, target="cuda")
    a, wanted = np.arange(1, 9, dtype="float32"), np.zeros(64, "float32")
    run(func, None, a, wanted)
    with device_or_emulated():
        b = unity.tensor(np.zeros(64, "float32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b)
        assert wanted.any() and (b.numpy() == wanted).all()


def test_addresses_of_bound_indices_differ_in_a_constant() -> None:
    module = lowered("""
@T.prim_func
def main(A: T.Buffer((64, 56, 8), "float32"), B: T.Buffer((64, 56, 8), "float32")):
    for t in T.thread_binding(56, thread="threadIdx.x"):
        for i in T.unroll(16):
            line: T.int64 = i * 4 + t // 14
            B[line, t, 3] = A[line, t, 5]
""")
    text = write_programs(module.prim_funcs(), Target("cuda -arch=sm_80")).device.text
    assert text.count("store float") == 16 and text.count("udiv i32") == 1 and text.count("mul nsw i32") <= 3


TURNED = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    C = T.match_buffer(c, (k,), "float32")
    for block in T.thread_binding((n * m + 31) // 32, "blockIdx.y"):
        for lane in T.thread_binding(32, "threadIdx.x"):
            if block * 32 + lane < n * m:
                B[(block * 32 + lane) % m, (block * 32 + lane) // m % {divisor}] = A[(block * 32 + lane) // m, (block * 32 + lane) % m]
"""


def test_places_are_divided_in_32_bits_by_sizes_that_the_launch_shows_above_zero() -> None:
    known, unknown = [
        write_programs(lowered(TURNED.format(divisor=d)).prim_funcs(), Target("cuda")).device.text for d in "nk"
    ]
    assert "udiv i32" in known and not re.search("(div|rem) i64", known) and "unity_status" not in known
    assert "unity_status" in unknown, "a launch says nothing about k"


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "m"), [(5, 7), (1, 1), (40, 1), (1, 40), (0, 3), (3, 0)])
@pytest.mark.parametrize("size", ["int32", "int64"])
def test_places_divided_by_sizes(n: int, m: int, size: str) -> None:
    text = TURNED.format(divisor="n").replace("int64()", f"{size}()")
    executable = unity.compile(IRModule({"main": parse(text)}, {}, {}), target="cuda")
    with device_or_emulated(launched=n * m > 0):
        a = np.arange(n * m, dtype="float32").reshape(n, m)
        b = unity.tensor(np.zeros((m, n), "float32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b, np.zeros(3, "float32"))
        assert (b.numpy() == a.T).all()


def test_conditions_move_out_of_marked_loops() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int64):
    for i in T.unroll(4):
        for j in T.serial(8, annotations={MARKED}):
            if i * 16 < n:
                A[i * 16 + j] = T.float32(1)
"""
    for marked in (True, False):
        func = parse(text.replace("MARKED", f'"{MARK}": True' * marked))
        made = str(hoist_if_then_else.with_options(marked=True).on(func).script())
        assert (made.index("if ") < made.index("for j")) is marked and MARK not in made


ROWS_OF_SUMS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((2, 64), "float32")):
    for t in T.thread_binding(2, thread="threadIdx.x"):
        with T.block("b"):
            vt = T.axis.spatial(2, t)
            sums = T.alloc_buffer((64,), "float32", scope="local")
            for i in T.unroll(8):
                sums[T.Ramp(i * 8, T.int64(1), 8)] = T.Broadcast(T.float32(1), 8)
            for k in range(3):
                for i in T.unroll(8):
                    with T.attr(T.int32(0), "reduction", 1):
                        sums[T.Ramp({place}, T.int64(1), 8)] = sums[T.Ramp({place}, T.int64(1), 8)] + T.Broadcast(A[k + vt], 8) * B[T.Ramp(i * 8, T.int64(1), 8)]
                sums[9] = sums[9] + sums[0] + sums[63]
                with T.attr(T.int32(0), "reduction", 1):
                    sums[T.Ramp(T.int64(8), T.int64(1), 8)] = sums[T.Ramp(T.int64(8), T.int64(1), 8)] + T.Broadcast(sums[2], 8) * B[T.Ramp(T.int64(0), T.int64(1), 8)]
                if k == 1:
                    sums[63] = T.float32(0)
            for i in T.unroll(16):
                C[vt, T.Ramp(i * 4, T.int64(1), 4)] = sums[T.Ramp(i * 4, T.int64(1), 4)]
"""


@pytest.mark.gpu
@pytest.mark.parametrize(("place", "named"), [("i * 8", True), ("(i + 3) % 8 * 8", True), ("(i + vt) % 8 * 8", False)])
def test_rows_of_sums_are_registers_by_name_where_all_places_are_known(place: str, named: bool) -> None:
    func = parse(ROWS_OF_SUMS.format(place=place))
    executable = unity.compile(func, target="cuda")
    text = write_programs(GPU_PIPELINE(IRModule({"main": func}, {}, {})).prim_funcs(), Target("cuda")).device.text
    assert text.count("fma.rn.f32 sums") == 72 * named
    a, b = np.arange(1, 9, dtype="float32"), np.arange(64, dtype="float32") / 16
    wanted = np.zeros((2, 64), "float32")
    run(func, None, a, b, wanted)
    with device_or_emulated():
        c = unity.tensor(np.zeros((2, 64), "float32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b, c)
        np.testing.assert_allclose(c.numpy(), wanted, rtol=1e-5)
