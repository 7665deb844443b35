"""Random vector expressions: ramps, broadcasts, shuffles, masked reads, lane-wise choices and arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz_values import i64

from unity.ffi.dtype import DataType
from unity.ir import build as b
from unity.ir.expr import Call, op
from unity.ir.scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
)  # fmt: skip
from unity.ir.types import Expr, PrimType, prim_type

if TYPE_CHECKING:
    from prim_func_fuzz import Fuzzer

KINDS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
COMPARES = (EQ, NE, LT, LE, GT, GE)


def lanes_type(kind: str, lanes: int) -> PrimType:
    return prim_type(DataType(kind).with_lanes(lanes))


def read(f: Fuzzer, kind: str, lanes: int) -> Expr | None:
    """Lanes of an input of one axis: neighbours, one cell, or anywhere; sometimes masked. None where there is no such input."""
    fitting = [x for x in f.inputs if x.dtype.name == kind and len(x.shape) == 1 and x.shape[0] is not f.n]
    if not fitting:
        return None
    source, ty = f.rng.choice(fitting), lanes_type("int64", lanes)
    size: int = source.shape[0].value  # type: ignore[attr-defined]
    index: Expr = Broadcast(i64(0), lanes, ty)
    if size >= lanes:
        index = b.ramp(i64(f.rng.randint(0, size - lanes)), i64(1), lanes)
    if f.chance(0.3):
        index = FloorMod(random_vector(f, "int64", lanes, 1), b.const(size, f"int64x{lanes}"), ty)
    predicate = random_vector(f, "bool", lanes, 1) if f.chance(0.2) else None
    return BufferLoad(source, (index,), lanes_type(kind, lanes), predicate)


def leaf(f: Fuzzer, kind: str, lanes: int) -> Expr:
    found = read(f, kind, lanes) if f.chance(0.8) else None
    if found is not None:
        return found
    if DataType(kind).is_integral and f.chance(0.5):
        return Ramp(f.leaf(kind), f.leaf(kind), lanes, lanes_type(kind, lanes))
    return Broadcast(f.leaf(kind), lanes, lanes_type(kind, lanes))


def random_vector(f: Fuzzer, kind: str, lanes: int, depth: int) -> Expr:
    """A vector whose lanes are the same on every backend."""
    ty, roll = lanes_type(kind, lanes), f.rng.random()
    if depth <= 0 or roll < 0.2:
        return leaf(f, kind, lanes)

    def part(other: str = kind) -> Expr:
        return random_vector(f, other, lanes, depth - 1)

    if roll < 0.35:
        other = f.rng.choice([k for k in KINDS if k != kind])
        return Cast(part(other), ty)
    if roll < 0.45:
        order = tuple([i64(f.rng.randrange(2 * lanes)) for _ in range(lanes)])
        return Shuffle((part(), part()), order, ty)
    if roll < 0.55:
        return Select(part("bool"), part(), part(), ty)
    if roll < 0.65:
        return Call(op("T.if_then_else"), (part("bool"), part(), part()), {}, (), ty)
    if kind == "bool":
        if f.chance(0.3):
            return f.rng.choice((And, Or))(part(), part(), ty)
        inner = f.rng.choice(KINDS)
        return f.rng.choice(COMPARES)(part(inner), part(inner), ty)
    x, y = part(), part()
    if DataType(kind).is_float:
        return f.rng.choice((Add, Sub, Mul, Div, Min, Max, FloorMod))(x, y, ty)
    if f.chance(0.3):
        odd = b.intrinsic("bitwise_or", y, b.const(1, f"{kind}x{lanes}"))
        return f.rng.choice((FloorDiv, FloorMod, Div, Mod))(x, odd, ty)
    if f.chance(0.2):
        amount = b.intrinsic("bitwise_and", y, b.const(DataType(kind).bits - 1, f"{kind}x{lanes}"))
        return b.intrinsic(f.rng.choice(("shift_left", "shift_right")), x, amount)
    return f.rng.choice((Add, Sub, Mul, Min, Max))(x, y, ty)
