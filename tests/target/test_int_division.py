"""Lanes of integers divided by lanes, against numpy: around the smallest and largest numbers, and where quotients are near whole ones."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse

TEXT = """@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((n,), "{dtype}"), y: R.Tensor((n,), "{dtype}")):
        n = T.int64()
        with R.dataflow():
            quotient = R.floor_divide(x, y)
            remainder = R.floor_mod(x, y)
            rest = R.mod(x, y)
            gv = (quotient, remainder, rest)
            R.output(gv)
        return gv
"""


def _numbers(dtype: str) -> np.ndarray:
    info, random = np.iinfo(dtype), np.random.default_rng(0)
    near = {0, 1, 2, 3, 7, 10, 255, 256, 4095, 4096, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**52, 2**53 - 1,
            2**53, 2**53 + 1, 2**54 + 3, 2**61, 2**62 - 1, 2**62, 3**39, info.max, info.max - 1, info.max // 2, info.max // 3}  # fmt: skip
    values = [v for n in near for v in (n, -n, -n - 1) if info.min <= v <= info.max]
    drawn = random.integers(info.min, info.max, 60, dtype, endpoint=True) >> random.integers(0, info.bits, 60).astype(
        dtype
    )
    return np.unique(np.array([*values, *drawn], dtype))


def _pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    values = _numbers(dtype)
    a, b = [part.ravel() for part in np.meshgrid(values, values, indexing="ij")]
    with np.errstate(over="ignore"):
        multiples = np.concatenate([b * (a // np.where(b == 0, 1, b)) + np.array(d).astype(dtype) for d in (-1, 0, 1)])
    return np.concatenate([a, multiples]), np.concatenate([b, b, b, b])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_agrees_with_numpy(dtype: str) -> None:
    a, b = _pairs(dtype)
    main = unity.VirtualMachine(unity.compile(parse(TEXT.format(dtype=dtype))))["main"]
    with np.errstate(divide="ignore", over="ignore"):
        expected = np.floor_divide(a, b), np.remainder(a, b), np.fmod(a, b)
    for got, wanted in zip(main(a, b), expected):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_interpreter_wraps_too() -> None:
    low = np.iinfo(np.int64).min
    a, b = np.array([low, low, 7, -7], np.int64), np.array([-1, 0, -2, 2], np.int64)
    results = run(parse(TEXT.format(dtype="int64")), "main", a, b)
    for got, wanted in zip(results, ([low, 0, -4, -4], [0, 0, -1, 1], [0, 0, 1, -1])):
        np.testing.assert_array_equal(got, wanted)
