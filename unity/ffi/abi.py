"""What the run time must know about compiled code: signatures of kernels and dimension formulas, as plain data.

Used by the compiler (which fills it) and by the VM's execution side (which knows no IR). Raw entry of a kernel:

    i32 name(<one argument per parameter in order: ptr for buffers and handles, the scalar itself else>,
             <i64 per symbol, in order of ``symbols``> [, ptr result])

Buffer pointers address element 0 of the buffer. Status 0 is success, -1 means that a Python exception is set, ``k > 0``
means that check number ``k`` failed (``messages[k - 1]``).

A formula (``Dim``) is an int or a nested tuple ``(operator, operands...)``; ``("sym", k)`` is symbol number k.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..support.errors import InternalError, VMError

Dim = int | tuple  # type: ignore[type-arg]

OPERATORS = (
    "add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select",
)  # fmt: skip


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
    """Where a symbol is read: axis ``axis`` of parameter ``param``'s shape (``field`` "shape" or "strides")."""

    name: str
    param: int
    axis: int
    field: str = "shape"


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


def evaluate(dim: Dim, symbols: list[int] | tuple[int, ...]) -> int:
    """Value of a formula. Raises VMError E601 on division by zero."""
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
    a, b = evaluate(dim[1], symbols), evaluate(dim[2], symbols)
    if kind in ("floordiv", "floormod", "truncdiv", "truncmod"):
        if b == 0:
            raise VMError("E601", "division by zero in a shape computation")
        if kind == "floordiv":
            return a // b
        if kind == "floormod":
            return a % b
        quotient = abs(a) // abs(b)
        quotient = quotient if (a < 0) == (b < 0) else -quotient
        return quotient if kind == "truncdiv" else a - b * quotient
    match kind:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "eq":
            return int(a == b)
        case "ne":
            return int(a != b)
        case "lt":
            return int(a < b)
        case "le":
            return int(a <= b)
        case "gt":
            return int(a > b)
        case "ge":
            return int(a >= b)
        case "and":
            return int(bool(a) and bool(b))
        case "or":
            return int(bool(a) or bool(b))
    raise InternalError("E902", f"unknown operator {kind!r} in a dimension formula")
