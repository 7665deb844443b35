"""A Python float in script keeps every digit that the type beside it holds, and is rounded once, wherever it stands."""

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType
from unity.ir import Constant, FloatImm, Var, first_difference
from unity.ir.build import const, round_float
from unity.ir.op import OPS, REQUIRED
from unity.ir.relation import tensor_type
from unity.ir.walk import collect
from unity.op import OPERATORS
from unity.script import from_source
from unity.support.errors import TypeRuleError

DIGITS = {"float64": 0.1, "float32": 0.1, "float16": 1 + 2**-11 + 2**-30, "bfloat16": 1 + 2**-8 + 2**-30}
"""Numbers that come out otherwise when they pass through float32 before the data type."""
MODULE = """
from unity.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @T.prim_func
    def program(A: T.Buffer((4,), "DTYPE"), s: T.DTYPE, B: T.Buffer((4,), "DTYPE")):
        for i in range(4):
            PROGRAM

    @R.function(private=True)
    def inner(x: R.Tensor((4,), "DTYPE"), s: R.Prim("DTYPE")) -> R.Tensor((4,), "DTYPE"):
        return x

    @R.function
    def main(x: R.Tensor((4,), "DTYPE"), c: R.Tensor((4,), "bool")):
        y = GRAPH
        return y
"""
GRAPH = [
    "x + LIT", "LIT + x", "x - LIT", "LIT * x", "x / LIT", "LIT / x", "x // LIT", "x % LIT", "x ** LIT", "x < LIT", "LIT >= x", "x == LIT", "x + -LIT", "-LIT - x",
    "x + (LIT / 2 + LIT / 2)", "x + R.prim_value(LIT)", "R.where(c, LIT, x)", "R.where(c, x, LIT)", 'R.full((4,), LIT, "DTYPE")',
    "R.full_like(x, LIT)", 'R.full_like(c, LIT, "DTYPE")', 'R.full((4,), R.const(LIT, "DTYPE"))', 'R.const(LIT, "DTYPE")',
    'R.const([[LIT, 2.0]], "DTYPE")', 'R.arange(LIT, 9.5, LIT, "DTYPE")', "M.inner(x, LIT)", "M.inner(x, R.prim_value(LIT))",
]  # fmt: skip
PROGRAM = [
    "B[i] = LIT", "B[i] = A[i] + LIT", "B[i] = LIT - A[i]", "B[i] = LIT * s", "B[i] = T.max(A[i], LIT)", "B[i] = T.Max(LIT, A[i])", "B[i] += LIT",
    "B[i] = T.if_then_else(i < 2, A[i], LIT)", "B[i] = T.Select(i < 2, LIT, A[i])", "B[i] = LIT if i < 2 else s", "B[i] = T.pow(A[i], LIT)",
    "B[i] = T.pow(LIT, A[i])", "B[i] = T.fma(A[i], LIT, s)", "B[i] = T.fma(LIT, A[i], s)", 'B[i] = T.cast(LIT, "DTYPE")',
    'B[i] = T.Cast("DTYPE", LIT)', "B[i] = T.DTYPE(LIT)", 'B[i] = T.FloatImm("DTYPE", LIT)', 'B[i] = (LIT).astype("DTYPE")',
    "B.vstore([i], LIT)", "x: T.DTYPE = LIT; B[i] = x", "x: T.let[T.DTYPE] = LIT; B[i] = x", 'x = T.bind(LIT, dtype="DTYPE"); B[i] = x',
    "v: T.DTYPE = s; v = LIT; B[i] = v", "v: T.DTYPE = s; v *= LIT; B[i] = v", "T.evaluate(A[i] > LIT)", "T.atomic_add(B.data, LIT)",
    'T.evaluate(T.call_intrin("DTYPE", "tir.pow", s, LIT))', 'T.evaluate(T.call_llvm_pure_intrin("DTYPE", "llvm.pow", s, LIT))',
]  # fmt: skip


def literals(graph, program, dtype):
    """The constants near the number in a module with the two texts."""
    number = DIGITS[dtype]
    text = MODULE.replace("GRAPH", graph).replace("PROGRAM", program).replace("; ", "\n            ")
    module = from_source(text.replace("LIT ", f"{number!r} ").replace("DTYPE", dtype).replace("LIT", f"{number!r}"))
    values = [n.value for n in collect(module, FloatImm)]
    values += [v for n in collect(module, Constant) for v in np.ravel(n.data.numpy().astype("float64")).tolist()]
    return [abs(v) for v in values if abs(abs(v) - number) < 0.01 * number]


def takes_floats(name, count):
    try:
        OPERATORS[name](*[Var("x", tensor_type([const(3, "int64")], "float64"))] * count)
    except TypeRuleError:
        return False
    return True


def rows():
    """A call with a literal at each place of each operator that takes literals beside tensors of floats."""
    for name, info in OPS.items():
        count = len([p for p in info.params if p.kind == "expr" and p.default is REQUIRED])
        if info.scalars_from is not None and count > 1 and takes_floats(name, count):
            for place in range(info.scalars_from, count):
                yield f"{name}({', '.join(['LIT' if n == place else 'x' for n in range(count)])})"


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize(
    ("graph", "program"),
    [(g, "B[i] = A[i]") for g in (*GRAPH, *rows())] + [("x", p) for p in PROGRAM],
)
def test_rounded_once(graph, program, dtype):
    if graph.startswith("R.arange") and dtype == "bfloat16":
        dtype = "float16"
    found = literals(graph, program, dtype)
    assert found and set(found) == {round_float(DIGITS[dtype], DataType(dtype))}


ANY_VALUE = [
    'R.call_packed("f", LIT, ty_args=R.Object)', 'R.call_pure_packed("f", R.prim_value(LIT), ty_args=R.Object)', "R.print(x, LIT)",
    'R.call_dps_packed("f", (x, LIT), R.Tensor((4,), "float32"))', 'R.assert_op(R.const(True), LIT, format="{}")',
]  # fmt: skip


@pytest.mark.parametrize("graph", ANY_VALUE)
def test_python_functions_get_all_digits(graph):
    assert literals(graph, 'T.evaluate(T.call_packed("f", LIT))', "float32") == [0.1, 0.1]


def test_a_registered_function_gets_all_digits():
    seen = []
    unity.register_func("tests.literal", seen.append, override=True)
    text = MODULE.replace("GRAPH", 'R.call_packed("tests.literal", 0.1, ty_args=R.Object)')
    built = unity.build(from_source(text.replace("PROGRAM", "B[i] = A[i]").replace("DTYPE", "float64")))
    unity.VirtualMachine(built)["main"](np.zeros(4), np.zeros(4, "bool"))
    assert seen == [0.1]


def test_a_bare_literal_is_float32():
    """As in TVM, where nothing says otherwise."""
    assert literals("R.const(LIT)", "x = LIT; B[i] = x", "float64") == [round_float(0.1, DataType("float32"))] * 2


BESIDE = [
    "X + Z", "Z - X", "X * Z", "X // Z", "X % Z", "X < Z", "X == Z", "T.min(X, Z)", "T.max(Z, X)", "T.truncdiv(X, Z)", "T.truncmod(X, Z)",
    "T.bitwise_and(X, Z)", "T.bitwise_xor(Z, X)", "T.shift_right(Z, X)", "T.if_then_else(X > Z, X, Z)", "T.if_then_else(X > Z, Z, X)",
    "T.Select(X > Z, X, Z)", "T.Select(X > Z, Z, Z)", "T.min(X, T.if_then_else(X > Z, X, Z))", "T.Let(Z + v, where={v: X})", "X + Z * X",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_extreme_integers_read_back(dtype: str) -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((2,), 'DTYPE')):\n".replace("DTYPE", dtype)
    for value in (np.iinfo(dtype).min or 1, np.iinfo(dtype).max):
        for form in BESIDE:
            fn = from_source(f"{text}    T.evaluate({form})\n".replace("Z", f"T.{dtype}({value})").replace("X", "A[0]"))
            assert first_difference(from_source(str(fn)), fn) is None, str(fn)
