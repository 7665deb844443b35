"""Loop nests that compute independent cells, and how each access strides with each loop; loops that threads may share.

Not here: any rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ....ffi.dtype import DataType
from ....ir.analysis.lanes import independent
from ....ir.analysis.reductions import is_cell, reduction_operand
from ....ir.buffer import Buffer
from ....ir.build import add, const, int_values, is_int, maximum, minimum, mul
from ....ir.expr import Call, IntImm, Var
from ....ir.intrinsic import INTRINSICS
from ....ir.scalar import Add, BufferLoad, IterVar, Max, Min, Mul, Sub
from ....ir.stmt import AllocBuffer, Bind, Block, BlockRealize, BufferStore, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, used_vars, uses_any

SMALL_STRIDE = 4
"""Elements of a step that still walks through memory."""


@dataclass(slots=True)
class Nest:
    """Loops from the outside in around one block that computes a cell per point of its spatial iterators: ``store`` is its whole
    body."""

    loops: list[For]
    realize: BlockRealize
    store: BufferStore
    loads: list[BufferLoad]
    axis: dict[Var, Var]
    """Loop variable by block iterator."""
    iterator: dict[Var, IterVar]
    """Block iterator by loop variable."""

    @property
    def block(self) -> Block:
        """The block in the innermost loop."""
        return self.realize.block

    @property
    def accesses(self) -> list[BufferLoad | BufferStore]:
        """The store and the loads."""
        return [self.store, *self.loads]

    @property
    def operands(self) -> list[BufferLoad]:
        """The loads besides those of the cell that is updated."""
        return [load for load in self.loads if load.buffer is not self.store.buffer]

    def of_kind(self, kind: str) -> list[For]:
        """The loops over iterators of a kind, in order."""
        return [loop for loop in self.loops if self.iterator[loop.loop_var].kind == kind]

    def stride(self, access: BufferLoad | BufferStore, loop: For) -> int:
        """The ``stride_class`` of an access along a loop."""
        return stride_class(access, self.iterator[loop.loop_var].var)


def perfect_nest(stmt: Stmt) -> tuple[list[For], BlockRealize] | None:
    """The plain serial loops, from the outside in, whose only content is a block, and that; or None. Loop k's extent must not use
    an outer loop's variable (the nest is rectangular)."""
    loops: list[For] = []
    inner: Stmt = stmt
    while type(inner) is For:
        if inner.kind != "serial" or inner.annotations or not inner.counts_up:
            return None
        loops.append(inner)
        inner = inner.body
    if not loops or type(inner) is not BlockRealize:
        return None
    variables = {loop.loop_var for loop in loops}
    return None if any([uses_any(loop.extent, variables) for loop in loops]) else (loops, inner)


def cell_nest(stmt: Stmt) -> Nest | None:
    """The nest that a statement is, or None where independence of its points cannot be seen.

    Holds: each iterator is one loop variable; the store's indices are distinct spatial iterators or constants, covering
    all of them (different points write different cells); the stored buffer is read at exactly that cell only; nothing is
    called for effect; nothing is allocated or matched.
    """
    found = perfect_nest(stmt)
    if found is None:
        return None
    loops, realize = found
    block = realize.block
    if (
        not is_int(realize.predicate, 1)
        or block.alloc_buffers
        or block.match_buffers
        or type(block.body) is not BufferStore
    ):
        return None
    axis: dict[Var, Var] = {}
    for iterator, value in realize.bindings:
        if type(value) is not Var or value in axis.values() or iterator.kind not in ("S", "R"):
            return None
        axis[iterator.var] = value
    if set(axis.values()) != {loop.loop_var for loop in loops}:
        return None
    store = block.body
    spatial = {i.var for i in block.iter_vars if i.kind == "S"}
    used: list[Var] = []
    for index in store.indices:
        if type(index) is Var and index in spatial and index not in used:
            used.append(index)
        elif type(index) is not IntImm:
            return None
    if (
        set(used) != spatial
        or store.predicate is not None
        or (collect(store.value, Call) and not calls_are_pure(store.value))
    ):
        return None
    loads = collect(store.value, BufferLoad)
    for load in loads:
        if load.predicate is not None or (load.buffer.data is store.buffer.data and not is_cell(load, store)):
            return None
    if block.init is not None:
        init = block.init
        if (
            type(init) is not BufferStore
            or init.buffer is not store.buffer
            or not structural_equal(init.indices, store.indices)
        ):
            return None
        if collect(init.value, BufferLoad) or not calls_are_pure(init.value):
            return None
        if any([i.kind == "R" and i.var in used_vars(init.value) for i in block.iter_vars]):
            return None
    return Nest(loops, realize, store, loads, axis, {axis[i.var]: i for i in block.iter_vars})


JOINS: dict[type, Callable[[Expr, Expr], Expr]] = {Add: add, Mul: mul, Max: maximum, Min: minimum}
"""Operations of reductions that may be joined in any order."""


def reduced_value(store: BufferStore) -> Expr | None:
    """The value that a store joins to its cell by an operation of ``JOINS``."""
    return reduction_operand(store) if type(store.value) in JOINS else None


def neutral_value(operation: type, dtype: DataType, initial: Expr) -> Expr:
    """The value that joining does not notice: for Min and Max the initial value itself."""
    if operation in (Min, Max):
        return initial
    number = 0 if operation is Add else 1
    return const(float(number) if dtype.is_float else number, dtype)


PURE_CALLS = frozenset([row.name for row in INTRINSICS.values() if row.result in ("same", "bool") and row.effect == "pure"]) | {
    "T.reinterpret", "T.if_then_else",
}  # fmt: skip
"""Intrinsics that compute a value from values alone."""


def calls_are_pure(expr: Expr) -> bool:
    """True if an expression may be left out or evaluated twice: it calls nothing but pure functions."""
    return all([call.op_name in PURE_CALLS for call in collect(expr, Call)])


def stride_class(access: BufferLoad | BufferStore, var: Var) -> int:
    """The step of an access when ``var`` grows by one: 0 not at all, 1 by one element, 2 further or unknown."""
    step = _near_step(access, var)
    return 2 if step is None or abs(step) > 1 else abs(step)


def _near_step(access: BufferLoad | BufferStore, var: Var) -> int | None:
    """Elements by which an access moves along the last axis when ``var`` grows by one; None if along others, or unknown."""
    if not any([var in used_vars(i) for i in access.indices]):
        return 0
    if access.buffer.strides or any([var in used_vars(i) for i in access.indices[:-1]]):
        return None
    return slope(access.indices[-1], var)


def is_choice(node: object) -> TypeGuard[Call]:
    """A call ``T.if_then_else(condition, then, otherwise)``."""
    return type(node) is Call and node.op_name == "T.if_then_else" and len(node.args) == 3


def small_stride(access: BufferLoad | BufferStore, var: Var) -> bool:
    """True when an access moves by at most ``SMALL_STRIDE`` elements forwards (or one backwards) when ``var`` grows by one."""
    step = _near_step(access, var)
    return step is not None and -1 <= step <= SMALL_STRIDE


def linear_step(access: BufferLoad | BufferStore, var: Var) -> int | None:
    """Elements by which an access to a compact buffer of constant shape moves when ``var`` grows by one; None if not known."""
    shape = int_values(access.buffer.shape)
    if access.buffer.strides or len(shape) != len(access.buffer.shape):
        return None if any([var in used_vars(i) for i in access.indices]) else 0
    total, stride = 0, 1
    for index, extent in zip(reversed(access.indices), reversed(shape)):
        step = slope(index, var)
        if step is None:
            return None
        total += step * stride
        stride *= extent
    return total


def slope(expr: Expr, var: Var) -> int | None:
    """Coefficient of ``var`` in an affine expression, None where it is not affine in it."""
    if expr is var:
        return 1
    if isinstance(expr, (Add, Sub)):
        a, b = slope(expr.a, var), slope(expr.b, var)
        return None if a is None or b is None else a + b if type(expr) is Add else a - b
    if type(expr) is Mul:
        for x, y in ((expr.a, expr.b), (expr.b, expr.a)):
            if type(y) is IntImm:
                inner = slope(x, var)
                return None if inner is None else inner * y.value
    return None if var in used_vars(expr) else 0


# ---- loops that threads may share

_PLAIN = (For, SeqStmt, IfThenElse, BufferStore, AllocBuffer, Bind, While)


def is_shareable(loop: For, own: Sequence[Buffer] = ()) -> bool:
    """True if threads may share the iterations of a loop of plain statements: none accesses elements that another one writes.
    ``own``: buffers that each iteration has for itself, besides those that it allocates."""
    if any([type(stmt) not in _PLAIN for stmt in collect(loop, Stmt)]) or not all(
        [call.op_name in PURE_CALLS for call in collect(loop, Call)]
    ):
        return False
    private = {alloc.buffer.data for alloc in collect(loop, AllocBuffer)} | {buffer.data for buffer in own}
    written = [store.buffer for store in collect(loop, BufferStore) if store.buffer.data not in private]
    return not any([buffer.strides for buffer in written]) and independent(loop, private)
