"""Software pipelines of two to four stages, synchronous and with asynchronous copies, for loops of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stages import through
from test_passes_emulated import on_device

from unity.ir.expr import Call
from unity.ir.module import IRModule
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import PassError
from unity.target import GPU_PIPELINE

CHAIN = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, ({n}, 32), "float32")
        Y = T.match_buffer(y, ({n}, 32), "float32")
        S = T.alloc_buffer((32,), "float32", scope="{scope}")
        L = T.alloc_buffer((1,), "float32", scope="local")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for k in T.serial({n}, annotations={{"software_pipeline_stage": {stage}, "software_pipeline_order": {order}{more}}}):
                with T.block("load"):
                    S[tx] = X[k, tx]
                with T.block("turn"):
                    L[0] = S[31 - tx] * T.float32(2)
                with T.block("store"):
                    Y[k, tx] = L[0] + T.Cast("float32", k)
"""
ASYNC = ', "software_pipeline_async_stages": [0]'


def chain(n: int | None, stage: list[int], order: list[int], more: str = "", scope: str = "shared") -> IRModule:
    text = CHAIN.format(n="n" if n is None else n, stage=stage, order=order, more=more, scope=scope)
    made: Any = parse(text if n is None else text.replace("        n = T.int64()\n", ""))
    return made


STAGES = [
    ([0, 1, 1], [0, 1, 2]), ([0, 0, 1], [0, 1, 2]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [2, 1, 0]), ([0, 2, 3], [0, 1, 2]),
    ([0, 3, 3], [0, 1, 2]), ([0, 2, 2], [2, 0, 1]),
]  # fmt: skip


LENGTHS = [(8, False), (2, False), (1, True), (3, True), (7, True)]


@pytest.mark.parametrize(
    "stage,order,more,n,symbolic",
    [
        (*stages, ("", ASYNC)[(i + j) % 2], *length)
        for i, stages in enumerate(STAGES)
        for j, length in enumerate(LENGTHS)
    ],
)  # all stages with all lengths, either with copies of both kinds
def test_chains(stage: list[int], order: list[int], more: str, n: int, symbolic: bool) -> None:
    x = np.random.default_rng(n).integers(-9, 9, (n, 32)).astype("float32")
    expected = x[:, ::-1] * 2 + np.arange(n, dtype="float32")[:, None]
    mod = chain(None if symbolic else n, stage, order, more, "shared.dyn" if n == 7 else "shared")
    lowered = through(mod, [x], np.zeros_like(x), expected)
    names = {c.op_name for c in collect(lowered, Call)}
    assert ("T.ptx_cp_async" in names) is bool(more)


def in_loop(mod: IRModule) -> list[str]:
    """The statements of the pipelined loop, one word each."""
    lines = mod.script().splitlines()
    start = next(k for k, line in enumerate(lines) if "for k" in line)
    depth = len(lines[start]) - len(lines[start].lstrip())
    inner = []
    for line in lines[start + 1 :]:
        if len(line) - len(line.lstrip()) <= depth:
            break
        if line.strip() == "if k + 2 < n:":
            continue  # copies that the last turns do not begin
        inner.append(line.strip().split("(")[0].split("[")[0])
    return inner


def test_one_barrier_for_each_turn() -> None:
    mod = GPU_PIPELINE(chain(None, [0, 2, 2], [0, 1, 2], ASYNC))
    wanted = ["T.ptx_wait_group", "T.tvm_storage_sync", "T.ptx_cp_async", "T.ptx_commit_group", "L", "Y_1"]
    assert in_loop(mod) == wanted, mod.script()
    mod = GPU_PIPELINE(chain(None, [0, 1, 1], [0, 1, 2]))
    assert in_loop(mod).count("T.tvm_storage_sync") == 1, mod.script()


@pytest.mark.parametrize("stage,order,more,message", [
    ([1, 0, 1], [0, 1, 2], "", r"E376.*uses S would run before"), ([0, 0, 0], [1, 0, 2], "", r"E376.*uses S would run before"),
    ([0, 1], [0, 1], "", r"E532.*has 3 statements.*names 2"), ([0, 1, 1], [0, 1, 1], "", r"E532.*not an order of 3"),
    ([0, -1, 1], [0, 1, 2], "", r"E532.*list of numbers"),
])  # fmt: skip
def test_what_cannot_be_a_pipeline(stage: list[int], order: list[int], more: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        GPU_PIPELINE(chain(8, stage, order, more))


def test_what_iterations_hand_on_cannot_be_split() -> None:
    text = CHAIN.format(n=8, stage=[0, 1, 1], order=[0, 1, 2], more="", scope="shared").replace("n = T.int64()", "")
    with pytest.raises(PassError, match=r"E376.*S is more than what an iteration"):
        GPU_PIPELINE(parse(text.replace("S[tx] = X[k, tx]", "S[tx] = S[tx] + X[k, tx]")))


FRAGMENTS = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16, 80), "float16"), B: T.Buffer((80, 16), "float16"), C: T.Buffer((16, 16), "float32")):
        S = T.alloc_buffer((2, 16, 16), "float16", scope="shared")
        FA = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_a")
        FB = T.alloc_buffer((16, 16), "float16", scope="wmma.matrix_b")
        FC = T.alloc_buffer((16, 16), "float32", scope="wmma.accumulator")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            T.tvm_fill_fragment(FC.data, 16, 16, 16, 0, T.float32(0))
            for o in T.serial(5, annotations={{"software_pipeline_stage": [0, 1, 2], "software_pipeline_order": [0, 1, 2]{more}}}):
                with T.block("copy"):
                    for i in range(8):
                        S[0, tx // 2, tx % 2 * 8 + i] = A[tx // 2, o * 16 + tx % 2 * 8 + i]
                        S[1, tx // 2, tx % 2 * 8 + i] = B[o * 16 + tx // 2, tx % 2 * 8 + i]
                with T.block("fragments"):
                    T.tvm_load_matrix_sync(FA.data, 16, 16, 16, 0, T.address_of(S[0, 0, 0]), 16, "row_major")
                    T.tvm_load_matrix_sync(FB.data, 16, 16, 16, 0, T.address_of(S[1, 0, 0]), 16, "row_major")
                with T.block("product"):
                    T.tvm_mma_sync(FC.data, 0, FA.data, 0, FB.data, 0, FC.data, 0)
            T.tvm_store_matrix_sync(FC.data, 16, 16, 16, 0, T.address_of(C[0, 0]), 16, "row_major")
"""


@pytest.mark.parametrize("more", ["", ASYNC])
def test_fragments_run_ahead(more: str) -> None:
    """The fragments of an iteration are loaded while the product of the one before runs: there are two of each."""
    text = FRAGMENTS.format(more=more)
    a, b = [np.random.default_rng(0).integers(-4, 5, shape).astype("float16") for shape in ((16, 80), (80, 16))]
    wanted = a.astype("float32") @ b.astype("float32")
    mod: Any = parse(text)
    if not more:
        lowered = through(mod, [a, b], np.zeros_like(wanted), wanted)
        assert lowered.script().count('(512,), "float16", scope="wmma.matrix') == 2
    else:
        on_device(mod, [a, b], wanted)
