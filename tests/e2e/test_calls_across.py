"""Calls whose callee says what they give: builtins with a context, derived result types, tensor programs that return a value."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType, dtype_names
from unity.ir import first_difference
from unity.ir.interpret import run
from unity.ir.types import TupleType
from unity.script import parse
from unity.support.errors import ScriptError
from unity.vm.build import build
from unity.vm.virtual_machine import VirtualMachine

CONTEXTS = """
@I.ir_module
class Module:
    @R.function
    def helper(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.subtract(x, y)

    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32"), t: R.Tuple(R.Tensor((3,), "float32"), R.Prim("int64"))):
        y = R.call_builtin_with_ctx("tests.calls.raised", (x, R.prim_value(2)), sinfo_args=(R.Tensor((3,), "float32"),))
        c = R.make_closure(Module.helper, (x,))
        z = R.call_builtin_with_ctx("vm.builtin.invoke_closure", (c, y), ty_args=(R.Tensor((3,), "float32"),))
        w = R.call_builtin_with_ctx(func="tests.calls.raised", args=t, ty_args=(R.Tensor((3,), "float32"),))
        R.call_builtin_with_ctx("tests.calls.seen", args=(R.prim_value(1),))
        return z, w
"""


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_builtins_get_a_context_first(mode):
    contexts = []

    def raised(context, x, n):
        contexts.append(context)
        return unity.runtime.tensor(x.numpy() + np.float32(n))

    unity.register_func("tests.calls.raised", raised, override=True)
    unity.register_func("tests.calls.seen", lambda *args: contexts.append(args[1:]), override=True)
    mod, x = parse(CONTEXTS), np.arange(3, dtype="float32")
    assert first_difference(mod, parse(mod.script())) is None
    expected = (x - (x + 2), x + 5)
    for made in (run(mod, "main", x, (x, 5)), VirtualMachine(build(mod, exec_mode=mode))["main"](x, (x, 5))):
        for a, b in zip(made, expected, strict=True):
            np.testing.assert_array_equal(a if isinstance(a, np.ndarray) else a.numpy(), b)
    assert repr(contexts[0]) == "Context()" and contexts == [contexts[0], contexts[0], (1,)] * 2


def test_a_builtin_takes_a_tuple():
    with pytest.raises(ScriptError) as caught:
        parse(CONTEXTS.replace("args=(R.prim_value(1),)", "args=x"))
    assert "E210" in str(caught.value)


DERIVED = """
@R.function
def main(g: R.Callable(None, R.Object, True, derive_func="tests.calls.pair"), x: R.Tensor((n, 3), "float32")):
    n = T.int64()
    y = g(x)
    return R.add(y[0], y[1])
"""


def test_a_derived_result_type_is_that_of_the_call():
    unity.register_func("tests.calls.pair", lambda call, _: TupleType((call.args[0].ty,) * 2), override=True)
    fn = parse(DERIVED)
    assert str(fn.ret_ty) == 'R.Tensor((n, 3), "float32")'
    assert first_difference(fn, parse(fn.script())) is None


@pytest.mark.parametrize(("name", "rule"), [("tests.calls.none", None), ("tests.calls.wrong", lambda call, _: 1)])
def test_a_rule_that_gives_no_type_is_refused(name, rule):
    if rule is not None:
        unity.register_func(name, rule, override=True)
    with pytest.raises(ScriptError) as caught:
        parse(DERIVED.replace("tests.calls.pair", name))
    assert "E205" in str(caught.value) and name in str(caught.value)


RETURNS = """
@I.ir_module
class Module:
    @T.prim_func
    def before(x: T.{d}) -> T.{d}:
        T.ret(x)

    @T.prim_func
    def copy(a: T.Buffer((4,), "{d}"), c: T.Buffer((4,), "{d}")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                c[v] = Module.after(Module.before(a[v]))

    @T.prim_func
    def after(x: T.{d}) -> T.{d}:
        T.ret(x)

    @R.function
    def main(a: R.Tensor((4,), "{d}")):
        return R.call_tir(Module.copy, (a,), R.Tensor((4,), "{d}"))
"""


@pytest.mark.parametrize("dtype", [d for d in dtype_names() if d != "float8_e8m0fnu"])
def test_a_call_has_the_type_its_callee_returns(dtype):
    mod, a = parse(RETURNS.replace("{d}", dtype)), np.array([0, 1, 2, 1]).astype(DataType(dtype).numpy)
    assert first_difference(mod, parse(mod.script())) is None
    for made in (run(mod, "main", a), VirtualMachine(build(mod))["main"](a).numpy()):
        np.testing.assert_array_equal(made.astype("float64"), a.astype("float64"))


CONSTANTS = [
    ("1", "int32"), ("-3", "int32"), ("1.5", "float32"), ("True", "bool"), ("[1, 2]", "int32"), ("[1, 2.5]", "float32"),
    ("[[True]]", "bool"), ("2**31 - 1", "int32"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "dtype"), CONSTANTS)
def test_numbers_have_the_data_types_of_tvm(text, dtype):
    fn = parse(f"@R.function\ndef main():\n    return R.const({text})\n")
    assert fn.ret_ty.dtype == dtype == unity.relax.const(eval(text)).ty.dtype


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**30])
def test_a_number_too_large_is_refused(value):
    with pytest.raises(unity.UnityError) as caught:
        unity.relax.const(value)
    assert caught.value.code == "E211"
    with pytest.raises(unity.UnityError):
        parse(f"@R.function\ndef main():\n    return R.const({value})\n")


@pytest.mark.parametrize("dtype", ["int64", "float64", "uint8", "float16"])
def test_arrays_keep_theirs(dtype):
    assert unity.relax.const(np.zeros(2, dtype)).ty.dtype == dtype
