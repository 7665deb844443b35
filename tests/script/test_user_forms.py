"""Forms that programs of TVM use and that were once refused or misread; each is read, printed, and read back equal."""

from __future__ import annotations

import math

import numpy as np
import pytest

import unity
from unity.ir import IRModule, first_difference, interpret
from unity.script import ir as I, parse, relax as R, tir as T
from unity.support.errors import ScriptError

_HEAD = '@T.prim_func\ndef f(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):\n'
_GRAPH = '@R.function\ndef main(x: R.Tensor((3, 4), "float32")):\n'

FORMS = {
    "launch_thread named by its target": _HEAD
    + '    bx = T.launch_thread("blockIdx.x", 2)\n    tx = T.launch_thread("threadIdx.x", 16)\n'
    + "    B[bx * 16 + tx] = A[bx * 16 + tx]\n",
    "no result type": _HEAD + '    T.evaluate(T.ptx_commit_group(dtype=""))\n    T.ptx_wait_group(0, dtype="")\n',
    "result type first": _HEAD + '    B[0:16] = T.vectorlow("float32x16", A[0:32])\n',
    "a mask of 2023": _HEAD
    + '    B.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 1, 8)]), predicate=T.get_active_lane_mask("uint1x8", 0, 5))\n',
    "T.Var with a name": '@T.prim_func\ndef f(a: T.handle):\n    n = T.Var("n", "int64")\n'
    + '    A = T.match_buffer(a, (n,), "float32")\n    T.Assert(n > 0, "empty")\n    A[0] = T.float32(1)\n',
    "any number of conditions": _HEAD
    + '    for i in range(32):\n        k: T.let[T.int32()] = T.Cast("int32", i)\n'
    + "        while T.tvm_thread_invariant(T.any(T.all(i > 1, i < 4, A[i] > 0.0), k > 30)):\n            A[i] = -1.0\n",
    "T.FloatImm": _GRAPH
    + '    return R.full_like(x, R.const(2.0)), R.prim_value(T.IntImm("int32", 3)), '
    + 'R.prim_value(T.FloatImm("float32", 0.5))\n',
    "R.device": _GRAPH + '    return R.hint_on_device(x, R.device(1, 0)), R.hint_on_device(x, R.device("cuda", 1))\n',
    "fields of a tensor": "@R.function\ndef main(x: R.Tensor):\n    return x.ndim, x.dtype.bits, x.shape[0], x.elem_offset\n",
}


@pytest.mark.parametrize("what", FORMS)
def test_reads_and_reads_back(what: str) -> None:
    first = parse(FORMS[what])
    text = str(first)
    again = parse(text)
    assert first_difference(first, again) is None
    assert str(again) == text


def test_fields_of_a_tensor_have_their_values() -> None:
    fn = parse(FORMS["fields of a tensor"])
    assert [int(v) for v in interpret.run(fn, "main", np.zeros((5, 2), "float16"))] == [2, 16, 5, 0]


@pytest.mark.parametrize(
    "line", ["T.preflattened_buffer(A, [4, 8])", 'T.call_packed("f", T.tvm_stack_make_array(A.data, 0, 0, 1, 0, 0))']
)
def test_what_belongs_to_lowered_programs_is_refused(line: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(_HEAD + f"    {line}\n")
    assert caught.value.errors[0].code == "E117"


def test_a_dropped_storage_lives_on_in_its_tensor() -> None:
    text = (
        '@R.function(pure=False)\ndef main(x: R.Tensor((2,), "float32")):\n'
        '    s = R.vm.alloc_storage(R.shape([8]), R.prim_value(0), R.dtype("float32"))\n'
        '    t: R.Tensor((2,), "float32") = R.vm.alloc_tensor(s, R.prim_value(0), R.shape([2]), R.dtype("float32"))\n'
        '    _ = R.call_packed("user_forms.double", x, t)\n    R.vm.kill_object(s)\n    return t\n'
    )
    unity.register_func("user_forms.double", lambda x, out: np.multiply(x, 2, out=np.asarray(out)), override=True)
    mod, x = IRModule.from_expr(parse(text)), np.arange(2, dtype="float32")
    np.testing.assert_array_equal(np.asarray(interpret.run(mod, "main", x)), [0, 2])
    np.testing.assert_array_equal(unity.VirtualMachine(unity.compile(mod))["main"](x).numpy(), [0, 2])


@I.ir_module
class Closures:
    """Types with arguments in annotations that Python evaluates."""

    @R.function
    def apply(
        f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), x: R.Tensor((2,), "float32")
    ) -> R.Any:
        return f(x)


def test_callable_stands_in_a_signature() -> None:
    assert 'f: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"))' in str(Closures)


@pytest.mark.parametrize("expression", ['R.matmul(x, x, out_dtype="void")', 'R.cumsum(x, axis=0, dtype="void")'])
def test_void_is_a_data_type_not_given(expression: str) -> None:
    text = f'@R.function\ndef main(x: R.Tensor((3, 3), "float32")):\n    return {expression}\n'
    assert np.asarray(interpret.run(parse(text), "main", np.ones((3, 3), "float32"))).dtype == "float32"


def test_elements_of_arrays_from_outside() -> None:
    text = _GRAPH + "    return R.add(x, R.const(w[1])), R.prim_value(w[0, 2])\n"
    row, number = interpret.run(parse(text, scope={"w": np.arange(12.0).reshape(3, 4).astype("float32")}), "main",
                                np.zeros((3, 4), "float32"))  # fmt: skip
    np.testing.assert_array_equal(np.asarray(row)[0], [4, 5, 6, 7])
    assert number == 2
    with pytest.raises(ScriptError, match=r"index \(3,\) of an array"):
        parse(_GRAPH + "    return R.const(w[3])\n", scope={"w": np.zeros((3, 4))})


def test_linear_and_masked_fill_stand_for_operators() -> None:
    text = '@R.function\ndef main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")):\n'
    fn = parse(text + "    return R.linear(x, w, b), R.masked_fill(x, R.less(x, R.const(0.0)), -1)\n")
    x, w, b = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ((2, 4), (3, 4), (3,))]
    linear, filled = interpret.run(fn, "main", x, w, b)
    np.testing.assert_allclose(linear, x @ w.T + b, rtol=1e-5)
    np.testing.assert_array_equal(filled, np.where(x < 0, np.float32(-1), x))
    assert "R.linear" not in str(fn)


@T.macro
def clipped(x, low, with_floor=True):
    y = x * T.float32(2)
    if with_floor:
        return T.max(y, low)
    return y


@T.inline
def local_cell(dtype):
    return T.alloc_buffer((1,), dtype, scope="local")


def test_hygienic_macros_keep_the_values_at_their_definition() -> None:
    value = 2

    @T.macro
    def kept(A):
        A[0] = value

    @T.macro(hygienic=False)
    def asked(A):
        A[1] = value + later

    value, later = 3, 10

    @T.prim_func
    def both(A: T.Buffer((2,), "int32")):
        kept(A)
        asked(A)

    assert "A[0] = 2\n    A[1] = 13" in str(both)


@T.prim_func
def with_values(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.serial(4):
        cell = local_cell("float32")
        cell[0] = clipped(A[i], T.float32(-1))
        B[i] = cell[0] + clipped(A[i], T.float32(0), with_floor=False)


def test_a_macro_returns_a_value() -> None:
    assert "cell = T.alloc_buffer" in str(with_values)
    assert first_difference(parse(str(with_values)), with_values) is None
    given, result = np.array([-2, -0.25, 0, 3], "float32"), np.zeros(4, "float32")
    interpret.run(with_values, "with_values", given, result)
    np.testing.assert_array_equal(result, np.maximum(2 * given, -1) + 2 * given)


_MACRO = "@T.macro\ndef m(x):\n{body}\n" + _HEAD + "    B[0] = m(A[0])\n"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("    y = x", "E113"),
        ("    if x > T.float32(0):\n        return x\n    return -x", "E107"),
        ("    for i in range(4):\n        return x", "E107"),
        ("    return m(x)", "E105"),
        ("    return x + missing", "E110"),
    ],
)
def test_a_macro_without_a_value_says_so(body: str, code: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(_MACRO.format(body=body))
    assert caught.value.errors[0].code == code


def test_python_math_of_plain_numbers() -> None:
    text = _HEAD + "    B[0] = A[0] * T.float32(math.sqrt(64) + math.floor(math.pi))\n"
    assert "T.float32(11)" in str(parse(text, scope={"math": math}))
    for bad, code in (("math.factorial(9)", "E111"), ("math.sqrt(-1)", "E113"), ("math.sqrt(A[0])", "E113")):
        with pytest.raises(ScriptError) as caught:
            parse(_HEAD + f"    B[0] = {bad}\n", scope={"math": math})
        assert caught.value.errors[0].code == code


def test_a_python_function_is_refused_with_the_way_out() -> None:
    with pytest.raises(ScriptError) as caught:
        parse(_HEAD + "    B[0] = helper(A[0])\n", scope={"helper": lambda x: x})
    assert "decorate it with @T.macro" in str(caught.value)


def test_types_of_python_functions_may_be_optional() -> None:
    assert (T.Buffer | None) is T.Buffer
    assert (None | R.Tensor) is R.Tensor
