"""Reductions over axes. ``axis`` None is all axes; negative axes count from the end; ``keepdims`` leaves them with size 1.

Sums of narrow floats are taken in float32; products and variances of floats in float64, rounded once: a product's rounding errors
add up, and a variance has the square of its mean's. Integer sums keep their dtype and wrap, as the tensors' type says (numpy would
widen); those of bool count in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ffi.dtype import BOOL, INT64, DataType, from_numpy
from ...ir import build
from ...ir.analysis.reductions import NUMBERS
from ...ir.expr import Call, ShapeExpr
from ...ir.relation import Answer, dims, exceeds, same_dims, tensor_type, unequal_shapes
from ...ir.types import Expr, TensorType, Type
from ..common import channels_last
from ..common.gradients import (
    Rule,
    broadcast_grad,
    dtype_of,
    operand_shape,
    reduce_keepdims,
    reduced_axes,
    sum_backward,
)
from ..common.lowering import SMALL_FLOATS, cast_tensor, known_dims, result_dtype, short_name
from ..common.table import Operator, R, attribute, row
from ..common.type_rules import (
    ONE,
    attr,
    axes_attr,
    axis_attr,
    bool_attr,
    broadcast_dims,
    fail,
    float_tensor,
    is_one,
    product,
    shape_arg,
    tensor_arg,
    with_shape,
)  # fmt: skip

_AXES = ("x", attribute("axis", None, "one axis or several; None: all"), attribute("keepdims", False))


def reduced_type(call: Call, ty: TensorType, dtype: DataType | None, axes: tuple[int, ...] | None) -> TensorType:
    """Type after the axes are reduced away."""
    keepdims = bool_attr(call, "keepdims")
    if axes is None and not keepdims:
        return tensor_type((), dtype, vdevice=ty.vdevice)
    if ty.ndim == -1:
        return TensorType(None, dtype, -1, ty.vdevice)
    reduced = set(range(ty.ndim)) if axes is None else set(axes)
    rank = ty.ndim if keepdims else ty.ndim - len(reduced)
    known = dims(ty)
    if known is None:
        return TensorType(None, dtype, rank, ty.vdevice)
    kept_axes = [ONE if i in reduced else d for i, d in enumerate(known) if keepdims or i not in reduced]
    return tensor_type(kept_axes, dtype, vdevice=ty.vdevice)


def _ordered(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    return reduced_type(call, ty, ty.dtype, axes_attr(call, "axis", ty.ndim))


def _numbers(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    dtype = INT64 if ty.dtype is BOOL else ty.dtype
    return reduced_type(call, ty, dtype, axes_attr(call, "axis", ty.ndim))


def float_reduction(call: Call) -> Type:
    """Type rule of a reduction of floats."""
    ty = float_tensor(call, 0)
    return reduced_type(call, ty, ty.dtype, axes_attr(call, "axis", ty.ndim))


def reduce_axes(call: Call, x: te.Tensor, axes: tuple[int, ...] | None = None) -> tuple[list[int], list[Expr]]:
    """Axes reduced away (all if None are given) and the shape with 1 instead."""
    given = axes if axes is not None else axes_attr(call, "axis", x.ndim)
    found = list(range(x.ndim)) if given is None else sorted(given)
    return found, [ONE if i in found else d for i, d in enumerate(x.shape)]


def reduce_tensor(
    x: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    reducer: Callable[..., te.Value],
    source: Callable[[te.Value, list[Any]], te.Value],
    name: str,
    **attrs: Any,
) -> te.Tensor:
    """Reduce ``source(x[index], index)`` over axes, in a block with ``attrs``; without axes to reduce the source itself."""
    shape = [ONE if i in axes else d for i, d in enumerate(x.shape) if keepdims or i not in axes]
    ks = {a: te.reduce_axis((0, x.shape[a]), f"k{n}" if len(axes) > 1 else "k") for n, a in enumerate(axes)}

    def body(*indices: te.Value) -> te.Value:
        rest = list(indices)
        full: list[Any] = []
        for axis in range(x.ndim):
            if axis in ks:
                full.append(ks[axis])
                if keepdims:
                    rest.pop(0)
            else:
                full.append(rest.pop(0))
        value = source(x[full], full)
        return reducer(value, axis=[ks[a] for a in axes]) if axes else value

    return te.compute(shape, body, name, attrs=attrs)


def highest_number(x: te.Tensor, axes: Sequence[int]) -> te.Tensor:
    """The maximum over axes, which stay, for exponentials that are added up: NaN may be left out, as their sum has it."""
    return reduce_tensor(x, axes, True, te.max, lambda v, _: accumulate(v), "maximum", reduction=NUMBERS)


def accumulate(x: te.Value) -> te.Value:
    """A value in the dtype sums are taken in."""
    return x.astype("float32") if x.dtype.name in SMALL_FLOATS else x.astype("int64") if x.dtype.is_bool else x


def upcast_float64(x: te.Value) -> te.Value:
    """A float as float64, bool as int64, other values as they are."""
    return x.astype("float64") if x.dtype.is_float else accumulate(x)


def _comparable(x: te.Value) -> te.Value:
    """A value in a dtype that has a largest and a smallest value."""
    return x.astype("uint8") if x.dtype.is_bool else accumulate(x)


def _lower(
    reducer: Callable[..., te.Value], upcast: Callable[[te.Value], te.Value] = accumulate
) -> Callable[..., te.Tensor]:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes, _ = reduce_axes(call, x)
        result = reduce_tensor(x, axes, bool_attr(call, "keepdims"), reducer, lambda v, _: upcast(v), short_name(call))
        return cast_tensor(result, result_dtype(call), f"{short_name(call)}_cast")

    return lower


def divide_by_count(x: te.Tensor, counted: te.Tensor, axes: Sequence[int], name: str) -> te.Tensor:
    """Every element divided by the number of elements reduced."""
    count = te.Value(build.cast(product([counted.shape[a] for a in axes]), x.data_type))
    return te.compute(x.shape, lambda *i: x[i] / count, name)


def mean_tensor(
    x: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    name: str = "mean",
    upcast: Callable[[te.Value], te.Value] = accumulate,
) -> te.Tensor:
    """Mean over axes, in the dtype ``upcast`` gives (default: that sums are taken in)."""
    total = reduce_tensor(x, axes, keepdims, te.sum, lambda v, _: upcast(v), f"{name}_sum")
    return divide_by_count(total, x, axes, name)


def variance_tensor(
    x: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    name: str = "variance",
    upcast: Callable[[te.Value], te.Value] = accumulate,
) -> te.Tensor:
    """Mean of the squared distance from the mean, in two passes over the data and in the dtype ``upcast`` gives."""
    center = mean_tensor(x, axes, True, f"{name}_mean", upcast)

    def squared_distance(value: te.Value, index: list[Any]) -> te.Value:
        centered = upcast(value) - center[[0 if a in axes else i for a, i in enumerate(index)]]
        return centered * centered

    total = reduce_tensor(x, axes, keepdims, te.sum, squared_distance, f"{name}_sum")
    return divide_by_count(total, x, axes, name)


def _exact_variance(x: te.Tensor, axes: Sequence[int], keepdims: bool) -> te.Tensor:
    return variance_tensor(x, axes, keepdims, upcast=upcast_float64)


def _statistic(fn: Callable[..., te.Tensor], root: bool = False) -> Callable[..., te.Tensor]:
    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes, _ = reduce_axes(call, x)
        result = fn(x, axes, bool_attr(call, "keepdims"))
        if root:
            inner = result
            result = te.compute(inner.shape, lambda *i: te.sqrt(inner[i]), "std")
        return cast_tensor(result, result_dtype(call), f"{short_name(call)}_cast")

    return lower


def numpy_axis(axis: Any) -> Any:
    """Axis attribute as numpy takes it."""
    return tuple(axis) if isinstance(axis, (list, tuple)) else axis


def _ref(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def ref(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
        x64 = x.astype(np.float64) if str(x.dtype) in (*SMALL_FLOATS, "float32") else x
        with np.errstate(all="ignore"):
            result = np.asarray(fn(x64, axis=numpy_axis(axis), keepdims=bool(keepdims)))
            return result if x.dtype.kind == "b" else result.astype(x.dtype)

    return ref


def _reduction(
    name: str, rule: Callable[[Call], Type], ref: Any, lower: Callable[..., te.Tensor], doc: str, grad: Rule
) -> Operator:
    samples = "f32[3,4,5], axis=each(None, [0], [-1], [0,2], 1), keepdims=each(False, True); f16[6]"
    if rule is not float_reduction:
        samples += "; i32[3,4], axis=0; b[40,3], axis=0; b[0,3], axis=[0]; b[5], axis=[]; f32[()]"
    return row(
        name, _AXES, rule, doc, family="reduce", ref=_ref(ref), lower=lower, grad=grad, layout=channels_last.reduce,
        samples=samples,
    )  # fmt: skip


def _extreme_ref(fn: Any, largest: bool) -> Callable[..., Any]:
    """numpy's function; over nothing, the value that every other one displaces."""

    def ref(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
        edge: Any = (build.lowest if largest else build.highest)(DataType(x.dtype))
        return fn(x, axis=axis, keepdims=keepdims, initial=edge.value)

    return ref


def _count(call: Call) -> Expr:
    """The number of elements of which each result is made."""
    return reduce_keepdims(call, R.sum, R.ones_like(call.args[0]))


def _mean_grad(call: Call, g: Expr) -> list[Any]:
    return [sum_backward(call, g) / _count(call)]


def _variance_grad(call: Call, g: Expr) -> list[Any]:
    centered = call.args[0] - reduce_keepdims(call, R.mean)
    return [_mean_grad(call, g)[0] * (centered * 2.0)]


def _std_grad(call: Call, g: Expr) -> list[Any]:
    """(x - mean) / (n std); NaN where all elements are equal, as in torch."""
    centered = (call.args[0] - reduce_keepdims(call, R.mean)) / (_count(call) * reduce_keepdims(call, R.std))
    return [sum_backward(call, g) * centered]


def extreme_grad(extreme: Expr, call: Call, g: Expr) -> list[Any]:
    """The gradient of a reduction that chooses a value, shared equally between the elements that attain it."""
    hit = R.astype(R.equal(call.args[0], extreme), dtype_of(call.args[0]))
    return [sum_backward(call, g) * hit / reduce_keepdims(call, R.sum, hit)]


def _product_of_others(x: Expr) -> Expr:
    """Product of the other elements along the last axis, exact also where elements are 0."""
    behind = R.flip(R.cumprod(R.flip(x, axis=-1), axis=-1, exclusive=True), axis=-1)
    return R.cumprod(x, axis=-1, exclusive=True) * behind


def _prod_grad(call: Call, g: Expr) -> list[Any]:
    x, reduced = call.args[0], reduced_axes(call)
    shape = operand_shape(call, x)
    if not reduced:
        return [g]
    kept_axes = [a for a in range(len(shape)) if a not in reduced]
    order = [*kept_axes, *reduced]
    moved = R.permute_dims(x, axes=order)
    lines = ShapeExpr((*[shape[a] for a in kept_axes], product([shape[a] for a in reduced])))
    others = R.reshape(_product_of_others(R.reshape(moved, lines)), ShapeExpr(tuple([shape[a] for a in order])))
    return [sum_backward(call, g) * R.permute_dims(others, axes=[order.index(a) for a in range(len(shape))])]


# fmt: off
sum_ = _reduction("sum", _numbers, np.sum, _lower(te.sum), "Returns the sum over the axes; bool is counted in int64.",
                  grad=lambda call, g: [sum_backward(call, g)])
prod = _reduction("prod", _numbers, np.prod, _lower(te.prod, upcast_float64),
                  "Returns the product over the axes; bool is counted in int64.", grad=_prod_grad)
max_ = _reduction("max", _ordered, _extreme_ref(np.max, True), _lower(te.max, _comparable),
                  "Returns the largest element over the axes; NaN if any is NaN.",
                  grad=lambda call, g: extreme_grad(reduce_keepdims(call, R.max), call, g))
min_ = _reduction("min", _ordered, _extreme_ref(np.min, False), _lower(te.min, _comparable),
                  "Returns the smallest element over the axes; NaN if any is NaN.",
                  grad=lambda call, g: extreme_grad(reduce_keepdims(call, R.min), call, g))
mean = _reduction("mean", float_reduction, np.mean, _statistic(mean_tensor), "Returns the mean over the axes.", grad=_mean_grad)
variance = _reduction("variance", float_reduction, np.var, _statistic(_exact_variance),
                      "Returns the variance over the axes, dividing by the number of elements.", grad=_variance_grad)
std = _reduction("std", float_reduction, np.std, _statistic(_exact_variance, True),
                 "Returns the standard deviation over the axes, dividing by the number of elements.", grad=_std_grad)
# fmt: on


def _arg_type(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    axis = attr(call, "axis")
    axes = None if axis is None else (axis_attr(call, ty.ndim),)
    known = dims(ty)
    if known is not None and any([exceeds(ONE, d) for i, d in enumerate(known) if axes is None or i in axes]):
        raise fail(call, "E213", "no element to choose from: an axis has size 0", arg=0)
    return reduced_type(call, ty, INT64, axes)


def _arg_lower(largest: bool) -> Callable[..., te.Tensor]:
    """Two reductions that run in vectors: the best value, then the least index of an element that is it (NaN is NaN's)."""

    def lower(call: Call, x: te.Tensor) -> te.Tensor:
        axes, _ = reduce_axes(call, x, None if attr(call, "axis") is None else (axis_attr(call, x.ndim),))
        keepdims = bool_attr(call, "keepdims")
        if not axes:
            shape = list(x.shape)
            return te.compute(shape, lambda *i: te.const(0, "int64"), short_name(call))
        x = cast_tensor(x, DataType("int8"), "numbers") if x.data_type.is_bool else x
        best = reduce_tensor(x, axes, True, te.max if largest else te.min, lambda v, _: accumulate(v), "best")
        sizes = [build.int_value(d) for d in (x.shape[a] for a in axes)]
        few = None not in sizes and math.prod([n for n in sizes if n is not None]) < 1 << 31
        kind = "int32" if few else "int64"
        none = te.const((1 << (31 if few else 63)) - 1, kind)

        def index(value: te.Value, at: list[Any]) -> te.Value:
            value, top = accumulate(value), best[[0 if a in axes else v for a, v in enumerate(at)]]
            hit = te.Value(build.eq(value.expr, top.expr))
            if x.data_type.is_float:
                hit = te.any(hit, te.all(_is_nan(value), _is_nan(top)))
            flat: Any = te.const(0, "int64")
            for axis in axes:
                flat = flat * te.Value(x.shape[axis]) + at[axis]
            return te.select(hit, flat.astype(kind), none)

        first = reduce_tensor(x, axes, keepdims, te.min, index, "first")

        def position(*i: te.Value) -> te.Value:
            found = first[i]
            missing = te.Value(build.eq(found.expr, none.expr))
            return te.select(missing, -1, found.astype("int64"))

        return te.compute(first.shape, position, short_name(call))

    return lower


def _is_nan(value: te.Value) -> te.Value:
    return te.Value(build.ne(value.expr, value.expr))


def _arg_ref(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    return lambda x, axis=None, keepdims=False: np.asarray(fn(x, axis=axis, keepdims=bool(keepdims))).astype(np.int64)


argmax = row(
    "argmax",
    _AXES,
    _arg_type,
    "Returns the int64 index of the largest element, the first of equal ones; NaN counts as largest.",
    family="reduce",
    ref=_arg_ref(np.argmax),
    lower=_arg_lower(True),
    samples="f32[3,4]; f32[3,4], axis=0, keepdims=True; i32[4,5](0,3), axis=-1; b[4]",
)
argmin = row(
    "argmin",
    _AXES,
    _arg_type,
    "Returns the int64 index of the smallest element, the first of equal ones; NaN counts as smallest.",
    family="reduce",
    ref=_arg_ref(np.argmin),
    lower=_arg_lower(False),
    samples="f32[3,4]; f32[3,4], axis=0, keepdims=True; i32[4,5](0,3), axis=-1; b[4]",
)


def _collapse_type(call: Call) -> Type:
    ty, target = tensor_arg(call, 0, "data"), shape_arg(call, 1)
    known, wanted = dims(ty), target.values
    if known is not None and wanted is not None:
        found = broadcast_dims(call, (known, wanted))
        if len(wanted) > len(known) or unequal_shapes(found, known):
            raise fail(call, "E213", f"{ShapeExpr(wanted)} does not broadcast to {ShapeExpr(known)}", arg=0)
    return with_shape(ty, wanted if wanted is not None else call.args[1])


def _collapse(call: Call, x: te.Tensor, shape: Any) -> te.Tensor:
    target = known_dims(call, call.ty)
    offset = x.ndim - len(target)
    for a, d in enumerate(target):
        if not is_one(d) and same_dims((d,), (x.shape[a + offset],)) is not Answer.YES:
            raise fail(
                call,
                "E218",
                f"whether axis {a} was broadcast is known only at run time",
                "name the shape with R.match_cast",
            )
    axes = [a for a in range(x.ndim) if a < offset or (is_one(target[a - offset]) and not is_one(x.shape[a]))]
    summed = reduce_tensor(x, axes, True, te.sum, lambda v, _: accumulate(v), "collapse_sum")
    return te.compute(target, lambda *i: summed[[*[0] * offset, *i]].astype(x.dtype), "collapse_sum_to")


def _collapse_ref(data: np.ndarray, shape: Any) -> np.ndarray:
    wanted = tuple(shape)
    offset = data.ndim - len(wanted)
    axes = tuple([a for a in range(data.ndim) if a < offset or (wanted[a - offset] == 1 and data.shape[a] != 1)])
    wide = data.astype(np.float64) if from_numpy(data.dtype).is_float else data
    return np.asarray(np.sum(wide, axis=axes, keepdims=True, dtype=wide.dtype).reshape(wanted), data.dtype)


collapse_sum_to = row(
    "collapse_sum_to",
    ("data", "shape: the shape before broadcasting"),
    _collapse_type,
    "Sums over the axes along which a tensor of the given shape was broadcast to data.",
    family="reduce",
    lower=_collapse,
    ref=_collapse_ref,
    grad=broadcast_grad,
    samples="f32[2,3,4], (3,1); f32[2,3], (2,3)",
)
