"""16-bit floats rounded once: what torch's kernels compute in float32 inside of one operator, so do its translations here.

Operators of one step need nothing of this: their lowering rounds once. Not here: any operator.
"""

from __future__ import annotations

import math
from typing import Any

from .... import op
from ....ffi.dtype import DataType
from ....ir.types import Expr, TensorType
from ....op.common.lowering import SMALL_FLOATS
from ..context.context import Args, Context, Result, Translate, dtype_of


def upcast(c: Context, value: Any) -> Any:
    """A tensor of 16-bit floats in float32; other arguments as they are."""
    if not isinstance(value, Expr) or not isinstance(value.ty, TensorType) or dtype_of(value) not in SMALL_FLOATS:
        return value
    return c.emit(op.astype(value, "float32"))


def sum_dtype(c: Context) -> str | None:
    """``out_dtype`` of a product to which something is added: float32 for 16-bit floats, else that of the operands."""
    return "float32" if c.dtype in SMALL_FLOATS else None


def rounded_once(fn: Translate) -> Translate:
    """A translation that computes 16-bit floats in float32 and rounds its results once."""

    def translate(c: Context, a: Args) -> Result:
        value = c.value
        several = isinstance(value, (list, tuple))
        if c.dtype not in SMALL_FLOATS:
            return fn(c, a)
        c.value = [v.float() for v in value] if several else value.float()
        try:
            result = fn(c, Args(**{name: upcast(c, given) for name, given in vars(a).items()}))
        finally:
            c.value = value
        return (
            [None if part is None else c.cast(part, c.dtype) for part in result] if several else c.cast(result, c.dtype)
        )

    return translate


def exact_numbers(fn: Translate) -> Translate:
    """A translation of an operator of one step, where numbers among its arguments are not rounded before it."""
    rounded = rounded_once(fn)

    def translate(c: Context, a: Args) -> Result:
        numbers = [v for v in (getattr(a, "self", None), getattr(a, "other", None)) if isinstance(v, (int, float))]
        exact = getattr(a, "alpha", 1) == 1 and all([_is_exact(v, c.dtype) for v in numbers])
        return (fn if exact else rounded)(c, a)

    return translate


def _is_exact(number: float, dtype: str) -> bool:
    """True if a Python number has a value in a type."""
    return dtype not in SMALL_FLOATS or not math.isfinite(number) or float(DataType(dtype).numpy.type(number)) == number
