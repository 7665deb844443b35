"""The cost that makes loops worth sharing between threads: the work of one store, in multiply-adds of a product whose operands
are at hand.

Opening a region costs a fraction of a microsecond while the workers are awake; 2^18 multiply-adds of a product take two to five.
Not here: who makes a loop parallel (the passes that order and tile loops), who cuts it into chunks (``chunk_parallel``).
"""

from __future__ import annotations

from ....arith.cost import MATH_CALLS
from ....ir.analysis.reductions import reduction_operand
from ....ir.expr import Call, IntImm
from ....ir.scalar import Add, Mul
from ....ir.stmt import BufferStore
from ....ir.types import Expr
from ....ir.walk import collect

SHARED_WORK = 1 << 18
"""Work from which on a loop is shared between threads."""
CELL_WORK = 8
"""Work of a cell that is read or written in memory, at least."""
MATH_WORK = 32
"""Work of a mathematical function."""

FEW = 8
"""Iterations that threads of a small machine can share evenly: of a loop of fewer the one inside is shared too."""

PARALLEL_CHUNK = "parallel_chunk"
"""Key of an attribute around a parallel loop: the iterations that a thread takes at a time (`chunk_parallel`)."""


def is_few(extent: Expr) -> bool:
    """True if a loop alone is, or may be, too short to be shared."""
    return type(extent) is not IntImm or extent.value < FEW


def store_work(store: BufferStore) -> int:
    """Work of a store: 1 where it adds a product to its cell, else what it moves and the functions it calls."""
    value = store.value
    if type(value) is Add and type(reduction_operand(store)) is Mul:
        return 1
    calls = [call for call in collect(value, Call) if call.op_name in MATH_CALLS]
    return CELL_WORK + MATH_WORK * len(calls)
