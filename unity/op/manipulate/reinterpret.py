"""reinterpret: the memory of a tensor read as another dtype, as ``numpy.ndarray.view`` and torch's ``view(dtype)`` do.

Conversions of values are ``R.astype`` (create.py). Little end first, as on every machine code is made for here. Truth values take a
byte: 0 or 1, and every other byte reads as true.
"""

from __future__ import annotations

import numpy as np

from ... import te
from ...ffi.dtype import DataType
from ...ir import build
from ...ir.expr import Call
from ...ir.relation import dims, indivisible, tensor_type
from ...ir.types import Expr, TensorType, Type
from ..common.lowering import result_dims, result_dtype
from ..common.table import attribute, row
from ..common.type_rules import attr, dtype_value, fail, tensor_arg


def _bytes(call: Call, dtype: DataType) -> int:
    """Bytes of an element. Raises E211 for a dtype whose elements are no whole bytes."""
    bits = 8 if dtype.is_bool else dtype.bits
    if bits % 8 or dtype.lanes != 1:
        raise fail(call, "E211", f"elements of {dtype.name} are no whole bytes", arg=0)
    return bits // 8


def _type(call: Call) -> Type:
    ty, target = tensor_arg(call, 0), dtype_value(call, attr(call, "dtype"))
    if target is None:
        raise fail(call, "E214", "dtype is missing", 'write R.reinterpret(x, "int32")')
    if ty.dtype is None:
        return TensorType(None, target, ty.ndim, ty.vdevice)
    old, new = _bytes(call, ty.dtype), _bytes(call, target)
    if old == new:
        return TensorType(ty.shape, target, ty.ndim, ty.vdevice)
    if ty.ndim == 0:
        raise fail(call, "E212", f"a scalar of {ty.dtype.name} holds no whole {target.name}", arg=0)
    known = dims(ty)
    if known is None:
        return TensorType(None, target, ty.ndim, ty.vdevice)
    return tensor_type([*known[:-1], _extent(call, known[-1], old, new)], target, vdevice=ty.vdevice)


def _extent(call: Call, extent: Expr, old: int, new: int) -> Expr:
    """Size of the last axis. Raises E213 where it holds no whole number of elements."""
    if new < old:
        return extent * (old // new)
    ratio = build.const(new // old, "int64")
    if indivisible(extent, ratio):
        raise fail(call, "E213", f"{extent} elements of {old} bytes hold no whole number of {new} bytes", arg=0)
    return extent // ratio


def _bits(value: te.Value) -> te.Value:
    if value.dtype.is_bool:
        return value.astype("uint8")
    return te.intrinsic("reinterpret", value, dtype=f"uint{value.dtype.bits}")


def _lower(call: Call, x: te.Tensor) -> te.Tensor:
    target, old = result_dtype(call), _bytes(call, x.data_type)
    new = _bytes(call, target)
    raw, word = f"uint{8 * new}", f"uint{8 * old}"
    ratio = max(old, new) // min(old, new)

    def part(*i: te.Value) -> te.Value:
        """The bits of an element of the result."""
        if new == old:
            return _bits(x[i])
        if new < old:
            position = (i[-1] % ratio * (8 * new)).astype(word)
            return te.intrinsic("shift_right", _bits(x[[*i[:-1], i[-1] // ratio]]), position).astype(raw)
        result = _bits(x[[*i[:-1], i[-1] * ratio]]).astype(raw)
        for n in range(1, ratio):
            more = _bits(x[[*i[:-1], i[-1] * ratio + n]]).astype(raw)
            result = te.intrinsic("bitwise_or", result, te.intrinsic("shift_left", more, te.const(8 * old * n, raw)))
        return result

    def body(*i: te.Value) -> te.Value:
        found = part(*i)
        return found != 0 if target.is_bool else te.intrinsic("reinterpret", found, dtype=target.name)

    return x if target is x.data_type else te.compute(result_dims(call), body, "reinterpret")


def _ref(x: np.ndarray, dtype: str) -> np.ndarray:
    target = DataType(str(dtype))
    if target.is_bool:
        return np.asarray(x.view(np.uint8) != 0)
    return x.view(target.numpy)


reinterpret = row(
    "reinterpret",
    ("x", attribute("dtype")),
    _type,
    "Reads the bytes of x as another data type; the last axis grows or shrinks with the element size.",
    family="manipulate",
    lower=_lower,
    ref=_ref,
    samples="f32[2,5,2], dtype=each('int32', 'float64'); i32[2,5,2], dtype='float32'; "
    "i8[2,5,8], dtype=each('float32', 'int8'); u8[2,5,8], dtype=each('int64', 'bool'); "
    "b[3,8], dtype='int16'; f32[()], dtype='uint32'; f32[0,5,2], dtype='int32'; "
    "i16[2,5,4], dtype='bfloat16'",
)
