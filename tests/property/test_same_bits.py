"""A value computed in several kernels has the same bits in all of them: vector bodies and tails, along other axes, in reductions,
with fixed and symbolic sizes. Else an element could be greater than the greatest of its line."""

import random

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity.script import parse

UNARY = [
    "exp",
    "tanh",
    "sigmoid",
    "sin",
    "erf",
    "nn.gelu",
    "square",
    "log1p",
    "sqrt",
    "rsqrt",
    "exp2",
    "expm1",
    "atan",
    "negative",
    "abs",
]
BINARY = ["add", "multiply", "subtract", "divide", "maximum", "power", "atan2"]
SHAPES = [(1, 1), (3, 37), (5, 16), (7, 129), (1, 17), (40, 3), (257, 2)]
RESULTS = (
    "({v}, R.permute_dims({v}), R.max({v}, axis=[1]), R.flip({v}, axis=1), R.concat(({v}, {v}), axis=1), R.min({v}))"
)


def _lines(rng: random.Random) -> tuple[str, str]:
    values, lines = ["x", "y"], []
    for number in range(rng.randrange(2, 7)):
        a, b = rng.choice(values), rng.choice(values)
        call = f"R.{rng.choice(UNARY)}({a})" if rng.random() < 0.5 else f"R.{rng.choice(BINARY)}({a}, {b})"
        lines.append(f"            v{number} = {call}\n")
        values.append(f"v{number}")
    return "".join(lines), values[-1]


def _run(lines: str, result: str, dims: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    symbols = "        n, m = T.int64(), T.int64()\n" if dims == "n, m" else ""
    text = f"""@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor(({dims}), "float32"), y: R.Tensor(({dims}), "float32")):
{symbols}        with R.dataflow():
{lines}            gv = {result}
            R.output(gv)
        return gv
"""
    made = unity.VirtualMachine(unity.compile(parse(text)))["main"](*arrays)
    return [part.numpy() for part in made]


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_same_bits_in_every_kernel(seed: int) -> None:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    lines, value = _lines(rng)
    shape = rng.choice(SHAPES)
    arrays = [(numbers.standard_normal(shape) * 2).astype("float32") for _ in range(2)]
    fixed, symbolic = [
        _run(lines, RESULTS.format(v=value), dims, arrays) for dims in (f"{shape[0]}, {shape[1]}", "n, m")
    ]
    whole = fixed[0]
    for plain, turned, greatest, mirrored, twice, least in (fixed, symbolic):
        np.testing.assert_array_equal(plain, whole)
        np.testing.assert_array_equal(turned.T, whole)
        np.testing.assert_array_equal(greatest, whole.max(1))
        np.testing.assert_array_equal(mirrored[:, ::-1], whole)
        np.testing.assert_array_equal(twice, np.concatenate([whole, whole], 1))
        np.testing.assert_array_equal(least, whole.min())
    half = shape[1] // 2 + 1
    alone = _run(lines, f"({value}, {value})", f"{shape[0]}, {half}", [a[:, :half].copy() for a in arrays])
    np.testing.assert_array_equal(alone[0], whole[:, :half])
