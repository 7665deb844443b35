"""Bounds of symbols that the attributes of a graph function promise.

``tir_var_upper_bound={"n": 1024}``, ``tir_var_lower_bound={"n": 1}`` and ``tir_non_negative_var=["n"]`` are TVM's attributes;
``range_constraints={"n": (1, 1024)}`` is what an importer notes, and checks by itself. Names that are not symbols of the
parameters say nothing: one dictionary serves every function of a module. ``plan_memory`` relies on the bounds; a call that
exceeds one of TVM's attributes is an error (E749) in the interpreter and in the VM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...support.errors import VerifyError
from ..binders import bound_symbols
from ..expr import IntImm, Var
from ..function import Function
from ..types import PrimType

UPPER, LOWER, NON_NEGATIVE, RANGES = (
    "tir_var_upper_bound", "tir_var_lower_bound", "tir_non_negative_var", "range_constraints",
)  # fmt: skip
_MOST = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class Bounds:
    """``least <= symbol <= most``; None where nothing is said."""

    lower: int | None = None
    upper: int | None = None

    def refuses(self, value: int) -> str | None:
        """The reason why a value is not between the bounds, or None."""
        if self.lower is not None and value < self.lower:
            return f"is {value}, less than its lower bound {self.lower}"
        if self.upper is not None and value > self.upper:
            return f"is {value}, more than its upper bound {self.upper}"
        return None


def symbols_of(fn: Function) -> dict[str, Var]:
    """Symbols that the parameters bind, and integer scalars among them, by name."""
    found: dict[str, Var] = {}
    for param in fn.params:
        for var in (param, *bound_symbols(param.ty)):
            if isinstance(var.ty, PrimType) and var.ty.dtype.is_integral:
                found.setdefault(var.name, var)
    return found


def promised_bounds(fn: Function) -> dict[Var, Bounds]:
    """Bounds of symbols by the attributes that TVM has. Raises VerifyError E748 for what is not a bound."""
    upper, lower = _numbers(fn, UPPER), _numbers(fn, LOWER)
    names = fn.attrs.get(NON_NEGATIVE, ())
    if not isinstance(names, (tuple, list)) or not all([isinstance(name, str) for name in names]):
        raise _refused(fn, NON_NEGATIVE, "a list of names")
    found: dict[Var, Bounds] = {}
    for name, var in symbols_of(fn).items():
        low, high = lower.get(name, 0 if name in names else None), upper.get(name)
        if low is not None and high is not None and low > high:
            raise _refused(fn, LOWER, f"at most the upper bound {high} for {name}")
        if low is not None or high is not None:
            found[var] = Bounds(low, high)
    return found


def noted_bounds(fn: Function) -> dict[Var, Bounds]:
    """Bounds that an importer noted. Raises VerifyError E748 for what is none."""
    ranges = fn.attrs.get(RANGES, {})
    found: dict[Var, Bounds] = {}
    symbols = symbols_of(fn)
    for name, pair in ranges.items() if isinstance(ranges, Mapping) else [("", None)]:
        if (
            not isinstance(pair, (tuple, list))
            or len(pair) != 2
            or not all([v is None or type(v) is int for v in pair])
        ):
            raise _refused(fn, RANGES, "a dictionary of pairs of numbers or None")
        if name in symbols:
            found[symbols[name]] = Bounds(*pair)
    return found


def _numbers(fn: Function, key: str) -> dict[str, int]:
    """An attribute that gives names numbers of at least 0."""
    value = fn.attrs.get(key, {})
    if not isinstance(value, Mapping) or not all([isinstance(k, str) for k in value]):
        raise _refused(fn, key, "a dictionary of names and numbers")
    made = {name: _number(v) for name, v in value.items()}
    if not all([v is not None and 0 <= v <= _MOST for v in made.values()]):
        raise _refused(fn, key, "a dictionary of names and numbers of at least 0")
    return {name: v for name, v in made.items() if v is not None}


def _number(value: Any) -> int | None:
    """A whole number from an attribute."""
    number = value.value if isinstance(value, IntImm) else value
    return number if type(number) is int else None


def _refused(fn: Function, key: str, expected: str) -> VerifyError:
    name = fn.attrs.get("global_symbol", "a private function")
    return VerifyError(
        "E748", f"the attribute {key} of {name} is {fn.attrs.get(key)!r}, expected {expected}", fn.span,
        help='write R.func_attr({"tir_var_upper_bound": {"n": 1024}})',
    )  # fmt: skip
