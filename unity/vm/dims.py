"""Integer expressions of the IR as formulas (``Dim``) over slots. Floats are not formulas: they live in registers."""

from __future__ import annotations

from collections.abc import Callable

from ..ffi.abi import Dim
from ..ir.expr import Call, IntImm, Var
from ..ir.scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)  # fmt: skip
from ..ir.types import Expr, PrimType
from ..support.errors import VMError

_BINARY: dict[type, str] = {
    Add: "add", Sub: "sub", Mul: "mul", FloorDiv: "floordiv", FloorMod: "floormod", Div: "truncdiv", Mod: "truncmod",
    Min: "min", Max: "max", EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge", And: "and", Or: "or",
}  # fmt: skip
_INTRINSIC_BINARY = {
    "T.truncdiv": "truncdiv",
    "T.truncmod": "truncmod",
    "T.floordiv": "floordiv",
    "T.floormod": "floormod",
}


def is_integral(ty: object) -> bool:
    """True for scalar types that live in slots: integers and bool."""
    return isinstance(ty, PrimType) and ty.dtype.code in ("int", "uint", "bool") and ty.dtype.lanes == 1


def to_dim(expr: Expr, slot_of: Callable[[Var], int]) -> Dim:
    """The formula of an integer expression. Raises VMError E620 where there is none, and what ``slot_of`` raises."""
    kind = type(expr)
    if kind is IntImm:
        return int(expr.value)  # type: ignore[attr-defined]
    if isinstance(expr, Var):
        return ("sym", slot_of(expr))
    name = _BINARY.get(kind)
    if name is not None:
        return (name, to_dim(expr.a, slot_of), to_dim(expr.b, slot_of))  # type: ignore[attr-defined]
    if kind is Not:
        return ("not", to_dim(expr.a, slot_of))  # type: ignore[attr-defined]
    if kind is Select:
        parts = [to_dim(e, slot_of) for e in (expr.cond, expr.true_value, expr.false_value)]  # type: ignore[attr-defined]
        return ("select", *parts)
    if kind is Cast and is_integral(expr.value.ty) and is_integral(expr.ty):  # type: ignore[attr-defined]
        return to_dim(expr.value, slot_of)  # type: ignore[attr-defined]
    if kind is Call:
        op_name = getattr(expr.op, "name", "")  # type: ignore[attr-defined]
        args = expr.args  # type: ignore[attr-defined]
        if op_name == "T.if_then_else":
            return ("select", *[to_dim(a, slot_of) for a in args])
        if op_name == "T.likely":
            return to_dim(args[0], slot_of)
        if op_name in _INTRINSIC_BINARY:
            return (_INTRINSIC_BINARY[op_name], *[to_dim(a, slot_of) for a in args])
    raise VMError("E620", f"the shape expression {expr} cannot be computed by the VM", getattr(expr, "span", None))


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
