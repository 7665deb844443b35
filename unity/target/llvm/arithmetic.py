"""Arithmetic, comparisons and logic: emitters for the two-operand nodes.

Every result is defined: integers wrap; division by zero is a run-time failure with a message; the smallest integer
divided by -1 wraps; shifts by the width or more give 0 (or the sign); Min and Max hand NaN on.
"""

from __future__ import annotations

from typing import Any

from ...arith.interval import Interval
from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm
from ...ir.scalar import (
    ARITHMETIC,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    BufferLoad,
    Compare,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)  # fmt: skip
from ...ir.types import Expr
from ...ir.walk import children
from ...support.errors import CodegenError
from .extremes import float_extreme, number_extreme
from .int_division import any_lane, int_division
from .lltypes import float_text, int_text, suffix, value_type
from .math.library import math_function
from .narrow import narrow, widen
from .small_indices import range_of, small_index, word
from .vectors import concat_vectors, shuffled
from .writer import EXPRESSIONS, FunctionWriter

_F32 = DataType("float32")
_BOOL = DataType("bool")


def operands(w: FunctionWriter, expr: Binary) -> tuple[str, str, DataType]:
    """Both operands, and their type. Raises CodegenError E523 where the types differ."""
    a, b = dtype_of(expr.a), dtype_of(expr.b)
    if a is not b:
        raise CodegenError(
            "E523", f"{type(expr).__name__} of {a.name} and {b.name}: operands must have one type", expr.span
        )
    return w.value(expr.a), w.value(expr.b), a


MATH_LANES = 64
"""Most lanes of one call: LLVM's time grows fast with wider ones."""


def _split_lanes(w: FunctionWriter, name: str, dtype: DataType, arguments: tuple[str, ...]) -> str:
    """A math call on the lower lanes (a power of two) and on the rest, joined."""
    ty, lanes = value_type(dtype), dtype.lanes
    lower = 1 << ((lanes - 1).bit_length() - 1)
    results = []
    for first, count in ((0, lower), (lower, lanes - lower)):
        part = dtype.with_lanes(count)
        pieces = [shuffled(w, ty, a, range(first, first + count)) for a in arguments]
        if count == 1:
            single = f"<1 x {value_type(part)}>"
            pieces = [w.emit(f"extractelement {single} {piece}, i64 0") for piece in pieces]
        result = math_call(w, name, part, *pieces)
        if count == 1:
            result = w.emit(f"insertelement {single} poison, {value_type(part)} {result}, i64 0")
        results.append(result)
    return concat_vectors(w, value_type(dtype.element), results, (lower, lanes - lower))


def math_symbol(w: FunctionWriter, name: str, dtype: DataType) -> str:
    """Symbol of a math library function, its texts added to the module."""
    symbol, needed = math_function(name, dtype.element.name, dtype.lanes, w.module.scales, w.module.estimates)
    for key, text in needed.items():
        w.module.declare("@" + key.lstrip("@"), text)
    return symbol


def math_call(w: FunctionWriter, name: str, dtype: DataType, *arguments: str) -> str:
    """Call a function of the math library on values of one type; wide vectors in parts."""
    if dtype.lanes > MATH_LANES:
        return _split_lanes(w, name, dtype, arguments)
    symbol, ty = math_symbol(w, name, dtype), value_type(dtype)
    return w.emit(f"call {ty} @{symbol}({', '.join([f'{ty} {a}' for a in arguments])})")


def float_binary(w: FunctionWriter, kind: type, a: str, b: str, dtype: DataType, fast: str = "") -> str:
    """Arithmetic on float32 or float64 values; ``fast`` are the flags of an addition or multiplication, or
    the licence of an extreme to leave NaN out."""
    ty = value_type(dtype)
    if kind is Add or kind is Sub or kind is Mul:
        name = "fadd" if kind is Add else "fsub" if kind is Sub else "fmul"
        fast = fast if dtype.lanes == 1 else fast.replace("reassoc ", "")  # who wrote the lanes wrote the order, too
        return w.emit(f"{name} {fast}{ty} {a}, {b}")
    if kind is Div:
        return w.emit(f"fdiv {ty} {a}, {b}")
    if kind is Min or kind is Max:
        return number_extreme(w, kind is Max, a, b, dtype) if fast else float_extreme(w, kind is Max, a, b, dtype)
    remainder = math_call(w, "fmod", dtype, a, b)
    if kind is Mod:
        return remainder
    # flooring: move a remainder of the wrong sign by one divisor, as Python does
    mask = value_type(_BOOL.with_lanes(dtype.lanes))
    zero = float_text(0.0, dtype)
    nonzero = w.emit(f"fcmp une {ty} {remainder}, {zero}")
    wrong = w.emit(f"xor {mask} {w.emit(f'fcmp olt {ty} {remainder}, {zero}')}, {w.emit(f'fcmp olt {ty} {b}, {zero}')}")
    move = w.emit(f"and {mask} {nonzero}, {wrong}")
    moved = w.emit(f"select {mask} {move}, {ty} {w.emit(f'fadd {ty} {remainder}, {b}')}, {ty} {remainder}")
    if kind is FloorMod:
        return moved
    # flooring division as numpy does it: (a - remainder) / b, one less where the remainder moved; by zero as in IEEE
    exact = w.emit(f"fdiv {ty} {w.emit(f'fsub {ty} {a}, {remainder}')}, {b}")
    lower = w.emit(f"fsub {ty} {exact}, {float_text(1.0, dtype)}")
    exact = w.emit(f"select {mask} {move}, {ty} {lower}, {ty} {exact}")
    whole = w.emit(f"call {ty} @llvm.roundeven.{suffix(dtype)}({ty} {exact})")
    by_zero = w.emit(f"fcmp oeq {ty} {b}, {zero}")
    return w.emit(f"select {mask} {by_zero}, {ty} {w.emit(f'fdiv {ty} {a}, {b}')}, {ty} {whole}")


def _arithmetic(w: FunctionWriter, expr: Binary) -> str:
    small = small_index(w, expr) if w.ranges else None
    if small is not None:
        return small
    kind = type(expr)
    a, b, dtype = operands(w, expr)
    fast = w.fast if expr in w.accumulations else ""
    if dtype.is_narrow:
        wide = _F32.with_lanes(dtype.lanes)
        result = float_binary(w, kind, widen(w, a, dtype), widen(w, b, dtype), wide, fast)
        return narrow(w, result, dtype, wide)
    if dtype.is_float:
        return float_binary(w, kind, a, b, dtype, fast)
    ty = value_type(dtype, expr.span)
    if dtype.is_bool and kind in (Min, Max, Mul, Add):
        return w.emit(f"{'and' if kind in (Min, Mul) else 'or'} {ty} {a}, {b}")
    if not dtype.is_integral:
        raise CodegenError("E523", f"{kind.__name__} of {dtype.name} values", expr.span)
    if kind is Add or kind is Sub or kind is Mul:
        return w.emit(f"{'add' if kind is Add else 'sub' if kind is Sub else 'mul'} {ty} {a}, {b}")
    if kind is Min or kind is Max:
        name = ("s" if dtype.is_int else "u") + ("min" if kind is Min else "max")
        return w.emit(f"call {ty} @llvm.{name}.{suffix(dtype)}({ty} {a}, {ty} {b})")
    return int_division(w, expr, a, b, dtype)


_CODES = {EQ: ("oeq", "eq", "eq"), NE: ("une", "ne", "ne"), LT: ("olt", "slt", "ult"), LE: ("ole", "sle", "ule"),
          GT: ("ogt", "sgt", "ugt"), GE: ("oge", "sge", "uge")}  # fmt: skip


def _compare(w: FunctionWriter, expr: Compare) -> str:
    left, right = (range_of(w, expr.a), range_of(w, expr.b)) if w.ranges else (None, None)
    if left is not None and right is not None:
        decided = _decided(type(expr), left, right)
        if decided is not None:
            return "true" if decided else "false"
        return w.emit(f"icmp {_CODES[type(expr)][1]} i32 {word(w, expr.a)}, {word(w, expr.b)}")
    a, b, dtype = operands(w, expr)
    ordered, signed, unsigned = _CODES[type(expr)]
    if dtype.is_narrow:
        a, b, dtype = widen(w, a, dtype), widen(w, b, dtype), _F32.with_lanes(dtype.lanes)
    if dtype.is_float:
        return w.emit(f"fcmp {ordered} {value_type(dtype)} {a}, {b}")
    return w.emit(f"icmp {signed if dtype.is_int else unsigned} {value_type(dtype, expr.span)} {a}, {b}")


def _decided(kind: type, a: Interval, b: Interval) -> bool | None:
    """The result of a comparison of two ranges; None where it depends on the values."""
    if kind in (GT, GE):
        return _decided(LT if kind is GT else LE, b, a)
    if kind in (EQ, NE):
        apart = a.high < b.low or b.high < a.low
        return (kind is NE) if apart else (kind is EQ) if a.is_point and a == b else None
    if kind is LT:
        return True if a.high < b.low else False if a.low >= b.high else None
    return True if a.high <= b.low else False if a.low > b.high else None


def is_cheap(w: FunctionWriter, expr: Expr) -> bool:
    """True when evaluating has no effect, reads no memory and cannot fail: then lazy may be eager."""
    known = w.cheap.get(expr)
    if known is None:
        kind = type(expr)
        divides = kind in (Div, Mod, FloorDiv, FloorMod) and not dtype_of(expr).is_float and not _by_positive(w, expr)
        known = not divides and kind not in (Call, BufferLoad, Let)
        for part in children(expr) if known else ():
            if isinstance(part, Expr) and not is_cheap(w, part):
                known = False
                break
        w.cheap[expr] = known
    return known


def _by_positive(w: FunctionWriter, expr: Any) -> bool:
    """True for a division of integers by what is above zero."""
    if type(expr.b) is IntImm:
        return expr.b.value > 0
    return bool(w.sizes) and range_of(w, expr) is not None


def guarded(w: FunctionWriter, condition: str, then: Expr, otherwise: Expr) -> str:
    """``condition ? then : otherwise`` with a scalar condition; only the chosen side runs."""
    ty = value_type(dtype_of(then))
    yes, no, join = w.label("then"), w.label("else"), w.label("join")
    w.branch(condition, yes, no)
    w.start(yes)
    first = w.value(then)
    yes_end = w.jump(join)
    w.start(no)
    second = w.value(otherwise)
    no_end = w.jump(join)
    w.start(join)
    return w.emit(f"phi {ty} [ {first}, %{yes_end} ], [ {second}, %{no_end} ]")


def _narrow_mask(w: FunctionWriter, condition: str, lanes: int, mask: str | None, mask_lanes: int) -> None:
    if mask is not None and mask_lanes == lanes:
        condition = w.emit(f"and <{lanes} x i1> {condition}, {mask}")
    w.mask, w.mask_lanes = condition, lanes


def guarded_lanes(w: FunctionWriter, condition: str, lanes: int, value: Expr) -> str:
    """Lanes of ``value`` where ``condition`` holds (others unspecified but defined), run only if some lane wants it."""
    dtype = dtype_of(value)
    ty = value_type(dtype)
    saved, saved_lanes = w.mask, w.mask_lanes
    run, join = w.label("lanes"), w.label("join")
    some = any_lane(w, condition, lanes)
    before = w.branch(some, run, join)
    w.start(run)
    _narrow_mask(w, condition, lanes, saved, saved_lanes)
    computed = w.value(value)
    w.mask, w.mask_lanes = saved, saved_lanes
    after = w.jump(join)
    w.start(join)
    return w.emit(f"phi {ty} [ {computed}, %{after} ], [ zeroinitializer, %{before} ]")


def choose(w: FunctionWriter, cond: Expr, then: Expr, otherwise: Expr) -> str:
    """The lazy choice ``T.if_then_else``."""
    lanes = dtype_of(cond).lanes
    condition = w.value(cond)
    if condition in ("true", "false"):
        return w.value(then if condition == "true" else otherwise)
    dtype = dtype_of(then)
    if is_cheap(w, then) and is_cheap(w, otherwise):
        a, b = w.value(then), w.value(otherwise)
    elif lanes == 1:
        return guarded(w, condition, then, otherwise)
    else:
        a = guarded_lanes(w, condition, lanes, then)
        b = guarded_lanes(w, w.emit(f"xor <{lanes} x i1> {condition}, splat (i1 true)"), lanes, otherwise)
    ty = value_type(dtype)
    return w.emit(f"select {value_type(dtype_of(cond))} {condition}, {ty} {a}, {ty} {b}")


def _logic(w: FunctionWriter, expr: And | Or) -> str:
    dtype = dtype_of(expr.a)
    if not dtype.is_bool or dtype_of(expr.b) is not dtype:
        raise CodegenError("E523", f"{type(expr).__name__} needs bool operands, got {dtype.name}", expr.span)
    is_and = type(expr) is And
    a = w.value(expr.a)
    if a in ("true", "false"):
        return w.value(expr.b) if is_and == (a == "true") else a
    ty = value_type(dtype)
    if is_cheap(w, expr.b):
        b = w.value(expr.b)
        if b in ("true", "false"):
            return a if is_and == (b == "true") else b
        return w.emit(f"{'and' if is_and else 'or'} {ty} {a}, {b}")
    lanes = dtype.lanes
    ones = int_text(1, dtype)
    wanted = a if is_and else w.emit(f"xor {ty} {a}, {ones}")
    b = guarded_lanes(w, wanted, lanes, expr.b) if lanes > 1 else _guarded_bool(w, wanted, expr.b)
    return w.emit(f"and {ty} {a}, {b}") if is_and else w.emit(f"select {ty} {a}, {ty} {ones}, {ty} {b}")


def _guarded_bool(w: FunctionWriter, wanted: str, value: Expr) -> str:
    run, join = w.label("rhs"), w.label("join")
    before = w.branch(wanted, run, join)
    w.start(run)
    computed = w.value(value)
    after = w.jump(join)
    w.start(join)
    return w.emit(f"phi i1 [ {computed}, %{after} ], [ false, %{before} ]")


def _not(w: FunctionWriter, expr: Not) -> str:
    dtype = dtype_of(expr.a)
    if not dtype.is_bool:
        raise CodegenError("E523", f"Not needs a bool operand, got {dtype.name}", expr.span)
    return w.emit(f"xor {value_type(dtype)} {w.value(expr.a)}, {int_text(1, dtype)}")


def _select(w: FunctionWriter, expr: Select) -> str:
    cond, a, b = dtype_of(expr.cond), dtype_of(expr.true_value), dtype_of(expr.false_value)
    if not cond.is_bool or a is not b or cond.lanes not in (1, a.lanes):
        raise CodegenError("E523", f"Select of {a.name} and {b.name} on {cond.name}", expr.span)
    ty, condition = value_type(a), w.value(expr.cond)
    if condition in ("true", "false"):
        return w.value(expr.true_value if condition == "true" else expr.false_value)
    return w.emit(
        f"select {value_type(cond)} {condition}, {ty} {w.value(expr.true_value)}, {ty} {w.value(expr.false_value)}"
    )


EXPRESSIONS.update(dict.fromkeys(ARITHMETIC, _arithmetic))
EXPRESSIONS.update(dict.fromkeys(_CODES, _compare))
EXPRESSIONS[And] = EXPRESSIONS[Or] = _logic
EXPRESSIONS[Not] = _not
EXPRESSIONS[Select] = _select
