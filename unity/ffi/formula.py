"""Dimension formulas as text for people and as LLVM IR. Their meaning is ``abi.evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..support.errors import InternalError
from .abi import FAULTS, RANGES, TYPED, Dim

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
}  # fmt: skip
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_CHECKED = ("add", "sub", "mul")
_LEAST = str(-(2**63))


def formula_text(dim: Dim, symbols: Sequence[str] | None, nested: bool = False) -> str:
    """A formula as people write it, e.g. ``(n + 1) // 2``; without names symbol k is ``#k``."""
    if isinstance(dim, int):
        return str(dim)
    kind = dim[0]
    if kind == "sym":
        return f"#{dim[1]}" if symbols is None else str(symbols[dim[1]])
    if kind in _INFIX:
        text = f"{formula_text(dim[1], symbols, True)} {_INFIX[kind]} {formula_text(dim[2], symbols, True)}"
        return f"({text})" if nested else text
    if kind in TYPED:
        text = formula_text(dim[1], symbols, nested and kind.startswith("fit"))
        return text if kind.startswith("fit") else f"{TYPED[kind]}({text})"
    return f"{kind}({', '.join([formula_text(operand, symbols) for operand in dim[1:]])})"


class FormulaEmitter:
    """Writes formulas as straight-line i64 code. ``emit(text)`` appends an instruction and returns its value's name;
    ``require(condition, fault, first, second)`` leaves the fast path where an i1 is false: the numbers have no value under the
    operator number ``fault`` of ``FAULTS`` (-1: the second is a divisor of zero)."""

    def __init__(self, emit: Callable[[str], str], require: Callable[[str, int, str, str], None]) -> None:
        self.emit = emit
        self.leave_unless = require
        self.guard = ""
        """An i1: is the value needed that is being computed? Empty: it is."""

    def _require(self, condition: str, fault: str, first: str, second: str = "0") -> None:
        if self.guard:
            condition = self.emit(f"or i1 {condition}, {self.emit(f'xor i1 {self.guard}, true')}")
        self.leave_unless(condition, FAULTS.index(fault) if fault else -1, first, second)

    def _guarded(self, bit: str, dim: Dim, symbols: Sequence[str]) -> str:
        """A formula's value, needed only where a bit is set."""
        outer = self.guard
        self.guard = self.emit(f"and i1 {outer}, {bit}") if outer else bit
        value = self.value(dim, symbols)
        self.guard = outer
        return value

    def value(self, dim: Dim, symbols: Sequence[str]) -> str:
        """The i64 operand of a formula; ``symbols`` are operands too."""
        if isinstance(dim, int):
            return str(dim)
        kind = dim[0]
        if kind == "sym":
            return str(symbols[dim[1]])
        if kind in ("and", "or", "select"):
            return self._choice(kind, dim, symbols)
        operands = [self.value(operand, symbols) for operand in dim[1:]]
        if kind in _CHECKED:
            both = self.emit(
                f"call {{ i64, i1 }} @llvm.s{kind}.with.overflow.i64(i64 {operands[0]}, i64 {operands[1]})"
            )
            over = self.emit(f"extractvalue {{ i64, i1 }} {both}, 1")
            self._require(self.emit(f"xor i1 {over}, true"), kind, *operands)
            return self.emit(f"extractvalue {{ i64, i1 }} {both}, 0")
        if kind in TYPED:
            return self._typed(kind, operands[0])
        if kind in _COMPARE:
            return self._to_i64(self.emit(f"icmp {_COMPARE[kind]} i64 {operands[0]}, {operands[1]}"))
        if kind in ("min", "max"):
            return self.emit(f"call i64 @llvm.s{kind}.i64(i64 {operands[0]}, i64 {operands[1]})")
        if kind in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self._divide(kind, operands[0], operands[1])
        if kind == "not":
            return self._to_i64(self.emit(f"icmp eq i64 {operands[0]}, 0"))
        raise InternalError("E902", f"unknown operator {kind!r} in a dimension formula")

    def _choice(self, kind: str, dim: tuple[Any, ...], symbols: Sequence[str]) -> str:
        """Operators that do not need all of their operands."""
        first = self._truth(self.value(dim[1], symbols))
        other = self.emit(f"xor i1 {first}, true")
        if kind == "select":
            yes, no = self._guarded(first, dim[2], symbols), self._guarded(other, dim[3], symbols)
            return self.emit(f"select i1 {first}, i64 {yes}, i64 {no}")
        second = self._truth(self._guarded(first if kind == "and" else other, dim[2], symbols))
        return self._to_i64(self.emit(f"{kind} i1 {first}, {second}"))

    def _typed(self, kind: str, value: str) -> str:
        name = TYPED[kind]
        low, high = RANGES[name]
        if kind.startswith("to"):
            bits = name.lstrip("uint")
            narrow = self.emit(f"trunc i64 {value} to i{bits}")
            return self.emit(f"{'zext' if low == 0 else 'sext'} i{bits} {narrow} to i64")
        least, most = [
            self.emit(f"icmp {way} i64 {value}, {end}") for way, end in (("sge", low), ("sle", min(high, 2**63 - 1)))
        ]
        self._require(self.emit(f"and i1 {least}, {most}"), kind, value)
        return value

    def _truth(self, operand: str) -> str:
        return self.emit(f"icmp ne i64 {operand}, 0")

    def _to_i64(self, bit: str) -> str:
        return self.emit(f"zext i1 {bit} to i64")

    def _divide(self, kind: str, a: str, b: str) -> str:
        self._require(self.emit(f"icmp ne i64 {b}, 0"), "", a, b)
        minus_one = self.emit(f"icmp eq i64 {b}, -1")  # the smallest integer divided by -1 would trap
        if kind in FAULTS:
            least = self.emit(f"icmp eq i64 {a}, {_LEAST}")
            self._require(self.emit(f"xor i1 {self.emit(f'and i1 {least}, {minus_one}')}, true"), kind, a, b)
        unsafe = minus_one
        if self.guard:  # a value that nobody needs may be divided by zero
            unsafe = self.emit(f"or i1 {minus_one}, {self.emit(f'icmp eq i64 {b}, 0')}")
        safe = self.emit(f"select i1 {unsafe}, i64 1, i64 {b}")
        plain = self.emit(f"sdiv i64 {a}, {safe}")
        negated = self.emit(f"sub i64 0, {a}")
        quotient = self.emit(f"select i1 {minus_one}, i64 {negated}, i64 {plain}")
        product = self.emit(f"mul i64 {quotient}, {b}")
        rest = self.emit(f"sub i64 {a}, {product}")
        if kind == "truncdiv":
            return quotient
        if kind == "truncmod":
            return rest
        signs = self.emit(f"xor i64 {rest}, {b}")
        differ = self.emit(f"icmp slt i64 {signs}, 0")
        inexact = self.emit(f"icmp ne i64 {rest}, 0")
        adjust = self.emit(f"and i1 {differ}, {inexact}")
        if kind == "floordiv":
            step = self.emit(f"sext i1 {adjust} to i64")
            return self.emit(f"add i64 {quotient}, {step}")
        moved = self.emit(f"add i64 {rest}, {b}")
        return self.emit(f"select i1 {adjust}, i64 {moved}, i64 {rest}")
