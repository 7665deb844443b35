"""Functional updates of functions and modules."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir import ExternFunc, IRModule, PrimFunc, structural_equal
from unity.script import parse
from unity.support.errors import ScheduleError, VerifyError

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


def test_a_module_is_changed_in_place_by_name() -> None:
    first, second = parse(FILL), parse(FILL)
    mod = unity.IRModule({"f": first, "h": first})
    same, other, made = mod, mod.clone(), mod.with_functions({"g": second})
    mod.update_func(mod.get_global_var("f"), second)
    mod["g"] = first
    del mod["h"]
    assert same is mod and list(mod.items()) == [("f", second), ("g", first)]
    assert other["f"] is first and list(other) == ["f", "h"] and made["f"] is first and list(made) == ["f", "h", "g"]
    with pytest.raises(VerifyError, match="E330"):
        mod["f"] = 3
    with pytest.raises(VerifyError, match="E301"):
        del mod["nothing"]
    assert list(mod) == ["f", "g"]


def test_a_schedule_says_that_its_module_was_changed() -> None:
    mod = unity.IRModule({"main": parse(FILL)})
    sch, apart = unity.Schedule(mod), unity.Schedule(mod.clone())
    del mod["main"]
    with pytest.raises(ScheduleError, match="E408"):
        sch.get_child_blocks(sch.get_block("root"))
    assert apart.get_block("root") is not None and list(apart.mod) == ["main"]


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
