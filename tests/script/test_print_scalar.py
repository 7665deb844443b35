"""Printing of scalar expressions, judged by Python's own evaluation and parser."""

from __future__ import annotations

import ast
import math
import random
import re
import struct

import numpy as np
import pytest

import unity.script.printer.show  # noqa: F401 - fills the printer hook
from unity.ffi.dtype import DataType
from unity.ir import (
    EQ,
    LT,
    Add,
    And,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    Var,
    build as b,
    prim_type,
)  # fmt: skip
from unity.script.printer.core import quote
from unity.script.printer.highlight import ansi, html_block, tokens
from unity.script.printer.scalar import float_text
from unity.script.printer.show import script

I64 = prim_type("int64")
BOOL = prim_type("bool")
X, Y = Var("x", I64), Var("y", I64)


class _T:
    """What the raw forms mean, for Python's eval."""

    Add = staticmethod(lambda a, c: a + c)
    Sub = staticmethod(lambda a, c: a - c)
    Mul = staticmethod(lambda a, c: a * c)
    FloorDiv = staticmethod(lambda a, c: a // c)
    FloorMod = staticmethod(lambda a, c: a % c)
    LT = staticmethod(lambda a, c: a < c)
    EQ = staticmethod(lambda a, c: a == c)
    And = staticmethod(lambda a, c: a and c)
    Or = staticmethod(lambda a, c: a or c)
    Not = staticmethod(lambda a: not a)
    min = staticmethod(min)
    Min = staticmethod(min)
    int64 = int
    bool = bool


_MEANING = {
    Add: lambda a, c: a + c, Sub: lambda a, c: a - c, Mul: lambda a, c: a * c, FloorDiv: lambda a, c: a // c,
    FloorMod: lambda a, c: a % c, Min: min, LT: lambda a, c: a < c, EQ: lambda a, c: a == c,
    And: lambda a, c: a and c, Or: lambda a, c: a or c,
}  # fmt: skip


def _value(node: Expr, x: int, y: int) -> object:
    if node is X:
        return x
    if node is Y:
        return y
    if isinstance(node, IntImm):
        return bool(node.value) if node.ty is BOOL else node.value
    if isinstance(node, Not):
        return not _value(node.a, x, y)
    return _MEANING[type(node)](_value(node.a, x, y), _value(node.b, x, y))  # type: ignore[attr-defined]


def _random_int(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return rng.choice((X, Y, IntImm(rng.randint(-3, 4), I64)))
    kind = rng.choice((Add, Sub, Mul, FloorDiv, FloorMod, Min))
    right = IntImm(rng.randint(1, 5), I64) if kind in (FloorDiv, FloorMod) else _random_int(rng, depth - 1)
    return kind(_random_int(rng, depth - 1), right, I64)


def _random_bool(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice((LT, EQ))(_random_int(rng, 2), _random_int(rng, 2), BOOL)
    if rng.random() < 0.15:
        return EQ(_random_bool(rng, depth - 1), _random_bool(rng, depth - 1), BOOL)
    if rng.random() < 0.25:
        return Not(_random_bool(rng, depth - 1), BOOL)
    return rng.choice((And, Or))(_random_bool(rng, depth - 1), _random_bool(rng, depth - 1), BOOL)


def test_random_expressions_mean_what_they_say() -> None:
    rng = random.Random(1)
    for number in range(400):
        node = _random_int(rng, 5) if number % 2 else _random_bool(rng, 3)
        text = repr(node)
        code = compile(ast.parse(text, mode="eval"), "", "eval")
        for x, y in ((3, 5), (-7, 2), (0, -1)):
            assert eval(code, {"x": x, "y": y, "T": _T}) == _value(node, x, y), text


def test_parentheses_around_a_comparison_in_a_comparison() -> None:
    inner = LT(X, Y, BOOL)
    assert repr(EQ(inner, LT(Y, X, BOOL), BOOL)) == "(x < y) == (y < x)"
    assert repr(Sub(X, Sub(Y, X, I64), I64)) == "x - (y - x)"
    assert repr(And(Or(inner, inner, BOOL), inner, BOOL)) == "(x < y or x < y) and x < y"


def test_folding_forms_are_written_raw() -> None:
    zero, one = IntImm(0, I64), IntImm(1, I64)
    assert repr(Add(X, zero, I64)) == "T.Add(x, T.int64(0))"
    assert repr(Mul(one, X, I64)) == "T.Mul(T.int64(1), x)"
    assert repr(Sub(zero, X, I64)) == "0 - x"
    assert repr(Add(one, one, I64)) == "T.Add(T.int64(1), T.int64(1))"
    assert repr(Cast(X, prim_type("float32"))) == 'T.Cast("float32", x)'


FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_text_keeps_every_bit(dtype: str) -> None:
    data_type = DataType(dtype)
    size = data_type.itemsize
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, size=(600, size), dtype=np.uint8)
    values = np.frombuffer(raw.tobytes(), dtype=data_type.numpy)
    edges = [0.0, -0.0, 1.0, 0.1, 1e-45, 3.4e38, 5e-324, 65504.0, 2.0**53, 1e22, math.pi]
    with np.errstate(over="ignore"):
        values = np.concatenate([values, np.array(edges).astype(data_type.numpy)])
    for item in values:
        value = float(item)
        text = float_text(value, data_type)
        if math.isnan(value):
            assert text in ('"nan"', '"-nan"')
            continue
        back = float(text.strip('"')) if text.startswith('"') else float(ast.literal_eval(text))
        again = float(np.float64(b.round_float(back, data_type)))
        assert struct.pack("d", again) == struct.pack("d", value), (text, value)


def test_float_text_is_short() -> None:
    assert float_text(float(np.float32(0.1)), DataType("float32")) == "0.1"
    assert float_text(0.1, DataType("float64")) == "0.1"
    assert float_text(-0.0, DataType("float32")) == "-0.0"
    assert repr(FloatImm(1.5, prim_type("float32"))) == "T.float32(1.5)"
    assert repr(FloatImm(0.0, prim_type("float32"))) == "T.float32(0)"


@pytest.mark.parametrize("text", ["plain", 'a"b', "back\\slash", "new\nline", "tab\t", "é", "\u2028", "\ud800", "\x00"])
def test_strings_are_python_literals(text: str) -> None:
    assert ast.literal_eval(quote(text)) == text


def _sum_of(terms: int, right: bool) -> Expr:
    total: Expr = X
    for _ in range(terms):
        total = Add(Y, total, I64) if right else Add(total, Y, I64)
    return total


@pytest.mark.parametrize("right", [False, True])
def test_deep_sums_print(right: bool) -> None:
    text = repr(_sum_of(20_000, right))
    assert text.count("+") == 20_000
    assert text.count("(") == (19_999 if right else 0)


def test_colours_only_add() -> None:
    text = script(Add(X, IntImm(3, I64), I64)) + " # note \"x\" 'y'\n@T.prim_func\n    ^^^ here"
    assert "".join([piece for _, piece in tokens(text)]) == text

    assert re.sub(r"\x1b\[[0-9;]*m", "", ansi(text)) == text
    page = html_block("a < b")
    assert "&lt;" in page and page.startswith("<pre")
