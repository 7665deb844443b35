"""Outermost loops that no other pass can read are shared between threads where iterations are independent."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.stmt import For
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.tir.loops.chunk_parallel import share_loops


def function(body, rows=300, columns=200):
    return parse(f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "float32"), B: T.Buffer(({rows}, {columns}), "float32")):
    for i in range({rows}):
{body}
""")


def kinds(func):
    return [loop.kind for loop in collect(func.body, For)]


RUNNING = """
        B[i, 0] = A[i, 0]
        for j in range(1, 200):
            B[i, j] = B[i, j - 1] + A[i, j]
"""
OWN_MEMORY = """
        M = T.alloc_buffer((200,), "float32")
        for j in range(200):
            M[j] = A[i, 199 - j]
        for k in range(200):
            B[i, k] = M[k] + M[199 - k]
"""
PAIRS_OF_ROWS = """
        if i < 150:
            for j in range(200):
                B[2 * i, j] = A[i, j]
                B[2 * i + 1, j] = B[2 * i, j] + A[i, j]
"""
OVER_ROWS = """
        for j in range(200):
            B[i, j] = B[T.max(i - 1, 0), j] + A[i, j]
"""
ONE_CELL_FOR_ALL = """
        for j in range(200):
            B[0, 0] = B[0, 0] + A[i, j]
"""
UNEVEN = """
        for j in range(200):
            if A[i, j] > T.float32(0):
                B[i, j] = A[i, j]
            else:
                B[(i + 1) % 300, j] = A[i, j]
"""
CALL = """
        for j in range(200):
            T.call_extern("int32", "somewhere", i, j)
            B[i, j] = A[i, j]
"""


@pytest.mark.parametrize("body, shared", [
    (RUNNING, True), (OWN_MEMORY, True), (PAIRS_OF_ROWS, True), (OVER_ROWS, False), (ONE_CELL_FOR_ALL, False), (UNEVEN, False), (CALL, False),
])  # fmt: skip
def test_which_loops(body, shared):
    func = function(body)
    assert ("parallel" in kinds(share_loops.on(func))) is shared


def test_little_work_stays():
    assert "parallel" not in kinds(share_loops.on(function(RUNNING.replace("200", "20"), 30, 20)))


@pytest.mark.parametrize(
    "body, meaning", [(RUNNING, lambda a: np.cumsum(a, 1)), (OWN_MEMORY, lambda a: a + a[:, ::-1])]
)
def test_results(body, meaning):
    vm = unity.VirtualMachine(unity.compile(function(body)))
    a = np.random.default_rng(0).standard_normal((300, 200)).astype("float32")
    before = unity.num_threads()
    try:
        for threads in (1, 3):
            unity.set_num_threads(threads)
            b = np.zeros_like(a)
            vm["main"](a, b)
            np.testing.assert_allclose(b, meaning(a), rtol=1e-4, atol=1e-4)
    finally:
        unity.set_num_threads(before)
