"""Constants of every constructor: exactly the number given, or refused in words."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import unity
from unity import relax, te, tir
from unity.ffi.tensor import Tensor
from unity.ir import IntImm
from unity.op import to_expr

NUMBERS = [10**400, -(10**400), 2**64, -(2**63) - 1, 300, -129, -1, 1e30, float("nan"), float("inf"), "one", None, [1]]
CONSTANTS = {
    "tir.const": tir.const, "tir.IntImm": lambda v, d: tir.IntImm(d, v), "tir.FloatImm": lambda v, d: tir.FloatImm(d, v),
    "te.const": te.const, "te.add": lambda v, d: te.const(1, d) + v, "relax.const": relax.const,
    "relax.const of a list": lambda v, d: relax.const([v, 1], d), "tensor": unity.tensor,
    "relax.PrimValue": lambda v, d: relax.PrimValue(v), "tir.Cast": lambda v, d: tir.Cast(d, v),
}  # fmt: skip


@pytest.mark.parametrize("how", CONSTANTS)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "int4", "float16", "float32", "float8_e4m3fn", "bool"]
)
def test_a_constant_is_exact_or_refused(how, dtype):
    for value in NUMBERS:
        try:
            made = CONSTANTS[how](value, dtype)
        except unity.UnityError as problem:
            assert len(str(problem)) < 400
            continue
        number = getattr(made, "value", None)
        if type(made) is IntImm and how != "tir.Cast" and made.ty.dtype.is_integral:
            assert number == int(value)
        elif isinstance(made, Tensor) and made.data_type.is_integral:
            assert np.array_equal(made.numpy(), value)


def test_numbers_of_kinds_derived_from_pythons() -> None:
    """numpy's float64 is a float, an IntEnum an int."""
    kind = enum.IntEnum("Kind", "ONE")
    assert str(to_expr(np.float64(0.5)).ty) == 'R.Tensor((), "float64")'
    assert str(to_expr(kind.ONE).ty) == str(to_expr(1).ty)
