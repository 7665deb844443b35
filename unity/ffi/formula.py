"""Dimension formulas as text for people and as LLVM IR. Their meaning is ``abi.evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..support.errors import InternalError
from .abi import Dim

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
}  # fmt: skip
_PLAIN = {"add": "add", "sub": "sub", "mul": "mul"}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


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
    return f"{kind}({', '.join([formula_text(operand, symbols) for operand in dim[1:]])})"


class FormulaEmitter:
    """Writes formulas as straight-line i64 code. ``emit(text)`` appends an instruction and returns its value's name;
    ``require(condition)`` leaves the fast path where an i1 is false."""

    def __init__(self, emit: Callable[[str], str], require: Callable[[str], None]) -> None:
        self.emit = emit
        self.require = require

    def value(self, dim: Dim, symbols: Sequence[str]) -> str:
        """The i64 operand of a formula; ``symbols`` are operands too."""
        if isinstance(dim, int):
            return str(dim)
        kind = dim[0]
        if kind == "sym":
            return str(symbols[dim[1]])
        operands = [self.value(operand, symbols) for operand in dim[1:]]
        if kind in _PLAIN:
            return self.emit(f"{_PLAIN[kind]} i64 {operands[0]}, {operands[1]}")
        if kind in _COMPARE:
            return self._to_i64(self.emit(f"icmp {_COMPARE[kind]} i64 {operands[0]}, {operands[1]}"))
        if kind in ("min", "max"):
            return self.emit(f"call i64 @llvm.s{kind}.i64(i64 {operands[0]}, i64 {operands[1]})")
        if kind in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self._divide(kind, operands[0], operands[1])
        if kind == "not":
            return self._to_i64(self.emit(f"icmp eq i64 {operands[0]}, 0"))
        if kind in ("and", "or"):
            a, b = self._truth(operands[0]), self._truth(operands[1])
            return self._to_i64(self.emit(f"{kind} i1 {a}, {b}"))
        if kind == "select":
            return self.emit(f"select i1 {self._truth(operands[0])}, i64 {operands[1]}, i64 {operands[2]}")
        raise InternalError("E902", f"unknown operator {kind!r} in a dimension formula")

    def _truth(self, operand: str) -> str:
        return self.emit(f"icmp ne i64 {operand}, 0")

    def _to_i64(self, bit: str) -> str:
        return self.emit(f"zext i1 {bit} to i64")

    def _divide(self, kind: str, a: str, b: str) -> str:
        self.require(self.emit(f"icmp ne i64 {b}, 0"))
        minus_one = self.emit(f"icmp eq i64 {b}, -1")  # the smallest integer divided by -1 would trap
        safe = self.emit(f"select i1 {minus_one}, i64 1, i64 {b}")
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
