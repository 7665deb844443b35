"""Run-time checks of indices: a wrong index is an error, right programs behave as before."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import CHECKED_LOOPS
from tir_programs import HEADER, PROGRAMS, arguments

import unity
from unity.ir.interpret import run
from unity.ir.stmt import AssertStmt
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import InterpreterError
from unity.transform.tir.pipeline import CHECKED_CPU_PIPELINE, lower_prim_func

GATHER = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), I: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        if I[i] != 99:
            C[i] = T.if_then_else(I[i] < 0, T.float32(7), A[I[i]])
"""


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_right_programs_stay_right(name: str) -> None:
    func = parse(HEADER + PROGRAMS[name])
    plain, checked = arguments(name), arguments(name)
    run(func, None, *plain)
    run(lower_prim_func(func, CHECKED_LOOPS), None, *checked)
    for a, b in zip(plain, checked, strict=True):
        np.testing.assert_allclose(
            a.astype("float64"), b.astype("float64"), rtol=2e-2 if name == "narrow" else 1e-6, atol=1e-6
        )


def test_loop_bounds_prove_most_checks_away() -> None:
    func = parse(HEADER + PROGRAMS["matmul"])
    assert not collect(lower_prim_func(func, CHECKED_LOOPS).body, AssertStmt)


def test_a_wrong_index_is_an_error() -> None:
    func = parse(HEADER + GATHER)
    lowered = lower_prim_func(func, CHECKED_LOOPS)
    a, out = np.arange(8, dtype="float32"), np.zeros(4, "float32")
    good, bad = np.array([3, -5, 99, 7], "int32"), np.array([0, 1, 8, 2], "int32")
    run(lowered, None, a, good, out)
    assert out.tolist() == [3, 7, 0, 7]
    with pytest.raises(InterpreterError, match="index of A is out of bounds"):
        run(lowered, None, a, bad, out)
    program = unity.VirtualMachine(unity.compile(func, target="llvm", tir_pipeline=CHECKED_CPU_PIPELINE))
    program["main"](a, good, out)
    with pytest.raises(unity.UnityError, match="index of A is out of bounds"):
        program["main"](a, bad, out)
