"""Equality of two dimensions, for the type relations: symbols are sizes, so at least zero."""

from __future__ import annotations

from ..ir.build import sub
from ..ir.relation import Answer
from ..ir.types import Expr
from ..ir.walk import free_vars
from .analyzer import Analyzer
from .canonical import is_index


def compare_dims(a: Expr, b: Expr) -> Answer:
    """YES when equal for all sizes, NO when for none, else MAYBE."""
    ana = Analyzer([symbol for symbol in dict.fromkeys(free_vars(a) + free_vars(b)) if is_index(symbol)])
    if ana.can_prove_equal(a, b):
        return Answer.YES
    gap = ana.known.bound(ana.poly(sub(a, b)))
    return Answer.NO if 0 not in gap else Answer.MAYBE
