"""Facts about compiled code that the run time needs: signatures of kernels and dimension formulas, as plain data.

Used by the compiler (which fills it) and by the VM's execution side (which knows no IR). Raw entry of a kernel:

    i32 name(<one argument per parameter in order: ptr for buffers and handles, the scalar itself else>,
             <i64 per symbol, in order of ``symbols``> [, ptr result])

Buffer pointers address element 0 of the buffer. Status 0 is success, -1 means that a Python exception is set, ``k > 0``
means that check number ``k`` failed (``messages[k - 1]``). The VM links a raw entry by its ``linkage_name``.

A formula (``Dim``) is an int or a nested tuple ``(operator, operands...)``; ``("sym", k)`` is symbol number k. Its numbers have
64 bits: one that has more on the way is an error, never another number. ``("to_uint8", x)`` is ``x`` cast, ``("fit_uint8", x)`` is
``x``, which that type must hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ..support.errors import InternalError, Note, VMError
from ..support.schema import one_of, within

Dim = int | tuple[Any, ...]
_PLACE = re.compile(r"\n[^\n]+:\d+\Z")

OPERATORS = (
    "add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select",
)  # fmt: skip
RANGES: dict[str, tuple[int, int]] = {
    f"{kind}{bits}": (0, (1 << bits) - 1) if kind == "uint" else (-1 << bits - 1, (1 << bits - 1) - 1)
    for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}  # fmt: skip
"""The least and the largest number of each integer type."""
TYPED = {
    f"{what}_{name}": name for what in ("to", "fit") for name in RANGES if not name.endswith("64")
} | {"fit_uint64": "uint64"}  # fmt: skip
"""Operators of one operand about a type: casts, and numbers that it must hold; those of uint64 from 2**63 on have no arithmetic."""
FAULTS = ("add", "sub", "mul", "floordiv", "truncdiv", *[kind for kind in TYPED if kind.startswith("fit")])
"""Operators whose value may not exist, beside divisions by zero."""


def truncdiv(a: int, b: int) -> int:
    """Quotient rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b, "truncdiv": truncdiv, "truncmod": lambda a, b: a - b * truncdiv(a, b),
    "min": min, "max": max, "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b), "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b), "gt": lambda a, b: int(a > b), "ge": lambda a, b: int(a >= b),
    "and": lambda a, b: int(bool(a and b)), "or": lambda a, b: int(bool(a or b)),
}  # fmt: skip
"""Meaning of the operators of two operands on whole numbers; of a division, where the second is not 0."""
DIVISIONS = frozenset(("floordiv", "floormod", "truncdiv", "truncmod"))


@dataclass(slots=True, frozen=True)
class BufferParam:
    """A tensor parameter. ``shape`` and ``strides`` are formulas of the symbols; empty strides mean compact row-major."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...] = ()
    written: bool = True


@dataclass(slots=True, frozen=True)
class ScalarParam:
    """A scalar parameter passed by value (bool and integers as their own width, ``handle`` as a pointer)."""

    name: str
    dtype: str


@dataclass(slots=True, frozen=True)
class SymbolSource:
    """The place where a symbol is read: axis ``axis`` of parameter ``param``'s shape (``field`` "shape" or "strides")."""

    name: str
    param: int
    axis: Annotated[int, within(0, 1000)]
    field: Annotated[str, one_of("shape", "strides", "value")] = "shape"


@dataclass(slots=True, frozen=True)
class KernelSignature:
    """Raw and checked interface of a compiled tensor program."""

    name: str
    params: tuple[BufferParam | ScalarParam, ...]
    symbols: tuple[SymbolSource, ...] = ()
    messages: tuple[str, ...] = ()
    result: str | None = None
    packed_calls: tuple[str, ...] = ()
    """Names of registered functions the code calls back."""


def check_failed(name: str, messages: Sequence[str], status: int, known: Iterable[tuple[str, object]] = ()) -> VMError:
    """The error of check ``status`` of a kernel, with the values of symbols and scalars it was called with."""
    text = messages[status - 1] if 0 < status <= len(messages) else f"failed with status {status}"
    reason, _, place = text.rpartition("\n") if _PLACE.search(text) else (text, "", "")
    shown = ", ".join(dict.fromkeys([f"{symbol} = {value}" for symbol, value in known]))
    return VMError("E614", f"{name}: {reason}" + (f" (called with {shown})" if shown else ""),
                   notes=[Note(f"checked at {place}")] if place else [])  # fmt: skip


def linkage_name(symbol: str, signature: KernelSignature) -> str:
    """A second name of a raw entry, which says what it takes: a program whose signature is another one finds no code."""
    params = [
        (p.dtype, p.shape, p.strides, p.written) if isinstance(p, BufferParam) else p.dtype for p in signature.params
    ]
    symbols = [(s.param, s.axis, s.field) for s in signature.symbols]
    taken = repr((params, symbols, signature.result, signature.packed_calls))
    return f"{symbol}:{hashlib.sha256(taken.encode()).hexdigest()[:16]}"


def linkage_ir(symbol: str, signature: KernelSignature) -> str:
    """LLVM IR that gives a raw entry its second name."""
    return f'@"{linkage_name(symbol, signature)}" = alias i32 (...), ptr @"{symbol}"\n'


def symbols_of(dim: Dim) -> set[int]:
    """Numbers of the symbols in a formula."""
    if isinstance(dim, int):
        return set()
    if dim[0] == "sym":
        return {dim[1]}
    return set().union(*[symbols_of(operand) for operand in dim[1:]])


def map_symbols(dim: Dim, values: Mapping[int, Dim] | tuple[Dim, ...]) -> Dim:
    """A formula with symbol ``k`` replaced by ``values[k]``."""
    if isinstance(dim, int):
        return dim
    if dim[0] == "sym":
        return values[int(dim[1])]
    return (dim[0], *[map_symbols(o, values) for o in dim[1:]])


def product(dims: tuple[Dim, ...]) -> Dim:
    """Product of formulas, constants folded."""
    constant, rest = 1, None
    for dim in dims:
        if isinstance(dim, int):
            constant *= dim
        else:
            rest = dim if rest is None else ("mul", rest, dim)
    if rest is None or constant == 0:
        return constant
    return rest if constant == 1 else ("mul", rest, constant)


def no_value(kind: str, a: int, b: int = 0) -> VMError:
    """The error of an operator of ``FAULTS`` on these numbers."""
    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truncdiv": "/"}
    text, limit = (f"{a} {signs[kind]} {b}", "int64") if kind in signs else (f"{a}", TYPED[kind])
    if limit == "uint64":
        text, limit = str(a if a >= 0 else a + 2**64), "63 bits, more than sizes have"
    return VMError("E615", f"a size computed at run time is impossible: {text} is beyond {limit}",
                   help="call the function with smaller sizes")  # fmt: skip


def evaluate(dim: Dim, symbols: list[int] | tuple[int, ...]) -> int:
    """Value of a formula. Raises VMError E601 on division by zero, E615 on a number that its type does not hold."""
    if isinstance(dim, int):
        return dim
    kind = dim[0]
    if kind == "sym":
        value: int = symbols[dim[1]]
        return value
    if kind == "select":
        return evaluate(dim[2] if evaluate(dim[1], symbols) else dim[3], symbols)
    if kind == "not":
        return 0 if evaluate(dim[1], symbols) else 1
    a = evaluate(dim[1], symbols)
    if kind in TYPED:
        return _typed(kind, a)
    if kind in ("and", "or") and bool(a) == (kind == "or"):
        return int(bool(a))
    b = evaluate(dim[2], symbols)
    if b == 0 and kind in DIVISIONS:
        raise VMError("E601", "division by zero in a shape computation")
    meaning = INTEGERS.get(kind)
    if meaning is None:
        raise InternalError("E902", f"unknown operator {kind!r} in a dimension formula")
    value = meaning(a, b)
    if not -(2**63) <= value < 2**63:
        raise no_value(kind, a, b)
    return value


def _typed(kind: str, value: int) -> int:
    low, high = RANGES[TYPED[kind]]
    if kind.startswith("to"):
        return (value - low) % (high - low + 1) + low
    if not low <= value <= high:
        raise no_value(kind, value)
    return value
