"""Integers that order as values do, so that comparing them is one instruction: NaN is greatest, both zeros are equal."""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir import build
from ...ir.types import Expr


def key_type(dtype: DataType) -> DataType:
    """Type of ``ordered_key`` of a value."""
    return DataType(f"int{max(32, dtype.bits) if dtype.is_float else max(8, dtype.bits)}")


def greatest_key(kind: DataType) -> Expr:
    """The key of NaN, and of the greatest integer."""
    return build.const(2 ** (kind.bits - 1) - 1, kind)


def ordered_key(value: Expr, descending: bool = False, nan_first: bool | None = None) -> Expr:
    """A signed integer that orders as the value does; backwards with ``descending``. NaN is the greatest value, or the least or
    greatest key as ``nan_first`` says."""
    dtype = build.dtype_of(value)
    kind = key_type(dtype)
    if dtype.is_float:
        value = value if dtype.bits >= 32 else build.cast(value, "float32")
        zero = build.const(0.0, build.dtype_of(value))
        raw = build.intrinsic("reinterpret", build.select(build.eq(value, zero), zero, value), dtype=kind)
        sign = build.intrinsic("shift_right", raw, build.const(kind.bits - 1, kind))
        key = build.intrinsic("bitwise_xor", raw, build.intrinsic("bitwise_and", sign, greatest_key(kind)))
        key = build.intrinsic("bitwise_not", key) if descending else key
        first = descending if nan_first is None else nan_first
        edge = build.const(-(2 ** (kind.bits - 1)), kind) if first else greatest_key(kind)
        return build.select(build.eq(value, value), key, edge)
    if dtype.is_uint and not dtype.is_bool:
        key = build.cast(build.intrinsic("bitwise_xor", value, build.const(1 << (dtype.bits - 1), dtype)), kind)
    else:
        key = build.cast(value, kind)
    return build.intrinsic("bitwise_not", key) if descending else key
