"""Plain Python numbers met while reading: folding with bounds, so that no text makes the reader compute for long.

Not here: IR values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ...parser import syntax as s
from ...parser.tree import MAX_BITS
from .reading import Reading

_NUMBERS = (int, float, bool)
_PLAIN_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "|": operator.or_, "^": operator.xor, "&": operator.and_,
}  # fmt: skip
PLAIN_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

MATH: dict[str, Callable[..., Any]] = {
    f"math.{name}": getattr(math, name)
    for name in (
        "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
        "cosh", "tanh", "erf", "floor", "ceil", "trunc", "fabs", "fmod", "gcd", "isqrt", "isinf", "isnan",
    )
}  # fmt: skip
MATH_CONSTANTS = {"math.pi": math.pi, "math.e": math.e, "math.inf": math.inf, "math.nan": math.nan}
"""Python's ``math`` of plain numbers: functions whose work and result are small for every argument."""


def is_number(value: Any) -> bool:
    """True for a plain Python number."""
    return type(value) in _NUMBERS


def fold_binary(r: Reading, op: str, left: Any, right: Any, node: s.Syntax) -> Any:
    """``left op right`` of two plain numbers. Raises ScriptError E113, E106 where there is no result of sane size."""
    if op in ("and", "or"):
        return (left and right) if op == "and" else (left or right)
    if op in ("**", "<<", ">>"):
        small = isinstance(right, int) and 0 <= right <= MAX_BITS
        if isinstance(left, int) and (not small or left.bit_length() * max(1, right) > MAX_BITS):
            raise r.error("E106", "this number is too large", node)
        if op != "**" and not (isinstance(left, int) and isinstance(right, int)):
            raise r.error("E113", f"{op} needs integers", node)
        power = computed(r, op, operator.pow, [left, right], node) if op == "**" else None
        return power if op == "**" else left << right if op == "<<" else left >> right
    fold = _PLAIN_BINARY.get(op)
    if fold is None:
        raise r.error("E113", f"operator {op} is not for numbers", node)
    if op in ("/", "//", "%") and right == 0:
        raise r.error("E113", "division by zero", node)
    if op in ("|", "^", "&") and not (isinstance(left, int) and isinstance(right, int)):
        raise r.error("E113", f"{op} needs integers", node)
    result = computed(r, op, fold, [left, right], node)
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise r.error("E106", "this number is too large", node)
    return result


def fold_math(r: Reading, path: str, args: list[Any], node: s.Syntax) -> Any:
    """``math.sqrt(2)`` of plain numbers. Raises ScriptError E111, E113."""
    function = MATH.get(path)
    if function is None:
        raise r.error("E111", f"{path} is not part of script", node, f"of plain numbers: {', '.join(sorted(MATH))}")
    if not args or not all([is_number(arg) for arg in args]):
        raise r.error("E113", f"{path} takes plain numbers", node, f"of scalars: T.{path[5:]}(...)")
    return computed(r, path, function, args, node)


def computed(r: Reading, name: str, fold: Callable[..., Any], args: list[Any], node: s.Syntax) -> Any:
    """The result of a Python function of plain numbers. Raises ScriptError E106, E113 where that is not a number."""
    try:
        result = fold(*args)
    except OverflowError:
        raise r.error("E106", "this number is too large", node) from None
    except ZeroDivisionError:
        raise r.error("E113", "division by zero", node) from None
    except (ValueError, TypeError) as problem:
        raise r.error("E113", f"{name}: {problem}", node) from None
    if isinstance(result, complex):
        raise r.error("E113", "a root of a negative number", node)
    return result
