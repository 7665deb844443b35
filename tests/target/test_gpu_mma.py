"""Matrix instructions on registers, ldmatrix and asynchronous copies in the thread-level checker."""

from __future__ import annotations

import numpy as np
import pytest

from unity.script import parse
from unity.support.errors import InterpreterError
from unity.target.gpu_check import check_gpu

HALF = """
@T.prim_func
def mma(X: T.Buffer((16, 16), "float16"), W: T.Buffer((16, 8), "float16"), Y: T.Buffer((16, 8), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S = T.alloc_buffer((16, 16), "float16", scope="shared")
        V = T.alloc_buffer((16, 8), "float16", scope="shared")
        a = T.alloc_buffer((8,), "float16", scope="local")
        b = T.alloc_buffer((4,), "float16", scope="local")
        c = T.alloc_buffer((4,), "float32", scope="local")
        T.ptx_cp_async("float16", S.data, tx * 8, X.data, tx * 8, 16)
        if tx < 16:
            T.ptx_cp_async("float16", V.data, tx * 8, W.data, tx * 8, 16)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        T.tvm_storage_sync("shared")
        for i in range(4):
            c[i] = T.float32(1)
        T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", a.data, 0, S.data, 16 * (tx % 16) + 8 * (tx // 16))
        T.ptx_ldmatrix("float16", T.bool(True), 2, ".b16", b.data, 0, V.data, 8 * (tx % 16))
        T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0, T.bool(False))
        for i in range(4):
            Y[tx // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = c[i]
"""

BYTES = """
@T.prim_func
def mma(X: T.Buffer((16, {k}), "int8"), W: T.Buffer(({k}, 8), "int8"), Y: T.Buffer((16, 8), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        a = T.alloc_buffer(({k} // 2,), "int8", scope="local")
        b = T.alloc_buffer(({k} // 4,), "int8", scope="local")
        c = T.alloc_buffer((4,), "int32", scope="local")
        for i in range({k} // 2):
            a[i] = X[tx // 4 + i // 4 % 2 * 8, tx % 4 * 4 + i % 4 + i // 8 * 16]
        for i in range({k} // 4):
            b[i] = W[tx % 4 * 4 + i % 4 + i // 4 * 16, tx // 4]
        for i in range(4):
            c[i] = 0
        T.ptx_mma("int32", "m16n8k{k}", "row", "col", "int8", "int8", "int32", a.data, 0, b.data, 0, c.data, 0, T.bool(False))
        for i in range(4):
            Y[tx // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = c[i]
"""


def halves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((16, 16)).astype("float16"), rng.standard_normal((16, 8)).astype("float16")
    return x, w, np.zeros((16, 8), "float32")


def test_half_precision_with_ldmatrix_and_asynchronous_copies() -> None:
    x, w, y = halves()
    report = check_gpu(parse(HALF), x, w, y)
    assert report.ok, str(report)
    np.testing.assert_allclose(y, x.astype("float64") @ w.astype("float64") + 1, rtol=1e-6)
    rows = [s for s in report.bank_conflicts if s.buffer == "S" and s.kind == "load"]
    assert rows and rows[0].worst == 8, "rows of 32 bytes: every fourth row lies in the same banks"


@pytest.mark.parametrize("k", [16, 32])
def test_bytes(k: int) -> None:
    rng = np.random.default_rng(k)
    x, w = rng.integers(-128, 128, (16, k)).astype("int8"), rng.integers(-128, 128, (k, 8)).astype("int8")
    y = np.zeros((16, 8), "int32")
    report = check_gpu(parse(BYTES.replace("{k}", str(k))), x, w, y)
    assert report.ok, str(report)
    np.testing.assert_array_equal(y, x.astype("int32") @ w.astype("int32"))


@pytest.mark.parametrize("line,code", [
    ("        T.ptx_wait_group(0)\n", "E364"),
    ("        T.ptx_commit_group()\n", "E364"),
    ('        T.tvm_storage_sync("shared")\n', "E360"),
    ("        for i in range(4):\n            c[i] = T.float32(1)\n", "E364"),
])  # fmt: skip
def test_what_is_left_out_is_found(line: str, code: str) -> None:
    assert line in HALF
    report = check_gpu(parse(HALF.replace(line, "")), *halves())
    assert code in [f.code for f in report.findings], str(report)


def test_a_group_still_under_way_is_not_there() -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((2, 128), "float32"), Y: T.Buffer((2, 128), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S = T.alloc_buffer((2, 128), "float32", scope="shared")
        for k in range(2):
            T.ptx_cp_async("float32", S.data, k * 128 + tx * 4, X.data, k * 128 + tx * 4, 16)
            T.ptx_commit_group()
        T.ptx_wait_group(1)
        for i in range(4):
            Y[0, tx * 4 + i] = S[0, tx * 4 + i]
        T.ptx_wait_group(0)
        for i in range(4):
            Y[1, tx * 4 + i] = S[1, tx * 4 + i]
"""
    x, y = np.arange(256, dtype="float32").reshape(2, 128), np.zeros((2, 128), "float32")
    assert check_gpu(parse(text), x, y).ok
    np.testing.assert_array_equal(x, y)
    early = text.replace("Y[0, tx * 4 + i] = S[0,", "Y[0, tx * 4 + i] = S[1,")
    assert [f.code for f in check_gpu(parse(early), x, y).findings] == ["E364"]


@pytest.mark.parametrize("waits", ["if tx < 16:", "if tx >= 16:"])
def test_each_thread_waits_for_its_own_copies(waits: str) -> None:
    text = """
@T.prim_func
def f(X: T.Buffer((128,), "float32"), Y: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S = T.alloc_buffer((128,), "float32", scope="shared")
        if tx >= 16:
            T.ptx_cp_async("float32", S.data, tx * 4, X.data, tx * 4, 16)
        T.ptx_commit_group()
        WAITS
            T.ptx_wait_group(0)
        if tx >= 16:
            for i in range(4):
                Y[tx * 4 + i] = S[tx * 4 + i]
"""
    x, y = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    report = check_gpu(parse(text.replace("WAITS", waits)), x, y)
    assert [f.code for f in report.findings] == ([] if ">" in waits else ["E364"])


def test_misaligned_copy_and_row() -> None:
    report = check_gpu(parse(HALF.replace("X.data, tx * 8, 16)", "X.data, tx * 7, 16)")), *halves())
    assert "E366" in [f.code for f in report.findings]
    report = check_gpu(parse(HALF.replace("S.data, 16 * (tx % 16)", "S.data, 15 * (tx % 16)")), *halves())
    assert "E366" in [f.code for f in report.findings]


@pytest.mark.parametrize("old,new,code", [
    ('"m16n8k16"', '"m8n8k4"', "E369"), ('"row", "col"', '"col", "col"', "E369"), ("X.data, tx * 8, 16)", "X.data, tx * 8, 12)", "E372"),
    ("a.data, 0, S", "a.data, 4, S", "E310"), ("ptx_wait_group(0)", "ptx_wait_group(-1)", "E372"), ("4, \".b16\", a", "3, \".b16\", a", "E369"),
])  # fmt: skip
def test_refusals(old: str, new: str, code: str) -> None:
    assert old in HALF
    with pytest.raises(InterpreterError) as caught:
        check_gpu(parse(HALF.replace(old, new)), *halves())
    assert caught.value.code == code
