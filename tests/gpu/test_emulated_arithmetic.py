"""Each arithmetic instruction of the emulated device against exact arithmetic of Python, on edge values and random bits."""

import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from emulated import HEADER, Arrays

pytestmark = pytest.mark.gpu
NAN = math.nan
INF = math.inf
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "f16x2": 32, "bf16x2": 32, "e4m3x2": 16, "e5m2x2": 16}


def bits_of(type_: str) -> int:
    return BITS.get(type_) or (32 if type_.endswith("x2") else 8 if type_ == "pred" else int(type_[1:]))


# ---- floats as Python numbers

PRECISION = {"f16": (11, -14, 65504.0), "bf16": (8, -126, 3.3895313892515355e38), "f32": (24, -126, 3.4028234663852886e38),
             "f64": (53, -1022, 1.7976931348623157e308), "tf32": (11, -126, 3.4011621342146535e38)}  # fmt: skip


def to_float(bits: int, type_: str) -> float:
    if type_ == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    form = {"f16": "<e", "f32": "<f", "f64": "<d", "tf32": "<f"}[type_]
    return struct.unpack(form, bits.to_bytes(struct.calcsize(form), "little"))[0]


def to_bits(value: float, type_: str) -> int:
    if type_ == "bf16":
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    form = {"f16": "<e", "f32": "<f", "f64": "<d", "tf32": "<f"}[type_]
    return int.from_bytes(struct.pack(form, value), "little")


def rounded(exact: Fraction, type_: str, mode: str = "rn") -> float:
    """A rational number in a format: by integers, one rounding."""
    precision, least, most = PRECISION[type_]
    if exact == 0:
        return 0.0
    sign, size = (-1 if exact < 0 else 1), abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, least) - precision + 1
    while size >= Fraction(2) ** (exponent + precision):
        exponent += 1
    unit = Fraction(2) ** exponent
    whole, rest = divmod(size, unit)
    if mode == "rn":
        whole += rest * 2 > unit or (rest * 2 == unit and whole % 2)
    elif mode == "rna":
        whole += rest * 2 >= unit
    elif (mode == "rp" and sign > 0) or (mode == "rm" and sign < 0):
        whole += rest > 0
    found = whole * unit
    if found > Fraction(most):
        stays = mode == "rz" or (mode == "rp" and sign < 0) or (mode == "rm" and sign > 0)
        return sign * (most if stays else INF)
    return sign * float(found)


def fraction(value: float) -> Fraction | None:
    return Fraction(value) if math.isfinite(value) else None


def by_ieee(run: Callable[..., float], exact: Callable[..., Fraction], type_: str, mode: str = "rn"):
    """An operation of floats: exact where all is finite, numpy's double precision for the special values."""

    def reference(*bits: int) -> float:
        values = [to_float(b, type_) for b in bits]
        if all(math.isfinite(v) for v in values):
            try:
                found = exact(*[Fraction(v) for v in values])
            except ZeroDivisionError:
                found = None
            if found:
                return rounded(found, type_, mode)
        with np.errstate(all="ignore"):
            return float(run(*[np.float64(v) for v in values]))

    return reference


def root_fraction(value: Fraction) -> Fraction:
    """A number on the same side of every float as the square root."""
    if value < 0:
        raise ZeroDivisionError
    scale = 1 << 1200
    whole = math.isqrt(value.numerator * scale * scale // value.denominator)
    inexact = whole * whole * value.denominator != value.numerator * scale * scale
    return Fraction(2 * whole + inexact, 2 * scale)


EDGES = {
    "f32": [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000,
            0x34000000, 0x33800000, 0x4B000000, 0x4B800001, 0x00000003, 0x0C000000],
    "f64": [0, 1, 2, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000, 0x3FF0000000000001, 0x7FEFFFFFFFFFFFFF,
            0x7FF0000000000000, 0x7FF8000000000000, 0x3CA0000000000000, 0x4340000000000001, 0x1FF0000000000001,
            0x0340000000000003],
    "f16": [0, 1, 2, 0x3FF, 0x400, 0x401, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7E00, 0x1000, 0x6400, 0x0C01],
    "bf16": [0, 1, 2, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7FC0, 0x3380, 0x4B00, 0x0C01],
}  # fmt: skip


def edge_bits(type_: str) -> list[int]:
    bits = bits_of(type_)
    if type_ in EDGES:
        return EDGES[type_] + [e | 1 << bits - 1 for e in EDGES[type_]]
    if type_ == "tf32":
        return edge_bits("f32")
    most = 1 << bits
    found = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        most - 1,
        most - 2,
        most >> 1,
        (most >> 1) - 1,
        (most >> 1) + 1,
        0x5A5A5A5A,
    ]
    return [v % most for v in found]


def inputs(types: tuple[str, ...], count: int = 700) -> list[np.ndarray]:
    """Columns of bits: edge values with each other, then random ones."""
    rng = np.random.default_rng(len(types))
    columns = []
    for place, type_ in enumerate(types):
        edges, bits = edge_bits(type_), bits_of(type_)
        random = [int(v) for v in rng.integers(0, 1 << 63, count, np.uint64)]
        column = [(r * 2 + k % 2) % (1 << bits) for k, r in enumerate(random)]
        if type_ in ("f32", "f64") and place:  # some of like size, so that sums cancel and round
            for k in range(0, count, 3):
                column[k] = (columns[0][k] + int(rng.integers(-9, 9))) % (1 << bits) ^ (
                    int(rng.integers(0, 2)) << bits - 1
                )
        for k in range(count // 2):
            column[k] = edges[(k // len(edges) ** place) % len(edges)]
        columns.append(column)
    return [np.array(c, np.uint64) for c in columns]


def execute(
    text: str, result: str, types: tuple[str, ...], columns: list[np.ndarray], arch: str = "sm_90"
) -> np.ndarray:
    """The bits that an instruction gives for each row of its operands."""
    arch_line = HEADER.format(arch=arch)
    width = max(16, bits_of(result))
    lines = [".visible .entry k(.param .b64 x, .param .b64 y)", "{", ".reg .b64 %p<3>;", ".reg .b32 %t<4>;", ".reg .pred %q<2>;",
             ".reg .b8 %n<2>;" if False else "", f".reg .b{width} %d<2>;"]  # fmt: skip
    lines += ["mov.u32 %t0, %tid.x;", "mov.u32 %t1, %ctaid.x;", "mad.lo.s32 %t2, %t1, 128, %t0;", "mul.wide.u32 %p0, %t2, 8;",
              "ld.param.b64 %p1, [x];", "ld.param.b64 %p2, [y];"]  # fmt: skip
    count = len(columns[0])
    names = {}
    for place, type_ in enumerate(types):
        bits = max(16, bits_of(type_))
        name = "%" + "abcd"[place]
        names["abcd"[place]] = name + "0"
        lines += [f".reg .b{bits} {name}<1>;", f"add.s64 %p1, %p1, {0 if place == 0 else 8 * len(columns[0])};",
                  f".reg .b64 %s{place};", f"add.s64 %s{place}, %p1, %p0;", f"ld.global.b{bits} {name}0, [%s{place}];"]  # fmt: skip
    lines.append(text.format(d="%q0" if result == "pred" else "%d0", **names))
    if result == "pred":
        lines.append("selp.b16 %d0, 1, 0, %q0;")
    lines += ["add.s64 %p2, %p2, %p0;", f"st.global.b{width} [%p2], %d0;", "ret;", "}"]
    assert count % 128 == 0
    arrays = Arrays()
    y = arrays.put(np.zeros(count, np.uint64))
    arrays.run(arch_line + "\n".join(lines), "k", (count // 128,), (128,), arrays.put(np.concatenate(columns)), y)
    return arrays.get(y, count, np.uint64)


def signed(value: int, type_: str) -> int:
    bits = bits_of(type_)
    return value - (1 << bits) if type_[0] == "s" and value >> bits - 1 else value


# ---- integers


def whole(types: tuple[str, ...], run: Callable[..., int]):
    return lambda *bits: run(*[signed(b, t) for b, t in zip(bits, types)])


def shift_left(bits: int):
    return lambda a, n: a << n if n < bits else 0


def shift_right(bits: int):
    return lambda a, n: a >> min(n, bits)


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


def field(bits: int, is_signed: bool):
    def extract(a: int, position: int, length: int) -> int:
        position, length, a = position & 255, length & 255, a % (1 << bits)
        sign = 0 if not is_signed or length == 0 else a >> min(position + length - 1, bits - 1) & 1
        return sum(((a >> position + k & 1) if k < length and position + k < bits else sign) << k for k in range(bits))

    return extract


def insert(bits: int):
    def put(a: int, b: int, position: int, length: int) -> int:
        for k in range(min(length & 255, bits)):
            at = (position & 255) + k
            if at < bits:
                b = b & ~(1 << at) | (a >> k & 1) << at
        return b

    return put


def permute(a: int, b: int, c: int) -> int:
    pool = (a | b << 32).to_bytes(8, "little")
    found = 0
    for k in range(4):
        choice = c >> 4 * k & 15
        byte = pool[choice & 7]
        found |= ((255 if byte >> 7 else 0) if choice & 8 else byte) << 8 * k
    return found


def dot(sign_a: bool, sign_b: bool):
    def total(a: int, b: int, c: int) -> int:
        x = a.to_bytes(4, "little"), b.to_bytes(4, "little")
        p = [[v - 256 if s and v > 127 else v for v in row] for row, s in zip(x, (sign_a, sign_b))]
        return c + sum(u * v for u, v in zip(*p))

    return total


def leading(bits: int):
    return lambda a: bits - a.bit_length()


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def halves(run: Callable[[int, int], int]):
    return lambda a, b: sum((run(a >> s & 65535, b >> s & 65535) & 65535) << s for s in (0, 16))


def signed16(value: int) -> int:
    return value - 65536 if value > 32767 else value


INTEGERS: list[tuple[str, str, tuple[str, ...], Callable[..., int]]] = []
for T in ("s16", "u16", "s32", "u32", "s64", "u64"):
    W = bits_of(T)
    U = "u32"
    INTEGERS += [
        (f"add.{T} {{d}}, {{a}}, {{b}};", T, (T, T), lambda a, b: a + b),
        (f"sub.{T} {{d}}, {{a}}, {{b}};", T, (T, T), lambda a, b: a - b),
        (f"mul.lo.{T} {{d}}, {{a}}, {{b}};", T, (T, T), lambda a, b: a * b),
        (f"mul.hi.{T} {{d}}, {{a}}, {{b}};", T, (T, T), lambda a, b, w=W: a * b >> w),
        (f"mad.lo.{T} {{d}}, {{a}}, {{b}}, {{c}};", T, (T, T, T), lambda a, b, c: a * b + c),
        (f"mad.hi.{T} {{d}}, {{a}}, {{b}}, {{c}};", T, (T, T, T), lambda a, b, c, w=W: (a * b >> w) + c),
        (f"div.{T} {{d}}, {{a}}, {{b}};", T, (T, T), quotient),
        (f"rem.{T} {{d}}, {{a}}, {{b}};", T, (T, T), remainder),
        (f"min.{T} {{d}}, {{a}}, {{b}};", T, (T, T), min),
        (f"max.{T} {{d}}, {{a}}, {{b}};", T, (T, T), max),
        (f"sad.{T} {{d}}, {{a}}, {{b}}, {{c}};", T, (T, T, T), lambda a, b, c: abs(a - b) + c),
        (f"shr.{T} {{d}}, {{a}}, {{b}};", T, (T, U), shift_right(W)),
    ]
    if W < 64:
        D = f"{T[0]}{2 * W}"
        INTEGERS += [
            (f"mul.wide.{T} {{d}}, {{a}}, {{b}};", D, (T, T), lambda a, b: a * b),
            (f"mad.wide.{T} {{d}}, {{a}}, {{b}}, {{c}};", D, (T, T, D), lambda a, b, c: a * b + c),
        ]
    if W > 16:
        INTEGERS.append((f"bfe.{T} {{d}}, {{a}}, {{b}}, {{c}};", T, (T, U, U), field(W, T[0] == "s")))
    if T[0] == "s":
        INTEGERS += [(f"abs.{T} {{d}}, {{a}};", T, (T,), abs), (f"neg.{T} {{d}}, {{a}};", T, (T,), lambda a: -a)]
    for C, F in {
        "eq": int.__eq__,
        "ne": int.__ne__,
        "lt": int.__lt__,
        "le": int.__le__,
        "gt": int.__gt__,
        "ge": int.__ge__,
    }.items():
        INTEGERS.append((f"setp.{C}.{T} {{d}}, {{a}}, {{b}};", "pred", (T, T), F))
for W in (16, 32, 64):
    B = f"b{W}"
    INTEGERS += [
        (f"and.{B} {{d}}, {{a}}, {{b}};", B, (B, B), int.__and__), (f"or.{B} {{d}}, {{a}}, {{b}};", B, (B, B), int.__or__),
        (f"xor.{B} {{d}}, {{a}}, {{b}};", B, (B, B), int.__xor__), (f"not.{B} {{d}}, {{a}};", B, (B,), lambda a: ~a),
        (f"shl.{B} {{d}}, {{a}}, {{b}};", B, (B, "u32"), shift_left(W)),
        (f"shl.{B} {{d}}, {{a}}, 9;", B, (B,), lambda a: a << 9), (f"shr.s{W} {{d}}, {{a}}, 70;", B, (f"s{W}",), lambda a: a >> 70),
        (f"shr.u{W} {{d}}, {{a}}, 70;", B, (B,), lambda a: 0),
    ]  # fmt: skip
    if W > 16:
        INTEGERS += [
            (f"popc.{B} {{d}}, {{a}};", "u32", (B,), int.bit_count), (f"clz.{B} {{d}}, {{a}};", "u32", (B,), leading(W)),
            (f"brev.{B} {{d}}, {{a}};", B, (B,), lambda a, w=W: int(f"{a:0{w}b}"[::-1], 2)),
            (f"bfi.{B} {{d}}, {{a}}, {{b}}, {{c}}, {{d_}};".replace("{d_}", "7"), B, (B, B, "u32"), lambda a, b, c, w=W: insert(w)(a, b, c, 7)),
        ]  # fmt: skip
INTEGERS += [
    ("add.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), lambda a, b: clamp(a + b, -(1 << 31), (1 << 31) - 1)),
    ("sub.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), lambda a, b: clamp(a - b, -(1 << 31), (1 << 31) - 1)),
    ("add.u16x2 {d}, {a}, {b};", "b32", ("b32", "b32"), halves(lambda a, b: a + b)),
    ("min.s16x2 {d}, {a}, {b};", "b32", ("b32", "b32"), halves(lambda a, b: min(signed16(a), signed16(b)))),
    ("max.u16x2 {d}, {a}, {b};", "b32", ("b32", "b32"), halves(max)),
    ("mul24.lo.s32 {d}, {a}, {b};", "s32", ("s32", "s32"),
     lambda a, b: math.prod((v % (1 << 24)) - ((v >> 23 & 1) << 24) for v in (a, b))),
    ("prmt.b32 {d}, {a}, {b}, {c};", "b32", ("b32", "b32", "b32"), permute),
    ("prmt.b32 {d}, {a}, {b}, 0x5410;", "b32", ("b32", "b32"), lambda a, b: permute(a, b, 0x5410)),
    ("lop3.b32 {d}, {a}, {b}, {c}, 0xCA;", "b32", ("b32", "b32", "b32"), lambda a, b, c: a & b | ~a & c),
    ("shf.l.wrap.b32 {d}, {a}, {b}, {c};", "b32", ("b32", "b32", "u32"), lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32),
    ("shf.r.clamp.b32 {d}, {a}, {b}, {c};", "b32", ("b32", "b32", "u32"), lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("shf.r.wrap.b32 {d}, {a}, {b}, {c};", "b32", ("b32", "b32", "u32"), lambda a, b, c: (b << 32 | a) >> (c & 31)),
    ("shf.l.clamp.b32 {d}, {a}, {b}, {c};", "b32", ("b32", "b32", "u32"), lambda a, b, c: ((b << 32 | a) << min(c, 32)) >> 32),
    ("dp4a.s32.s32 {d}, {a}, {b}, {c};", "s32", ("b32", "b32", "s32"), dot(True, True)),
    ("dp4a.u32.u32 {d}, {a}, {b}, {c};", "u32", ("b32", "b32", "u32"), dot(False, False)),
    ("dp4a.s32.u32 {d}, {a}, {b}, {c};", "s32", ("b32", "b32", "s32"), dot(True, False)),
    ("selp.b32 {d}, {a}, {b}, 1;", "b32", ("b32", "b32"), lambda a, b: a),
    ("{{.reg .b32 %lo, %hi; mov.b64 {{%lo, %hi}}, {a}; mov.b64 {d}, {{%hi, %lo}};}}", "b64", ("b64",),
     lambda a: a >> 32 | a << 32),
    ("{{.reg .b64 %h; add.cc.u64 %h, {a}, {b}; addc.u64 {d}, {c}, 0;}}", "u64", ("u64", "u64", "u64"),
     lambda a, b, c: c + (a + b >> 64)),
    ("{{.reg .b32 %h; sub.cc.u32 %h, {a}, {b}; subc.u32 {d}, {c}, 1;}}", "u32", ("u32", "u32", "u32"),
     lambda a, b, c: c - 1 - (a < b)),
    ("set.lt.u32.s32 {d}, {a}, {b};", "u32", ("s32", "s32"), lambda a, b: -(a < b)),
    ("{{.reg .pred %u; setp.gt.s32 %u, {a}, 0; setp.lt.and.s32 {d}, {a}, {b}, !%u;}}", "pred", ("s32", "s32"),
     lambda a, b: a < b and not a > 0),
]  # fmt: skip
for TO in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
    for FROM in ("s16", "u16", "s32", "u32", "s64", "u64"):
        low, high = (
            (-(1 << bits_of(TO) - 1), (1 << bits_of(TO) - 1) - 1) if TO[0] == "s" else (0, (1 << bits_of(TO)) - 1)
        )
        if bits_of(TO) > 8:
            INTEGERS.append((f"cvt.{TO}.{FROM} {{d}}, {{a}};", TO, (FROM,), lambda a: a))
        holds_all = bits_of(TO) > bits_of(FROM) and (TO[0] == "s" or FROM[0] == "u")
        if bits_of(TO) > 8 and TO != FROM and not holds_all:
            INTEGERS.append(
                (f"cvt.sat.{TO}.{FROM} {{d}}, {{a}};", TO, (FROM,), lambda a, lo=low, hi=high: clamp(a, lo, hi))
            )


@pytest.fixture(scope="module", autouse=True)
def device():
    with device_or_emulated("sm_90", races=False, traffic=False) as gpu:
        yield gpu


def columns_of(types: tuple[str, ...]) -> list[np.ndarray]:
    return inputs(types, 384)


def check_integers(row) -> None:
    text, result, types, reference = row
    columns = columns_of(types)
    found = execute(text, result, types, columns)
    mask = (1 << max(16, bits_of(result))) - 1
    run = whole(types, reference)
    wrong = []
    for k, bits in enumerate(zip(*[c.tolist() for c in columns])):
        wanted = int(run(*bits)) & ((1 << bits_of(result)) - 1 if result != "pred" else 1)
        if int(found[k]) & mask & ((1 << bits_of(result)) - 1) != wanted:
            wrong.append((bits, hex(int(found[k])), hex(wanted)))
    assert not wrong, (text, len(wrong), wrong[:5])


@pytest.mark.parametrize("opcode", sorted({row[0].lstrip("{").split()[0].split(".")[0].strip() for row in INTEGERS}))
def test_integers(opcode):
    rows = [row for row in INTEGERS if row[0].lstrip("{").split()[0].split(".")[0].strip() == opcode]
    assert rows
    for row in rows:
        check_integers(row)


# ---- floats


def same(found: int, wanted: float, type_: str) -> bool:
    got = to_float(found, type_)
    if math.isnan(wanted):
        return math.isnan(got)
    return got == wanted and math.copysign(1, got) == math.copysign(1, wanted)


def least(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b) if a != b else (a if math.copysign(1, a) < 0 else b)


def greatest(a: float, b: float) -> float:
    return -least(-a, -b)


def spread_nan(run):
    return lambda a, b: NAN if math.isnan(a) or math.isnan(b) else run(a, b)


def plain(run: Callable[..., float], *types: str):
    return lambda *bits: run(*[to_float(b, t) for b, t in zip(bits, types)])


def flushed(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def flushing(run, exact):
    """An operation of f32 with denormals as zeros."""

    def reference(*bits: int) -> float:
        given = [to_bits(flushed(to_float(b, "f32")), "f32") if not math.isnan(to_float(b, "f32")) else b for b in bits]
        return flushed(by_ieee(run, exact, "f32")(*given))

    return reference


def sat(run):
    def reference(*bits: int) -> float:
        value = run(*bits)
        return 0.0 if math.isnan(value) else min(1.0, max(0.0, value)) + 0.0

    return reference


def power_of_two(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp2(value).astype("f4"))


def fused(a, b, c):
    return a * b + c


FLOATS: list[tuple[str, str, tuple[str, ...], Callable[..., float]]] = []
for T in ("f16", "bf16", "f32", "f64"):
    for M in ("rn", "rz", "rm", "rp") if T == "f32" else ("rn",):
        FLOATS += [
            (f"add.{M}.{T} {{d}}, {{a}}, {{b}};", T, (T, T), by_ieee(np.add, lambda a, b: a + b, T, M)),
            (f"sub.{M}.{T} {{d}}, {{a}}, {{b}};", T, (T, T), by_ieee(np.subtract, lambda a, b: a - b, T, M)),
            (f"mul.{M}.{T} {{d}}, {{a}}, {{b}};", T, (T, T), by_ieee(np.multiply, lambda a, b: a * b, T, M)),
            (f"fma.{M}.{T} {{d}}, {{a}}, {{b}}, {{c}};", T, (T, T, T), by_ieee(fused, fused, T, M)),
        ]
        if T in ("f32", "f64"):
            FLOATS += [
                (f"div.{M}.{T} {{d}}, {{a}}, {{b}};", T, (T, T), by_ieee(np.divide, lambda a, b: a / b, T, M)),
                (f"sqrt.{M}.{T} {{d}}, {{a}};", T, (T,), by_ieee(np.sqrt, root_fraction, T, M)),
                (f"rcp.{M}.{T} {{d}}, {{a}};", T, (T,), by_ieee(lambda a: 1 / a, lambda a: 1 / a, T, M)),
            ]
    FLOATS += [
        (f"min.{T} {{d}}, {{a}}, {{b}};", T, (T, T), plain(least, T, T)),
        (f"max.{T} {{d}}, {{a}}, {{b}};", T, (T, T), plain(greatest, T, T)),
        (f"neg.{T} {{d}}, {{a}};", T, (T,), plain(lambda a: -a, T)),
        (f"abs.{T} {{d}}, {{a}};", T, (T,), plain(abs, T)),
    ]
    if T != "f64":
        FLOATS.append((f"min.NaN.{T} {{d}}, {{a}}, {{b}};", T, (T, T), plain(spread_nan(least), T, T)))
        FLOATS.append((f"max.NaN.{T} {{d}}, {{a}}, {{b}};", T, (T, T), plain(spread_nan(greatest), T, T)))
FLOATS += [
    ("add.ftz.f32 {d}, {a}, {b};", "f32", ("f32", "f32"), flushing(np.add, lambda a, b: a + b)),
    ("mul.ftz.f32 {d}, {a}, {b};", "f32", ("f32", "f32"), flushing(np.multiply, lambda a, b: a * b)),
    ("fma.rn.ftz.f32 {d}, {a}, {b}, {c};", "f32", ("f32",) * 3, flushing(fused, fused)),
    ("add.sat.f32 {d}, {a}, {b};", "f32", ("f32", "f32"), sat(by_ieee(np.add, lambda a, b: a + b, "f32"))),
    ("fma.rn.sat.f32 {d}, {a}, {b}, {c};", "f32", ("f32",) * 3, sat(by_ieee(fused, fused, "f32"))),
    ("copysign.f32 {d}, {a}, {b};", "f32", ("f32", "f32"), plain(lambda a, b: math.copysign(b, a), "f32", "f32")),
    ("abs.ftz.f32 {d}, {a};", "f32", ("f32",), plain(lambda a: abs(flushed(a)), "f32")),
    ("ex2.approx.f32 {d}, {a};", "f32", ("f32",), plain(power_of_two, "f32")),
]  # fmt: skip


def converted(source: str, to: str, mode: str = "rn"):
    def reference(bits: int) -> float:
        value = to_float(bits, source)
        return value if not math.isfinite(value) or value == 0 else rounded(Fraction(value), to, mode)

    return reference


for SOURCE in ("f16", "bf16", "f32", "f64"):
    for TO in ("f16", "bf16", "f32", "f64"):
        if SOURCE == TO or ("bf16" in (SOURCE, TO) and "f32" not in (SOURCE, TO)):
            continue
        narrows = bits_of(TO) < bits_of(SOURCE)
        for M in (
            ("rn", "rz", "rm", "rp")
            if narrows and (SOURCE, TO) == ("f64", "f32")
            else ("rn", "rz")
            if narrows
            else ("",)
        ):
            mode = f".{M}" if M else ""
            FLOATS.append((f"cvt{mode}.{TO}.{SOURCE} {{d}}, {{a}};", TO, (SOURCE,), converted(SOURCE, TO, M or "rn")))
FLOATS.append(("cvt.rna.tf32.f32 {d}, {a};", "tf32", ("f32",), converted("f32", "tf32", "rna")))
INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
for M, F in INTEGRAL.items():
    for T in ("f32", "f64", "f16"):
        FLOATS.append((f"cvt.{M}.{T}.{T} {{d}}, {{a}};", T, (T,), plain(lambda a, f=F: float(f(a)), T)))
for FROM in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
    for TO in ("f16", "f32", "f64"):
        for M in ("rn", "rz", "rm", "rp") if bits_of(FROM) >= 32 and TO == "f32" else ("rn",):
            if FROM in ("s8", "u8"):
                continue
            FLOATS.append((f"cvt.{M}.{TO}.{FROM} {{d}}, {{a}};", TO, (FROM,),
                           lambda a, t=TO, f=FROM, m=M: rounded(Fraction(signed(a, f)), t, m)))  # fmt: skip


def check_floats(row) -> None:
    text, result, types, reference = row
    columns = columns_of(types)
    found = execute(text, result, types, columns)
    wrong = []
    for k, bits in enumerate(zip(*[c.tolist() for c in columns])):
        wanted = reference(*bits)
        if not same(int(found[k]), wanted, result):
            shown = [to_float(b, t) if t in PRECISION else b for b, t in zip(bits, types)]
            wrong.append((shown, to_float(int(found[k]), result), wanted))
    assert not wrong, (text, len(wrong), wrong[:5])


@pytest.mark.parametrize("opcode", sorted({row[0].split(".")[0] for row in FLOATS}))
def test_floats(opcode):
    rows = [row for row in FLOATS if row[0].split(".")[0] == opcode]
    assert rows
    for row in rows:
        check_floats(row)


def test_exact_zeros_have_the_sign_of_ieee_sums():
    zero, one = 0, to_bits(1.0, "f32")
    for text, a, b, wanted in (("sub.rn.f32 {d}, {a}, {b};", one, one, 0), ("add.rn.f32 {d}, {a}, {b};", 1 << 31, 1 << 31, 1 << 31),
                               ("add.rn.f32 {d}, {a}, {b};", zero, 1 << 31, 0), ("mul.rn.f32 {d}, {a}, {b};", 1 << 31, one, 1 << 31)):  # fmt: skip
        columns = [np.full(128, v, np.uint64) for v in (a, b)]
        assert set(execute(text, "f32", ("f32", "f32"), columns).tolist()) == {wanted}


@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f16", "f32", "f64", "bf16"])
def test_floats_to_integers_are_clamped(source, to):
    low, high = (-(1 << bits_of(to) - 1), (1 << bits_of(to) - 1) - 1) if to[0] == "s" else (0, (1 << bits_of(to)) - 1)
    if source == "bf16" and bits_of(to) == 8:
        pytest.skip("PTX has no such conversion")
    (column,) = columns_of((source,))
    for mode, run in INTEGRAL.items():
        found = execute(f"cvt.{mode}.{to}.{source} {{d}}, {{a}};", to, (source,), [column])
        wrong = []
        for k, bits in enumerate(column.tolist()):
            value = to_float(bits, source)
            if math.isnan(value):
                wanted = 1 << bits_of(to) - 1 if 64 in (bits_of(to), bits_of(source)) else 0
            else:
                wanted = clamp(int(run(value)), low, high) if math.isfinite(value) else (high if value > 0 else low)
            if int(found[k]) & (1 << bits_of(to)) - 1 != wanted & (1 << bits_of(to)) - 1:
                wrong.append((value, hex(int(found[k])), wanted))
        assert not wrong, (mode, len(wrong), wrong[:5])


COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a < b or a > b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "equ": lambda a, b: not (a < b or a > b), "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b, "leu": lambda a, b: not a > b, "gtu": lambda a, b: not a <= b, "geu": lambda a, b: not a < b,
    "num": lambda a, b: a == a and b == b, "nan": lambda a, b: a != a or b != b,
}  # fmt: skip


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
def test_comparisons_of_floats(type_):
    columns = columns_of((type_, type_))
    pairs = [[to_float(b, type_) for b in row] for row in zip(*[c.tolist() for c in columns])]
    for compare, run in COMPARISONS.items():
        found = execute(f"setp.{compare}.{type_} {{d}}, {{a}}, {{b}};", "pred", (type_, type_), columns)
        assert [bool(v & 1) for v in found.tolist()] == [run(*pair) for pair in pairs], compare


@pytest.mark.parametrize("type_", ["f16x2", "bf16x2"])
def test_packed_halves(type_):
    half = type_[:-2]
    columns = columns_of(("b32", "b32", "b32"))
    rows = list(zip(*[c.tolist() for c in columns]))
    for text, run, count in (("add.rn", by_ieee(np.add, lambda a, b: a + b, half), 2), ("mul.rn", by_ieee(np.multiply, lambda a, b: a * b, half), 2),
                             ("fma.rn", by_ieee(fused, fused, half), 3), ("max", plain(greatest, half, half), 2)):  # fmt: skip
        operands = ", ".join("{" + letter + "}" for letter in "abc"[:count])
        found = execute(f"{text}.{type_} {{d}}, {operands};", "b32", ("b32",) * count, columns[:count])
        for k, row in enumerate(rows):
            for shift in (0, 16):
                part = [v >> shift & 65535 for v in row[:count]]
                assert same(int(found[k]) >> shift & 65535, run(*part), half), (text, part)


@pytest.mark.parametrize("small", ["e4m3", "e5m2"])
def test_eight_bit_floats(small):
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[small]
    most = float(ml_dtypes.finfo(kind).max)
    every = np.arange(256, dtype=np.uint64)
    found = execute(f"cvt.rn.f16x2.{small}x2 {{d}}, {{a}};", "b32", ("b16",), [every | every[::-1] << np.uint64(8)])
    for k in range(256):
        for shift, code in ((0, k), (16, 255 - k)):
            value = float(np.array(code, np.uint8).view(kind))
            assert same(int(found[k]) >> shift & 65535, value, "f16")
    columns = inputs(("f32", "f32"), 768)
    values = [c.astype(np.uint32).view(np.float32).astype(np.float64) for c in columns]
    columns[0][:256] = np.linspace(-600, 600, 256, dtype=np.float32).view(np.uint32)
    values[0][:256] = np.linspace(-600, 600, 256, dtype=np.float32)
    found = execute(f"cvt.rn.satfinite.{small}x2.f32 {{d}}, {{a}}, {{b}};", "b16", ("f32", "f32"), columns)
    grid = np.sort(np.unique(np.arange(256, dtype=np.uint8).view(kind).astype(np.float64)))
    grid = grid[np.isfinite(grid)]
    for k in range(768):
        for shift, value in ((8, values[0][k]), (0, values[1][k])):
            got = float(np.array(int(found[k]) >> shift & 255, np.uint8).view(kind))
            if math.isnan(value):
                assert math.isnan(got)
                continue
            value = max(-most, min(most, value))
            assert abs(got - value) == np.abs(grid - value).min()


def test_conversions_of_two_into_one():
    columns = columns_of(("f32", "f32"))
    for to in ("f16", "bf16"):
        found = execute(f"cvt.rn.{to}x2.f32 {{d}}, {{a}}, {{b}};", "b32", ("f32", "f32"), columns)
        for k, (a, b) in enumerate(zip(*[c.tolist() for c in columns])):
            assert same(int(found[k]) >> 16, converted("f32", to)(a), to)
            assert same(int(found[k]) & 65535, converted("f32", to)(b), to)


def test_approximations_are_near():
    x = np.linspace(0.01, 8, 768).astype(np.float32)
    column = [x.view(np.uint32).astype(np.uint64)]
    double = x.astype(np.float64)
    for text, run in {"lg2.approx": np.log2, "sin.approx": np.sin, "cos.approx": np.cos, "tanh.approx": np.tanh,
                      "rsqrt.approx": lambda v: 1 / np.sqrt(v), "rcp.approx.ftz": lambda v: 1 / v, "sqrt.approx": np.sqrt}.items():  # fmt: skip
        found = execute(f"{text}.f32 {{d}}, {{a}};", "f32", ("f32",), column).astype(np.uint32).view(np.float32)
        np.testing.assert_allclose(found, run(double), rtol=1e-7, atol=1e-8)


REFUSED = (
    "tex.2d.v4.f32.f32 {{%t0, %t1, %t2, %t3}}, [k, {{%t0, %t1}}];", "add.rn.bogus.f32 {d}, {a}, {a};", "frobnicate.b32 {d}, {a};",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {a}, {a}, {a}, 0;", "mov.b32 {d}, %envreg3;",
    "mov.b32 {d}, %cluster_ctarank;", "barrier.cluster.arrive;", "mapa.shared::cluster.u32 {d}, {a}, 1;",
    "bfind.u32 {d}, {a};", "prmt.b32.f4e {d}, {a}, {a}, {a};", "{{ .reg .b64 %w; add.rz.f64 %w, %w, %w; }}",
    "{{ .reg .b64 %w; cvt.rz.f64.s64 %w, %w; }}",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_unknown_instructions_are_refused_by_their_text(text):
    with pytest.raises(Exception) as caught:
        execute(text, "b32", ("b32",), [np.zeros(128, np.uint64)])
    assert caught.value.code == "E739" and "E390" in str(caught.value)
    assert re.sub(r"{{ .reg .b64 %w; ", "", text).split()[0].split(".")[0] in str(caught.value)
