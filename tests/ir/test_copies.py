"""Modules are pickled and copied: what comes out is equal, prints the same, and compiles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import unity
from unity.ir import Var, first_difference, op, prim_type, replace
from unity.ir.analysis import definitions
from unity.ir.walk import Rewriter
from unity.script import ir as I, parse, relax as R, tir as T


@I.ir_module
class Mixed:
    @T.prim_func(private=True)
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.serial(n):
            with T.block("double"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y = R.call_tir(double, (x,), R.Tensor((n,), "float32"))
        return R.add(y, R.const(1.0)), R.shape([n + 1])

    @R.function
    def hidden(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            inside = R.exp(x)
            outside = R.add(inside, x)
            R.output(outside)
        return outside


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "fresh variables": Rewriter(fresh=True).visit,
    "script": lambda value: parse(value.script()),
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_equal_and_compiles(how: str) -> None:
    made = COPIES[how](Mixed)
    assert first_difference(made, Mixed) is None
    assert str(made) == str(Mixed)
    value, shape = unity.VirtualMachine(unity.compile(made))["main"](np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(np.asarray(value), [1, 3, 5])
    assert tuple(shape) == (4,)
    if how != "script":  # which names the other functions
        assert first_difference(COPIES[how](Mixed["main"]), Mixed["main"], map_free_vars=True) is None


@pytest.mark.parametrize("how", COPIES)
def test_where_a_variable_is_visible_is_copied_and_compared(how: str) -> None:
    before = Mixed["hidden"]
    made = COPIES[how](before)
    assert [v.dataflow for v in definitions(made) if isinstance(v, Var) and v.name != "x"] == [True, False]
    assert first_difference(made, before) is None
    inside = next(v for v in definitions(made) if v.name == "inside")
    shown = Rewriter(mapping={inside: replace(inside, dataflow=False)}).visit(made)
    assert "visible only inside" in str(first_difference(shown, before))


@pytest.mark.parametrize("one", [prim_type("int64"), prim_type("float32x4"), op("R.add"), unity.ffi.DataType("bool")])
def test_what_exists_once_stays_one(one: Any) -> None:
    assert pickle.loads(pickle.dumps(one)) is one
    assert copy.deepcopy(one) is one
    assert copy.copy(one) is one
