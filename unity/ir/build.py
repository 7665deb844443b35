"""Constructors of scalar expressions: they unify operand types and fold constants. Raw classes never do.

Not here: constants, casts and the typing of mixed operands (``constant.py``), whose names this file hands on, so that
``build`` is the one place to import constructors from.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ..ffi.abi import DIVISIONS, INTEGERS
from ..ffi.dtype import DataType
from ..support.errors import TypeRuleError
from ..support.source import Span
from .buffer import Buffer
from .constant import (
    Operand,
    cast,
    const,
    dtype_of,
    highest,
    infinity,
    int_imm,
    int_value,
    int_values,
    is_const,
    is_int,
    join_dtypes,
    lowest,
    max_value,
    min_value,
    number,
    round_float,
    scalar_type,
    unify,
    wrap_int,
)  # fmt: skip
from .expr import Call, FloatImm, IntImm, StringImm, Var, op
from .intrinsic import INTRINSICS
from .scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    OPERATOR_NAMES,
    Add,
    And,
    Binary,
    Broadcast,
    BufferLoad,
    Compare,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)  # fmt: skip
from .types import ARITHMETIC, Expr, PrimType, Type, prim_type

__all__ = [
    "BY_NAME", "OPERATORS", "Operand", "add", "as_bool", "bool_like", "broadcast", "buffer_load", "call_extern", "cast", "ceildiv",
    "conjuncts", "const", "div", "dtype_of", "eq", "floordiv", "floormod", "ge", "gt", "highest", "if_then_else", "index_var",
    "infinity", "int_imm", "int_value", "int_values", "intrinsic", "is_const", "is_int", "join_dtypes", "le", "logical_and",
    "logical_not", "logical_or", "lowest", "lt", "max_value", "maximum", "min_value", "minimum", "mul", "ne", "negate", "number",
    "ramp", "round_float", "scalar_type", "select", "sub", "truncdiv", "truncmod", "unify", "wrap_int",
]  # fmt: skip

_BOOL = prim_type("bool")


class Constructor(Protocol):
    """A constructor of an operator of two operands."""

    def __call__(self, a: Operand, b: Operand, span: Span | None = None) -> Expr:
        """The node, or the constant that it is."""


def _arith(cls: type[Binary], a: Operand, b: Operand, span: Span | None) -> Expr:
    return _of_one_type(cls, *unify(a, b), span)


def _folded(cls: type[Binary], x: Expr, y: Expr) -> int | None:
    """The whole number that an operator gives for two constants."""
    if type(x) is not IntImm or type(y) is not IntImm:
        return None
    name = OPERATOR_NAMES[cls]
    return INTEGERS[name](x.value, y.value) if y.value or name not in DIVISIONS else None


def _of_one_type(cls: type[Binary], x: Expr, y: Expr, span: Span | None) -> Expr:
    """``_arith`` of operands that are unified."""
    ty, value = scalar_type(x), _folded(cls, x, y)
    if value is not None:
        return IntImm(wrap_int(value, ty.dtype), ty, span)
    constant = type(x) is IntImm and type(y) is IntImm
    if not constant and ty.dtype.is_bool and cls in (Add, Sub, Mul, Div, FloorDiv, FloorMod, Mod):
        number = DataType("int32").with_lanes(ty.dtype.lanes)
        return _arith(cls, cast(x, number), cast(y, number), span)
    return cls(x, y, ty, span)


def add(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a + b``; integer zero disappears."""
    x, y = unify(a, b)
    if is_int(y, 0):
        return x
    if is_int(x, 0):
        return y
    return _of_one_type(Add, x, y, span)


def sub(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a - b``; integer zero disappears."""
    x, y = unify(a, b)
    return x if is_int(y, 0) else _of_one_type(Sub, x, y, span)


def mul(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a * b``; integer one disappears, integer zero stays zero."""
    x, y = unify(a, b)
    if is_int(y, 1) or is_int(x, 0):
        return x
    if is_int(x, 1) or is_int(y, 0):
        return y
    return _of_one_type(Mul, x, y, span)


def div(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """True division of floats. Integers must choose: raises TypeRuleError E202."""
    x, y = unify(a, b)
    if not dtype_of(x).is_float:
        raise TypeRuleError(
            "E202", "`/` on integers is ambiguous", span, help="write // (floor) or T.truncdiv (towards zero)"
        )
    return _of_one_type(Div, x, y, span)


def truncdiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Integer division towards zero."""
    return _arith(Div, a, b, span)


def truncmod(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Remainder of the truncating division."""
    return _arith(Mod, a, b, span)


def floordiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Division rounding down."""
    if isinstance(b, Expr) and is_int(b, 1) and isinstance(a, Expr) and a.ty is b.ty:
        return a
    return _arith(FloorDiv, a, b, span)


def floormod(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Remainder of the flooring division."""
    if isinstance(b, Expr) and is_int(b, 1) and isinstance(a, Expr) and a.ty is b.ty:
        return int_imm(0, prim_type(dtype_of(a)), span)
    return _arith(FloorMod, a, b, span)


def ceildiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Integer division rounding up: exact for constants, otherwise ``(a + (b - 1)) // b``."""
    x, y = unify(a, b)
    if type(x) is IntImm and type(y) is IntImm and y.value > 0:
        return int_imm(-(-x.value // y.value), x.ty, span)
    return floordiv(add(x, sub(y, int_imm(1, prim_type(dtype_of(y))))), y, span)


def minimum(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Smaller of two."""
    return _arith(Min, a, b, span)


def maximum(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Larger of two."""
    return _arith(Max, a, b, span)


def negate(a: Expr, span: Span | None = None) -> Expr:
    """``-a``: constants fold; floats become ``a * -1`` so that the sign of zero is right."""
    if type(a) is IntImm:
        return IntImm(wrap_int(-a.value, a.ty.dtype), a.ty, span)
    if type(a) is FloatImm:
        return FloatImm(-a.value, a.ty, span)
    dtype = dtype_of(a)
    if dtype.is_float:
        return Mul(a, const(-1.0, dtype), prim_type(dtype), span)
    return sub(const(0, dtype), a, span)


def bool_like(expr: Expr) -> PrimType:
    """Boolean type with as many lanes as a scalar expression."""
    lanes = dtype_of(expr).lanes
    return _BOOL if lanes == 1 else prim_type(DataType("bool").with_lanes(lanes))


def _comparing(cls: type[Compare]) -> Constructor:
    def construct(a: Operand, b: Operand, span: Span | None = None) -> Expr:
        x, y = unify(a, b)
        value = _folded(cls, x, y)
        return cls(x, y, bool_like(x), span) if value is None else IntImm(value, _BOOL, span)

    return construct


eq, ne, lt, le, gt, ge = [_comparing(cls) for cls in (EQ, NE, LT, LE, GT, GE)]


def as_bool(a: Operand) -> Expr:
    """A condition: numbers compare with zero."""
    expr = a if isinstance(a, Expr) else const(a)
    dtype = dtype_of(expr)
    return expr if dtype.is_bool else cast(expr, DataType("bool").with_lanes(dtype.lanes))


def logical_and(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a and b``; constants fold."""
    x, y = as_bool(a), as_bool(b)
    if type(x) is IntImm:
        return y if x.value else x
    if type(y) is IntImm and y.value:
        return x
    x, y = unify(x, y)
    return And(x, y, bool_like(x), span)


def logical_or(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a or b``; constants fold."""
    x, y = as_bool(a), as_bool(b)
    if type(x) is IntImm:
        return x if x.value else y
    if type(y) is IntImm and not y.value:
        return x
    x, y = unify(x, y)
    return Or(x, y, bool_like(x), span)


def conjuncts(cond: Expr) -> list[Expr]:
    """The parts of a condition that ``and`` joins."""
    found: list[Expr] = []
    rest = [cond]
    while rest:
        part = rest.pop()
        if type(part) is And:
            rest += (part.b, part.a)
        else:
            found.append(part)
    return found


def logical_not(a: Operand, span: Span | None = None) -> Expr:
    """``not a``; constants fold."""
    x = as_bool(a)
    if type(x) is IntImm:
        return IntImm(1 - x.value, x.ty, span)
    return Not(x, bool_like(x), span)


def select(cond: Expr, true_value: Operand, false_value: Operand, span: Span | None = None) -> Expr:
    """Eager choice; a constant condition folds."""
    x, y = unify(true_value, false_value)
    if type(cond) is IntImm:
        return x if cond.value else y
    return Select(cond, x, y, prim_type(dtype_of(x)), span)


def if_then_else(cond: Expr, true_value: Operand, false_value: Operand, span: Span | None = None) -> Expr:
    """Lazy choice: only the chosen side is evaluated; a constant condition folds."""
    x, y = unify(true_value, false_value)
    if type(cond) is IntImm:
        return x if cond.value else y
    return Call(op("T.if_then_else"), (as_bool(cond), x, y), {}, (), x.ty, span)


def ramp(base: Operand, stride: Operand, lanes: int, span: Span | None = None) -> Expr:
    """Vector ``base + stride * lane``; one lane is the base."""
    x, y = unify(base, stride)
    if lanes == 1:
        return x
    return Ramp(x, y, lanes, prim_type(dtype_of(x).with_lanes(lanes)), span)


def broadcast(value: Operand, lanes: int, span: Span | None = None) -> Expr:
    """Vector of equal lanes; one lane is the value."""
    expr = value if isinstance(value, Expr) else const(value)
    if lanes == 1:
        return expr
    return Broadcast(expr, lanes, prim_type(dtype_of(expr).with_lanes(lanes)), span)


def buffer_load(buffer: Buffer, *indices: Expr) -> BufferLoad:
    """An element of a buffer."""
    return BufferLoad(buffer, indices, prim_type(buffer.dtype))


def intrinsic(name: str, *args: Operand, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """Call of intrinsic ``T.<name>``; two-operand math unifies types; ``dtype`` is required where the row says ``given``."""
    full = name if name.startswith("T.") else f"T.{name}"
    row = INTRINSICS.get(full)
    if row is None:
        raise TypeRuleError("E203", f"no intrinsic {full}", span)
    least, most = row.arity
    if len(args) < least or (most >= 0 and len(args) > most):
        count = f"{least}" if least == most else f"{least} to {most}" if most >= 0 else f"at least {least}"
        raise TypeRuleError("E204", f"{full} takes {count} arguments, got {len(args)}", span)
    if full == "T.if_then_else":
        return if_then_else(args[0] if isinstance(args[0], Expr) else const(args[0]), args[1], args[2], span)
    if row.result == "same" and full not in ("T.ldexp", "T.shift_left", "T.shift_right"):
        typed = next((a for a in args if isinstance(a, Expr)), None)
        if len(args) == 2:
            args = unify(args[0], args[1])
        elif typed is not None:
            args = tuple([unify(a, typed)[0] if type(a) is float else a for a in args])
    exprs = [a if isinstance(a, Expr) else const(a) for a in args]
    if row.result == "same":
        ty: Type = exprs[0].ty
    elif row.result == "second":
        ty = exprs[1].ty
    elif row.result == "bool":
        ty = bool_like(exprs[0])
    elif row.result == "given":
        if dtype is None:
            raise TypeRuleError("E204", f"{full} needs a dtype", span)
        ty = prim_type(dtype)
    else:
        ty = prim_type(row.result)
    return Call(op(full), tuple(exprs), {}, (), ty, span)


def call_extern(dtype: DataType | str, name: str, *args: Operand, pure: bool = False, span: Span | None = None) -> Expr:
    """Call of a C symbol by name."""
    kind = "call_pure_extern" if pure else "call_extern"
    return intrinsic(kind, StringImm(name), *args, dtype=dtype, span=span)


def index_var(name: str, dtype: str = "int64") -> Var:
    """A fresh integer variable."""
    return Var(name, prim_type(dtype))


def _element(buffer: Buffer, indices: tuple[Operand, ...]) -> Expr:
    return buffer_load(buffer, *[i if isinstance(i, Expr) else const(i, "int64") for i in indices])


OPERATORS: dict[type, Constructor] = {
    Add: add, Sub: sub, Mul: mul, FloorDiv: floordiv, FloorMod: floormod, Div: truncdiv, Mod: truncmod, Min: minimum, Max: maximum,
    EQ: eq, NE: ne, LT: lt, LE: le, GT: gt, GE: ge, And: logical_and, Or: logical_or,
}  # fmt: skip
"""The constructor of each operator of two operands."""
BY_NAME = {name: OPERATORS[kind] for kind, name in OPERATOR_NAMES.items()}
"""The same by the names of ``OPERATOR_NAMES``."""
ARITHMETIC.update(BY_NAME | {"cast": cast, "divide": div, "element": _element, "power": partial(intrinsic, "pow")})
