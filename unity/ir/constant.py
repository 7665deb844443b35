"""Data types of scalar expressions: constants of a type, casts, and the type two operands are brought to.

Not here: constructors of arithmetic (``build.py``, which hands these names on). Invariant: a constant is always inside the
range of its type; casts of constants fold.

Typing of mixed operands (as in TVM): Python numbers take the other operand's type; int meets float gives float; narrower
meets wider of one kind gives the wider; bool meets int gives int; a scalar meets a vector is broadcast.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any, TypeVar, overload

import ml_dtypes
import numpy as np

from ..ffi.dtype import DataType
from ..ffi.tensor import rounded
from ..support.errors import TypeRuleError
from ..support.source import Span
from .expr import Call, FloatImm, IntImm, op
from .scalar import Broadcast, Cast
from .types import Expr, PointerType, PrimType, prim_type

T = TypeVar("T")
Operand = Expr | int | float | bool


def dtype_of(expr: Expr) -> DataType:
    """Data type of a scalar expression (pointers count as handle). Raises TypeRuleError E201 for other values."""
    ty = expr.ty
    if type(ty) is PrimType:
        return ty.dtype
    if type(ty) is PointerType:
        return DataType("handle")
    raise TypeRuleError("E201", f"expected a scalar, got a value of type {ty!r}", getattr(expr, "span", None))


def scalar_type(expr: Expr) -> PrimType:
    """Type of a scalar expression. Raises TypeRuleError E201 for other values, pointers included."""
    ty = expr.ty
    if type(ty) is PrimType:
        return ty
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
    """``value`` rounded to a floating-point type, once."""
    if dtype.bits == 64:
        return value
    if dtype.name == "float32":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]  # type: ignore[no-any-return]
        except OverflowError:
            return math.copysign(math.inf, value)
    with np.errstate(all="ignore"):
        return float(rounded(np.float64(value), dtype))


def int_imm(value: int, ty: PrimType, span: Span | None = None) -> IntImm:
    """Integer or boolean constant of a type, wrapped into its range."""
    return IntImm(wrap_int(value, ty.dtype), ty, span)


def size(value: object) -> Expr:
    """A number of elements as an int64 constant. Raises TypeRuleError E691 for anything but an integer from 0."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return const(int(value), "int64")
    raise TypeRuleError(
        "E691", f"a dimension is an integer from 0 or a scalar expression, got {value!r}",
        help='a symbol is a variable: unity.tir.Var("n", "int64")',
    )  # fmt: skip


_SHARED = {(n, bits): IntImm(n, prim_type(f"int{bits}")) for bits in (32, 64) for n in range(-1, 257)}
"""Small numbers without a place in a source, by value and bits."""


def const(value: Any, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """Constant of a data type; a vector type gives a broadcast. Without dtype: bool, int32 (int64 when needed), float32.

    Raises TypeRuleError E201 for a value that the type does not have, a fraction of an integer too; ``int_imm`` wraps one.
    """
    if type(value) is int and type(dtype) is DataType and dtype.code == "int" and dtype.lanes == 1:
        shared = _SHARED.get((value, dtype.bits))  # nearly all constants are small indices
        if span is None and shared is not None:
            return shared
        half = 1 << (dtype.bits - 1)
        if -half <= value < half:
            return IntImm(value, prim_type(dtype), span)
    if isinstance(value, np.generic):
        dtype = dtype or str(value.dtype)
        value = value.item()
    if not hasattr(value, "__index__") and not hasattr(value, "__float__"):
        raise TypeRuleError(
            "E201", f"a constant is made of a number, not of a value of type {type(value).__name__}", span,
            help="write a number; an array comes in as te.placeholder, or in a graph as R.const",
        )  # fmt: skip
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
        except (OverflowError, TypeError, ValueError):  # too large, or an array
            raise _no_value(value, data_type, span) from None
    if data_type.code == "handle":
        return Call(op("T.reinterpret"), (const(value, "uint64"),), {}, (), ty, span)
    if isinstance(value, float) and not value.is_integer():  # a cast cuts a fraction off, a constant never does
        raise _no_value(value, data_type, span)
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise _no_value(value, data_type, span) from None
    wrapped = wrap_int(number, data_type)
    if wrapped != number and not data_type.is_bool:
        raise _no_value(number, data_type, span)
    return IntImm(wrapped, ty, span)


def _no_value(value: int | float, dtype: DataType, span: Span | None) -> TypeRuleError:
    wide = isinstance(value, int) and value.bit_length() > 128
    shown = f"an integer of {int(value).bit_length()} bits" if wide else str(value) if isinstance(value, (int, float)) else (
        f"a value of type {type(value).__name__}")  # fmt: skip
    return TypeRuleError("E201", f"{shown} has no {dtype.name} value", span, help="write a number that it can hold")


def number(expr: Expr) -> int | float:
    """The value of a constant number. Raises TypeRuleError E201 for other expressions."""
    if isinstance(expr, (IntImm, FloatImm)):
        return expr.value
    raise TypeRuleError("E201", f"expected a constant number, got {expr}", getattr(expr, "span", None))


def is_const(expr: Expr) -> bool:
    """True for IntImm and FloatImm."""
    return isinstance(expr, (IntImm, FloatImm))


def is_int(expr: Expr, value: int) -> bool:
    """True when ``expr`` is the integer constant ``value``."""
    return type(expr) is IntImm and expr.value == value


@overload
def int_value(expr: Expr) -> int | None: ...
@overload
def int_value(expr: Expr, unknown: T) -> int | T: ...
def int_value(expr: Expr, unknown: Any = None) -> Any:
    """The value of an integer constant, ``unknown`` for another expression."""
    return expr.value if type(expr) is IntImm else unknown


def int_values(exprs: Iterable[Expr]) -> list[int]:
    """Values of the integer constants among some expressions."""
    return [expr.value for expr in exprs if type(expr) is IntImm]


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
        if target.is_bool or target.is_integral:
            return IntImm(wrap_int(value.value, target), ty, span or value.span)
        return const(value.value, target, span or value.span)
    if type(value) is FloatImm and target.is_float:
        return const(value.value, target, span or value.span)
    if type(value) is FloatImm and math.isfinite(value.value) and target.code != "handle":
        number = int(value.value)
        if target.is_bool:
            return const(value.value != 0, target, span or value.span)
        if wrap_int(number, target) == number:
            return const(number, target, span or value.span)
    return Cast(value, ty, span)


def _finite_limit(dtype: DataType) -> float:
    """Largest finite value of a float type."""
    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


def lowest(dtype: DataType | str) -> Expr:
    """The neutral element of max: minus infinity where a type has one, else its smallest value."""
    return const(-math.inf, dtype) if _has_infinity(DataType(dtype)) else min_value(dtype)


def highest(dtype: DataType | str) -> Expr:
    """The neutral element of min: infinity where a type has one, else its largest value."""
    return const(math.inf, dtype) if _has_infinity(DataType(dtype)) else max_value(dtype)


def _has_infinity(dtype: DataType) -> bool:
    return dtype.is_float and bool(np.isinf(np.array(math.inf).astype(dtype.numpy)))


def min_value(dtype: DataType | str) -> Expr:
    """Smallest finite value of a type."""
    data_type = DataType(dtype)
    if data_type.is_float:
        return const(float(ml_dtypes.finfo(data_type.numpy).min), data_type)  # type: ignore[no-untyped-call]
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
