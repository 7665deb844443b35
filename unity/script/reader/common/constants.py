"""Compile-time values: tensor data from numbers and bytes, and what may stand in an attribute.

Invariant: attributes hold plain data, data types, tensors and IR nodes; lists become tuples.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from ....ffi.dtype import DataType, dtype_names
from ....ffi.tensor import Tensor, tensor
from ....ir import IntImm, build as b
from ....op.common.table import is_attribute_node, number_array
from ....support.errors import FFIError, ScriptError
from ...parser import syntax as s
from .calls import bound_arguments
from .plain import is_number
from .reading import Reading
from .scope import Dotted
from .values import as_dtype, as_integer, as_sequence, as_text


def constant_data(r: Reading, value: Any, dtype: Any, node: s.Syntax) -> Tensor:
    """A tensor from numbers, nested lists, arrays. Texts "nan", "inf" stand for floats. Without a dtype
    numbers are int32, float32 or bool."""
    if type(value) is Tensor or isinstance(value, np.ndarray):
        found = value if type(value) is Tensor else tensor(value)
        return found if dtype is None else tensor(found, as_dtype(r, dtype, node))
    wanted = None if dtype is None else as_dtype(r, dtype, node)
    if wanted is not None and wanted.name not in dtype_names():
        raise r.error("E113", f"there is no constant of {wanted.name}", node)
    plain = _plain_numbers(r, value, node)
    try:
        whole = wanted is not None and wanted.is_uint and float not in [type(v) for v in np.array(plain, object).flat]
        if wanted is not None and whole:  # mixed with small ones, 64 bits would pass through float64
            return Tensor(np.array(plain, wanted.numpy))
        return Tensor(number_array(plain)) if wanted is None else tensor(plain, wanted)
    except (ValueError, TypeError, OverflowError, FFIError) as problem:
        raise r.error("E113", f"cannot make a constant of this: {problem}", node) from None


def _plain_numbers(r: Reading, value: Any, node: s.Syntax) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain_numbers(r, item, node) for item in value]
    if is_number(value):
        return value
    if type(value) is str and value.lstrip("+-") in ("nan", "inf"):
        return float(value)
    if type(value) is IntImm:
        return value.value
    if hasattr(value, "ty") and b.is_const(value):
        return value.value
    raise r.error("E113", "a constant is made of numbers", node)


def constant_bytes(r: Reading, path: str, node: s.Call) -> Tensor:
    """A tensor from base64 text, shape and dtype."""
    bound = bound_arguments(r, path, node, ("data", "shape", "dtype"), 3)
    text, dtype = as_text(r, bound["data"], node), as_dtype(r, bound["dtype"], node)
    shape = tuple([as_integer(r, item, node) for item in as_sequence(r, bound["shape"], node)])
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, UnicodeEncodeError):
        raise r.error("E106", "this is not base64", node) from None
    if min(shape, default=1) < 0 or len(raw) != math.prod(shape) * dtype.numpy.itemsize:
        raise r.error("E113", f"{len(raw)} bytes do not fill the shape {shape} of {dtype.name}", node)
    return Tensor(np.frombuffer(bytearray(raw), dtype.numpy).reshape(shape))


def attribute_value(value: Any) -> Any:
    """A compile-time value as attributes keep it: lists become tuples, script names their text. Raises E113 for others."""
    if isinstance(value, (list, tuple)):
        return tuple([attribute_value(item) for item in value])
    if isinstance(value, dict):
        return {key: attribute_value(item) for key, item in value.items()}
    if type(value) is Dotted:
        return value.text
    if isinstance(value, np.ndarray):
        return Tensor(np.ascontiguousarray(value))
    if value is None or isinstance(value, (bool, int, float, str, DataType, Tensor)) or is_attribute_node(value):
        return value
    raise ScriptError("E113", "this value cannot stand in an attribute")
