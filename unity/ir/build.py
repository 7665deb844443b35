"""Constructors of scalar expressions: they unify operand types and fold constants. Raw classes never do.

Typing of mixed operands (as in TVM): Python numbers take the other operand's type; int meets float gives float; narrower
meets wider of one kind gives the wider; bool meets int gives int; a scalar meets a vector is broadcast.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np

from ..ffi.dtype import DataType
from ..support.errors import TypeRuleError
from ..support.source import Span
from .expr import Call, FloatImm, IntImm, StringImm, Var, op
from .intrinsic import INTRINSICS
from .scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
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
    Ramp,
    Select,
    Sub,
)  # fmt: skip
from .types import Expr, PointerType, PrimType, prim_type

Operand = Expr | int | float | bool

_BOOL = prim_type("bool")


def dtype_of(expr: Expr) -> DataType:
    """Data type of a scalar expression (pointers count as handle). Raises TypeRuleError E201 for other values."""
    ty = expr.ty
    if type(ty) is PrimType:
        return ty.dtype
    if type(ty) is PointerType:
        return DataType("handle")
    raise TypeRuleError("E201", f"expected a scalar, got a value of type {ty!r}", getattr(expr, "span", None))


def wrap_int(value: int, dtype: DataType) -> int:
    """``value`` reduced to the range of an integer type, two's complement."""
    if dtype.is_bool:
        return 1 if value else 0
    bits = dtype.bits
    value &= (1 << bits) - 1
    if dtype.code == "int" and bits > 1 and value >> (bits - 1):
        value -= 1 << bits
    return value


def round_float(value: float, dtype: DataType) -> float:
    """``value`` rounded to a floating-point type."""
    if dtype.bits == 64:
        return value
    if dtype.name == "float32":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]  # type: ignore[no-any-return]
        except OverflowError:
            return math.copysign(math.inf, value)
    with np.errstate(all="ignore"):
        return float(np.float64(value).astype(dtype.numpy))


def int_imm(value: int, ty: PrimType, span: Span | None = None) -> IntImm:
    """Integer or boolean constant of a type, wrapped into its range."""
    return IntImm(wrap_int(value, ty.dtype), ty, span)


def const(value: Any, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """Constant of a data type; a vector type gives a broadcast. Without dtype: bool, int32 (int64 when needed), float32."""
    if isinstance(value, np.generic):
        dtype = dtype or str(value.dtype)
        value = value.item()
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32" if -(2**31) <= value < 2**31 else "int64"
        else:
            dtype = "float32"
    data_type = DataType(dtype)
    if data_type.lanes > 1:
        return Broadcast(const(value, data_type.element, span), data_type.lanes, prim_type(data_type), span)
    ty = prim_type(data_type)
    if data_type.is_float:
        try:
            return FloatImm(round_float(float(value), data_type), ty, span)
        except OverflowError:
            raise TypeRuleError(
                "E201", f"an integer of {value.bit_length()} bits has no {data_type.name} value", span
            ) from None
    if data_type.code == "handle":
        return Call(op("T.reinterpret"), (IntImm(int(value), prim_type("uint64")),), {}, (), ty, span)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeRuleError("E201", f"{value} has no {data_type.name} value", span)
        value = int(value)
    return IntImm(wrap_int(int(value), data_type), ty, span)


def is_const(expr: Expr) -> bool:
    """True for IntImm and FloatImm."""
    return type(expr) is IntImm or type(expr) is FloatImm


def is_int(expr: Expr, value: int) -> bool:
    """True when ``expr`` is the integer constant ``value``."""
    return type(expr) is IntImm and expr.value == value


def _kind_rank(dtype: DataType) -> int:
    return 0 if dtype.is_bool else 2 if dtype.is_float else 1


def join_dtypes(a: DataType, b: DataType) -> DataType:
    """The type two operands are brought to."""
    if a is b:
        return a
    lanes = max(a.lanes, b.lanes)
    if a.lanes != b.lanes and min(a.lanes, b.lanes) != 1:
        raise TypeRuleError("E201", f"vectors of {a.lanes} and {b.lanes} lanes do not combine")
    if "handle" in (a.code, b.code) or "void" in (a.code, b.code):
        raise TypeRuleError("E201", f"cannot combine {a.name} and {b.name}")
    ea, eb = a.element, b.element
    rank_a, rank_b = _kind_rank(ea), _kind_rank(eb)
    if rank_a != rank_b:
        joined = ea if rank_a > rank_b else eb
    elif ea.bits != eb.bits:
        joined = ea if ea.bits > eb.bits else eb
    elif ea is eb:
        joined = ea
    elif rank_a == 1:  # int with uint of one width: unsigned, as in C
        joined = ea if ea.is_uint else eb
    else:
        joined = DataType("float32")
    return joined.with_lanes(lanes, a.scalable or b.scalable)


def unify(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Bring two operands to one type. Python numbers adopt the other's type (a float meeting an integer makes float32)."""
    if not isinstance(a, Expr):
        if not isinstance(b, Expr):
            a_expr, b_expr = const(a), const(b)
            return unify(a_expr, b_expr)
        return _literal(a, b), b if not _needs_float(a, b) else cast(b, "float32")
    if not isinstance(b, Expr):
        return (a if not _needs_float(b, a) else cast(a, "float32")), _literal(b, a)
    if a.ty is b.ty:
        return a, b
    da, db = dtype_of(a), dtype_of(b)
    if da is db:
        return a, b
    joined = join_dtypes(da, db)
    return cast(a, joined), cast(b, joined)


def _needs_float(value: int | float | bool, other: Expr) -> bool:
    return isinstance(value, float) and not dtype_of(other).is_float


def _literal(value: int | float | bool, other: Expr) -> Expr:
    dtype = dtype_of(other)
    if _needs_float(value, other):
        dtype = DataType("float32").with_lanes(dtype.lanes)
    elif dtype.is_bool and not isinstance(value, bool):
        dtype = DataType("int32").with_lanes(dtype.lanes)
    return const(value, dtype)


def cast(value: Expr, dtype: DataType | str, span: Span | None = None) -> Expr:
    """Convert; the same type gives the same object; constants fold; a scalar to a vector type broadcasts."""
    target = DataType(dtype)
    ty = prim_type(target)
    if value.ty is ty:
        return value
    source = dtype_of(value)
    if source is target:
        return value
    if source.lanes != target.lanes:
        if source.lanes != 1:
            raise TypeRuleError("E201", f"cannot cast {source.name} to {target.name}", span)
        return Broadcast(cast(value, target.element), target.lanes, ty, span)
    if type(value) is IntImm:
        return const(value.value if not target.is_bool else value.value != 0, target, span or value.span)
    if type(value) is FloatImm and target.is_float:
        return const(value.value, target, span or value.span)
    if type(value) is FloatImm and math.isfinite(value.value) and target.code != "handle":
        number = int(value.value)
        if target.is_bool:
            return const(value.value != 0, target, span or value.span)
        if wrap_int(number, target) == number:
            return const(number, target, span or value.span)
    return Cast(value, ty, span)


def _int_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _arith(cls: Any, a: Operand, b: Operand, fold: Any, span: Span | None) -> Expr:
    x, y = unify(a, b)
    ty = x.ty
    if type(x) is IntImm and type(y) is IntImm:
        if fold is not None:
            value = fold(x.value, y.value)
            if value is not None:
                return IntImm(wrap_int(value, x.ty.dtype), x.ty, span)
    elif dtype_of(x).is_bool and cls in (Add, Sub, Mul, Div, FloorDiv, FloorMod, Mod):
        number = DataType("int32").with_lanes(dtype_of(x).lanes)
        return _arith(cls, cast(x, number), cast(y, number), fold, span)
    return cls(x, y, ty, span)  # type: ignore[no-any-return]


def add(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a + b``; integer zero disappears."""
    if isinstance(b, Expr) and is_int(b, 0) and isinstance(a, Expr) and a.ty is b.ty:
        return a
    if isinstance(a, Expr) and is_int(a, 0) and isinstance(b, Expr) and a.ty is b.ty:
        return b
    return _arith(Add, a, b, lambda p, q: p + q, span)


def sub(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a - b``; integer zero disappears."""
    if isinstance(b, Expr) and is_int(b, 0) and isinstance(a, Expr) and a.ty is b.ty:
        return a
    return _arith(Sub, a, b, lambda p, q: p - q, span)


def mul(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a * b``; integer one disappears, integer zero stays zero."""
    if isinstance(a, Expr) and isinstance(b, Expr) and a.ty is b.ty:
        if is_int(b, 1) or is_int(a, 0):
            return a
        if is_int(a, 1) or is_int(b, 0):
            return b
    return _arith(Mul, a, b, lambda p, q: p * q, span)


def div(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """True division of floats. Integers must choose: raises TypeRuleError E202."""
    x, y = unify(a, b)
    if not dtype_of(x).is_float:
        raise TypeRuleError(
            "E202", "`/` on integers is ambiguous", span, help="write // (floor) or T.truncdiv (towards zero)"
        )
    return _arith(Div, x, y, None, span)


def truncdiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Integer division towards zero."""
    return _arith(Div, a, b, lambda p, q: _int_div(p, q) if q else None, span)


def truncmod(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Remainder of the truncating division."""
    return _arith(Mod, a, b, lambda p, q: p - q * _int_div(p, q) if q else None, span)


def floordiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Division rounding down."""
    if isinstance(b, Expr) and is_int(b, 1) and isinstance(a, Expr) and a.ty is b.ty:
        return a
    return _arith(FloorDiv, a, b, lambda p, q: p // q if q else None, span)


def floormod(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Remainder of the flooring division."""
    if isinstance(b, Expr) and is_int(b, 1) and isinstance(a, Expr) and a.ty is b.ty:
        return int_imm(0, prim_type(dtype_of(a)), span)
    return _arith(FloorMod, a, b, lambda p, q: p % q if q else None, span)


def ceildiv(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Integer division rounding up: ``(a + b - 1) // b``."""
    x, y = unify(a, b)
    return floordiv(sub(add(x, y), int_imm(1, prim_type(dtype_of(x)))), y, span)


def minimum(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Smaller of two."""
    return _arith(Min, a, b, min, span)


def maximum(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """Larger of two."""
    return _arith(Max, a, b, max, span)


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


def _bool_like(expr: Expr) -> PrimType:
    lanes = dtype_of(expr).lanes
    return _BOOL if lanes == 1 else prim_type(DataType("bool").with_lanes(lanes))


def _compare(cls: Any, a: Operand, b: Operand, fold: Any, span: Span | None) -> Expr:
    x, y = unify(a, b)
    if type(x) is IntImm and type(y) is IntImm:
        return IntImm(1 if fold(x.value, y.value) else 0, _BOOL, span)
    return cls(x, y, _bool_like(x), span)  # type: ignore[no-any-return]


def eq(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a == b``."""
    return _compare(EQ, a, b, lambda p, q: p == q, span)


def ne(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a != b``."""
    return _compare(NE, a, b, lambda p, q: p != q, span)


def lt(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a < b``."""
    return _compare(LT, a, b, lambda p, q: p < q, span)


def le(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a <= b``."""
    return _compare(LE, a, b, lambda p, q: p <= q, span)


def gt(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a > b``."""
    return _compare(GT, a, b, lambda p, q: p > q, span)


def ge(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a >= b``."""
    return _compare(GE, a, b, lambda p, q: p >= q, span)


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
    return And(x, y, _bool_like(x), span)


def logical_or(a: Operand, b: Operand, span: Span | None = None) -> Expr:
    """``a or b``; constants fold."""
    x, y = as_bool(a), as_bool(b)
    if type(x) is IntImm:
        return x if x.value else y
    if type(y) is IntImm and not y.value:
        return x
    x, y = unify(x, y)
    return Or(x, y, _bool_like(x), span)


def logical_not(a: Operand, span: Span | None = None) -> Expr:
    """``not a``; constants fold."""
    x = as_bool(a)
    if type(x) is IntImm:
        return IntImm(1 - x.value, x.ty, span)
    return Not(x, _bool_like(x), span)


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
    exprs = [a if isinstance(a, Expr) else const(a) for a in args]
    if row.result == "same" and len(exprs) == 2 and full not in ("T.ldexp", "T.shift_left", "T.shift_right"):
        exprs = list(unify(args[0], args[1]))
    if full == "T.if_then_else":
        return if_then_else(exprs[0], args[1], args[2], span)
    if row.result == "same":
        ty: PrimType | PointerType = exprs[0].ty  # type: ignore[assignment]
    elif row.result == "second":
        ty = exprs[1].ty  # type: ignore[assignment]
    elif row.result == "bool":
        ty = _bool_like(exprs[0])
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


def _finite_limit(dtype: DataType) -> float:
    """Largest finite value of a float type."""
    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


def min_value(dtype: DataType | str) -> Expr:
    """Smallest finite value of a type."""
    data_type = DataType(dtype)
    if data_type.is_float:
        return const(-_finite_limit(data_type), data_type)
    return const(0 if not data_type.is_int else -(1 << (data_type.bits - 1)), data_type)


def max_value(dtype: DataType | str) -> Expr:
    """Largest finite value of a type."""
    data_type = DataType(dtype)
    if data_type.is_float:
        return const(_finite_limit(data_type), data_type)
    if data_type.is_bool:
        return const(True)
    return const((1 << (data_type.bits - (1 if data_type.is_int else 0))) - 1, data_type)


def infinity(dtype: DataType | str) -> Expr:
    """Positive infinity of a float type."""
    return const(math.inf, dtype)


def index_var(name: str, dtype: str = "int64") -> Var:
    """A fresh integer variable."""
    return Var(name, prim_type(dtype))
