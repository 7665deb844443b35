"""Index arithmetic in 32 bits where the ranges of threads and loops prove that it fits.

A device has registers of 32 bits: arithmetic in 64 takes two of them and several instructions. A target that wants it fills
``FunctionWriter.ranges``. Sizes that are not known are taken for any: a tensor may have more elements than 32 bits count, and a
second kernel for those that have fewer would double the code. A small number divided by a size is a division in 32 bits all the
same: by a size beyond them the quotient is zero.
"""

from __future__ import annotations

from typing import Any

from ...arith.interval import Interval, point
from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.build import add, const, dtype_of, int_value, is_int, mul, sub
from ...ir.expr import Call, IntImm, Var
from ...ir.scalar import (
    Add,
    Binary,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Sub,
    is_binary,
)  # fmt: skip
from ...ir.stmt import For
from ...ir.types import Expr, prim_type
from ...ir.walk import children
from .writer import FunctionWriter, Key, Parts

INDEX, _I32 = prim_type("int64"), DataType("int32")
WORD = Interval(-(1 << 31), (1 << 31) - 1)
_NAMES: dict[type, str] = {Add: "add nsw", Sub: "sub nsw", Mul: "mul nsw", FloorDiv: "udiv", Div: "udiv",
                           FloorMod: "urem", Mod: "urem"}  # fmt: skip
_ARITHMETIC = (Binary, Cast, Not, Select)
_EXTREMES: dict[type, str] = {Min: "smin", Max: "smax"}


def give_range(w: FunctionWriter, var: Var, values: Interval) -> None:
    """Say which values a variable has from here on."""
    if w.ranges.get(var, values) != values:
        w.fits.clear()
    w.ranges[var] = values


def write_out(w: FunctionWriter, var: Var, value: int) -> None:
    """Say which number the variable of a loop that is written out is from here on."""
    w.env[var], w.ranges[var], w.written[var] = str(value), point(value), value


def bind_index(w: FunctionWriter, var: Var, text: str, constant: int, values: Interval | None) -> None:
    """Say what a statement binds a variable to: an operand, a constant to be added, and the values that both make."""
    w.bound[var] = text, constant
    w.env[var] = plus(w, "i64", text, constant)
    w.ranges.pop(var, None)
    if values is not None:
        w.ranges[var] = values


def key_of(w: FunctionWriter, expr: Expr) -> tuple[Key, bool]:
    """The key under which a range is known, and whether a block has one operand under it, too: arithmetic alone, no memory."""
    variables, alone = _changing(w, expr)
    return (expr, *[w.env[var] for var in variables]) if variables else expr, alone


def _changing(w: FunctionWriter, expr: Expr) -> tuple[tuple[Var, ...], bool]:
    """The variables in arithmetic that statements give values anew; False where more than arithmetic is in it."""
    if type(expr) is Var:
        return ((expr,) if expr in w.written or expr in w.bound else ()), True
    if type(expr) is IntImm:
        return (), True
    if expr not in w.changing:
        found: dict[Var, None] = {}
        chosen = expr.args if type(expr) is Call and expr.op_name == "T.if_then_else" else ()
        alone = isinstance(expr, _ARITHMETIC) or bool(chosen)
        for part in chosen or (children(expr) if alone else ()):
            variables, is_arithmetic = _changing(w, part) if isinstance(part, Expr) else ((), False)
            found.update(dict.fromkeys(variables))
            alone = alone and is_arithmetic
        w.changing[expr] = tuple(found), alone
    return w.changing[expr]


def written_apart(w: FunctionWriter, expr: Expr) -> tuple[Expr | None, int]:
    """An index as what varies, None for nothing, and a number to be added: what variables of loops that are written out make."""
    fixed, terms, constant = _parts(w, expr)
    for var, factor in terms.items():
        constant += factor * w.written[var]
    return fixed, constant


def kept_elements(
    w: FunctionWriter, buffer: Buffer, indices: tuple[Expr, ...]
) -> tuple[Any, tuple[str, int], DataType] | None:
    """Where a target keeps elements whose numbers are known, the first number, and the type of them all; None for others. What
    does not depend on the turns of loops that are written out is asked once."""
    place = w.places.get(buffer.data)
    if place is None or len(indices) != 1:
        return None
    key = buffer, indices[0]
    if key not in w.held:
        w.held[key] = _held(w, *key)
    held = w.held[key]
    if held is None:
        return None
    (_, terms, constant), dtype = held
    for var, factor in terms.items():
        constant += factor * w.written[var]
    return place, ("0", constant), dtype


def _held(w: FunctionWriter, buffer: Buffer, index: Expr) -> tuple[Parts, DataType] | None:
    """The number of an element by the turns of loops that are written out, and the type of what is read or written there."""
    lanes = dtype_of(index).lanes
    first = index.base if type(index) is Ramp and is_int(index.stride, 1) else index
    if buffer.strides or buffer.elem_offset is not None or buffer.dtype.lanes != 1 or dtype_of(first).lanes != 1:
        return None
    parts = _parts(w, first)
    return None if parts[0] is not None or is_int(buffer.shape[0], 1) else (parts, buffer.dtype.with_lanes(lanes))


def _parts(w: FunctionWriter, expr: Expr) -> Parts:
    """An index as what varies, factors of the variables of loops that are written out, and a constant."""
    if type(expr) is IntImm:
        return None, {}, expr.value
    if type(expr) is Var:
        return (None, {expr: 1}, 0) if expr in w.written else (expr, {}, 0)
    found = w.parts.get(expr)
    if found is None:
        found = expr, {}, 0
        if expr.ty is INDEX and isinstance(expr, (Add, Sub, Mul)):
            found = _parts_of_two(w, expr)
        w.parts[expr] = found
    return found


def _parts_of_two(w: FunctionWriter, expr: Add | Sub | Mul) -> Parts:
    (a, left, m), (b, right, n) = _parts(w, expr.a), _parts(w, expr.b)
    if a is expr.a and b is expr.b:
        return expr, {}, 0
    if isinstance(expr, Mul):
        if b is None and not right:
            return (a if a is None else mul(a, n)), {var: n * factor for var, factor in left.items()}, m * n
        return expr, {}, 0
    sign = -1 if isinstance(expr, Sub) else 1
    terms = {var: left.get(var, 0) + sign * right.get(var, 0) for var in left | right}
    fixed = a if b is None else (add if sign > 0 else sub)(const(0, "int64") if a is None else a, b)
    return fixed, terms, m + sign * n


def loop_range(w: FunctionWriter, loop: For) -> Interval | None:
    """The values of a loop variable of constant bounds, where they and their end fit into 32 bits."""
    step = 1 if loop.step is None else int_value(loop.step, 0)
    if type(loop.min) is not IntImm or type(loop.extent) is not IntImm or step <= 0:
        return None
    first, count = loop.min.value, max(loop.extent.value, 0)
    ends = Interval(min(first, 0), max(first, 0) + count + step)
    return Interval(first, first + max(count - 1, 0)) if loop.loop_var.ty is INDEX and ends.within(WORD) else None


def range_of(w: FunctionWriter, expr: Expr) -> Interval | None:
    """The values of an int64 expression, where it and all that it is made of fit into 32 bits."""
    if type(expr) is Var:
        return w.ranges.get(expr)
    if expr.ty is not INDEX:
        return None
    if type(expr) is IntImm:
        return point(expr.value) if expr.value in WORD else None
    if expr in w.fits:
        return w.fits[expr]
    key, _ = key_of(w, expr)
    if key not in w.fits:
        found = _range(w, expr)
        w.fits[key] = found if found is not None and found.within(WORD) else None
    return w.fits[key]


def _range(w: FunctionWriter, expr: Expr) -> Interval | None:
    if type(expr) is Cast:
        return WORD if dtype_of(expr.value) is _I32 else None
    if type(expr) not in _NAMES and type(expr) not in _EXTREMES:
        return None
    assert is_binary(expr)
    kind = type(expr)
    a, b = range_of(w, expr.a), range_of(w, expr.b)
    if a is None:
        return None
    if b is None:
        whole = kind not in (Add, Sub, Mul) and kind not in _EXTREMES and a.low >= 0 and a.high < WORD.high
        return Interval(0, a.high) if whole and is_size(w, expr.b) else None
    if kind is Add or kind is Sub:
        return a + (b if kind is Add else -b)
    if kind is Mul:
        return a * b
    if kind is Min or kind is Max:
        return a.minimum(b) if kind is Min else a.maximum(b)
    if a.low < 0 or b.low <= 0:
        return None
    if a.is_point and b.is_point:
        x, y = int(a.low), int(b.low)
        return point(x // y if kind is FloorDiv or kind is Div else x % y)
    return a.floordiv(b) if kind is FloorDiv or kind is Div else a.floormod(b)


def is_size(w: FunctionWriter, expr: Expr) -> bool:
    """True for a size above zero, and for products of such."""
    return expr in w.sizes if type(expr) is Var else type(expr) is Mul and is_size(w, expr.a) and is_size(w, expr.b)


def size_word(w: FunctionWriter, size: str) -> str:
    """Operand of a size as a divisor of small numbers: from 1 to the largest number of 32 bits."""
    low = w.emit(f"call i64 @llvm.umin.i64(i64 {size}, i64 {WORD.high})")
    return w.emit(f"trunc i64 {w.emit(f'call i64 @llvm.umax.i64(i64 {low}, i64 1)')} to i32")


def word(w: FunctionWriter, expr: Expr) -> str:
    """Operand of an expression that has a range, as i32; of a size one from 1 to the largest of 32 bits."""
    return plus(w, "i32", *word_parts(w, expr))


def plus(w: FunctionWriter, ty: str, text: str, constant: int) -> str:
    """Operand of the sum of an operand and a constant."""
    if text == "0" or not constant:
        return text if not constant else str(constant)
    return w.emit(f"add nsw {ty} {text}, {constant}")


def word_parts(w: FunctionWriter, expr: Expr) -> tuple[str, int]:
    """An expression that has a range, as an operand of 32 bits and the constant to be added: where loops are written out, many
    differ by a constant alone."""
    key, alone = key_of(w, expr)
    found = w.computed.get((key, "i32"))
    if found is None:
        found = _word_parts(w, expr)
        if alone:
            w.computed[key, "i32"] = found
    return found


def _word_parts(w: FunctionWriter, expr: Expr) -> tuple[str, int]:
    if is_size(w, expr):
        return w.sizes.get(expr) or size_word(w, w.value(expr)), 0  # type: ignore[call-overload]
    values = range_of(w, expr)
    assert values is not None
    if values.is_point:
        return "0", int(values.low)
    if isinstance(expr, Var):
        text, constant = w.bound.get(expr, ("0", 0))
        if text == "0" or not (values + point(-constant)).within(WORD):
            text, constant = w.value(expr), 0
        return w.emit(f"trunc i64 {text} to i32"), constant
    if type(expr) is Cast:
        return w.value(expr.value), 0
    assert is_binary(expr)
    kind = type(expr)
    a, m = word_parts(w, expr.a)
    b, n = word_parts(w, expr.b)
    if kind is Add or kind is Sub:
        constant = m + n if kind is Add else m - n
        if b == "0" or (a == "0" and kind is Add):
            return a if b == "0" else b, constant
        if (values + point(-constant)).within(WORD):
            return w.emit(f"{_NAMES[kind]} i32 {a}, {b}"), constant
    if kind is Mul and "0" in (a, b):
        text, factor, constant = (a, n, m) if b == "0" else (b, m, n)
        if (values + point(-constant * factor)).within(WORD):
            return text if factor == 1 else w.emit(f"mul nsw i32 {text}, {factor}"), constant * factor
    if m and b == "0" and kind in _NAMES and m % n == 0 and kind is not Mul:  # a division
        whole = range_of(w, expr.a)
        if whole is not None and whole.low >= m:
            return w.emit(f"{_NAMES[kind]} i32 {a}, {n}"), m // n if kind is FloorDiv or kind is Div else 0
    left, right = plus(w, "i32", a, m), plus(w, "i32", b, n)
    name = _EXTREMES.get(kind)
    return w.emit(
        f"call i32 @llvm.{name}.i32(i32 {left}, i32 {right})" if name else f"{_NAMES[kind]} i32 {left}, {right}"
    ), 0


def is_known(w: FunctionWriter, expr: Expr) -> bool:
    """True for an expression of one value."""
    values = range_of(w, expr)
    return values is not None and values.is_point


def small_parts(w: FunctionWriter, expr: Expr) -> tuple[str, int] | None:
    """An arithmetic expression as an operand of 64 bits, computed in 32, and the constant to be added; None without a range."""
    if range_of(w, expr) is None or not (is_binary(expr) or is_known(w, expr)):
        return None
    text, constant = word_parts(w, expr)
    return text if text == "0" else w.emit(f"sext i32 {text} to i64"), constant


def small_index(w: FunctionWriter, expr: Expr) -> str | None:
    """Operand of an arithmetic expression as i64, computed in 32 bits; None where it has no range."""
    found = small_parts(w, expr)
    return None if found is None else plus(w, "i64", *found)
