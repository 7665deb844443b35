"""Odd texts: what Python overlooks is overlooked, numbers have ranges, errors stay short and are not repeated."""

from __future__ import annotations

import numpy as np
import pytest

from unity.ir.structural import structural_equal
from unity.script import parse
from unity.support.errors import MAX_SHOWN, ScriptError

HEADER = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), n: T.int64):\n'
PLAIN = HEADER + "    A[0] = 1.0\n    A[1] = 2.0\n"


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\f" + PLAIN.replace("    A[1]", "\f\n    A[1]"),
        PLAIN.replace("    A[1]", "\f    A[1]"),
        "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n" + PLAIN,
        '"""Text of a file."""\nfrom __future__ import annotations\nimport numpy as np\nimport os, sys as s\n' + PLAIN,
        "from package.sub import (\n    name as other,\n    third,\n)\n" + PLAIN,
    ],
    ids=["byte order mark", "CRLF", "form feed lines", "form feed indent", "coding", "imports", "import in brackets"],
)
def test_overlooked(text: str) -> None:
    assert structural_equal(parse(text), parse(PLAIN))


def problem(text: str) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    "line,code",
    [
        ("A[0] = T.cast(10**400, 'float32')", "E201"),
        ("A[0] = T.float32(0x" + "f" * 400 + ")", "E201"),
        ("A[0] = 1e300 ** 4", "E106"),
        ("A[0] = 0.0 ** -1", "E113"),
        ("A[0] = (-8.0) ** 0.5", "E113"),
        ("A[0] = 10**400 / 3.0", "E106"),
        ("A[0] = T.cast(T.int8(300), 'float32')", "E106"),
        ("A[0] = T.cast(T.uint8(-1), 'float32')", "E106"),
        ("A[0] = T.cast(T.int64(1e30), 'float32')", "E106"),
        ("B = T.alloc_buffer((-1,), 'float32')", "E113"),
        ("B = T.alloc_buffer((10**40,), 'float32')", "E106"),
    ],
)
def test_numbers_out_of_range(line: str, code: str) -> None:
    assert problem(HEADER + f"    {line}\n").code == code


@pytest.mark.parametrize(
    "ty,code",
    [
        ('R.Tensor((-2, 3), "float32")', "E113"),
        ('R.Tensor((10**30,), "float32")', "E106"),
        ('R.Tensor(ndim=-5, dtype="float32")', "E113"),
        ('R.Tensor(ndim=10**30, dtype="float32")', "E113"),
        ("R.Shape([-1])", "E113"),
        ("R.Shape(ndim=-2)", "E113"),
    ],
)
def test_shapes_out_of_range(ty: str, code: str) -> None:
    assert problem(f"@R.function\ndef f(x: {ty}):\n    return x\n").code == code


def test_long_names_are_shortened() -> None:
    error = problem(HEADER + f"    A[0] = {'a' * 1_000_000}\n")
    assert error.code == "E110" and len(str(error)) < 5000


def test_many_errors_are_counted() -> None:
    error = problem(HEADER + "    A[0] = zzz\n" * 5000)
    shown = str(error)
    assert shown.count("error[E110]") == MAX_SHOWN and shown.endswith("not shown") and len(shown) < 5000


def test_broken_header_is_one_error() -> None:
    text = HEADER.replace("(A:", "(A: :") + "    A[0] = = 1\n" + PLAIN.replace("def f", "def g").replace("1.0", "zzz")
    codes = [(e.code, e.span.line) for e in problem(text).errors if e.span is not None]
    assert codes == [("E101", 2), ("E101", 3), ("E110", 6)]


def test_names_of_the_end() -> None:
    assert problem("@").message.startswith("unexpected end of the line, expected")
    assert problem("x = \\").message.startswith("unexpected end of the text, expected")


def test_a_function_called_like_a_namespace() -> None:
    error = problem('@R.function\ndef T[n: T.int64](x: R.Tensor((n,), "float32")):\n    return A\n')
    assert error.code == "E110"


def test_access_masks_are_numbers() -> None:
    assert problem(HEADER + "    T.evaluate(A.access_ptr({}))\n").code == "E113"


def test_arguments_by_name_of_a_call_with_many() -> None:
    text = '@R.function\ndef f(x: R.Tensor((2,), "float32")):\n    y = R.call_packed(func="f", args=x)\n    return y\n'
    assert problem(text).code == "E215"


@pytest.mark.parametrize("call", ["range(0, 5, 0)", "range(2**70)", 'int(float("inf"))', 'int(float("nan"))', "float(10**400)",
                                  "float(values)", "math.sqrt(-1)", "A.vstore([0])"])  # fmt: skip
def test_python_functions_without_a_result_are_errors_of_the_text(call: str) -> None:
    text = f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[0] = {call}\n'
    with pytest.raises(ScriptError) as caught:
        parse(text, scope={"values": np.ones(3)})
    assert all([error.span is not None for error in caught.value.errors])


def test_a_buffer_is_no_size_of_the_next_parameter() -> None:
    with pytest.raises(ScriptError, match="a dimension must be an integer") as caught:
        parse('@T.prim_func\ndef f(A: T.Buffer((4,), "float32"), B: T.Buffer((A,), "float32")):\n    T.evaluate(0)\n')
    assert len(caught.value.errors) == 1


@pytest.mark.parametrize("level", ["T", "R"])
def test_macros_that_double_end_soon(level: str) -> None:
    """Each macro calls the one above twice: 2 to the 40 expansions."""
    macros = "".join([f"@{level}.macro\ndef m{k + 1}(x):\n    m{k}(x)\n    m{k}(x)\n" for k in range(40)])
    functions = {
        "T": '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    m40(A)\n',
        "R": '@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    m40(x)\n    return x\n',
    }
    with pytest.raises(ScriptError, match="macros expand without end"):
        parse(f"@{level}.macro\ndef m0(x):\n    pass\n{macros}{functions[level]}")
