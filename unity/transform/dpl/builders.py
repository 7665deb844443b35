"""Builders of patterns: ``is_op("R.add")(wildcard(), is_const())``. Names as in ``tvm.relax.dpl``."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import ExternFunc, GlobalVar, op
from ...ir.op import OPS
from ...ir.types import Expr
from ...op.common.table import R
from ...support.errors import PassError, suggest
from .pattern import (
    CallPattern,
    ConstantPattern,
    DFPattern,
    DpsPattern,
    ExprPattern,
    OrPattern,
    ShapeExprPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)


def wildcard() -> DFPattern:
    """Anything."""
    return WildcardPattern()


def is_op(name: str) -> DFPattern:
    """An operator by name (``R.add`` or ``relax.add``): ``is_op("R.add")(wildcard(), wildcard())``. Raises PassError E553 for a
    name that no operator has."""
    callee = {"relax.call_tir": GlobalVar, "relax.call_dps_packed": ExternFunc}.get(name)
    if callee is not None:
        return DpsPattern(op(name), callee)
    found = op(name)
    if found.name.startswith("R.") and found.name not in OPS:
        raise PassError("E553", f"no operator {found.name}", help=suggest(found.name, OPS))
    return ExprPattern(found)


def is_expr(expr: Expr) -> DFPattern:
    """An expression structurally equal to this one."""
    return ExprPattern(expr)


def is_const() -> DFPattern:
    """Constant data."""
    return ConstantPattern()


def is_var(name: str = "") -> DFPattern:
    """A variable, of a name if given."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DFPattern:
    """A variable of a dataflow block."""
    return VarPattern(name, "dataflow")


def is_gv(name: str = "") -> DFPattern:
    """A function of the module."""
    return VarPattern(name, "global")


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> DFPattern:
    """A tuple of these fields."""
    return TuplePattern(tuple(fields), unordered)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """A field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Expr | int]) -> DFPattern:
    """A shape value of these dimensions."""
    return ShapeExprPattern(tuple(shape))


def _call_dps(callee: DFPattern, args: DFPattern | Sequence[DFPattern] | None, tir_vars: DFPattern | None) -> DFPattern:
    given = wildcard() if args is None else args if isinstance(args, DFPattern) else TuplePattern(tuple(args))
    if tir_vars is not None:
        return CallPattern(is_op(R.call_dps.name), (callee, given, tir_vars))
    bare = CallPattern(is_op(R.call_dps.name), (callee, given))
    return bare | CallPattern(is_op(R.call_dps.name), (callee, given, wildcard())) if args is None else bare


def is_call_tir(
    func_name: str, args: Sequence[DFPattern] | None = None, tir_vars: DFPattern | None = None
) -> DFPattern:
    """``R.call_dps`` of a tensor program of the module, with any arguments if none are given."""
    return _call_dps(is_gv(func_name), args, tir_vars)


def is_call_dps_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_dps`` of a registered function."""
    return _call_dps(is_expr(ExternFunc(func_name)), args, None)


def is_call_dps(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_dps`` of a tensor program or a registered function of this name."""
    return _call_dps(OrPattern(is_gv(func_name), is_expr(ExternFunc(func_name))), args, None)


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> DFPattern:
    """``R.call_packed`` of a registered function."""
    callee = is_expr(ExternFunc(func_name))
    return CallPattern(is_op(R.call_packed.name), (callee, *(args or ())), args is None)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> DFPattern:
    """``op(x, w)``, then adding a bias, then an activation, as asked for."""
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op(R.add.name)(out, wildcard())
    return is_op(activation)(out) if activation else out
