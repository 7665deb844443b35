"""Parts of gradients: sums over broadcast axes, shapes of operands, fields of tuples.

A gradient stands with its row: ``grad(call, g)`` -> one expression per argument, None where there is none. It is written with
operators of all families, which it finds in ``R``, and with Python's operators on expressions. The results are nested calls;
whoever uses them brings them into normal form. For an operator with several results ``g`` is a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ffi.dtype import DataType
from ...ir.expr import Call, IntImm, ShapeExpr, Tuple, TupleGetItem
from ...ir.relation import Answer, dims, same_dims
from ...ir.types import Expr, TensorType, TupleType
from ...support.arguments import checked
from ...support.errors import TypeRuleError
from .table import R, constant
from .type_rules import axes_attr, bool_attr, fail

Rule = Callable[[Call, Expr], list[Any]]


def dtype_of(x: Expr) -> DataType:
    """The dtype of a tensor. Raises TypeRuleError E218 where it is not known."""
    if isinstance(x.ty, TensorType) and x.ty.dtype is not None:
        return x.ty.dtype
    raise TypeRuleError(
        "E218", f"the data type of {x.ty} is not known at compile time", help="name it with R.match_cast"
    )


def number_like(value: float, x: Expr) -> Expr:
    """A number as a constant of the dtype of x."""
    return constant(value, dtype_of(x))


def operand_shape(call: Call, x: Expr) -> tuple[Expr, ...]:
    """Dimensions of an operand of ``call``. Raises TypeRuleError E218 where its shape is not known."""
    known = dims(x.ty)
    if known is None:
        raise fail(call, "E218", f"the gradient needs the shape of {x.ty}", "name it with R.match_cast")
    return known


def operand_sizes(call: Call, x: Expr) -> list[int]:
    """Dimensions of an operand of ``call`` as integers. Raises TypeRuleError E218 where one is symbolic or unknown."""
    shape = operand_shape(call, x)
    found = [d.value for d in shape if type(d) is IntImm]
    if len(found) != len(shape):
        raise fail(call, "E218", f"the gradient needs constant sizes, got {x.ty}", "name them with R.match_cast")
    return found


def field_of(value: Expr, index: int) -> Expr:
    """A field of a tuple: itself where the tuple is written out."""
    return value.fields[index] if type(value) is Tuple else TupleGetItem(value, index)


def fields_of(value: Expr) -> list[Expr]:
    """All fields of a tuple."""
    assert isinstance(value.ty, TupleType)
    return [field_of(value, n) for n in range(len(value.ty.fields))]


def reduce_to(call: Call, grad: Expr, operand: Expr) -> Expr | None:
    """Gradient of a broadcast operand of ``call``: summed over the axes it was repeated along."""
    if not isinstance(operand.ty, TensorType):
        return None
    have, want = operand_shape(call, grad), operand_shape(call, operand)
    return grad if same_dims(have, want) is Answer.YES else R.collapse_sum_to(grad, ShapeExpr(want))


def mask_grad(g: Expr, cond: Expr) -> Expr:
    """The gradient where a condition holds, else 0."""
    return R.where(cond, g, number_like(0.0, g))


def sum_except(x: Expr, axes: Sequence[int], rank: int) -> Expr:
    """The sum over all axes but some."""
    reduced = [a for a in range(rank) if a not in axes]
    return R.sum(x, axis=reduced) if reduced else x


# ---- rules


def unary_grad(fn: Callable[[Expr, Expr], Expr]) -> Rule:
    """The gradient of an operator of one operand from ``fn(g, x)``."""
    return lambda call, g: [fn(g, call.args[0]), *[None] * (len(call.args) - 1)]


def elementwise_grad(fn: Callable[..., Sequence[Expr]]) -> Rule:
    """The gradient of an operator of broadcast operands from ``fn(g, *operands)``."""
    return lambda call, g: [reduce_to(call, part, x) for part, x in zip(fn(g, *call.args), call.args)]


def identity_grad(call: Call, g: Expr) -> list[Any]:
    """The gradient itself."""
    return [g]


def not_differentiable(call: Call, g: Expr) -> list[Any]:
    """No argument has a gradient."""
    return [None] * len(call.args)


def zero_grad(call: Call, g: Expr) -> list[Any]:
    """Zeros: the operator is constant almost everywhere."""
    return [R.zeros_like(a) if isinstance(a.ty, TensorType) else None for a in call.args]


def reshape_grad(call: Call, g: Expr) -> list[Any]:
    """The gradient in the shape of the first operand."""
    return [R.reshape(g, ShapeExpr(operand_shape(call, call.args[0]))), *[None] * (len(call.args) - 1)]


def broadcast_grad(call: Call, g: Expr) -> list[Any]:
    """The gradient broadcast to the first operand."""
    return [R.broadcast_to(g, ShapeExpr(operand_shape(call, call.args[0]))), *[None] * (len(call.args) - 1)]


def cast_grad(call: Call, g: Expr) -> list[Any]:
    """The gradient in the dtype of the operand, where that is a float."""
    dtype = dtype_of(call.args[0])
    return [R.astype(g, dtype) if dtype is not None and dtype.is_float else None]


# ---- reductions


def reduced_axes(call: Call) -> list[int]:
    """The axes that a reduction goes over."""
    rank = len(operand_shape(call, call.args[0]))
    axes = axes_attr(call, "axis", rank)
    return list(range(rank)) if axes is None else sorted(axes)


def sum_backward(call: Call, g: Expr) -> Expr:
    """The gradient of a reduction repeated over the reduced axes."""
    axes = reduced_axes(call)
    g = g if bool_attr(call, "keepdims") or not axes else R.expand_dims(g, axes)
    return R.broadcast_to(g, ShapeExpr(operand_shape(call, call.args[0])))


def reduce_keepdims(call: Call, operator: Callable[..., Expr], x: Expr | None = None) -> Expr:
    """Another reduction over the axes of the call, which are kept; of its operand unless given."""
    return operator(call.args[0] if x is None else x, axis=reduced_axes(call), keepdims=True)


TE_GRADIENTS: dict[str, Callable[..., Any]] = {}
"""Gradients of tensor programs that a user wrote, by the name in ``R.call_dps_with_grad``: ``(output_grad, *inputs,
**te_grad_kwargs)`` -> the gradient of each input; with several results ``output_grad`` is a list."""


@checked
def register_te_gradient(
    te_grad_name: str, te_grad_func: Callable[..., Any] | None = None, override: bool = False
) -> Callable[..., Any]:
    """Enter the gradient of tensor programs under a name; without a function, a decorator.

    Raises TypeRuleError E214 for a name that is taken, unless ``override`` says so.
    """

    def enter(func: Callable[..., Any]) -> Callable[..., Any]:
        if te_grad_name in TE_GRADIENTS and not override:
            raise TypeRuleError("E214", f"a gradient named {te_grad_name!r} is registered already",
                                help="pass override=True to replace it")  # fmt: skip
        TE_GRADIENTS[te_grad_name] = func
        return func

    return enter if te_grad_func is None else enter(te_grad_func)
