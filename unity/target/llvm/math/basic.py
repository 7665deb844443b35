"""Functions of the bits of a number, and those every processor has as an instruction."""

from __future__ import annotations

from math import inf

from .constants import BIAS, MANTISSA, SMALLEST_NORMAL
from .exp import times_power_of_two
from .lanes import Value, absolute, call_per_lane, copy_sign, fma, intrinsic, reciprocal_root, where_any

REMAINDER = "unity.remainder"
REMAINDER_DEFINITION = {
    REMAINDER: f"""\
define internal {{ double }} @{REMAINDER}(double %x, double %y) noinline nounwind {{
; fmod of finite x >= y > 0: long division of the mantissas, 11 binary digits a step
entry:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %xe0 = lshr i64 %xb, 52
  %ye0 = lshr i64 %yb, 52
  %xf = and i64 %xb, 4503599627370495
  %yf = and i64 %yb, 4503599627370495
  %xn = icmp ne i64 %xe0, 0
  %yn = icmp ne i64 %ye0, 0
  %xh = or i64 %xf, 4503599627370496
  %yh = or i64 %yf, 4503599627370496
  %xm = select i1 %xn, i64 %xh, i64 %xf
  %ym = select i1 %yn, i64 %yh, i64 %yf
  %xe = select i1 %xn, i64 %xe0, i64 1
  %ye = select i1 %yn, i64 %ye0, i64 1
  %digits = sub i64 %xe, %ye
  %first = urem i64 %xm, %ym
  br label %test
test:
  %left = phi i64 [ %digits, %entry ], [ %next_left, %divide ]
  %rest = phi i64 [ %first, %entry ], [ %next_rest, %divide ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %divide, label %done
divide:
  %few = icmp slt i64 %left, 11
  %step = select i1 %few, i64 %left, i64 11
  %longer = shl i64 %rest, %step
  %next_rest = urem i64 %longer, %ym
  %next_left = sub i64 %left, %step
  br label %test
done:
  %float = uitofp i64 %rest to double
  %power = sub i64 %ye, 1075
  %half = ashr i64 %power, 1
  %other = sub i64 %power, %half
  %half_biased = add i64 %half, 1023
  %other_biased = add i64 %other, 1023
  %half_bits = shl i64 %half_biased, 52
  %other_bits = shl i64 %other_biased, 52
  %half_scale = bitcast i64 %half_bits to double
  %other_scale = bitcast i64 %other_bits to double
  %scaled = fmul double %float, %half_scale
  %result = fmul double %scaled, %other_scale
  %out = insertvalue {{ double }} poison, double %result, 0
  ret {{ double }} %out
}}
"""
}


def _fmod(x: Value, y: Value) -> Value:
    """Remainder in float64: one exact step where the quotient is below 2^53, else long division."""
    a, b = absolute(x), absolute(y)
    quotient = a / b
    rest = fma(-intrinsic("trunc", quotient), b, a)
    rest = rest.lt(0.0).select(rest + b, rest)

    possible = b.gt(0.0) & a.lt(inf)
    far = quotient.ge(2.0**53) & possible

    def long_division() -> list[Value]:
        # lanes that do not need it divide 1 by 1: an integer division by zero would trap
        return call_per_lane(REMAINDER, REMAINDER_DEFINITION, [far.select(a, 1.0), far.select(b, 1.0)], ("f64",))

    rest = where_any(far, long_division, [rest])[0]
    rest = b.eq(inf).select(a, rest)
    nothing = x.constant(0.0) / 0.0
    defined = possible & b.le(inf)
    return copy_sign(a.lt(b).select(a, defined.select(rest, nothing)), x)


def fmod(x: Value, y: Value) -> Value:
    """x - y * trunc(x / y), exact, with the sign of x; NaN for infinite x or zero y.

    The fence keeps LLVM from rounding the float64 to a float16 at once, for which there is no instruction.
    """
    if x.kind == "f32":
        return intrinsic("arithmetic.fence", _fmod(x.widened(), y.widened()).narrowed())
    return _fmod(x, y)


def ldexp(x: Value, n: Value) -> Value:
    """x * 2^n, rounded once; n is i32."""
    kind = x.kind
    if kind == "f64":
        n = n.convert("sext", "i64")
    limit = 2200 if kind == "f64" else 320
    n = n.gt(limit).select(limit, n)
    n = n.lt(-limit).select(-limit, n)
    lift = MANTISSA[kind] + 1
    denormal = absolute(x).lt(SMALLEST_NORMAL[kind])
    bits = denormal.select(x * 2.0**lift, x).as_bits()
    field = (1 << (x.bits - 1 - MANTISSA[kind])) - 1
    exponent = (bits.logical_shift_right(MANTISSA[kind]) & field) - BIAS[kind]
    mantissa = ((bits & ~(field << MANTISSA[kind])) | (BIAS[kind] << MANTISSA[kind])).as_float()
    power = denormal.select(exponent - lift, exponent) + n
    power = power.gt(BIAS[kind] + 2).select(BIAS[kind] + 2, power)
    lowest = -BIAS[kind] - MANTISSA[kind] - 2
    power = power.lt(lowest).select(lowest, power)
    result = times_power_of_two(mantissa, power + 2 * BIAS[kind])
    unchanged = x.eq(0.0) | ~absolute(x).lt(inf)
    return unchanged.select(x, result)


def nextafter(x: Value, y: Value) -> Value:
    """The next float after x towards y."""
    bits = x.as_bits()
    away = x.lt(y) ^ x.lt(0.0)
    moved = bits + away.select(bits.constant(1), -1)
    step = copy_sign((bits.constant(1)).as_float(), y)
    result = x.eq(0.0).select(step, moved.as_float())
    result = x.eq(y).select(y, result)
    return (x.is_nan() | y.is_nan()).select(x + y, result)


def clz(x: Value) -> Value:
    """Leading zero bits of an integer; the width for 0."""
    name = f"llvm.ctlz.{x.kind}" if x.lanes == 1 else f"llvm.ctlz.v{x.lanes}{x.kind}"
    x.function.needed[name] = f"declare {x.type} @{name}({x.type}, i1 immarg)\n"
    return x.function.emit(f"call {x.type} @{name}({x.type} {x.text}, i1 false)", x.kind, x.lanes)


def popcount(x: Value) -> Value:
    """Set bits of an integer."""
    return intrinsic("ctpop", x)


def isnan(x: Value) -> Value:
    """True (i1) where x is NaN."""
    return x.is_nan()


def isinf(x: Value) -> Value:
    """True (i1) where x is infinite."""
    return absolute(x).eq(inf)


def isfinite(x: Value) -> Value:
    """True (i1) where x is neither infinite nor NaN."""
    return absolute(x).lt(inf)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return reciprocal_root(x)
