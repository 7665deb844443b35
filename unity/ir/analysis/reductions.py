"""Steps of reductions: stores that join a value to their own cell, ``C[i] = C[i] + value``."""

from __future__ import annotations

from ..scalar import Add, And, BufferLoad, Cast, Max, Min, Mul, Or
from ..stmt import BufferStore
from ..structural import structural_equal
from ..types import Expr
from ..walk import collect

REDUCTION = "reduction"
"""Block annotation and attribute key: additions inside may be reassociated. ``NUMBERS`` is one of its values."""
NUMBERS = "numbers"
"""Besides, a maximum or minimum may leave out what is NaN, where what is computed from it is NaN in any case: the maximum of a
softmax, as the sum of its exponentials is. It takes one instruction of a processor then."""

REDUCERS = (Add, Mul, Min, Max, And, Or)
"""Operations whose steps may be taken in any order (sums of floats round otherwise)."""


def is_cell(expr: Expr, store: BufferStore) -> bool:
    """True for a load of the cell that a store writes."""
    return type(expr) is BufferLoad and expr.buffer is store.buffer and structural_equal(expr.indices, store.indices)


def element_of(expr: Expr) -> BufferLoad | None:
    """The load whose element, cast or as it is, an expression is, or None."""
    while type(expr) is Cast:
        expr = expr.value
    return expr if type(expr) is BufferLoad else None


def reduction_operand(store: BufferStore) -> Expr | None:
    """The value that a store joins to its cell by one of ``REDUCERS``, reading nothing else of the buffer, or None."""
    value = store.value
    if isinstance(value, REDUCERS):
        for cell, other in ((value.a, value.b), (value.b, value.a)):
            if is_cell(cell, store) and not any([load.buffer is store.buffer for load in collect(other, BufferLoad)]):
                return other
    return None
