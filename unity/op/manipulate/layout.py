"""layout_transform: the elements of a tensor in another order, given by an index map such as ``(i, j) -> (i // 4, j, i % 4)``.

Fixed orders (transpose, reshape) are in manipulate.py. Invariant: each element has its own position; positions that no element
maps to hold the pad value, zero where none is given.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import te
from ...arith.evaluate import evaluate
from ...arith.index_map import IndexMap
from ...ir.build import const, index_var
from ...ir.expr import Call, IntImm
from ...ir.relation import dims
from ...ir.types import Expr, PrimType, TensorType, Type
from ...ir.walk import substitute
from ...support.errors import TypeRuleError
from ..common.lowering import known_dims, result_dims, short_name
from ..common.table import Operator, attribute, rows
from ..common.type_rules import attr, element, fail, tensor_arg, with_rank, with_shape
from .slicing import strided_slice

row = rows("manipulate")
_USAGE = "write index_map=lambda n, c: (n, c // 4, c % 4)"


def to_map(value: object, ndim: int) -> IndexMap:
    """An index map from a function of ``ndim`` indices (or ``*indices``), or the map itself. Raises TypeRuleError E214."""
    if isinstance(value, IndexMap):
        return value
    if not callable(value):
        raise TypeRuleError(
            "E214", f"index_map must be a function of the indices, got {getattr(value, 'value', value)!r}", help=_USAGE
        )
    parameters = list(inspect.signature(value).parameters.values())
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(names) != ndim and not any([p.kind is p.VAR_POSITIONAL for p in parameters]):
        raise TypeRuleError("E214", f"index_map takes {len(names)} indices, the tensor has {ndim}", help=_USAGE)
    variables = tuple([index_var(names[k] if k < len(names) else f"i{k}", "int64") for k in range(ndim)])
    result = value(*[te.Value(v) for v in variables])
    items = result if isinstance(result, (tuple, list)) else (result,)
    return IndexMap(variables, tuple([_index(item) for item in items]))


def _index(item: object) -> Expr:
    if isinstance(item, (te.Value, Expr, int)):
        found: Expr = te.to_scalar(item, "int64")
        if isinstance(found.ty, PrimType) and found.ty.dtype.is_int:
            return found
    raise TypeRuleError(
        "E214", f"index_map gives integer expressions of its indices, got {getattr(item, 'value', item)!r}", help=_USAGE
    )


class LayoutOperator(Operator):
    """The operator, which also takes Python functions as index maps."""

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        source = args[0] if args else kwargs.get("x")
        if len(args) > 1:
            args = (args[0], self._map(source, args[1]), *args[2:])
        elif "index_map" in kwargs:
            kwargs["index_map"] = self._map(source, kwargs["index_map"])
        return Operator.__call__(self, *args, **kwargs)

    @staticmethod
    def _map(x: Any, value: object) -> object:
        ndim = getattr(getattr(x, "ty", None), "ndim", getattr(x, "ndim", -1))
        return to_map(value, ndim) if ndim >= 0 else value


def _map_of(call: Call) -> IndexMap:
    found = attr(call, "index_map")
    if not isinstance(found, IndexMap):
        raise fail(
            call, "E214", f"index_map must be an index map, got {found!r}", "write lambda i, j: (i // 4, j, i % 4)"
        )
    return found


def _layout_type(call: Call) -> Type:
    ty, index_map = tensor_arg(call, 0), _map_of(call)
    if ty.ndim not in (-1, len(index_map.initial_indices)):
        taken = len(index_map.initial_indices)
        raise fail(call, "E212", f"index_map takes {taken} indices, the tensor has rank {ty.ndim}", arg=0)
    _pad_value(call, ty)
    for name in ("axis_separators", "input_axis_separators"):
        positions = attr(call, name, None)
        if positions is not None and not (isinstance(positions, tuple) and all([type(p) is int for p in positions])):
            raise fail(call, "E214", f"{name} must be a tuple of axes, got {positions!r}")
    known = dims(ty)
    if known is None:
        return with_rank(ty, len(index_map.final_indices))
    index_map.non_surjective_inverse(known)
    return with_shape(ty, mapped_shape(index_map, known))


def mapped_shape(index_map: IndexMap, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The dimensions of the result: those of the shape rounded up to what the map divides by, so that ``(i // 4, i % 4)``
    gives 4 as last dimension for every number of elements."""
    return index_map.map_shape(index_map.padded_shape(shape))


def _pad_value(call: Call, ty: TensorType) -> int | float:
    """The value of the positions that no element maps to. Raises E214."""
    value = attr(call, "pad_value")
    return 0 if value is None else element(call, value, ty.dtype, "pad_value")


def _is_false(condition: Expr) -> bool:
    return type(condition) is IntImm and not condition.value


def _layout(call: Call, x: te.Tensor) -> te.Tensor:
    index_map, ty = _map_of(call), tensor_arg(call, 0)
    inverse, padding = index_map.non_surjective_inverse(x.shape)
    fill = te.const(_pad_value(call, ty), x.dtype)

    def body(*i: te.Value) -> te.Value:
        index = [te.Value(e) for e in inverse.map_indices([te.to_scalar(v) for v in i])]
        given = substitute(padding, dict(zip(inverse.initial_indices, [te.to_scalar(v) for v in i])))
        if _is_false(given):
            return x[index]
        return te.if_then_else(given, fill, x[index])

    return te.compute(result_dims(call), body, short_name(call))


def _layout_ref(
    x: np.ndarray,
    index_map: IndexMap | Callable[..., Any],
    pad_value: int | float | None = None,
    axis_separators: Any = None,
    input_axis_separators: Any = None,
) -> np.ndarray:
    mapping = to_map(index_map, x.ndim)
    shape = mapped_shape(mapping, [const(n, "int64") for n in x.shape])
    value = getattr(pad_value, "value", pad_value)
    sizes = [n for n in [evaluate(dim, {}) for dim in shape] if n is not None]
    result = np.full(sizes, 0 if value is None else value, x.dtype)
    for position in itertools.product(*[range(n) for n in x.shape]):
        assignment = dict(zip(mapping.initial_indices, position))
        result[tuple([evaluate(e, assignment) for e in mapping.final_indices])] = x[position]
    return result


def _layout_grad(call: Call, g: Expr) -> list[Any]:
    """The gradient in the layout of ``x``: moved back, and without what stands for padding."""
    shape = known_dims(call, call.args[0].ty)
    inverse, padding = _map_of(call).non_surjective_inverse(shape)
    grad = layout_transform(g, inverse)
    if _is_false(padding):
        return [grad]
    axes = tuple(range(len(shape)))
    return [strided_slice(grad, axes=axes, begin=(0,) * len(shape), end=tuple(shape), assume_inbound=True)]


layout_transform = row(
    "layout_transform",
    (
        "x",
        attribute("index_map", doc="function from the indices of an element to those in the result"),
        attribute("pad_value", None, doc="value of positions that no element maps to; None: 0"),
        attribute("axis_separators", None, doc="kept as an annotation without effect"),
        attribute("input_axis_separators", None, doc="kept as an annotation without effect"),
    ),
    _layout_type,
    "Moves the element at index i to index_map(i); dimensions that the map divides are rounded up.",
    lower=_layout,
    grad=_layout_grad,
    ref=_layout_ref,
    kind=LayoutOperator,
    samples="f32[2,8,3], index_map=lambda n, c, w: (n, c // 4, w, c % 4); "
    "i32[5,3], index_map=lambda p, q: (q, p // 4, p % 4), pad_value=7; "
    "f32[0,3], index_map=lambda p, q: (q, p)",
)
