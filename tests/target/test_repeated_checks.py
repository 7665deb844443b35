"""Checks that were made already are not made again, and still are made on every path that needs them."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ffi.targets.target import Target
from unity.script import parse
from unity.support.errors import VMError
from unity.target.cpu.codegen import write_module
from unity.transform.tir.pipeline import CPU_PIPELINE, lower_prim_funcs

REPEATED = """
@I.ir_module
class M:
    @T.prim_func
    def f(a: T.handle, d: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        for i in range(n):
            A[i] = A[i] // d + A[i] % d + A[i] // d + (A[i] + 1) // d
"""

BRANCHES = """
@I.ir_module
class M:
    @T.prim_func
    def f(a: T.handle, d: T.int64, e: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        for i in range(n):
            if A[i] > 5:
                A[i] = A[i] // d
            else:
                A[i] = A[i] % e
            A[i] = A[i] + 7 // d
"""


def test_a_divisor_is_checked_once():
    functions = parse(REPEATED).prim_funcs()
    text = write_module(lower_prim_funcs(functions, CPU_PIPELINE), Target("llvm"))[0]
    assert text.count(", !prof !0") == 1
    run = unity.VirtualMachine(unity.compile(parse(REPEATED)))["f"]
    x = np.arange(-7, 9)
    for d in (3, -2, 1, -1):
        given = x.copy()
        run(given, d)
        np.testing.assert_array_equal(given, x // d + x % d + x // d + (x + 1) // d)
    with pytest.raises(VMError, match="division by zero"):
        run(x.copy(), 0)


def test_a_check_in_a_branch_says_nothing_behind_it():
    run = unity.VirtualMachine(unity.compile(parse(BRANCHES)))["f"]
    x = np.arange(3, 9)
    given = x.copy()
    run(given, 2, 3)
    np.testing.assert_array_equal(given, np.where(x > 5, x // 2, x % 3) + 3)
    small, large = np.array([1, 2]), np.array([7, 8])
    for given, d, e in ((small, 0, 3), (small, 2, 0), (large, 0, 3)):
        with pytest.raises(VMError, match="division by zero"):
            run(given.copy(), d, e)
    run(large.copy(), 2, 0)
