"""Integer expressions as formulas (``Dim``): plain data that machine code, saved files and the VM evaluate without the IR.

Floats are not formulas. Invariant: ``evaluate(to_formula(e, ...), values)`` is the value of ``e``; nothing is simplified here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from ..ffi.abi import FAULTS, TYPED, Dim
from ..ffi.dtype import DataType
from ..ir import build
from ..ir.expr import Call, IntImm, Var
from ..ir.scalar import OPERATOR_NAMES, Cast, Not, Select, is_binary
from ..ir.types import Expr, PrimType

_CALLS = ("T.truncdiv", "T.truncmod", "T.floordiv", "T.floormod")


class NoFormula(Exception):
    """The expression that cannot be said as a formula."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(type(expr).__name__)
        self.expr = expr


def is_integral(ty: object) -> TypeGuard[PrimType]:
    """True for scalar types whose values are formulas: integers and bool."""
    return isinstance(ty, PrimType) and ty.dtype.code in ("int", "uint", "bool") and ty.dtype.lanes == 1


_BUILD: dict[str, Callable[..., Expr]] = {
    **build.BY_NAME, "not": build.logical_not, "select": build.select,
}  # fmt: skip


def from_formula(dim: Dim, symbols: Sequence[Expr]) -> Expr:
    """The int64 expression that a formula says, of its symbols. Raises ValueError for what is not a formula of them."""
    if type(dim) is int:
        return build.const(dim, "int64")
    if type(dim) is tuple and len(dim) == 2 and dim[0] == "sym" and dim[1] in range(len(symbols)):
        return build.cast(symbols[dim[1]], "int64")
    if type(dim) is tuple and len(dim) == 2 and dim[0] in TYPED:
        inner = from_formula(dim[1], symbols)
        return build.cast(build.cast(inner, TYPED[dim[0]]), "int64") if dim[0].startswith("to") else inner
    if type(dim) is not tuple or not dim or dim[0] not in _BUILD:
        raise ValueError(f"{dim!r} is not a formula")
    return _BUILD[dim[0]](*[from_formula(part, symbols) for part in dim[1:]])


def to_formula(expr: Expr, symbol_of: Callable[[Var], int]) -> Dim:
    """The formula of an integer expression; ``symbol_of`` numbers the variables. Raises NoFormula."""
    if type(expr) is IntImm:
        return expr.value - 2**64 if expr.value >= 2**63 else int(expr.value)
    if isinstance(expr, Var):
        return ("sym", symbol_of(expr))
    if is_binary(expr):
        return _fitting(expr, (OPERATOR_NAMES[type(expr)], _operand(expr.a, symbol_of), _operand(expr.b, symbol_of)))
    if isinstance(expr, Not):
        return ("not", to_formula(expr.a, symbol_of))
    if isinstance(expr, Select):
        return ("select", *[to_formula(e, symbol_of) for e in (expr.cond, expr.true_value, expr.false_value)])
    if isinstance(expr, Cast) and is_integral(expr.value.ty) and is_integral(expr.ty):
        return _cast(to_formula(expr.value, symbol_of), expr.value.ty.dtype, expr.ty.dtype)
    if isinstance(expr, Call):
        op_name = expr.op_name
        if op_name == "T.likely":
            return to_formula(expr.args[0], symbol_of)
        if op_name == "T.if_then_else":
            return ("select", *[to_formula(a, symbol_of) for a in expr.args])
        if op_name in _CALLS:
            return _fitting(expr, (op_name.removeprefix("T."), *[_operand(a, symbol_of) for a in expr.args]))
    raise NoFormula(expr)


def _operand(expr: Expr, symbol_of: Callable[[Var], int]) -> Dim:
    """An operand of arithmetic: numbers of uint64 that an int64 does not hold have none."""
    dim = to_formula(expr, symbol_of)
    plain = (type(dim) is int and dim >= 0) or (type(dim) is tuple and dim[0] in TYPED)
    return dim if plain or not is_integral(expr.ty) or expr.ty.dtype.name != "uint64" else ("fit_uint64", dim)


def _fitting(expr: Expr, dim: tuple[Any, ...]) -> Dim:
    """The result of an operator, which its type must hold; formulas themselves see to int64."""
    kind = f"fit_{expr.ty.dtype.name}" if is_integral(expr.ty) else ""
    return (kind, dim) if dim[0] in FAULTS and kind in TYPED else dim


def _cast(dim: Dim, source: DataType, target: DataType) -> Dim:
    """A number as another type has it. Slots and formulas hold uint64 as the int64 of the same bits."""
    if target.is_bool:
        return dim if source.is_bool else ("ne", dim, 0)
    holds = source.is_bool or (
        (target.is_int or source.is_uint) and target.bits - target.is_int >= source.bits - source.is_int
    )
    return dim if holds or target.bits == 64 else (f"to_{target.name}", dim)
