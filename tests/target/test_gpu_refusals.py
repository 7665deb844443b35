"""Kernels that cannot be run: errors with codes, never a crash; what a report does with its findings."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_programs import MATMUL, WMMA, changed, operands

from unity.ir.interpret.threads import Finding
from unity.script import parse
from unity.support.errors import InterpreterError
from unity.target import gpu_check
from unity.target.gpu_check import check_gpu

LOAD_SYNC = '                        T.tvm_storage_sync("shared")  # before the tiles are read\n'


@pytest.mark.parametrize("old,new,code", [
    ('thread="blockIdx.x"', 'thread="gridIdx.x"', "E367"),
    ("(16, thread=\"threadIdx.x\")", "(128, thread=\"threadIdx.x\")", "E367"),
    ('scope="local"', 'scope="global"', "E368"),
    ('T.tvm_storage_sync("shared")', 'T.tvm_storage_sync("everything")', "E369"),
    ("acc[0] = T.float32(0)", 'acc[0] = T.call_extern("float32", "my_device_function")', "E369"),
])  # fmt: skip
def test_programs_that_cannot_be_run(old: str, new: str, code: str) -> None:
    with pytest.raises(InterpreterError) as caught:
        check_gpu(changed(MATMUL, old, new), *operands(16, 16, 16))
    assert caught.value.code == code, str(caught.value)


def test_a_program_without_kernel_and_wrong_arguments() -> None:
    plain = parse('@T.prim_func\ndef f(X: T.Buffer((4,), "int32")):\n    for i in range(4):\n        X[i] = 1\n')
    with pytest.raises(InterpreterError, match="E367"):
        check_gpu(plain, np.zeros(4, "int32"))
    with pytest.raises(InterpreterError, match="E316"):
        check_gpu(parse(MATMUL), np.zeros((2, 2), "float32"))


def test_extents_that_disagree() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            X[tx] = 1
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            X[tx] = 2
"""
    with pytest.raises(InterpreterError, match="E367"):
        check_gpu(parse(text), np.zeros(64, "int32"))


@pytest.mark.parametrize("distance", ["-1", "32", "tx - 3"])
@pytest.mark.parametrize("kind", ["up", "down", "xor"])
def test_shuffles_over_distances_that_no_lane_has(kind: str, distance: str) -> None:
    """The instruction would take five bits of the number."""
    text = f"""
@T.prim_func
def f(X: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        X[tx] = T.tvm_warp_shuffle_{kind}(T.uint32(0xFFFFFFFF), X[tx], {distance}, 32, 32)
"""
    with pytest.raises(InterpreterError, match="the distance must be 0 to 31") as caught:
        check_gpu(parse(text), np.zeros(32, "int32"))
    assert caught.value.code == "E372"


def test_division_by_zero_names_the_thread() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        X[tx] = 7 // X[tx]
"""
    x = np.ones(32, "int32")
    x[9] = 0
    with pytest.raises(InterpreterError, match=r"thread \(9, 0, 0\)") as caught:
        check_gpu(parse(text), x)
    assert caught.value.code == "E313"
    x[9] = 0
    lazy = changed(text, "7 // X[tx]", "T.if_then_else(X[tx] != 0, 7 // X[tx], 0)")
    assert check_gpu(lazy, x).ok


@pytest.mark.parametrize("size,first,code", [("40", "v", "E315"), ("64", "v + 30", "E310"), ("64", "v", None)])
def test_blocks_promise_their_domains_and_matched_regions_in_kernels(size: str, first: str, code: str | None) -> None:
    text = f"""
@T.prim_func
def f(X: T.Buffer((65,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("b"):
            v = T.axis.spatial({size}, tx)
            Y = T.match_buffer(X[{first}:{first} + 2], (2,), offset_factor=1)
            Y[0] = 1
"""
    x = np.zeros(65, "int32")
    if code is None:
        assert check_gpu(parse(text), x).ok and x[:64].all()
        return
    with pytest.raises(InterpreterError, match=r"thread \((40|34), 0, 0\)") as caught:
        check_gpu(parse(text), x)
    assert caught.value.code == code


def test_raise_if_failed() -> None:
    report = check_gpu(changed(MATMUL, LOAD_SYNC, ""), *operands(16, 16, 16))
    with pytest.raises(Finding, match="E360"):
        report.raise_if_failed()
    assert "faults found" in str(report) and "note: the other access" in str(report)


@pytest.mark.parametrize(
    "old,new,code",
    [
        ('scope="wmma.matrix_a"', 'scope="wmma.other"', "E372"),
        ('BS.access_ptr("r"), 16,', 'BS.access_ptr("r"), A.data,', "E372"),
        ('AS.access_ptr("r")', "T.int64(0)", "E372"),
        ('thread_binding(2, thread="blockIdx.x")', 'thread_binding(4294967296, thread="blockIdx.x")', "E367"),
        ('thread_binding(2, thread="blockIdx.x")', 'thread_binding(99999999, thread="vthread.x")', "E367"),
        ('thread_binding(2, thread="blockIdx.x")', 'thread_binding(-2, thread="blockIdx.x")', "E367"),
        ('(16, 16), "float16", scope="shared"', '(1048576, 1048576), "float16", scope="shared"', "E368"),
        ("fc.data, 16, 16, 16, 0, T.float32(0)", "fc.data, 16, 16, 16, 7, T.float32(0)", "E372"),
    ],
)
def test_hostile_kernels(old: str, new: str, code: str) -> None:
    arrays = [np.ones((32, 48), "float16"), np.ones((48, 32), "float16"), np.zeros((32, 32), "float32")]
    with pytest.raises(InterpreterError) as caught:
        check_gpu(changed(WMMA, old, new), *arrays)
    assert caught.value.code == code, str(caught.value)


def test_endless_loops_end_with_max_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = MATMUL.replace("for ko in range((k + 15) // 16):", "while n > 0:").replace("ko", "0")
    with pytest.raises(InterpreterError, match="E320"):
        check_gpu(parse(endless), *operands(16, 16, 16), max_steps=20)
    monkeypatch.setattr(gpu_check, "MAX_STEPS", 20)
    with pytest.raises(InterpreterError, match="E320"):
        check_gpu(parse(endless), *operands(16, 16, 16))
