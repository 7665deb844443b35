"""Unary elementwise operators: one tensor in, the same shape out.

float16 and bfloat16 are computed in float32 and rounded once. Meaning of NaN, infinities and integers is numpy's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ffi.dtype import DataType
from ..ir.expr import Call
from ..ir.types import TensorType
from .rules import fail, float_tensor, like, tensor_arg
from .table import Operator, row

_BOOL = DataType("bool")
_SMALL = ("float16", "bfloat16")


def in_float32(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The numpy function with 16-bit floats computed in float32 and rounded once."""

    def wide(x: np.ndarray, *rest: object) -> np.ndarray:
        with np.errstate(all="ignore"):
            if str(x.dtype) in _SMALL:
                return np.asarray(fn(x.astype(np.float32), *rest)).astype(x.dtype)
            return np.asarray(fn(x, *rest))

    return wide


def _float(call: Call) -> TensorType:
    return float_tensor(call, 0)


def _any(call: Call) -> TensorType:
    return tensor_arg(call, 0)


def _number(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_bool:
        raise fail(call, "E211", "expected a tensor of numbers, got bool", 'cast first: R.astype(x, "int32")', call.args[0])
    return ty


def _bits(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and ty.dtype.is_float:
        raise fail(call, "E211", f"expected an integer or bool tensor, got {ty.dtype.name}", None, call.args[0])
    return ty


def _logical(call: Call) -> TensorType:
    ty = tensor_arg(call, 0)
    if ty.dtype is not None and not ty.dtype.is_bool:
        raise fail(call, "E211", f"expected a bool tensor, got {ty.dtype.name}", 'cast first: R.astype(x, "bool")', call.args[0])
    return ty


def _test(call: Call) -> TensorType:
    return like(float_tensor(call, 0), _BOOL)


def _unary(name: str, rule: Callable[[Call], TensorType], ref: Callable[..., np.ndarray], doc: str) -> Operator:
    return row(name, ("x",), rule, doc, family="unary", ref=in_float32(ref))


def _erf(x: np.ndarray) -> np.ndarray:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x).astype(x.dtype)


exp = _unary("exp", _float, np.exp, "e to the power x.")
