"""Pooling that also says where each largest element stands: windows of a given size, and windows chosen by the output size.

An index is the position in the spatial axes of the data, row by row, padding not counted. Of equal elements the first wins, of
NaNs the last, as in torch. Pooling without indices: pool.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import INT64
from ...ir import build
from ...ir.expr import Call, ShapeExpr
from ...ir.op import Param
from ...ir.types import Expr, TensorType, TupleType, Type
from ..common.gradients import field_of, operand_shape
from ..common.lowering import known_dims
from ..common.table import Operator, R, attribute, constant, rows
from ..common.type_rules import product, with_dtype
from ..manipulate.manipulate import ravel
from .conv import as_tuple, pad_widths, pads, spatial
from .pool import adaptive_type, adaptive_window_bound, pool_type, window_divisor, window_indices

row = rows("nn")
AxisIndex = tuple[te.Value, te.Value]
"""A position along one axis and whether it belongs to the window."""


def _with_indices(rule: Callable[[Call], Type]) -> Callable[[Call], Type]:
    def pair_type(call: Call) -> Type:
        values = rule(call)
        assert isinstance(values, TensorType)
        return TupleType((values, with_dtype(values, INT64)))

    return pair_type


def _window_argmax(
    x: te.Tensor,
    shape: Sequence[Expr],
    window: Sequence[Any],
    axis_index: Callable[[Sequence[te.Value], int, te.Value], AxisIndex],
) -> tuple[te.Tensor, te.Tensor]:
    """Largest element of each window and its index; ``axis_index`` gives the position of a window's element along an axis.

    Two reductions that need no pairs: the value, then the least index of an element that is it. Of NaNs it is the greatest: they
    count as the negative of their index. A window without elements has the index -1.
    """
    rank = x.ndim - 2

    def reduced(
        reducer: Callable[..., te.Value], element: Callable[..., te.Value], neutral: te.Value, name: str
    ) -> te.Tensor:
        rs = [te.reduce_axis((0, r), f"r{'dhw'[3 - rank + n]}") for n, r in enumerate(window)]

        def body(*i: te.Value) -> te.Value:
            positions = [axis_index(i, n, rs[n]) for n in range(rank)]
            index = [p for p, _ in positions]
            inside = te.all(*[ok for _, ok in positions])
            return reducer(te.if_then_else(inside, element(i, index), neutral), axis=rs)

        return te.compute(shape, body, name)

    none = te.const((1 << 63) - 1, "int64")
    values = reduced(te.max, lambda i, at: x[[i[0], i[1], *at]], te.lowest(x.dtype), "largest")

    def index(i: Sequence[te.Value], at: list[te.Value]) -> te.Value:
        value, top, flat = x[[i[0], i[1], *at]], values[i], ravel(at, x.shape[2:])
        if not x.data_type.is_float:
            return te.select(te.Value(build.eq(value.expr, top.expr)), flat, none)
        nan = te.all(value != value, top != top)
        return te.select(nan, 0 - flat, te.select(te.Value(build.eq(value.expr, top.expr)), flat, none))

    first = reduced(te.min, index, none, "first")

    def found(*i: te.Value) -> te.Value:
        nothing = te.select(te.Value(build.eq(first[i].expr, none.expr)), -1, first[i])
        return te.select(first[i] < 0, 0 - first[i], nothing)

    return values, te.compute(shape, found, "place")


def window_argmax(call: Call, x: te.Tensor, shape: Sequence[Expr]) -> tuple[te.Tensor, te.Tensor]:
    """Values and indices of pooling with the windows a call's attributes describe, for outputs of a shape."""
    rank = x.ndim - 2
    kernel, strides, dilation = [spatial(call, n, rank) for n in ("pool_size", "strides", "dilation")]
    before, _ = pads(call, rank)

    def axis_index(i: Sequence[te.Value], n: int, r: te.Value) -> AxisIndex:
        index = i[2 + n] * strides[n] + r * dilation[n] - before[n]
        return index, te.all(index >= 0, index < te.Value(x.shape[2 + n]))

    return _window_argmax(x, shape, kernel, axis_index)


def _pool(call: Call, x: te.Tensor) -> Any:
    assert isinstance(call.ty, TupleType)
    return window_argmax(call, x, known_dims(call, call.ty.fields[0]))


def _adaptive(rank: int) -> Callable[..., Any]:
    def lower(call: Call, x: te.Tensor) -> Any:
        assert isinstance(call.ty, TupleType)
        shape = known_dims(call, call.ty.fields[0])

        def axis_index(i: Sequence[te.Value], n: int, r: te.Value) -> AxisIndex:
            span, size = te.Value(x.shape[2 + n]), te.Value(window_divisor(shape[2 + n]))
            start = (i[2 + n] * span) // size
            return start + r, start + r < ((i[2 + n] + 1) * span + size - 1) // size

        return _window_argmax(
            x, shape, [adaptive_window_bound(x.shape[2 + n], shape[2 + n]) for n in range(rank)], axis_index
        )

    return lower


def _window_argmax_ref(data: np.ndarray, windows: Sequence[Sequence[Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Largest elements of windows: for each axis and each output position the positions that belong to it."""
    shape = (*data.shape[:2], *[len(w) for w in windows])
    values, positions = np.empty(shape, data.dtype), np.zeros(shape, np.int64)
    span = data.shape[2:]
    for out in np.ndindex(*shape[2:]):
        index: tuple[Any, ...] = (slice(None), slice(None), *out)
        if not all([len(w[o]) for w, o in zip(windows, out)]):
            values[index], positions[index] = -np.inf if data.dtype.kind not in "iu" else np.iinfo(data.dtype).min, -1
            continue
        grid = np.meshgrid(*[w[o] for w, o in zip(windows, out)], indexing="ij")
        flat = np.ravel_multi_index([g.reshape(-1) for g in grid], span)
        seen = data.reshape(*data.shape[:2], math.prod(span))[..., flat]
        nan = seen != seen
        best = np.argmax(seen, -1)
        best = np.where(nan.any(-1), seen.shape[-1] - 1 - np.argmax(nan[..., ::-1], -1), best)
        values[index] = np.take_along_axis(seen, best[..., None], -1)[..., 0]
        positions[index] = flat[best]
    return values, positions


def _pool_ref(rank: int) -> Callable[..., Any]:
    def ref(
        x: np.ndarray,
        pool_size: Any = 1,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        layout: Any = None,
    ) -> Any:
        spans = x.shape[2:]
        positions = window_indices(spans, pool_size, strides, dilation, pad_widths(padding, rank), ceil_mode)
        return _window_argmax_ref(x, [[at[(at >= 0) & (at < n)] for at in axis] for axis, n in zip(positions, spans)])

    return ref


def _adaptive_ref(rank: int) -> Callable[..., Any]:
    def ref(x: np.ndarray, output_size: Any, layout: Any = None) -> Any:
        sizes = as_tuple(output_size, rank)
        spans = x.shape[2:]
        return _window_argmax_ref(
            x, [[range(o * n // m, -(-(o + 1) * n // m)) for o in range(m)] for n, m in zip(spans, sizes)]
        )

    return ref


def _grad(call: Call, g: Expr) -> list[Any]:
    """Pooling with indices: every gradient goes to the element its window chose, that of a window without any nowhere."""
    x, values, positions = call.args[0], field_of(g, 0), field_of(call, 1)
    lead, spans = operand_shape(call, x)[:2], operand_shape(call, x)[2:]
    values = R.where(R.equal(positions, constant(-1, "int64")), R.zeros_like(values), values)
    flat = R.reshape(R.zeros_like(x), ShapeExpr((*lead, product(spans))))
    out = ShapeExpr((*lead, product(operand_shape(call, values)[2:])))
    result = R.scatter_elements(flat, R.reshape(positions, out), R.reshape(values, out), axis=2, reduction="add")
    return [R.reshape(result, ShapeExpr(operand_shape(call, x)))]


_SPANS = {1: "5", 2: "4,5", 3: "3,4,2"}
"""Spatial sizes of samples by rank."""


def _pool_row(rank: int) -> Operator:
    params: list[Param | str] = ["data", attribute("pool_size", (1,) * rank), attribute("strides", (1,) * rank)]
    params += [attribute("padding", (0,) * rank), attribute("dilation", (1,) * rank), attribute("ceil_mode", False)]
    return row(
        f"nn.max_pool{rank}d_with_indices",
        params,
        _with_indices(pool_type(rank)),
        "Returns the largest element of each window and its int64 index in the flattened spatial axes.",
        lower=_pool,
        ref=_pool_ref(rank),
        grad=_grad,
        samples=f"f32[2,1,{_SPANS[rank]}], pool_size=2, strides=2, padding=1; "
        f"i32[1,2,{_SPANS[rank]}](0,3), pool_size=2, dilation=1",
    )


def _adaptive_row(rank: int) -> Operator:
    return row(
        f"nn.adaptive_max_pool{rank}d",
        ("data", attribute("output_size")),
        _with_indices(adaptive_type(rank)),
        "Returns the largest elements of windows chosen for an output size, and their int64 indices in the spatial axes.",
        lower=_adaptive(rank),
        ref=_adaptive_ref(rank),
        grad=_grad,
        samples=f"f32[1,2,{_SPANS[rank]}], output_size=2; f32[1,0,{_SPANS[rank]}], output_size={(3, 1, 2)[:rank]}",
    )


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = [_pool_row(n) for n in (1, 2, 3)]
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = [_adaptive_row(n) for n in (1, 2, 3)]
