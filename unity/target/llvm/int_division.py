"""Division of integers: by constants, by scalars, and of lanes by lanes, for which processors have no instruction.

Lanes are divided as floats: those of up to 16 bits exactly in float32, of 32 bits in float64, of 64 bits in two steps of float64,
the second of what the first left over. Division by zero is a run-time failure with a message.
"""

from __future__ import annotations

from ...ffi.dtype import DataType
from ...ir.build import int_value
from ...ir.scalar import Binary, Broadcast, Div, FloorDiv, FloorMod
from .lltypes import int_text, suffix, value_type
from .writer import FunctionWriter

_BOOL = DataType("bool")
_BELOW_2_63 = "0x43DFFFFFFFFFFFFF"


def int_division(w: FunctionWriter, expr: Binary, a: str, b: str, dtype: DataType) -> str:
    """Quotient or remainder of integers, flooring or not as the node says."""
    kind, ty, signed = type(expr), value_type(dtype), dtype.is_int
    lanes = dtype.lanes
    mask = value_type(_BOOL.with_lanes(lanes))
    divisor = expr.b.value if type(expr.b) is Broadcast else expr.b
    known = int_value(divisor)
    wants_quotient = kind is Div or kind is FloorDiv
    floors = kind is FloorDiv or kind is FloorMod
    if known is not None and known > 0 and known & (known - 1) == 0 and floors and signed:
        if wants_quotient:
            return w.emit(f"ashr {ty} {a}, {int_text(known.bit_length() - 1, dtype)}")
        return w.emit(f"and {ty} {a}, {int_text(known - 1, dtype)}")
    if known is None or known == 0:
        b = _check_divisor(w, b, dtype)
    minus_one = None
    if signed and (known is None or known == -1):
        minus_one = w.emit(f"icmp eq {ty} {b}, {int_text(-1, dtype)}")
        b = w.emit(f"select {mask} {minus_one}, {ty} {int_text(1, dtype)}, {ty} {b}")
    quotient, remainder = _divided(w, a, b, dtype, known is None)
    if not floors and kind is Div and minus_one is None:
        return quotient
    if floors and signed:
        if known is not None and known > 0:
            crossing = w.emit(f"icmp slt {ty} {remainder}, {int_text(0, dtype)}")
        else:
            off = w.emit(f"icmp ne {ty} {remainder}, {int_text(0, dtype)}")
            crossing = w.emit(f"icmp slt {ty} {w.emit(f'xor {ty} {remainder}, {b}')}, {int_text(0, dtype)}")
            crossing = w.emit(f"and {mask} {off}, {crossing}")
        if wants_quotient:
            lower = w.emit(f"sub {ty} {quotient}, {int_text(1, dtype)}")
            quotient = w.emit(f"select {mask} {crossing}, {ty} {lower}, {ty} {quotient}")
        else:
            upper = w.emit(f"add {ty} {remainder}, {b}")
            remainder = w.emit(f"select {mask} {crossing}, {ty} {upper}, {ty} {remainder}")
    if not wants_quotient:
        return remainder
    if minus_one is not None:
        negated = w.emit(f"sub {ty} {int_text(0, dtype)}, {a}")
        quotient = w.emit(f"select {mask} {minus_one}, {ty} {negated}, {ty} {quotient}")
    return quotient


def _divided(w: FunctionWriter, a: str, b: str, dtype: DataType, unknown: bool) -> tuple[str, str]:
    """Quotient rounded towards zero and remainder, of a divisor that is neither 0 nor -1 (unless it is known)."""
    ty, signed = value_type(dtype), dtype.is_int
    if unknown and dtype.lanes > 1 and (signed or dtype.bits < 64):
        return _divided_lanes(w, a, b, dtype)
    prefix = "s" if signed else "u"
    return w.emit(f"{prefix}div {ty} {a}, {b}"), w.emit(f"{prefix}rem {ty} {a}, {b}")


def _divided_lanes(w: FunctionWriter, a: str, b: str, dtype: DataType) -> tuple[str, str]:
    ty = value_type(dtype)
    real = DataType("float32" if dtype.bits <= 16 else "float64").with_lanes(dtype.lanes)
    whole = DataType(("int" if dtype.is_int else "uint") + str(max(32, dtype.bits))).with_lanes(dtype.lanes)
    real_ty, whole_ty, prefix = value_type(real), value_type(whole), "s" if dtype.is_int else "u"

    def as_float(value: str) -> str:
        return w.emit(f"{prefix}itofp {ty} {value} to {real_ty}")

    def rest(quotient: str) -> str:
        return w.emit(f"sub {ty} {a}, {w.emit(f'mul {ty} {quotient}, {b}')}")

    divisor = as_float(b)
    ratio = w.emit(f"fdiv {real_ty} {as_float(a)}, {divisor}")
    if dtype.bits == 64:
        top = f"splat (double {_BELOW_2_63})"
        ratio = w.emit(f"call {real_ty} @llvm.minnum.{suffix(real)}({real_ty} {ratio}, {real_ty} {top})")
    quotient = w.emit(f"fpto{prefix}i {real_ty} {ratio} to {whole_ty}")
    if whole.bits > dtype.bits:
        quotient = w.emit(f"trunc {whole_ty} {quotient} to {ty}")
    if dtype.bits < 64:
        return quotient, rest(quotient)
    left = w.emit(f"fdiv {real_ty} {as_float(rest(quotient))}, {divisor}")
    quotient = w.emit(f"add {ty} {quotient}, {w.emit(f'fptosi {real_ty} {left} to {ty}')}")
    return _corrected(w, a, b, quotient, rest(quotient), dtype)


def _corrected(w: FunctionWriter, a: str, b: str, quotient: str, remainder: str, dtype: DataType) -> tuple[str, str]:
    """Quotient and remainder where the quotient is off by one at most: a step back where the remainder has the other sign than the
    dividend, a step on where it reaches the divisor."""
    ty, mask, zero = value_type(dtype), value_type(_BOOL.with_lanes(dtype.lanes)), int_text(0, dtype)
    opposite = w.emit(f"icmp slt {ty} {w.emit(f'xor {ty} {a}, {b}')}, {zero}")
    along = w.emit(f"select {mask} {opposite}, {ty} {w.emit(f'sub {ty} {zero}, {b}')}, {ty} {b}")
    step = w.emit(f"select {mask} {opposite}, {ty} {int_text(-1, dtype)}, {ty} {int_text(1, dtype)}")
    other_sign = w.emit(f"icmp slt {ty} {w.emit(f'xor {ty} {remainder}, {a}')}, {zero}")
    past = w.emit(f"and {mask} {other_sign}, {w.emit(f'icmp ne {ty} {remainder}, {zero}')}")
    reached = w.emit(f"icmp eq {ty} {remainder}, {along}")
    for found, forward in ((past, False), (reached, True)):
        names = ("add", "sub") if forward else ("sub", "add")
        correction = w.emit(f"{names[0]} {ty} {quotient}, {step}"), w.emit(f"{names[1]} {ty} {remainder}, {along}")
        quotient = w.emit(f"select {mask} {found}, {ty} {correction[0]}, {ty} {quotient}")
        remainder = w.emit(f"select {mask} {found}, {ty} {correction[1]}, {ty} {remainder}")
    return quotient, remainder


def _check_divisor(w: FunctionWriter, b: str, dtype: DataType) -> str:
    """The divisor with ones for zeros. A zero in a lane that counts is a failure, tested later (`deferred_checks.py`)."""
    ty, lanes = value_type(dtype), dtype.lanes
    mask = value_type(_BOOL.with_lanes(lanes))
    zero = w.emit(f"icmp eq {ty} {b}, {int_text(0, dtype)}")
    counted = zero
    if w.mask is not None and w.mask_lanes == lanes > 1:
        counted = w.emit(f"and {mask} {zero}, {w.mask}")
    failed = any_lane(w, counted, lanes)
    divisor = w.emit(f"select {mask} {zero}, {ty} {int_text(1, dtype)}, {ty} {b}")
    w.fail_later(failed, divisor)
    return divisor


def any_lane(w: FunctionWriter, mask: str, lanes: int) -> str:
    """An i1 that tells whether some lane of a mask is set."""
    return mask if lanes == 1 else w.emit(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")
