"""Divisions by zero are found late: many checks are one branch, and what a zero made wrong does no harm before."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import LOOPS

import unity
from unity.script import parse
from unity.target.cpu.codegen import write_kernels
from unity.target.llvm.writer import MOST_WAITING
from unity.transform.tir.pipeline import lower_prim_func

HEAD = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int64'), B: T.Buffer((4,), 'int64'), d: T.int64, e: T.int64):\n"
FAR = "T.int64(1000000000000)"
HARMFUL = {
    "address written": f"    B[(A[0] // d) * {FAR}] = 1\n",
    "address read": f"    B[0] = A[(A[0] // d) * {FAR}]\n",
    "address from memory": f"    B[0] = (A[0] // d) * {FAR}\n    B[1] = A[B[0]]\n",
    "address behind a choice": f"    v: T.int64 = T.Select(d == 0, (A[0] // d) * {FAR}, d)\n    B[1] = A[v]\n",
    "extent": f"    for i in range((A[0] // d) * {FAR}):\n        B[i] = i\n",
    "endless": "    v: T.int64 = A[0] // d\n    while v > 0:\n        B[1] = 1\n",
    "condition": f"    if A[0] // d > 0:\n        B[{FAR}] = 1\n",
    "lazy": f"    B[0] = T.if_then_else(d == 0, A[(A[0] // d) * {FAR}], 0)\n",
    "size": f"    C = T.alloc_buffer(((A[0] // d) * {FAR},), 'int64')\n    C[0] = 1\n    B[0] = C[0]\n",
    "divisor of a divisor": "    B[0] = A[0] // (A[1] // d - A[1])\n",
    "a check behind": f"    v: T.int64 = A[0] // d\n    assert v == {FAR}, 'other'\n    B[0] = v\n",
    "remainder": f"    B[0] = A[T.truncmod(A[0], d) + (A[0] // d) * {FAR}]\n",
    "lanes": f"    B[T.ramp(0, 1, 4)] = A[T.ramp((A[0] // d) * {FAR}, 1, 4)]\n",
    "lanes divided": "    for i in T.vectorized(4):\n        B[i] = A[i] // (i * d)\n",
    "parallel": f"    for i in T.parallel(4):\n        B[i] = A[i + (A[0] // d) * {FAR}]\n",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_division_by_zero_does_no_harm(name, monkeypatch):
    monkeypatch.setenv("UNITY_CACHE", "off")
    vm = unity.VirtualMachine(unity.compile(parse(HEAD + HARMFUL[name])))
    with pytest.raises(unity.UnityError, match="division by zero"):
        vm["main"](np.arange(1, 5), np.zeros(4, "int64"), 0, 1)


@pytest.mark.parametrize("zeros", [(0, 1), (1, 0), (0, 0)])
def test_each_check_counts(zeros):
    vm = unity.VirtualMachine(unity.compile(parse(HEAD + "    B[0] = A[0] // d + A[1] % e\n")))
    with pytest.raises(unity.UnityError, match="division by zero"):
        vm["main"](np.arange(1, 5), np.zeros(4, "int64"), *zeros)
    out = np.zeros(4, "int64")
    vm["main"](np.array([-7, -7, 0, 0]), out, 2, -3)
    assert out[0] == -7 // 2 + -7 % -3


def branches(body: str) -> int:
    lowered = lower_prim_func(parse(HEAD + body), LOOPS)
    return write_kernels({"main": lowered}, unity.Target("llvm -mcpu=x86-64-v3")).ir_text.count("\n  br i1 ")


def test_many_checks_are_one_branch():
    chain = "".join([f"    B[{k % 4}] = A[{k % 4}] // (d + {k}) + A[{(k + 1) % 4}] % (e + {k})\n" for k in range(40)])
    assert branches(chain) == 80 // MOST_WAITING
    assert branches("    B[0] = A[0] // d + A[1] // d\n") == 1
    lazy = "    B[0] = T.if_then_else(d == 0, A[0] // e, A[1] // d)\n"
    assert branches(lazy) == 3  # the choice, and a check on each side
