"""Every data type at every place of a graph function: it runs, compiled and interpreted alike, or it is refused in words."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType, dtype_names
from unity.ir.interpret import run
from unity.script import parse
from unity.script.spelling.spelling import DTYPES
from unity.support.errors import UnityError
from unity.vm.build import build
from unity.vm.virtual_machine import VirtualMachine

ODD = [*[name for name in DTYPES if name not in dtype_names()], "void", "handle", "float32x4", "int8x2", "int4x8"]
T = 'R.Tensor((4,), "{d}")'
PLACES = {
    "parameter": (f"x: {T}", 'R.const([1, 2], "int32")'),
    "result": (f"x: {T}", "x"),
    "rank 0": ('x: R.Tensor((), "{d}")', "x"),
    "any shape": ('x: R.Tensor(dtype="{d}")', "x"),
    "element of a tuple": (f"x: R.Tuple({T}, R.Tuple({T}))", "x[1]"),
    "result in a tuple": (f"x: {T}", "(x, (x,))"),
    "constant": ("", 'R.const([1, 0, 1, 0], "{d}")'),
    "filled": ("", 'R.zeros((4,), "{d}")'),
    "operand": (f"x: {T}", "R.concat((x, x))"),
    "tensor program": (f"x: {T}", f"R.call_tir(Module.same, (x,), {T})"),
    "registered function": (f"x: {T}", f'R.call_dps_packed("tests.data_types.same", (x,), {T})'),
    "returned by one": (f"x: {T}", f'R.call_pure_packed("tests.data_types.given", x, ty_args=({T},))'),
    "scalar": ('x: R.Prim("{d}")', "x"),
    "scalar in a tuple": ('x: R.Tuple(R.Prim("{d}"), R.Object)', "x[0]"),
    "view": (f"x: {T}", 'R.memory.view(x, dtype="{d}")'),
    "branch": (f'x: {T}, c: R.Tensor((), "bool")', None),
    "checked": ("x: R.Object", None),
}
BODIES = {
    "branch": "if c:\n            y = x\n        else:\n            y = x\n        return y",
    "checked": f"y = R.match_cast(x, {T})\n        return y",
}
SAME = """
    @T.prim_func(private=True)
    def same(a: T.Buffer((4,), "{d}"), b: T.Buffer((4,), "{d}")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]
"""


def text(places, dtype):
    """A module with a function for each place."""
    lines = ["@I.ir_module", "class Module:"]
    if "tensor program" in places:
        lines.append(SAME)
    for place in places:
        params, result = PLACES[place]
        lines += [
            "    @R.function",
            f"    def {place.replace(' ', '_')}({params}):",
            f"        {BODIES.get(place) or f'return {result}'}",
        ]
    return "\n".join(lines).replace("{d}", dtype)


def given(place, dtype):
    kind = DataType(dtype).numpy
    x = np.array([1, 0, 1, 0]).astype(kind)
    scalar = place.startswith("scalar")
    value = {"rank 0": np.array(x[0]), "scalar": x[0].item() if scalar else None, "scalar in a tuple": (x[0].item(), x),
             "element of a tuple": (x, (x,))}.get(place, x)  # fmt: skip
    return [] if not PLACES[place][0] else [value, np.array(True)] if place == "branch" else [value]


@pytest.fixture(autouse=True)
def functions():
    def same(x, y):
        y.numpy()[...] = x.numpy()

    unity.register_func("tests.data_types.same", same, override=True)
    unity.register_func("tests.data_types.given", lambda x: x, override=True)


def plain(value):
    if isinstance(value, tuple):
        return tuple([plain(v) for v in value])
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


@pytest.mark.parametrize("dtype", dtype_names())
def test_runs(dtype):
    mod = parse(text(PLACES, dtype))
    vm = VirtualMachine(build(mod))
    for place in PLACES:
        name, args = place.replace(" ", "_"), given(place, dtype)
        made, expected = plain(vm[name](*args)), plain(run(mod, name, *args))
        flat, wanted = [list(v) if isinstance(v, tuple) else [v] for v in (made, expected)]
        for a, b in zip(flat, wanted, strict=True):
            a, b = [v[0] if isinstance(v, tuple) else v for v in (a, b)]
            assert a.dtype == b.dtype or place.startswith("scalar")
            np.testing.assert_array_equal(a.astype("float64"), b.astype("float64"), err_msg=place)


@pytest.mark.parametrize(
    ("place", "dtype"),
    [(p, d) for p in PLACES for d in ODD if (p, d) != ("view", "void")],  # of a view, void says that it is not given
)
def test_is_refused(place, dtype):
    with pytest.raises(UnityError) as caught:
        build(parse(text([place], dtype)))
    assert caught.value.code in ("E626", "E113", "E214", "E346") and dtype in str(caught.value)


PROGRAMS = {
    "parameter": 'a: T.Buffer((4,), "{d}")):\n    a[0] = a[1]',
    "parameter that is not read": 'a: T.Buffer((4,), "{d}"), b: T.Buffer((4,), "float32")):\n    b[0] = 0.0',
    "scalar parameter": 'a: T.{d}, b: T.Buffer((4,), "float32")):\n    b[0] = T.Cast("float32", a)',
    "cast to it and back": 'a: T.Buffer((4,), "float32")):\n    a[0] = T.Cast("float32", T.Cast("{d}", a[1]))',
    "memory of its own": 'a: T.Buffer((4,), "float32")):\n    b = T.alloc_buffer((4,), "{d}")\n    b[0] = T.Cast("{d}", a[0])',
    "result": 'a: T.int32) -> T.{d}:\n    return T.Cast("{d}", a)',
    "loop": 'a: T.Buffer((4,), "float32")):\n    for i in T.serial(T.{d}(1)):\n        a[i] = 0.0',
}
"""Places of a data type in a tensor program."""


@pytest.mark.parametrize("place", PROGRAMS)
@pytest.mark.parametrize("dtype", [*DTYPES, *ODD])
def test_places_in_tensor_programs(place, dtype):
    """Compiled, or refused in words: never an error of LLVM's or of the bytecode's verifier."""
    try:
        build(parse(f"@T.prim_func\ndef f({PROGRAMS[place]}\n".replace("{d}", dtype)))
    except UnityError as error:
        assert error.code[:2] != "E9", error


def test_void_leaves_the_type_of_a_view():
    mod = parse(text(["view"], "float32").replace('dtype="float32"', 'dtype="void"'))
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(VirtualMachine(build(mod))["view"](x).numpy(), x)
