"""Functional updates of functions and modules."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir import ExternFunc, IRModule, PrimFunc, structural_equal
from unity.script import parse
from unity.support.errors import VerifyError

FILL = """
@T.prim_func
def fill(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = T.float32(1)
"""


def test_attributes_are_added_and_removed_in_a_copy() -> None:
    fill = parse(FILL)
    assert isinstance(fill, PrimFunc)
    marked = fill.with_attr("a", 1).with_attr({"b": 2, "a": 3})
    assert marked.attrs == {**fill.attrs, "a": 3, "b": 2} and "a" not in fill.attrs
    assert marked.without_attr("a").without_attr("b").attrs == fill.attrs
    assert marked.without_attr("absent").attrs == marked.attrs and marked.body is fill.body
    identity = parse("@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return x")
    assert identity.with_attrs({"k": "v"}).attrs["k"] == "v"


def test_a_module_of_one_function() -> None:
    fill = parse(FILL)
    assert list(unity.IRModule.from_expr(fill)) == ["fill"]
    assert list(unity.IRModule.from_expr(fill.without_attr("global_symbol"))) == ["main"]
    assert list(unity.IRModule.from_expr(ExternFunc("lib.f"))) == ["lib.f"]
    empty = unity.IRModule()
    assert len(empty) == 0 and len(empty.with_functions({"f": fill})) == 1 and len(unity.IRModule()) == 0


def test_a_module_is_not_changed_in_place() -> None:
    mod = unity.IRModule({"f": parse(FILL)})
    with pytest.raises(VerifyError, match="E304") as caught:
        mod["g"] = mod["f"]
    assert "with_functions({'g'" in str(caught.value) and list(mod) == ["f"]
    with pytest.raises(VerifyError, match=r"E304[\s\S]*with_functions\(\{'f': None"):
        del mod["f"]
    with pytest.raises(VerifyError, match="E304"):
        mod.update_func(mod.get_global_var("f"), mod["f"])


def test_names_of_the_tensor_level() -> None:
    assert unity.tir.Schedule is unity.Schedule and all([hasattr(unity.tir, name) for name in unity.tir.__all__])
    assert str(unity.tir.Var("n", "int64").ty.dtype) == "int64" and str(unity.tir.Var("i").ty.dtype) == "int32"
    assert str(unity.tir.const(3, "int64").ty.dtype) == "int64"


@pytest.mark.parametrize(
    "value",
    [[1, 2], [[1], []], {"a": [1, (2, [3])]}, np.int64(3), np.float32(1.5), np.bool_(True), np.arange(3), None, "x"],
)
def test_attributes_are_what_their_text_reads_back(value: object) -> None:
    func = parse(FILL).with_attr("note", value)
    assert structural_equal(parse(str(func)), func)
    mod = IRModule({"fill": func}).with_attr("note", value)
    assert structural_equal(parse(str(mod)), mod)
