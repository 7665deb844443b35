"""Formulas (``Dim``) in the compiler to bytecode: from expressions over slots, substitution, products."""

from __future__ import annotations

from collections.abc import Callable

from ..arith.formula import NoFormula, is_integral, to_formula
from ..ffi.abi import Dim
from ..ir.expr import Var
from ..ir.types import Expr
from ..support.errors import VMError

__all__ = ["is_integral", "map_symbols", "product", "to_dim"]


def to_dim(expr: Expr, slot_of: Callable[[Var], int]) -> Dim:
    """The formula of an integer expression. Raises VMError E620 where there is none, and what ``slot_of`` raises."""
    try:
        return to_formula(expr, slot_of)
    except NoFormula as problem:
        span = getattr(problem.expr, "span", None) or getattr(expr, "span", None)
        raise VMError("E620", f"the shape expression {expr} cannot be computed by the VM", span) from None


def map_symbols(dim: Dim, values: tuple[Dim, ...]) -> Dim:
    """A formula with symbol ``k`` replaced by ``values[k]``."""
    if isinstance(dim, int):
        return dim
    if dim[0] == "sym":
        return values[int(dim[1])]
    return (dim[0], *[map_symbols(o, values) for o in dim[1:]])


def product(dims: tuple[Dim, ...]) -> Dim:
    """Product of formulas, constants folded."""
    constant, rest = 1, None
    for dim in dims:
        if isinstance(dim, int):
            constant *= dim
        else:
            rest = dim if rest is None else ("mul", rest, dim)
    if rest is None or constant == 0:
        return constant
    return rest if constant == 1 else ("mul", constant, rest)
