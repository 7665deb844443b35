"""Printing of compile-time values: attributes, annotations, tensor data.

Values are None, bool, int, float, text, data types, tuples, lists, dicts, tensors, IR nodes, and any object with a method
``script_text() -> str``; a Python number stays a Python number, an ``IntImm`` is written with its type. Invariant: tensor
data keeps every bit.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from ...arith.index_map import IndexMap
from ...ffi.dtype import DataType
from ...ffi.tensor import Tensor
from ...ir.buffer import Buffer, BufferRegion
from ...ir.expr import Constant
from ...ir.function import Function, PrimFunc
from ...ir.node import Node
from ...ir.scalar import CommReducer, IterVar
from ...ir.types import Expr, Type
from ...support.errors import InternalError
from .core import EXPRS, RAW, Printer, closing, quote
from .scalar import comm_reducer, float_text, index_map, iter_var, region

_VDEVICE = {"target", "id", "scope"}
_TARGET = {"target", "host"}
LITERAL_ELEMENTS = 64
"""Tensors with more elements are written as base64 of their bytes."""


def attr(p: Printer, value: Any) -> None:
    """Write a compile-time value."""
    kind = type(value)
    if value is None or kind is bool:
        p.put(repr(value))
    elif kind is str:
        p.put(quote(value))
    elif isinstance(value, (int, np.integer)):
        p.put(str(int(value)))
    elif isinstance(value, (float, np.floating)):
        p.put(_python_float(float(value)))
    elif kind is tuple or kind is list:
        _items(p, value, kind is tuple)
    elif isinstance(value, dict):
        attr_dict(p, value)
    elif kind is DataType:
        p.put(f'R.dtype("{value.name}")')
    elif isinstance(value, Node):
        attr_node(p, value)
    elif isinstance(value, Tensor):
        p.put(tensor_text(p, value, "R.const"))
    else:
        spell = getattr(value, "script_text", None)
        if callable(spell):
            p.put(spell())
        else:
            _unspelled(p, value)


def attr_node(p: Printer, value: Node) -> None:
    """Write an IR node that stands as a compile-time value."""
    if isinstance(value, Type):
        p.type(value)
    elif isinstance(value, Buffer):
        p.put(p.name_of(value))
    elif isinstance(value, BufferRegion):
        region(p, value)
    elif isinstance(value, IterVar):
        p.out.append(p.names.by_node[value.var]) if value.var in p.names.by_node else iter_var(p, value)
    elif isinstance(value, CommReducer):
        comm_reducer(p, value)
    elif isinstance(value, IndexMap):
        index_map(p, value)
    elif isinstance(value, Expr) and not isinstance(value, (Function, PrimFunc)):
        p.expr(value, RAW)
    else:
        _unspelled(p, value)


def _unspelled(p: Printer, value: Any) -> None:
    """A value without spelling: an error in script, a mark in ``repr``."""
    name = type(value).__name__
    if p.strict:
        raise InternalError("E902", f"the printer has no spelling for an attribute of type {name}")
    p.put(f"<{name}>")


def _items(p: Printer, values: Any, is_tuple: bool) -> None:
    is_tuple = is_tuple and not p.dialect.tvm
    p.put("(" if is_tuple else "[")
    p.joined(values, attr)
    p.put(closing(values) if is_tuple else "]")


def attr_dict(p: Printer, values: dict[Any, Any]) -> None:
    """``{"key": value}``; a virtual device and a target with its host in their own spellings."""
    if set(values) == _VDEVICE:
        p.put("I.vdevice(")
        attr(p, values["target"])
        p.put(f", {values['id']}, {quote(values['scope'])})")
        return
    if set(values) == _TARGET:
        p.put("T.target(")
        attr(p, values["target"])
        p.put(", host=")
        attr(p, values["host"])
        p.put(")")
        return
    p.put("{")
    p.joined(values.items(), _entry)
    p.put("}")


def _entry(p: Printer, entry: tuple[Any, Any]) -> None:
    key, item = entry
    if p.dialect.tvm and isinstance(key, str) and key.startswith("tir."):
        key = "tirx." + key[4:]
    attr(p, key)
    p.put(": ")
    attr(p, item)


def _python_float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return 'float("nan")' if math.isnan(value) else 'float("inf")' if value > 0 else 'float("-inf")'


# -------------------------------------------------------------------------------------------------------- tensor data


def _element(value: Any, dtype: DataType) -> str:
    if dtype.is_bool:
        return "True" if value else "False"
    if not dtype.is_float:
        return str(int(value))
    number = float(value)
    text = float_text(number, dtype)
    return text if "." in text or "e" in text or text.startswith('"') else f"{text}.0"


def _nested(array: np.ndarray, dtype: DataType) -> str:
    if array.ndim == 0:
        return _element(array[()], dtype)
    return "[" + ", ".join([_nested(array[i], dtype) for i in range(array.shape[0])]) + "]"


def _default_nans(array: np.ndarray) -> bool:
    """True when every NaN is the one that reading ``"nan"`` makes."""
    x64 = array.astype(np.float64)
    bad = np.isnan(x64)
    if not bad.any():
        return True
    unit = np.dtype(f"u{array.dtype.itemsize}")
    canonical = np.array(math.nan).astype(array.dtype).view(unit)
    return bool((np.ascontiguousarray(array).reshape(-1).view(unit)[bad.reshape(-1)] == canonical).all())


METADATA_KEY = "relax.expr.Constant"
"""Name of the table of constants left out of a text."""
_LARGE = 1024
"""Elements above which a constant may be left out."""


def tensor_text(p: Printer, data: Tensor, function: str) -> str:
    """``R.const([[1, 2]], "int32")`` or, for larger data, ``R.const_bytes("<base64>", (1000, 2), "float32")``."""
    array = data.numpy()
    dtype = data.data_type
    if p.metadata is not None and array.size > _LARGE:
        at = next((k for k, known in enumerate(p.metadata) if known is data), len(p.metadata))
        if at == len(p.metadata):
            p.metadata.append(data)
        left_out = f'metadata["{METADATA_KEY}"][{at}]'
        return left_out if function == "R.const" else f"{function}({left_out})"
    literal = array.size <= LITERAL_ELEMENTS and (array.size > 0 or array.shape == (0,))
    if p.dialect.tvm:
        literal = True
    elif literal and dtype.is_float:
        literal = _default_nans(array)
    if literal:
        return f'{function}({_nested(array, dtype)}, "{dtype.name}")'
    shape = ", ".join([str(n) for n in array.shape]) + closing(array.shape)
    coded = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return f'{function}_bytes("{coded}", ({shape}, "{dtype.name}")'


EXPRS[Constant] = lambda p, node, _: p.put(tensor_text(p, node.data, "R.const"))
