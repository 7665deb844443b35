"""Operators on numbers with NaN, infinities, both zeros and extreme integers among them, in any type: the lowering, run by the
interpreter, gives what the meaning in numpy gives, which constants are folded with."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import SEED, TIMES
from op_cases import CASES, Shape
from test_against_numpy import as_numpy, build

import unity
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.script import parse
from unity.support.errors import TypeRuleError
from unity.transform.relax.lowering.legalize_ops import legalize_ops

sys.path.append(str(Path(__file__).parents[1] / "property"))
from fuzz_values import INTEGERS, NARROW, WIDE, random_array

FLOATS = (*NARROW, *WIDE)
SHARE = 8
"""A run tries one of so many cases."""
LAST_PLACES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-3, "float64": 1e-7}
WEIGHTS = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
"""Their weights stay numbers: where the borders are zeros, these are multiplied by weights."""
COORDINATES = ("image.grid_sample",)
"""Far coordinates have no places after the point: what is reflected depends on the last one."""

UNDERFLOW = ("nn.attention", "nn.lstm", "nn.gru")
"""An infinity times what is 0 in the operator's type and not in a wider one."""


def drawn(value: Any, floats: str, integers: str | None, rng: np.random.Generator) -> Any:
    """An argument with other numbers in other types; where ``integers`` is None integers stay, and floats are such that sums of
    squares are finite."""
    if isinstance(value, tuple) and not isinstance(value, Shape):
        return tuple([drawn(part, floats, integers, rng) for part in value])
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return random_array(rng, value.shape, integers) if integers else value
    made = random_array(rng, value.shape, floats)
    return made if integers else np.where(np.isfinite(made), np.clip(made, -9, 9), made).astype(made.dtype)


def difference(got: np.ndarray, expected: np.ndarray, signs: bool) -> str:
    """What is different; empty where results agree. ``signs``: of zeros count."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{got.shape} and {expected.dtype}{expected.shape}"
    if got.dtype.kind in "iub":
        return "" if np.array_equal(got, expected) else "integers"
    rtol = LAST_PLACES[str(got.dtype)]
    x, y = got.astype("float64"), expected.astype("float64")
    if not np.array_equal(np.isnan(x), np.isnan(y)) or not np.array_equal(
        np.isinf(x) * x, np.isinf(y) * y, equal_nan=True
    ):
        return "NaN or infinities"
    if signs and np.any((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))):
        return "signs of zeros"
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    wide = 1e-6 if signs else np.abs(y).max(initial=1e-6)
    return "" if np.allclose(x, y, rtol=rtol, atol=rtol * wide) else "values"


def test_lowerings_mean_what_numpy_says_for_any_number() -> None:
    tried = 0
    for number, (name, inputs, attrs) in enumerate(CASES):
        info, rng = OPS[f"R.{name}"], random.Random(f"{SEED} {number}")
        if number * TIMES % SHARE >= TIMES or not callable(info.ref):
            continue
        floats, integers = rng.choice(FLOATS), rng.choice((*INTEGERS, "bool")) if info.pointwise else None
        values = np.random.default_rng(number)
        given = [drawn(value, floats, integers, values) for value in inputs]
        if name.startswith(UNDERFLOW):
            given = [np.clip(v, -9, 9) if isinstance(v, np.ndarray) and v.dtype.kind not in "iub" else v for v in given]
        if name in (*WEIGHTS, *COORDINATES):
            given[1] = inputs[1].astype(given[0].dtype)
        try:
            mod, arrays = build(name, given, attrs, False)
        except TypeRuleError:  # the operator does not take the types
            continue
        tried += 1
        with np.errstate(all="ignore"):
            expected = as_numpy(run(mod, "main", *arrays))
            got = as_numpy(run(legalize_ops(mod), "main", *arrays))
        for x, y in zip(got, expected, strict=True) if isinstance(expected, list) else [(got, expected)]:
            found = difference(x, y, info.pointwise)
            assert not found, f"case {number}, {name}({floats}, {integers}, {attrs}): {found}\n{x}\n{y}"
    assert tried > 400 * TIMES // SHARE


def test_constants_are_converted_as_at_run_time() -> None:
    """numpy leaves it to the processor what a number becomes that the type does not have."""
    text = """
@R.function
def main(x: R.Tensor((6,), "float32"), y: R.Tensor((), "float32")):
    wide = R.const([{1}], "float32")
    return R.astype(x, "{0}"), R.astype(wide, "{0}"), R.full((2,), y, dtype="{0}"), R.full((2,), R.const(300.0), dtype="{0}")
"""
    wide = np.array([300, -300, np.nan, np.inf, -np.inf, 2.0**31], "float32")
    for dtype in INTEGERS:
        literal = ", ".join([f'float("{v}")' if not np.isfinite(v) else repr(float(v)) for v in wide])
        vm = unity.VirtualMachine(unity.compile(parse(text.format(dtype, literal))))
        cast, folded, filled, known = [part.numpy() for part in vm["main"](wide, np.float32(300))]
        np.testing.assert_array_equal(folded, cast)
        np.testing.assert_array_equal(known, filled)
