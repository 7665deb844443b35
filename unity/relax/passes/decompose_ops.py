"""Composite operators become their parts, so that passes and kernels see simple ones.

``decompose_ops_for_inference``: batch_norm, dropout (nothing at inference), tensor_to_shape of a known
length. ``decompose_ops_for_training``: layer_norm and rms_norm as well, into operators with simple gradients. 16-bit floats
are computed in float32 and rounded once, as the operators do. Rules of one's own: the option ``custom``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.expr import Call, ShapeExpr, Tuple
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.relation import dims
from ...ir.types import Expr, TensorType
from ...op.common.channels_last import rank_of
from ...op.common.lowering import SMALL_FLOATS
from ...op.common.table import R, constant
from ...op.common.type_rules import axis_attr, bool_attr
from ...op.elementwise import unary as elementwise
from ...op.elementwise.binary import add, divide, multiply, subtract
from ...op.manipulate import create, manipulate
from ...op.nn.norm import norm_axes, statistics_axes
from ...op.reduction import reduce
from ...transform.infra.passes import module_pass
from ...transform.relax.normalize.dead_code import require_functions
from ...transform.relax.rewriting.graph_rewriter import rewrite_calls

Rule = Callable[[Call], "Expr | None"]


def _dtype(call: Call) -> str | None:
    ty = call.args[0].ty
    return ty.dtype.name if isinstance(ty, TensorType) and ty.dtype is not None and ty.ndim >= 0 else None


def _wide(value: Expr, dtype: str) -> Expr:
    return create.astype(value, dtype="float32") if dtype in SMALL_FLOATS else value


def _narrow(value: Expr, dtype: str) -> Expr:
    return create.astype(value, dtype=dtype) if dtype in SMALL_FLOATS else value


def _number(value: float, dtype: str) -> Expr:
    return constant(value, "float32" if dtype in SMALL_FLOATS else dtype)


def _along(param: Expr, rank: int, axes: Sequence[int]) -> Expr:
    """A parameter over ``axes`` so that it broadcasts against a tensor of ``rank`` axes."""
    others = [a for a in range(rank) if a not in axes]
    return manipulate.expand_dims(param, axis=others) if others else param


def batch_norm(call: Call) -> Expr | None:
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta``, and the statistics handed on; in training those of the data."""
    dtype = _dtype(call)
    if dtype is None:
        return None
    assert isinstance(call.args[0].ty, TensorType)
    rank = call.args[0].ty.ndim
    axis = [axis_attr(call, rank, "axis", 1)]
    x, gamma, beta, mean, var = [_wide(a, dtype) for a in call.args]
    handed_on = [call.args[3], call.args[4]]
    if bool_attr(call, "training", False):
        axes, share = statistics_axes(call, rank), float(call.attrs.get("momentum", 0.1))
        old, step = _number(1 - share, dtype), _number(share, dtype)
        given, (mean, var) = (mean, var), (reduce.mean(x, axis=axes), reduce.variance(x, axis=axes))
        moved = [add(multiply(o, old), multiply(n, step)) for o, n in zip(given, (mean, var))]
        handed_on = [_narrow(m, dtype) for m in moved]
    spread = elementwise.sqrt(add(var, _number(float(call.attrs.get("epsilon", 1e-5)), dtype)))
    made: Expr = divide(subtract(x, _along(mean, rank, axis)), _along(spread, rank, axis))
    return Tuple((_narrow(_scaled(call, made, gamma, beta, axis), dtype), *handed_on), call.span)


def _scaled(call: Call, value: Expr, gamma: Expr, beta: Expr, axes: Sequence[int]) -> Expr:
    """A normalised value times gamma and plus beta over ``axes``, as far as the call has them."""
    if bool_attr(call, "scale", True):
        value = multiply(value, _along(gamma, rank_of(value), axes))
    return add(value, _along(beta, rank_of(value), axes)) if bool_attr(call, "center", True) else value


def dropout(call: Call) -> Expr | None:
    """The data itself and a mask of ones."""
    return Tuple((call.args[0], create.ones_like(call.args[0])), call.span)


def _shape(call: Call) -> Expr | None:
    known = dims(call.ty)
    return ShapeExpr(known, call.span) if known is not None else None


def layer_norm(call: Call) -> Expr | None:
    """Mean, variance, scale and shift as operators of their own."""
    dtype = _dtype(call)
    if dtype is None:
        return None
    ty = call.args[0].ty
    assert isinstance(ty, TensorType)
    axes = list(norm_axes(call, ty))
    x, gamma, beta = [_wide(a, dtype) for a in call.args]
    away = subtract(x, reduce.mean(x, axis=axes, keepdims=True))
    spread = add(reduce.variance(x, axis=axes, keepdims=True), _number(float(call.attrs.get("epsilon", 1e-5)), dtype))
    made: Expr = divide(away, elementwise.sqrt(spread))
    return _narrow(_scaled(call, made, gamma, beta, axes), dtype)


def rms_norm(call: Call) -> Expr | None:
    """Mean of squares and scale as operators of their own."""
    dtype = _dtype(call)
    if dtype is None:
        return None
    ty = call.args[0].ty
    assert isinstance(ty, TensorType)
    axes = list(norm_axes(call, ty))
    x, weight = [_wide(a, dtype) for a in call.args]
    squares = reduce.mean(multiply(x, x), axis=axes, keepdims=True)
    root = elementwise.sqrt(add(squares, _number(float(call.attrs.get("epsilon", 1e-5)), dtype)))
    return _narrow(multiply(divide(x, root), _along(weight, ty.ndim, axes)), dtype)


INFERENCE: dict[str, Rule] = {
    R.nn.batch_norm.name: batch_norm,
    R.nn.dropout.name: dropout,
    R.tensor_to_shape.name: _shape,
}
TRAINING: dict[str, Rule] = {**INFERENCE, R.nn.layer_norm.name: layer_norm, R.nn.rms_norm.name: rms_norm}


def decompose(
    fn: Function, rules: dict[str, Rule], names: tuple[str, ...], custom: tuple[tuple[str, Rule], ...]
) -> Function:
    """The function with the operators of ``rules`` taken apart; a rule that gives None leaves its call."""
    chosen = {**rules, **dict(custom)}
    if names:
        chosen = {name: rule for name, rule in chosen.items() if name in names}

    return rewrite_calls(fn, lambda call, rewriter: chosen[call.op_name](call), *chosen) if chosen else fn


def _each(
    mod: IRModule,
    rules: dict[str, Rule],
    names: tuple[str, ...],
    custom: tuple[tuple[str, Rule], ...],
    func_name: str | None,
) -> IRModule:
    if func_name is not None:
        require_functions(mod, [func_name])
    chosen = {n: fn for n, fn in mod.graph_functions().items() if func_name in (None, n)}
    return mod.with_functions({name: decompose(fn, rules, names, custom) for name, fn in chosen.items()})


@module_pass()
def decompose_ops_for_inference(
    mod: IRModule,
    *,
    names: tuple[str, ...] = (),
    custom: tuple[tuple[str, Rule], ...] = (),
    func_name: str | None = None,
) -> IRModule:
    """Decompose batch normalisation and dropout as inference computes them. ``custom``: rules of your own by operator.

    ``names``: operators to take apart, all with a rule when empty; ``custom``: (name, rule) asked first; ``func_name``: the
    one function to change, all where it is None.
    """
    return _each(mod, INFERENCE, names, custom, func_name)


@module_pass()
def decompose_ops_for_training(
    mod: IRModule,
    *,
    names: tuple[str, ...] = (),
    custom: tuple[tuple[str, Rule], ...] = (),
    func_name: str | None = None,
) -> IRModule:
    """Decompose normalisations into operators with simple gradients. ``custom``: rules of your own by operator.

    ``names``: operators to take apart, all with a rule when empty; ``custom``: (name, rule) asked first; ``func_name``: the
    one function to change, all where it is None.
    """
    return _each(mod, TRAINING, names, custom, func_name)
