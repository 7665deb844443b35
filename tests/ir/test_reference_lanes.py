"""The reference interpreter's arithmetic of single numbers and of lanes: the same values, for every type and operator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unity.ffi.abi import DIVISIONS
from unity.ffi.dtype import DataType
from unity.ir.interpret.common import arrays, numbers
from unity.ir.interpret.common.arrays import UNARY, holder, limits
from unity.ir.scalar import OPERATOR_NAMES, And, Or

INTS = ("int4", "uint4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "float64")
OPERATORS = [name for node, name in OPERATOR_NAMES.items() if node is not And and node is not Or]


def samples(name: str) -> list[Any]:
    """Edges of a type and numbers between them, each one that the type holds."""
    dtype, rng = DataType(name), np.random.default_rng(11)
    if dtype.is_float:
        wide = [0.0, -0.0, 1.0, -1.5, 0.1, 3e-5, 1e9, 65504.0, 2.0**63 + 2.0**55, math.inf, -math.inf, math.nan]
        fit = numbers.fits(dtype)
        with np.errstate(all="ignore"):
            return [fit(float(v)) for v in [*wide, *rng.normal(size=12) * 50]]
    low, high = limits(dtype)
    inner = [low + (high - low) * k // 11 for k in range(1, 11)]
    near = [2**53 + 1, 2**54 + 3, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1, -(2**53) - 1, -(2**62) - 2**54 - 1]
    return [low, low + 1, high, high - 1, 0, 1, *inner, *[n for n in near if low <= n <= high]]


def same(single: list[Any], lanes: Any, dtype: DataType) -> None:
    found = [numbers.number(v, dtype) for v in np.atleast_1d(lanes)]
    assert all([a == b or (a != a and b != b) for a, b in zip(single, found, strict=True)]), (single, found)
    signs = [(math.copysign(1, a), math.copysign(1, b)) for a, b in zip(single, found) if dtype.is_float and a == 0]
    assert all([a == b for a, b in signs]), (single, found)


@pytest.mark.parametrize("name", INTS + FLOATS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str, name: str) -> None:
    dtype = DataType(name)
    divides = operator in DIVISIONS and not dtype.is_float
    pairs = [(a, b) for a in samples(name) for b in samples(name) if b or not divides]
    left, right = [np.array([p[k] for p in pairs], holder(dtype)) for k in (0, 1)]
    one, many = numbers.binary(operator, dtype), arrays.binary(operator, dtype)
    assert one is not None and many is not None
    result = DataType("bool") if operator in arrays.COMPARE else dtype
    with np.errstate(all="ignore"):
        same([one(a, b) for a, b in pairs], many(left, right), result)


@pytest.mark.parametrize("source", (*INTS, *FLOATS, "bool"))
@pytest.mark.parametrize("target", (*INTS, *FLOATS, "bool"))
def test_casts(source: str, target: str) -> None:
    before, after = DataType(source), DataType(target)
    values = [False, True] if source == "bool" else samples(source)
    with np.errstate(all="ignore"):
        lanes = arrays.caster(before, after)(np.array(values, holder(before)))
        same([numbers.caster(before, after)(v) for v in values], lanes, after)


@pytest.mark.parametrize("function", sorted(UNARY))
@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64"])
def test_functions(function: str, name: str) -> None:
    dtype, values = DataType(name), samples(name)
    with np.errstate(all="ignore"):
        lanes = arrays.fits(dtype)(UNARY[function](np.array(values, holder(dtype)).astype(np.float64)))
        single = [numbers.fits(dtype)(UNARY[function](v)) for v in values]
    near = [math.isclose(a, float(b), rel_tol=2**-6 if name == "bfloat16" else 1e-6) or (a != a and b != b)
            for a, b in zip(single, lanes, strict=True)]  # fmt: skip
    assert all(near), (single, lanes)


@pytest.mark.parametrize(("source", "target"), [
    ("int32", "float32"), ("float16", "int16"), ("uint8x4", "uint32"), ("int4x8", "uint32"), ("uint32", "int4x8"),
    ("bfloat16x2", "float32"), ("bool", "uint8"), ("uint8", "bool"),
])  # fmt: skip
def test_bits_go_there_and_back(source: str, target: str) -> None:
    before, after = DataType(source), DataType(target)
    values = np.resize([False, True] if source == "bool" else samples(before.element.name), (3, before.lanes))
    rows = values.astype(holder(before)) if source != "uint8" else np.array([[0], [1], [1]], np.uint8)
    there = arrays.reinterpreted(rows, before, after)
    assert there.shape == (3, after.lanes)
    assert arrays.reinterpreted(there, after, before).tobytes() == rows.tobytes()
