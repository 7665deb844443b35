"""Steps of reductions: stores that join a value to their own cell, ``C[i] = C[i] + value``; and reductions over nothing.

``T.init`` runs at the first step of a reduction, and where there is no step nothing would run. The language says that a reduction
over nothing gives the initial value. ``init_empty_reductions`` writes that out; the reference interpreter and the lowering use the
same rewrite. Invariant: what runs when all extents are positive is unchanged.

Rewrite: ``for k in range(n): [init Y[i] = 0]; Y[i] += X[i, k]`` -> ``if n <= 0: Y[i] = 0`` before the same loop.
"""

from __future__ import annotations

from typing import Any

from ..build import conjuncts, const, dtype_of, le, logical_and, logical_or
from ..expr import IntImm, Var
from ..scalar import Add, And, BufferLoad, Cast, Max, Min, Mul, Or
from ..stmt import Block, BlockRealize, BufferStore, For, IfThenElse, Stmt, seq
from ..structural import structural_equal
from ..types import Expr
from ..walk import Rewriter, collect, fresh_copy, substitute, used_vars

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


def init_empty_reductions(body: Any) -> Any:
    """A statement with a conditional initialisation before each nest of reduction loops that may be empty."""
    return _Guards()(body)


class _Guards(Rewriter):
    def enter(self, node: Any) -> Any | None:
        if isinstance(node, Expr):
            return node
        if type(node) is not For:
            return None
        first = _initialisation(node)
        return None if first is None else seq(first, node)


def _initialisation(loop: For) -> Stmt | None:
    """The statement that initialises the cells of a perfect nest that begins with a reduction loop, if that may be empty."""
    loops = [loop]
    while type(loops[-1].body) is For:
        loops.append(loops[-1].body)
    realize = loops[-1].body
    if type(realize) is not BlockRealize:
        return None
    block = realize.block
    init = block.init
    if init is None or block.match_buffers or any([inner.kind == "thread_binding" for inner in loops]):
        return None
    needed = set(used_vars(init))
    own = tuple([buffer for buffer in block.alloc_buffers if buffer.data in needed])
    spatial: set[Var] = set()
    for iterator, value in realize.bindings:
        if iterator.kind != "R":
            spatial.update(used_vars(value))
    over = [inner for inner in loops if inner.loop_var not in spatial]
    if not over or over[0] is not loop:
        return None
    nest = {inner.loop_var for inner in loops}
    gone = {inner.loop_var for inner in over}
    empty: Expr | None = None
    for inner in over:
        extent = inner.extent
        if not (type(extent) is IntImm and extent.value > 0) and not nest & set(used_vars(extent)):
            none = le(extent, const(0, dtype_of(extent)))
            empty = none if empty is None else logical_or(empty, none)
    if empty is None:
        return None
    units = {v.loop_var: v.min for v in over if type(v.extent) is IntImm and v.extent.value == 1}
    parts = [substitute(part, units) for part in conjuncts(realize.predicate)]
    kept = [part for part in parts if not gone & set(used_vars(part))]
    predicate: Expr = const(True)
    for part in kept:
        predicate = logical_and(predicate, part)
    pairs = [(i, v) for i, v in realize.bindings if i.kind != "R"]
    init = Block(tuple([i for i, _ in pairs]), None, None, own, (), {}, f"{block.name}_init", block.init or seq())
    made: Stmt = BlockRealize(tuple([v for _, v in pairs]), predicate, init)
    for inner in reversed(loops):
        if inner.loop_var not in gone:
            if gone & {v for bound in (inner.min, inner.extent) for v in used_vars(bound)}:
                return None
            made = For(inner.loop_var, inner.min, inner.extent, "serial", made)
    copied: Stmt = fresh_copy(made)
    return IfThenElse(empty, copied)
