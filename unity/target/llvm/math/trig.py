"""sin, cos, tan for arguments of any size.

Ordinary arguments lose a multiple of pi/2 given as three floats; the remainder is kept as a sum of two. Large float32 ones do so in
float64. Huge ones (rare, only then executed) go lane by lane through an exact reduction with 192 bits of 2/pi.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from .coefficients import POLYNOMIALS
from .constants import HALF_PI, ROUND_MAGIC, TWO_OVER_PI, split
from .lanes import Value, absolute, call_per_lane, constant_text, divide, fma, polynomial, where_any

ORDINARY = {"f32": 2.0**17, "f64": 2.0**42}
"""Up to here the multiple of pi/2 is right, and the digits that its last part lacks lie far below those of the remainder, which is
2^-60 at least."""
REDUCTION = "unity.reduce_half_pi"
TABLE_WORDS = 21  # 64-bit words of 2/pi: 1023 + 256 bits and one word to spare


def _arctangent_of_inverse(n: int, bits: int) -> int:
    """floor-ish of atan(1/n) * 2^bits, by its alternating series in integers."""
    term = (1 << bits) // n
    total, sign, odd = 0, 1, 1
    while term:
        total += sign * (term // odd)
        term //= n * n
        sign, odd = -sign, odd + 2
    return total


@cache
def two_over_pi_words() -> tuple[int, ...]:
    """The first binary digits of 2/pi after the point as 64-bit words, highest first (Machin's formula for pi)."""
    bits = 64 * TABLE_WORDS + 64
    pi = 4 * (4 * _arctangent_of_inverse(5, bits) - _arctangent_of_inverse(239, bits))
    digits = int(Fraction(2 << bits, pi) * (1 << (64 * TABLE_WORDS)))
    return tuple(digits >> 64 * (TABLE_WORDS - 1 - i) & (2**64 - 1) for i in range(TABLE_WORDS))


@cache
def reduction_definition() -> dict[str, str]:
    """The scalar function ``{double high, double low, i64 quadrant} unity.reduce_half_pi(double x)`` and its table.

    For finite |x| >= 2^17: x = M * 2^E with a 53-bit M. Digits of 2/pi before the place E - 1 give multiples of 4 and are skipped;
    the next 192 times M, taken modulo 2^192, hold the quadrant in the top two bits and the fraction below. 192 bits are shifted
    by words: LLVM would shift them in memory.
    """
    table = f"{REDUCTION}.table"
    words = ", ".join(f"i64 {word - 2**64 if word >= 2**63 else word}" for word in two_over_pi_words())
    half_pi, half_pi_low = (constant_text(part, "f64", 1) for part in split(HALF_PI, "f64"))
    text = f"""\
define internal {{ double, double, i64 }} @{REDUCTION}(double %x) noinline nounwind {{
entry:
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %infinite = icmp eq i64 %exponent, 2047
  br i1 %infinite, label %undefined, label %reduce
undefined:
  ret {{ double, double, i64 }} {{ double 0x7FF8000000000000, double 0x7FF8000000000000, i64 0 }}
reduce:
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  %place = sub i64 %exponent, 1077
  %negative_place = icmp slt i64 %place, 0
  %skip = select i1 %negative_place, i64 0, i64 %place
  %missing = sub i64 %skip, %place
  %word = lshr i64 %skip, 6
  %bit = and i64 %skip, 63
  %p0 = getelementptr i64, ptr @{table}, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %w0 = load i64, ptr %p0
  %w1 = load i64, ptr %p1
  %w2 = load i64, ptr %p2
  %w3 = load i64, ptr %p3
  %a0 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %bit)
  %a1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %bit)
  %a2 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %bit)
  %d0 = lshr i64 %a0, %missing
  %d1 = call i64 @llvm.fshr.i64(i64 %a0, i64 %a1, i64 %missing)
  %d2 = call i64 @llvm.fshr.i64(i64 %a1, i64 %a2, i64 %missing)
  %z0 = zext i64 %d0 to i256
  %z1 = zext i64 %d1 to i256
  %z2 = zext i64 %d2 to i256
  %s0 = shl i256 %z0, 128
  %s1 = shl i256 %z1, 64
  %o0 = or i256 %s0, %s1
  %digits = or i256 %o0, %z2
  %mantissa_wide = zext i64 %mantissa to i256
  %product = mul i256 %digits, %mantissa_wide
  %top = shl i256 %product, 64
  %half = shl i256 1, 253
  %biased = add i256 %top, %half
  %quadrant_wide = lshr i256 %biased, 254
  %quadrant_up = trunc i256 %quadrant_wide to i64
  %whole = shl i256 %quadrant_wide, 254
  %rest = sub i256 %top, %whole
  %rest_negative = icmp slt i256 %rest, 0
  %rest_minus = sub i256 0, %rest
  %size = select i1 %rest_negative, i256 %rest_minus, i256 %rest
  %zeros_wide = call i256 @llvm.ctlz.i256(i256 %size, i1 false)
  %zeros = trunc i256 %zeros_wide to i64
  %first = and i64 %zeros, 63
  %q0 = lshr i256 %size, 192
  %r0 = trunc i256 %q0 to i64
  %q1 = lshr i256 %size, 128
  %r1 = trunc i256 %q1 to i64
  %q2 = lshr i256 %size, 64
  %r2 = trunc i256 %q2 to i64
  %q3 = lshr i256 %size, 0
  %r3 = trunc i256 %q3 to i64
  %one = icmp uge i64 %zeros, 64
  %two = icmp uge i64 %zeros, 128
  %m0 = select i1 %one, i64 %r1, i64 %r0
  %m1 = select i1 %one, i64 %r2, i64 %r1
  %m2 = select i1 %one, i64 %r3, i64 %r2
  %k0 = select i1 %two, i64 %r2, i64 %m0
  %k1 = select i1 %two, i64 %r3, i64 %m1
  %k2 = select i1 %two, i64 0, i64 %m2
  %n0 = call i64 @llvm.fshl.i64(i64 %k0, i64 %k1, i64 %first)
  %n1 = call i64 @llvm.fshl.i64(i64 %k1, i64 %k2, i64 %first)
  %high_int = lshr i64 %n0, 11
  %low_all = call i64 @llvm.fshl.i64(i64 %n0, i64 %n1, i64 42)
  %low_int = and i64 %low_all, 9007199254740991
  %high_float = uitofp i64 %high_int to double
  %low_float = uitofp i64 %low_int to double
  %scale_exponent = sub i64 972, %zeros
  %scale_bits = shl i64 %scale_exponent, 52
  %scale = bitcast i64 %scale_bits to double
  %low_scale = fmul double %scale, 0x3CA0000000000000
  %a = fmul double %high_float, %scale
  %b = fmul double %low_float, %low_scale
  %r = fmul double %a, {half_pi}
  %r_negative = fneg double %r
  %error = call double @llvm.fma.f64(double %a, double {half_pi}, double %r_negative)
  %cross = call double @llvm.fma.f64(double %a, double {half_pi_low}, double %error)
  %tail = call double @llvm.fma.f64(double %b, double {half_pi}, double %cross)
  %x_negative = icmp slt i64 %bits, 0
  %flip = xor i1 %rest_negative, %x_negative
  %sign = select i1 %flip, double -1.0, double 1.0
  %r_signed = fmul double %r, %sign
  %tail_signed = fmul double %tail, %sign
  %quadrant_down = sub i64 0, %quadrant_up
  %quadrant = select i1 %x_negative, i64 %quadrant_down, i64 %quadrant_up
  %out0 = insertvalue {{ double, double, i64 }} poison, double %r_signed, 0
  %out1 = insertvalue {{ double, double, i64 }} %out0, double %tail_signed, 1
  %out2 = insertvalue {{ double, double, i64 }} %out1, i64 %quadrant, 2
  ret {{ double, double, i64 }} %out2
}}
"""
    return {
        table: f"@{table} = internal constant [{TABLE_WORDS} x i64] [{words}]\n",
        **{f"llvm.{name}.i64": f"declare i64 @llvm.{name}.i64(i64, i64, i64)\n" for name in ("fshl", "fshr")},
        "llvm.ctlz.i256": "declare i256 @llvm.ctlz.i256(i256, i1 immarg)\n",
        "llvm.fma.f64": "declare double @llvm.fma.f64(double, double, double)\n",
        REDUCTION: text,
    }


def reduce_half_pi(x: Value) -> tuple[Value, Value, Value]:
    """(r, r_low, q): x = q * pi/2 + r + r_low with |r| about pi/4 at most; q modulo 4 is what counts."""
    kind = x.kind
    c1, c2, c3 = split(HALF_PI, kind, 3)
    shifted = fma(x, split(TWO_OVER_PI, kind)[0], ROUND_MAGIC[kind])
    k = shifted - ROUND_MAGIC[kind]
    first = fma(k, -c1, x)  # no rounding: the leading digits cancel
    product = k * c2
    r = first - product
    part = r - first  # the exact error of the difference, also where the product is the larger number
    lost = (first - (r - part)) - (product + part)
    low = fma(k, -c3, lost - fma(k, c2, -product))
    quadrant = shifted.as_bits()

    is_huge = absolute(x).gt(ORDINARY[kind])

    def huge() -> list[Value]:
        argument = is_huge.select(x, ORDINARY[kind])  # the exact reduction is not defined on small numbers
        if kind == "f64":
            return call_per_lane(REDUCTION, reduction_definition(), [argument], ("f64", "f64", "i64"))
        high, _, q = reduce_half_pi(argument.widened())
        short = high.narrowed()
        return [short, (high - short.widened()).narrowed(), q.convert("trunc", "i32")]

    result = where_any(is_huge, huge, [r, low, quadrant])
    return result[0], result[1], result[2]


def _sine_cosine(r: Value, low: Value) -> tuple[Value, Value]:
    """sin and cos of r + low for |r| <= pi/4 and a bit."""
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    cosine_rest = fma(-r, low, z * z * polynomial(z, POLYNOMIALS["COS"][r.kind]))
    cosine = w + (((1.0 - w) - half) + cosine_rest)
    sine = r + fma(r * z, polynomial(z, POLYNOMIALS["SIN"][r.kind]), low * w)
    return sine, cosine


def _negate_where(value: Value, quadrant: Value) -> Value:
    """The value with its sign flipped where bit 1 of the quadrant is set."""
    sign = (quadrant & 2) << (value.bits - 2)
    return (value.as_bits() ^ sign).as_float()


def sin(x: Value) -> Value:
    """Sine; NaN at infinity."""
    r, low, quadrant = reduce_half_pi(x)
    sine, cosine = _sine_cosine(r, low)
    result = _negate_where((quadrant & 1).ne(0).select(cosine, sine), quadrant)
    return x.eq(0.0).select(x, result)


def cos(x: Value) -> Value:
    """Cosine; NaN at infinity."""
    r, low, quadrant = reduce_half_pi(x)
    sine, cosine = _sine_cosine(r, low)
    return _negate_where((quadrant & 1).ne(0).select(sine, cosine), quadrant + 1)


def tan(x: Value) -> Value:
    """Tangent; NaN at infinity."""
    r, low, quadrant = reduce_half_pi(x)
    sine, cosine = _sine_cosine(r, low)
    odd = (quadrant & 1).ne(0)
    ratio = divide(odd.select(-cosine, sine), odd.select(sine, cosine))
    return x.eq(0.0).select(x, ratio)
