"""Formulas (``Dim``) in the compiler to bytecode: from expressions over slots."""

from __future__ import annotations

from collections.abc import Callable

from ...arith.formula import NoFormula, to_formula
from ...ffi.abi import Dim
from ...ir.expr import Var
from ...ir.types import Expr
from ...support.errors import VMError


def to_dim(expr: Expr, slot_of: Callable[[Var], int]) -> Dim:
    """The formula of an integer expression. Raises VMError E620 where there is none, and what ``slot_of`` raises."""
    try:
        return to_formula(expr, slot_of)
    except NoFormula as problem:
        span = getattr(problem.expr, "span", None) or getattr(expr, "span", None)
        raise VMError("E620", f"the shape expression {expr} cannot be computed by the VM", span) from None
