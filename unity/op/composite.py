"""Names for combinations of operators, as TVM has them: a call makes the calls it stands for.

The backward steps are what the gradients of the forward operators are made of. Not here: operators (they have rows of their own).
Invariant: nothing downstream sees these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.expr import Call, IntImm, Tuple
from ..ir.op import OPS
from ..ir.types import Expr, TensorType
from ..support.errors import TypeRuleError
from .common.table import R, constant


def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None) -> Expr:
    """``data @ weight.T + bias``: what torch calls linear. Shapes: (..., k), (n, k), (n,) -> (..., n)."""
    product = R.matmul(data, R.permute_dims(weight), out_dtype=out_dtype)
    return product if bias is None else R.add(product, bias)


def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """``value`` where the mask is true, else ``x``. Shapes: those of ``x`` and the mask broadcast together."""
    dtype = x.ty.dtype if isinstance(x.ty, TensorType) else None
    return R.where(mask, R.full_like(x, value if isinstance(value, Expr) else constant(value, dtype)), x)


def hamming_window(
    window_size: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: str = "float32"
) -> Expr:
    """``alpha - beta * cos(2 pi i / n)`` for i < window_size; n is window_size if periodic, else window_size - 1."""
    size = window_size.value if isinstance(window_size, IntImm) else window_size
    if not isinstance(size, int) or size < 0:
        raise TypeRuleError("E214", f"window_size must be a number that is not negative, got {window_size}")
    turns = max(size if periodic else size - 1, 1)
    values = alpha - beta * np.cos(2 * math.pi / turns * np.arange(size))
    return constant(np.ones(1) if size == 1 else values, dtype)


def eye_like(x: Expr, k: int = 0, dtype: str | None = None) -> Expr:
    """A matrix in the shape of ``x`` with ones on diagonal k and zeros elsewhere, in the data type of ``x`` unless one is given."""
    ones = R.ones_like(x, dtype=dtype)
    return R.triu(R.tril(ones, k=k), k=k)


def multinomial_from_uniform(prob: Expr, uniform_sample: Expr, sample_indices: Expr, dtype: str = "int64") -> Expr:
    """The first class of a row of ``prob`` whose cumulative probability exceeds the uniform sample.

    Shapes: (batch, classes), (n, 1), (n, 1): the row of ``prob`` for each sample -> (n, 1).
    """
    total = R.take(R.cumsum(R.astype(prob, "float64"), axis=1), R.squeeze(sample_indices, axis=[1]), axis=0)
    others = R.strided_slice(total, axes=[1], begin=[0], end=[-1])  # the last class is what is left
    below = R.less_equal(others, R.astype(uniform_sample, "float64"))
    return R.sum(R.astype(below, dtype), axis=[1], keepdims=True)


def _gradient(call: Call, flow: Expr) -> Expr:
    """The gradient of the first argument of a call."""
    rule: Any = OPS[call.op_name].grad
    return rule(call, flow)[0]  # type: ignore[no-any-return]


def take_backward(output_grad: Expr, x: Expr, indices: Expr, axis: int = 0) -> Expr:
    """The gradient of take with respect to ``x``."""
    return _gradient(R.take(x, indices, axis=axis), output_grad)


def nll_loss_backward(
    output_grad: Expr, predictions: Expr, targets: Expr, weights: Expr | None = None, reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:  # fmt: skip
    """The gradient of nn.nll_loss with respect to ``predictions``."""
    given = [predictions, targets, *([] if weights is None else [weights])]
    return _gradient(R.nn.nll_loss(*given, reduction=reduction, ignore_index=ignore_index), output_grad)


def _pool_backward(
    name: str, flow: Expr, data: Expr, layout: str, out_layout: str | None, windows: dict[str, Any]
) -> Expr:
    if layout != "NCHW" or out_layout not in (None, "", layout):
        raise TypeRuleError("E214", f"layout must be NCHW, got {layout!r}", help="use R.permute_dims before")
    return _gradient(getattr(R.nn, name)(data, **windows), flow)


def max_pool2d_backward(
    output_grad: Expr, data: Expr, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The gradient of nn.max_pool2d with respect to ``data``: each element goes to the first of the largest in its window."""
    windows = {
        "pool_size": pool_size,
        "strides": strides,
        "padding": padding,
        "dilation": dilation,
        "ceil_mode": ceil_mode,
    }
    pair = Tuple((output_grad, output_grad))  # no gradient comes through the places
    return _pool_backward("max_pool2d_with_indices", pair, data, layout, out_layout, windows)


def avg_pool2d_backward(
    output_grad: Expr, data: Expr, pool_size: Any = (1, 1), strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The gradient of nn.avg_pool2d with respect to ``data``: each element is shared out over its window."""
    windows = {
        "pool_size": pool_size,
        "strides": strides,
        "padding": padding,
        "dilation": dilation,
        "ceil_mode": ceil_mode,
    }
    windows["count_include_pad"] = count_include_pad
    return _pool_backward("avg_pool2d", output_grad, data, layout, out_layout, windows)


COMPOSITES: dict[str, Callable[..., Expr]] = {
    **{f"R.{f.__name__}": f for f in (linear, masked_fill, hamming_window, eye_like, multinomial_from_uniform)},
    **{f"R.grad.{f.__name__}": f for f in (take_backward, nll_loss_backward, max_pool2d_backward, avg_pool2d_backward)},
}
"""Combinations by script name."""
