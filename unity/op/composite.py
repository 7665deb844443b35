"""Names for short combinations of operators, as TVM has them: a call makes the calls it stands for.

Not here: operators (they have rows of their own). Invariant: nothing downstream sees these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.types import Expr, TensorType
from .common.table import constant
from .elementwise.binary import add, where
from .linalg.products import matmul
from .manipulate.create import full_like
from .manipulate.manipulate import permute_dims


def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None) -> Expr:
    """``data @ weight.T + bias``: what torch calls linear. Shapes: (..., k), (n, k), (n,) -> (..., n)."""
    product = matmul(data, permute_dims(weight), out_dtype=out_dtype)
    return product if bias is None else add(product, bias)


def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``value`` where the mask is true, else ``x``. Shapes: those of ``x`` and the mask broadcast together."""
    dtype = x.ty.dtype if isinstance(x.ty, TensorType) else None
    return where(mask, full_like(x, value if isinstance(value, Expr) else constant(value, dtype)), x)


COMPOSITES: dict[str, Callable[..., Expr]] = {"R.linear": linear, "R.masked_fill": masked_fill}
"""Combinations by script name."""
