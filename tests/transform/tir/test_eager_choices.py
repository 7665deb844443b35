"""Choices whose sides may all be evaluated become selections; those that guard a read or a division stay lazy."""

import numpy as np
import pytest
from levels import Level

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.transform.default_schedule.nests.eager_choices import eager_choices

N = 1000
PROGRAM = """
@T.prim_func
def main(x: T.Buffer(({n},), "float32"), y: T.Buffer(({n},), "float32"), k: T.Buffer(({n},), "int32"), a: T.Buffer(({n},), "bool"),
         b: T.Buffer(({n},), "bool"), out: T.Buffer(({m},), "{dtype}")):
    for i in range({m}):
        with T.block("out"):
            v = T.axis.spatial({m}, i)
            out[v] = {value}
"""
EAGER = {
    "T.if_then_else(x[v] < T.float32(0), T.float32(0), x[v])": "float32",
    "T.if_then_else(T.isnan(x[v]), T.float32(0), T.if_then_else(x[v] > T.float32(1), T.float32(1), x[v]))": "float32",
    "a[v] and b[v]": "bool",
    "x[v] > T.float32(0) or y[v] < x[v]": "bool",
}
LAZY = {
    "T.if_then_else(a[v], x[v + 1], T.float32(0))": "float32",
    "T.if_then_else(a[v], x[v], y[v])": "float32",
    "T.if_then_else(k[v] != 0, 100 // k[v], 0)": "int32",
    "T.if_then_else(x[v] > T.float32(0), T.exp(x[v]), x[v])": "float32",
    "T.if_then_else(v < 7, x[v], T.float32(1)) + x[v]": "float32",
    "a[v] and b[v + 1]": "bool",
    "k[v] != 0 and 100 // k[v] == 3": "bool",
}


def program(value: str, dtype: str) -> unity.ir.function.PrimFunc:
    return parse(PROGRAM.format(n=N, m=N - ("+ 1" in value), value=value, dtype=dtype))


@pytest.mark.parametrize("value", EAGER | LAZY)
def test_which_choices_are_eager(value: str, level: Level) -> None:
    dtype = (EAGER | LAZY)[value]
    fn = program(value, dtype)
    text = eager_choices.on(fn).script()
    lazy = "if_then_else" in text or " and " in text or " or " in text
    assert lazy == (value in LAZY)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, N)).astype("float32")
    x[::7] = np.nan
    k = rng.integers(-2, 3, N).astype("int32")
    a, b = rng.random((2, N)) > 0.5
    size = N - ("+ 1" in value)
    want, got = np.zeros(size, dtype), np.zeros(size, dtype)
    mod = unity.IRModule({"main": fn}, {}, {})
    run(mod, "main", x, y, k, a, b, want)
    compiled = unity.compile(mod)
    level.require()
    compiled["main"](x, y, k, a, b, got)
    np.testing.assert_allclose(got, want, rtol=1e-6)
