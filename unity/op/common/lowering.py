"""Parts of lowerings: broadcasting loads, narrow floats computed in float32, names of results.

A lowering is called as ``lower(call, *inputs)``: a te.Tensor for a tensor argument, a list of them for a tuple, a te.Value for a
scalar, a tuple of dimensions for a shape. It returns a te.Tensor or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...ffi.dtype import DataType, dtype_names
from ...ir import build
from ...ir.expr import Call, Var
from ...ir.relation import Answer, dims, same_dim
from ...ir.scalar import Let
from ...ir.types import Expr, TensorType, prim_type
from .type_rules import fail, is_one

SMALL_FLOATS = tuple([name for name in dtype_names() if DataType(name).is_narrow])
"""Floats below 32 bits: computed in float32, rounded once at the end."""


def compute_dtype(dtype: DataType) -> DataType:
    """The type in which narrow floats are computed: float32; other numbers stay."""
    return DataType("float32") if dtype.name in SMALL_FLOATS else dtype


def result_dims(call: Call) -> tuple[Expr, ...]:
    """Dimensions of the call's result. Raises E218 when they are not known at compile time."""
    return known_dims(call, call.ty)


def known_dims(call: Call, ty: Any) -> tuple[Expr, ...]:
    """Dimensions of a tensor type. Raises E218 when they are not known at compile time."""
    found = dims(ty) if isinstance(ty, TensorType) else None
    if found is None:
        raise fail(
            call,
            "E218",
            f"the shape of {ty} is not known at compile time",
            "name it first: y = R.match_cast(x, R.Tensor((n, m), dtype))",
        )
    return found


def result_dtype(call: Call) -> DataType:
    """Data type of the call's result. Raises E218 when it is not known."""
    ty = call.ty
    if not isinstance(ty, TensorType) or ty.dtype is None:
        raise fail(call, "E218", f"the data type of {ty} is not known at compile time", "name it with R.match_cast")
    return ty.dtype


def short_name(call: Call) -> str:
    """Last part of the operator's name, for stages and kernels."""
    return call.op_name.split(".")[-1]


def load(x: Any, indices: Sequence[Any], shape: Sequence[Expr]) -> te.Value:
    """Element of ``x`` broadcast to ``shape``; a scalar is itself."""
    if not isinstance(x, te.Tensor):
        return x if isinstance(x, te.Value) else te.Value(x)
    return x[broadcast_indices(x.shape, indices, shape)]


def broadcast_indices(source: Sequence[Expr], indices: Sequence[Any], shape: Sequence[Expr]) -> list[Any]:
    """Indices of an element of a tensor of shape ``source`` broadcast to ``shape``."""
    offset = len(shape) - len(source)
    result: list[Any] = []
    for axis, dim in enumerate(source):
        index = indices[offset + axis]
        if is_one(dim) and not is_one(shape[offset + axis]):
            result.append(0)
        elif same_dim(dim, shape[offset + axis]) is Answer.YES:
            result.append(index)
        else:  # a symbolic dimension that may be 1
            result.append(te.select(build.eq(dim, 1), 0, index))
    return result


def upcast(value: te.Value) -> te.Value:
    """A narrow float as float32, other values as they are."""
    return value.astype("float32") if value.dtype.name in SMALL_FLOATS else value


def elementwise(call: Call, fn: Callable[..., Any], *inputs: Any) -> te.Tensor:
    """Broadcast the inputs to the result's shape and apply ``fn`` to elements (narrow floats in float32)."""
    shape, dtype = result_dims(call), result_dtype(call)

    def body(*indices: te.Value) -> te.Value:
        result = fn(*[upcast(load(x, indices, shape)) for x in inputs])
        return te.Value(te.unwrap(result)).astype(dtype)

    return te.compute(shape, body, short_name(call))


def cast_tensor(x: te.Tensor, dtype: DataType, name: str) -> te.Tensor:
    """The tensor in another dtype; itself if it has it."""
    return x if x.data_type is dtype else te.compute(x.shape, lambda *i: x[i].astype(dtype), name)


def let_value(value: te.Value, body: Callable[[te.Value], te.Value]) -> te.Value:
    """``body`` of a value that is computed once."""
    var = Var("v", prim_type(value.dtype))
    return te.Value(Let(var, te.unwrap(value), te.unwrap(body(te.Value(var)))))


def let_values(values: Sequence[te.Value], body: Callable[[Sequence[te.Value]], te.Value]) -> te.Value:
    """``body`` of several values that are each computed once."""
    found: list[te.Value] = []

    def rest(n: int) -> te.Value:
        if n == len(values):
            return body(found)

        def bind(value: te.Value) -> te.Value:
            found.append(value)
            return rest(n + 1)

        return let_value(values[n], bind)

    return rest(0)
