"""Mathematical constants of the math library, split into sums of floats of one kind."""

from __future__ import annotations

import struct
from fractions import Fraction

LN2 = "0.69314718055994530941723212145817656807550013436025525412068"
LOG2_E = "1.44269504088896340735992468100189213742664595415298593413545"
LOG10_E = "0.43429448190325182765112891891660508229439700580366656611445"
LOG10_2 = "0.30102999566398119521373889472449302676818988146210854131043"
LN10 = "2.30258509299404568401799145468436420760110148862877297603333"
HALF_PI = "1.57079632679489661923132169163975144209858469968755291048747"
TWO_OVER_PI = "0.63661977236758134307553505349005744813783858296182579499067"
THIRD = "0.33333333333333333333333333333333333333333333333333333333333"

MANTISSA = {"f32": 23, "f64": 52}
BIAS = {"f32": 127, "f64": 1023}
SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
ROUND_MAGIC = {"f32": 1.5 * 2**23, "f64": 1.5 * 2**52}
"""Adding it to a small float leaves the nearest integer in the low mantissa bits."""


def rounded(value: Fraction, kind: str) -> float:
    """The value as the nearest float of the kind."""
    result = float(value)
    if kind == "f32":
        result = struct.unpack("<f", struct.pack("<f", result))[0]
    return result


def split(decimal: str, kind: str, parts: int = 2) -> tuple[float, ...]:
    """Floats of the kind, each the best for what the ones before left over; their sum is the constant."""
    rest = Fraction(decimal)
    result = []
    for _ in range(parts):
        result.append(rounded(rest, kind))
        rest -= Fraction(result[-1])
    return tuple(result)


def magic_bits(kind: str) -> int:
    """The integer pattern of ``ROUND_MAGIC``."""
    return (BIAS[kind] + MANTISSA[kind]) << MANTISSA[kind] | 1 << (MANTISSA[kind] - 1)
