"""``func.specialize``: a tensor program for some of its sizes and scalars. Not here: symbols of graph functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..support.errors import VerifyError
from .buffer import Buffer
from .constant import const
from .expr import IntImm, Var
from .function import METHODS, PrimFunc
from .node import replace
from .types import Expr, PrimType
from .walk import substitute


def specialize(func: PrimFunc, param_map: Mapping[Any, Any]) -> PrimFunc:
    """Return the program ``func`` with scalars and sizes fixed.

    ``param_map`` maps a scalar parameter or a symbol to a number or an expression, and a buffer (or its parameter) to a buffer
    whose shape defines the symbols. Fixed scalars are not parameters any more. Raises VerifyError E715 for another key, and
    for a buffer that does not fit.
    """
    mapping: dict[Any, Any] = {}
    for key, value in param_map.items():
        buffer = func.buffer_map.get(key) if isinstance(key, Var) else None
        if any([key is own for own in func.buffer_map.values()]):
            buffer = key
        if buffer is not None:
            if not isinstance(value, Buffer):
                raise VerifyError("E715", f"buffer {buffer.name} is specialized to a buffer, got {type(value).__name__}",
                                  help='tir.decl_buffer((16, 16), "float32")')  # fmt: skip
            _match(buffer, value, mapping)
        elif isinstance(key, Var) and isinstance(key.ty, PrimType):
            _bind(key, value if isinstance(value, Expr) else const(value, key.ty.dtype), mapping)
        else:
            raise VerifyError("E715", f"{key} is neither a parameter nor a symbol of the program",
                              help=f"it has: {', '.join([p.name for p in func.params])}")  # fmt: skip
    kept = tuple([p for p in func.params if p not in mapping])
    return substitute(replace(func, params=kept), mapping)


def _match(buffer: Buffer, given: Buffer, mapping: dict[Any, Any]) -> None:
    """Bind the symbols of a buffer's shape to the sizes of the ``given`` one."""
    if given.dtype != buffer.dtype or given.ndim != buffer.ndim:
        raise VerifyError(
            "E715", f"{buffer.name} has {buffer.ndim} axes of {buffer.dtype}, got {given.ndim} of {given.dtype}"
        )
    for size, value in zip(buffer.shape, given.shape):
        if isinstance(size, Var):
            _bind(size, value, mapping)
        elif not isinstance(size, IntImm) or not isinstance(value, IntImm) or size.value != value.value:
            raise VerifyError("E715", f"the shape of {buffer.name} has {size}, not {value}",
                              help="only dimensions that are symbols can be fixed")  # fmt: skip


def _bind(symbol: Var, value: Expr, mapping: dict[Any, Any]) -> None:
    if isinstance(value, IntImm) and isinstance(symbol.ty, PrimType):
        value = const(value.value, symbol.ty.dtype)
    known = mapping.setdefault(symbol, value)
    if known is not value and not (
        isinstance(known, IntImm) and isinstance(value, IntImm) and known.value == value.value
    ):
        raise VerifyError("E715", f"{symbol.name} is given twice: {known} and {value}")


METHODS["specialize"] = specialize
