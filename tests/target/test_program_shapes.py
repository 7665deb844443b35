"""Whole programs of many shapes, compiled and interpreted, bit for bit: scratch memory, early exits, views, blocks, reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernels import run as run_compiled
from test_found_by_fuzzing import read

from unity.ir.interpret import run as run_interpreted

PROGRAMS: dict[str, tuple[str, Callable[[], list[object]]]] = {
    "sym alloc break": (
        """def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n):
        tmp = T.alloc_buffer((n + 3,), "int32")
        for k in range(n):
            tmp[k] = A[k] * 2
            if k == i:
                break
        if A[i] == 7:
            continue
        C[i] = tmp[i]
""",
        lambda: [np.array([3, 7, 5, 7, 1], "int32"), np.zeros(5, "int32")],
    ),
    "strided": (
        """def main(a: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    s = T.int64()
    A = T.match_buffer(a, (n, m), "float32", strides=(s, 1))
    C = T.match_buffer(c, (n, m), "float32")
    for i, j in T.grid(n, m):
        C[i, j] = A[i, j] + T.float32(1)
""",
        lambda: [np.arange(40, dtype="float32").reshape(5, 8)[:, :6], np.zeros((5, 6), "float32")],
    ),
    "nested blocks": (
        """def main(A: T.Buffer((10, 10), "int32"), C: T.Buffer((10, 10), "int32")):
    for io, jo in T.grid(3, 3):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [io, jo])
            tmp = T.alloc_buffer((4, 4), "int32")
            for i, j in T.grid(4, 4):
                with T.block("in1"):
                    T.where(vi * 4 + i < 10 and vj * 4 + j < 10)
                    a, b = T.axis.remap("SS", [i, j])
                    tmp[a, b] = A[vi * 4 + a, vj * 4 + b] * 3
            for i, j in T.grid(4, 4):
                with T.block("in2"):
                    T.where(vi * 4 + i < 10 and vj * 4 + j < 10)
                    a, b = T.axis.remap("SS", [i, j])
                    C[vi * 4 + a, vj * 4 + b] = tmp[a, b] - 1
""",
        lambda: [np.arange(100, dtype="int32").reshape(10, 10), np.zeros((10, 10), "int32")],
    ),
    "alias dtype": (
        """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    t = T.alloc_buffer((8,), "int32")
    v = T.decl_buffer((32,), "uint8", data=t.data)
    for i in range(8):
        t[i] = A[i]
    for i in range(32):
        v[i] = v[i] + T.uint8(1)
    for i in range(8):
        C[i] = t[i]
""",
        lambda: [np.arange(8, dtype="int32") * 1000 - 3000, np.zeros(8, "int32")],
    ),
    "inplace": (
        """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(1, 16):
        A[i] = A[i - 1] + A[i]
    for i in range(15):
        C[15 - i] = A[i]
        A[i + 1] = C[15 - i] % 5 + A[i]
""",
        lambda: [np.arange(16, dtype="int32"), np.zeros(16, "int32")],
    ),
    "block carried": (
        """def main(A: T.Buffer((16,), "int32"), C: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi * 4 + vj] = A[(vi * 4 + vj + 15) % 16] + 1
    for i, j, k in T.grid(4, 4, 4):
        with T.block("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = vk * 0 + 5
            C[vi, vj] = C[vi, vj] * 3 - A[vi * 4 + vk]
""",
        lambda: [np.arange(16, dtype="int32") * 7 % 11, np.zeros((4, 4), "int32")],
    ),
    "reduce own cell": (
        """def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 4):
        with T.block("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = A[vi, 0]
            C[vi] = C[vi] * A[vi, vk] + A[vk, vi]
""",
        lambda: [np.arange(16, dtype="int32").reshape(4, 4) % 5, np.zeros(4, "int32")],
    ),
    "two reductions": (
        """def main(A: T.Buffer((4, 3, 5), "int32"), C: T.Buffer((3,), "int32")):
    for k, i, q in T.grid(4, 3, 5):
        with T.block("c"):
            vk, vi, vq = T.axis.remap("RSR", [k, i, q])
            with T.init():
                C[vi] = 1
            C[vi] = C[vi] * 2 + A[vk, vi, vq]
""",
        lambda: [np.arange(60, dtype="int32").reshape(4, 3, 5) % 7, np.zeros(3, "int32")],
    ),
    "vec inner reduce": (
        """def main(A: T.Buffer((40, 6), "int32"), C: T.Buffer((40,), "int32")):
    for i in T.vectorized(40):
        C[i] = 0
        for k in range(6):
            C[i] = C[i] + A[i, k] * k
            if A[i, k] > 3:
                C[i] = C[i] - 1
""",
        lambda: [np.arange(240, dtype="int32").reshape(40, 6) % 7, np.zeros(40, "int32")],
    ),
    "while in vec": (
        """def main(A: T.Buffer((40,), "int32"), C: T.Buffer((40,), "int32")):
    for i in T.vectorized(40):
        C[i] = 0
        while C[i] * C[i] < A[i]:
            C[i] = C[i] + 1
""",
        lambda: [np.arange(40, dtype="int32") * 11, np.zeros(40, "int32")],
    ),
    "return early": (
        """def main(A: T.Buffer((40,), "int32"), x: T.int32) -> T.int32:
    tmp = T.alloc_buffer((9000,), "int32")
    for i in range(40):
        tmp[i] = A[i]
        if tmp[i] == x:
            return T.Cast("int32", i)
    return -1
""",
        lambda: [np.arange(40, dtype="int32") * 11, 33],
    ),
    "parallel nested": (
        """def main(A: T.Buffer((12, 40), "int32"), C: T.Buffer((12, 40), "int32")):
    for i in T.parallel(12):
        tmp = T.alloc_buffer((40,), "int32")
        for j in T.parallel(40):
            tmp[j] = A[i, j] + i
        for j in T.vectorized(40):
            C[i, 39 - j] = tmp[j]
""",
        lambda: [np.arange(480, dtype="int32").reshape(12, 40), np.zeros((12, 40), "int32")],
    ),
    "match symbolic": (
        """def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(2, 2):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            s0 = T.int64()
            s1 = T.int64()
            off = T.int64()
            X = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(s0, s1), elem_offset=off)
            Y = T.match_buffer(C[vj * 4 : vj * 4 + 4, vi * 4 : vi * 4 + 4], (4, 4), "int32")
            for a, b in T.grid(4, 4):
                Y[b, a] = X[a, b] + T.Cast("int32", s0 * 100 + s1)
""",
        lambda: [np.arange(64, dtype="int32").reshape(8, 8), np.zeros((8, 8), "int32")],
    ),
    "if expr oob": (
        """def main(A: T.Buffer((5,), "int32"), C: T.Buffer((16,), "int32")):
    for i in T.vectorized(16):
        C[i] = T.if_then_else(i >= 3 and i < 8, A[i - 3], T.if_then_else(i > 10, A[i - 11] * 2, -1))
""",
        lambda: [np.arange(5, dtype="int32") + 1, np.zeros(16, "int32")],
    ),
    "select oob": (
        """def main(A: T.Buffer((5,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        C[i] = T.if_then_else(i >= 3 and i < 8 and A[i - 3] != 2, 10 // A[i - 3], -1)
""",
        lambda: [np.arange(5, dtype="int32") + 1, np.zeros(16, "int32")],
    ),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_agrees_with_the_interpreter(name: str) -> None:
    text, make = PROGRAMS[name]
    func, ours, expected = read(text), make(), make()
    result = run_compiled(func, *ours)
    assert result == run_interpreted(func, None, *expected)
    for given, wanted in zip(ours, expected):
        np.testing.assert_array_equal(given, wanted)  # type: ignore[call-overload]
    changed = [not np.array_equal(a, b) for a, b in zip(ours, make())]  # type: ignore[call-overload]
    assert any(changed) or result is not None
