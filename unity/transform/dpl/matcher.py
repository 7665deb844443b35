"""``Matcher``: one attempt to match patterns, with backtracking and a record of what every part matched.

Not here: which expressions a pattern matches (`pattern.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...ir.expr import Var
from ...ir.types import Expr

if TYPE_CHECKING:
    from .pattern import DFPattern


class Matcher:
    """One attempt. ``found`` says what each pattern matched; ``inside`` the calls, tuples and fields that belong to the match."""

    def __init__(self, var2val: Mapping[Any, Expr]) -> None:
        self.values = var2val
        self.found: dict[DFPattern, Expr] = {}
        self.inside: dict[Expr, None] = {}
        self._trail: list[DFPattern] = []
        self._inside_trail: list[Expr] = []

    def value(self, expr: Expr) -> Expr:
        """The value that a variable is bound to, as far as known."""
        while isinstance(expr, Var) and expr in self.values:
            expr = self.values[expr]
        return expr

    def match(self, pattern: DFPattern, expr: Expr) -> bool:
        """Match, and record; nothing is recorded where it fails."""
        known = self.found.get(pattern)
        if known is not None:
            return known is expr or self.value(known) is self.value(expr)
        mark = self.mark()
        if not pattern._matches(self, expr):
            self.back_to(mark)
            return False
        kept = expr if pattern.keeps_variable else self.value(expr)
        self.found[pattern] = kept
        self._trail.append(pattern)
        return True

    def mark(self) -> tuple[int, int]:
        """A state to come back to."""
        return len(self._trail), len(self._inside_trail)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was recorded since."""
        while len(self._trail) > mark[0]:
            del self.found[self._trail.pop()]
        while len(self._inside_trail) > mark[1]:
            del self.inside[self._inside_trail.pop()]

    def take(self, expr: Expr) -> bool:
        """Record an expression as part of the match."""
        if expr not in self.inside:
            self.inside[expr] = None
            self._inside_trail.append(expr)
        return True

    def all(self, patterns: tuple[DFPattern, ...], exprs: tuple[Expr, ...]) -> bool:
        """Match in order."""
        if len(patterns) != len(exprs):
            return False
        return all(self.match(pattern, expr) for pattern, expr in zip(patterns, exprs))  # stops at the first failure
