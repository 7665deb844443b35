"""Indices as LLVM computes them: 64-bit operands, apart from constants, which addresses take.

Index arithmetic is taken not to overflow. Not here: what lies at an address (`memory.py`), indices of which fewer bits are known
to do (`small_indices.py`).
"""

from __future__ import annotations

import math

from ...ffi.dtype import DataType
from ...ir.build import dtype_of
from ...ir.expr import IntImm, Var
from ...ir.scalar import ARITHMETIC, Add, Broadcast, Cast, Div, FloorDiv, Mul, Sub, is_binary
from ...ir.types import Expr
from ...support.errors import CodegenError
from .casts import convert
from .lltypes import value_type
from .small_indices import is_known, key_of, plus, small_parts, written_apart
from .vectors import splat
from .writer import FunctionWriter

_I64 = DataType("int64")
MOST_APART = 1 << 47
"""Largest constant that stands apart in an address: more bytes than a process has."""
Offset = tuple[str, int]
"""A place in a buffer in elements: an operand, and a constant to be added."""
_NSW: dict[type, str] = {Add: "add nsw", Sub: "sub nsw", Mul: "mul nsw"}


def index(w: FunctionWriter, expr: Expr, narrow: bool = True) -> str:
    """An integer expression as i64 (or lanes of it), sums and products widened so that they do not overflow. ``narrow``: it
    may be computed in 32 bits; two widths in one address cost more than one."""
    return plus(w, "i64", *index_parts(w, expr, narrow))


def index_parts(w: FunctionWriter, expr: Expr, narrow: bool = True) -> tuple[str, int]:
    """The same as an operand and a constant to be added, which a target with ranges has in the instruction that reads or writes."""
    dtype = dtype_of(expr)
    if not dtype.is_integral and not dtype.is_bool:
        raise CodegenError("E523", f"an index must be an integer, got {dtype.name}", getattr(expr, "span", None))
    if type(expr) is IntImm:
        return "0", expr.value
    if not w.written:
        return _parts(w, expr, narrow)
    fixed, number = written_apart(w, expr)
    if fixed is None:
        return "0", number
    (key, alone), width = key_of(w, fixed), "any" if narrow else "i64"
    found = w.computed.get((key, width))
    if found is None:
        found = _parts(w, fixed, narrow)
        if alone:
            w.computed[key, width] = found
    return found[0], found[1] + number


def _parts(w: FunctionWriter, expr: Expr, narrow: bool) -> tuple[str, int]:
    """The same, of what is not a constant."""
    dtype = dtype_of(expr)
    small = small_parts(w, expr) if w.ranges and (narrow or is_known(w, expr)) else None
    if small is not None:
        return small
    name = _NSW.get(type(expr))
    if name is not None and dtype.is_int:
        assert is_binary(expr)
        (a, m), (b, n) = index_parts(w, expr.a, False), index_parts(w, expr.b, False)
        if w.ranges and dtype.lanes == 1:
            if type(expr) is Mul and "0" in (a, b):
                text, factor, constant = (a, n, m) if b == "0" else (b, m, n)
                text = "0" if factor == 0 else text
                return w.emit(
                    f"{name} i64 {text}, {factor}"
                ) if factor != 1 and text != "0" else text, constant * factor
            if type(expr) is not Mul:
                alone = a if b == "0" else b if a == "0" and type(expr) is Add else ""
                text = alone or w.emit(f"{name} i64 {a}, {b}")
                return text, m + n if type(expr) is Add else m - n
        a, b = plus(w, "i64", a, m), plus(w, "i64", b, n)
        return w.emit(f"{name} {value_type(_I64.with_lanes(dtype.lanes))} {a}, {b}"), 0
    if type(expr) is Var and expr in w.bound:
        return w.bound[expr]
    if type(expr) is Broadcast and dtype.is_int:
        return splat(w, index(w, expr.value), _I64.with_lanes(expr.lanes)), 0
    return convert(w, w.value(expr), dtype, _I64.with_lanes(dtype.lanes)), 0


def _apart(expr: Expr) -> tuple[Expr | None, int]:
    """An index as what varies, None for nothing, and the sum of its constant terms."""
    if isinstance(expr, IntImm):
        return None, expr.value
    if not isinstance(expr, (Add, Sub)) or not expr.ty.dtype.is_int:
        return expr, 0
    (a, first), (b, second) = _apart(expr.a), _apart(expr.b)
    if isinstance(expr, Sub):
        return (a, first - second) if b is None else (expr, 0)
    if a is None or b is None:
        return (b if a is None else a), first + second
    return (Add(a, b, expr.ty, expr.span) if first or second else expr), first + second


def offset_of(w: FunctionWriter, expr: Expr, narrow: bool) -> Offset:
    """The only index of an access, or the first of its lanes. Neighbours differ in a constant: LLVM need not find that out."""
    if w.ranges:
        return index_parts(w, expr, narrow)
    varies, constant = _apart(expr)
    if varies is expr or abs(constant) > MOST_APART:
        return index(w, expr, narrow), 0
    return ("0" if varies is None else index(w, varies)), constant


def divisor(expr: Expr) -> int:
    """A number that divides an index, whatever its variables are; 0 for zero."""
    if type(expr) is IntImm:
        return abs(expr.value)
    if type(expr) is Cast:
        return divisor(expr.value)
    kind = type(expr)
    if not is_binary(expr) or kind not in ARITHMETIC:
        return 1
    a, b = divisor(expr.a), divisor(expr.b)
    if kind is FloorDiv or kind is Div:
        return a // b if b and type(expr.b) is IntImm and a % b == 0 else 1
    return a * b if kind is Mul else math.gcd(a, b)
