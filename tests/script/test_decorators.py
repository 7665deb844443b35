"""Decorated Python: the text of the definition is read with names of the scope it stands in; nothing in it runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import unity
import unity.script
from unity.ir import Call, Constant, ExternFunc, Function, IRModule, PrimFunc, first_difference
from unity.script import ir as I, parse, relax as R, script, tir as T
from unity.support.errors import ScriptError

N = 16
WEIGHT = np.ones((4, 4), "float32")


@unity.register_func("tests.script.touch", override=True)
def touch(t: Any) -> None:
    raise AssertionError("reading runs nothing")


@I.ir_module
class Outer:
    @T.prim_func
    def fill(A: T.Buffer((N, 4), "float32"), n: T.int64):
        for i in range(N):
            A[i, 0] = T.exp(A[i, 1])

    @R.function(pure=False)
    def main(x: R.Tensor((4, 4), "float32")):
        y = R.add(x, WEIGHT)
        R.call_packed(touch, y)
        return y


@T.prim_func
def add_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] + T.float32(1)


@R.function
def twice(x: R.Tensor(("n",), "float32")):
    return R.add(x, x)


@unity.script.ir_module
class UsesOthers:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_dps(add_one, (x,), R.Tensor((4,), "float32"))


def test_module() -> None:
    assert isinstance(Outer, IRModule) and Outer.name == "Outer"
    assert list(Outer.functions) == ["fill", "main"]
    assert Outer["fill"].body.extent.value == N
    calls = [b.value for block in Outer["main"].body.blocks for b in block.bindings]
    assert type(calls[0].args[1]) is Constant
    assert np.shares_memory(calls[0].args[1].data.numpy(), WEIGHT)
    assert type(calls[1].args[0]) is ExternFunc and calls[1].args[0].name == "tests.script.touch"


def test_text_and_decorator_agree() -> None:
    assert first_difference(Outer, parse(script(Outer))) is None


def test_functions_alone() -> None:
    assert isinstance(add_one, PrimFunc) and isinstance(twice, Function)
    assert add_one.attrs["global_symbol"] == "add_one"


def test_functions_from_outside_join_the_module() -> None:
    assert list(UsesOthers.functions) == ["add_one", "main"]
    assert UsesOthers["add_one"] is add_one


def make(n: int, dtype: str) -> PrimFunc:
    @T.prim_func(private=True)
    def f(A: T.Buffer((n,), dtype)):
        A[0] = T.Cast(dtype, n)

    return f


def make_module(n: int) -> IRModule:
    @I.ir_module(check_well_formed=False)
    class Inner:
        @R.function(private=True)
        def main(x: R.Tensor((n,), "float32")):
            return x

    return Inner


def test_factories_take_values_of_their_scope() -> None:
    small, large = make(2, "float16"), make(8, "int32")
    assert small.buffer_map[small.params[0]].dtype.name == "float16"
    assert large.buffer_map[large.params[0]].shape[0].value == 8  # type: ignore[attr-defined]
    assert "global_symbol" not in small.attrs
    assert make_module(3)["main"].params[0].ty.shape.values[0].value == 3


def test_errors_name_the_file_and_line(tmp_path: Path) -> None:
    text = (
        "from unity.script import tir as T\n\n\n"
        'def outer():\n    @T.prim_func\n    def f(A: T.Buffer((4,), "float32")):\n'
        "        A[0] = missing\n        A[1] = T.expp(A[0])\n\n"
        "    return f\n"
    )
    module = load(tmp_path, text)
    with pytest.raises(ScriptError) as caught:
        module.outer()
    first, second = caught.value.errors
    assert first.span is not None and second.span is not None
    assert (first.span.line, first.span.column) == (7, 16)
    assert (second.span.line, second.span.column) == (8, 16)
    assert first.span.source.name.endswith("decorated_case.py")
    assert "7 |     A[0] = missing\n  |            ^^^^^^^" in str(caught.value)


def load(folder: Path, text: str) -> ModuleType:
    path = folder / "decorated_case.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("decorated_case", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_old_import_names(tmp_path: Path) -> None:
    text = (
        "import unity\nfrom unity.script.tir import prim_func\n"
        "from unity.script import tir as TT, relax\nfrom unity.script.ir import ir_module as irm\n\n\n"
        '@prim_func\ndef g(A: TT.Buffer[(4,), "float32"]):\n    A[0] = TT.float32(1)\n\n\n'
        '@irm\nclass M:\n    @relax.function\n    def main(x: relax.Tensor((4,), "float32")):\n        return relax.add(x, x)\n'
    )  # fmt: skip
    module = load(tmp_path, text)
    assert isinstance(module.g, PrimFunc) and isinstance(module.M, IRModule)


def test_code_without_a_text() -> None:
    names: dict[str, Any] = {"T": T, "R": R, "I": I}
    with pytest.raises(ScriptError, match="E122"):
        exec("@T.prim_func\ndef f(A: T.handle):\n    pass\n", names)
    with pytest.raises(ScriptError, match="E122"):
        T.prim_func(3)  # type: ignore[call-overload]


def test_names_of_script_in_python() -> None:
    assert T.Buffer((4,), "float32") is T.Buffer  # an annotation: nothing happens
    assert R.Tensor[(4,), "float32"] is R.Tensor
    assert repr(T.axis.spatial) == "T.axis.spatial"
    with pytest.raises(ScriptError, match="E123"):
        T.exp(1.0)
    with pytest.raises(ScriptError, match="E123"):
        R.nn.softmax(1.0)
    with pytest.raises(AttributeError):
        _ = T.no_such_thing
    for module, some in ((T, "exp"), (R, "add"), (I, "module_attrs")):
        assert some in dir(module)
        assert getattr(module, some).__doc__


def test_the_reader_has_no_eval() -> None:
    folder = Path(str(sys.modules["unity.script"].__file__)).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("eval(", "exec(", "compile(", "__import__", "literal_eval"):
            for line in text.splitlines():
                assert word not in line.replace("re.compile(", ""), f"{path.name}: {line}"


@T.macro
def add_to(X, i, value):
    t = X[i] + value * T.float32(N)
    X[i] = t


@T.inline
def clear(i):
    A[i] = T.float32(0)


@R.macro
def square(a):
    b = R.multiply(a, a)
    return b


@T.prim_func
def with_macros(A: T.Buffer((4,), "float32")):
    t = A[0]
    add_to(A, 1, t)
    clear(2)
    A[3] = t


@R.function
def squared(x: R.Tensor((4,), "float32")):
    y = square(x)
    return square(y)


def test_macros_in_python_files() -> None:
    inside = parse(
        '@T.prim_func\ndef with_macros(A: T.Buffer((4,), "float32")):\n    t = A[0]\n    u = A[1] + t * T.float32(16)\n'
        "    A[1] = u\n    A[2] = T.float32(0)\n    A[3] = t\n"
    )
    assert first_difference(with_macros, inside) is None
    values = [b.value for block in squared.body.blocks for b in block.bindings]
    assert [v.op.name for v in values if isinstance(v, Call)] == ["R.multiply", "R.multiply"]


def test_an_error_in_a_macro_shows_its_line(tmp_path: Path) -> None:
    text = (
        "from unity.script import tir as T\n\n\n@T.macro\ndef bad(X):\n    X[0] = missing\n\n\n"
        'def outer():\n    @T.prim_func\n    def f(A: T.Buffer((4,), "float32")):\n        bad(A)\n'
    )
    module = load(tmp_path, text)
    with pytest.raises(ScriptError) as caught:
        module.outer()
    assert caught.value.span is not None and caught.value.span.line == 6
