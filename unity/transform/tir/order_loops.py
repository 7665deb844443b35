"""order_loops: a sane loop order where the program gives none.

For a perfect nest over one block that computes independent cells (`nests.point_update`):

- the loop along which most accesses step by one element goes innermost; loops over reduction iterators keep their order
  among themselves, so every cell is accumulated in the written order;
- the initialisation of a reduction becomes a block of its own, run once per cell before the accumulation. (A reduction
  over nothing therefore gives the initial value.)
- the innermost loop is marked ``vectorize``.

Rewrite: ``for i, j, p: [init Y[i, j] = 0]; Y[i, j] += X[i, p] * W[p, j]`` ->
``for i: { for j: Y[i, j] = 0; for p, j: Y[i, j] += X[i, p] * W[p, j] }``.
Other nests stay as they are, and so does a function that was scheduled (attribute ``tir.is_scheduled``).
"""

from __future__ import annotations

from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import Block, BlockRealize, BufferStore, For, Stmt, seq
from ...ir.walk import Rewriter, fresh_copy
from ..base import prim_func_pass
from .nests import Nest, Update, perfect_nest, point_update, stride_class

_COST = (0, 1, 16)
"""Cost of an access in the innermost loop by stride class."""


def _cost(update: Update, var: Var) -> int:
    back = {loop: iterator for iterator, loop in update.axis.items()}
    accesses: list[BufferLoad | BufferStore] = [update.store, *update.loads]
    return sum([_COST[stride_class(access, back[var])] for access in accesses])


def _small(loop: For) -> bool:
    return type(loop.extent) is IntImm and loop.extent.value < 4


def _new_order(nest: Nest, update: Update) -> list[For]:
    """The loops in their new order: the cheapest one last. Among reduction loops only the last may go last."""
    reductions = [loop for loop in nest.loops if update.kinds[loop.loop_var] == "R"]
    best, best_cost = nest.loops[-1], None
    for loop in reversed(nest.loops):
        if loop in reductions and loop is not reductions[-1]:
            continue
        cost = _cost(update, loop.loop_var) + (32 if _small(loop) else 0)
        if best_cost is None or cost < best_cost:
            best, best_cost = loop, cost
    return [loop for loop in nest.loops if loop is not best] + [best]


def _loops_over(loops: list[For], body: Stmt, vectorize: bool) -> Stmt:
    for position, loop in enumerate(reversed(loops)):
        notes = {"vectorize": 1} if vectorize and position == 0 else None
        body = replace(loop, body=body, annotations=notes)
    return body


def _init_nest(nest: Nest, update: Update, loops: list[For]) -> Stmt:
    """The initialisation over ``loops`` as a block over all spatial iterators; its own loops get variables of their own."""
    block = nest.realize.block
    assert block.init is not None
    iterators: list[IterVar] = [i for i in block.iter_vars if i.kind == "S"]
    values = tuple([update.axis[i.var] for i in iterators])
    init = Block(tuple(iterators), None, None, (), (), {}, f"{block.name}_init", block.init)
    made = _loops_over(loops, BlockRealize(values, nest.realize.predicate, init), True)
    return fresh_copy(made)  # type: ignore[no-any-return]


def _order(stmt: For) -> Stmt:
    nest = perfect_nest(stmt)
    update = point_update(nest) if nest is not None else None
    if nest is None or update is None:
        return stmt
    order = _new_order(nest, update)
    block = nest.realize.block
    accesses: list[BufferLoad | BufferStore] = [update.store, *update.loads]
    inner = [iterator for iterator, loop in update.axis.items() if loop is order[-1].loop_var]
    vectorize = all([stride_class(access, iterator) < 2 for access in accesses for iterator in inner])
    if block.init is None:
        if order == nest.loops and not vectorize:
            return stmt
        return _loops_over(order, nest.realize, vectorize)
    reductions = [loop for loop in order if update.kinds[loop.loop_var] == "R"]
    if not reductions:
        plain = replace(block, init=None, body=seq(block.init, block.body))
        return _loops_over(order, replace(nest.realize, block=plain), False)
    first = order.index(reductions[0])
    shared, rest = order[:first], order[first:]
    init_loops = [loop for loop in rest if update.kinds[loop.loop_var] == "S"]
    init = _init_nest(nest, update, init_loops)
    accumulate = replace(nest.realize, block=replace(block, init=None, name=f"{block.name}_update"))
    return _loops_over(shared, seq(init, _loops_over(rest, accumulate, vectorize)), False)


class _Outermost(Rewriter):
    """Visits each outermost candidate nest once; a nest that was reordered is not entered again."""

    def enter(self, node: object) -> object | None:
        if type(node) is For:
            made = _order(node)
            return made if made is not node else None
        return None


@prim_func_pass()
def order_loops(func: PrimFunc) -> PrimFunc:
    """Reorder unscheduled nests so that the innermost loop has unit stride, and split off initialisation."""
    if func.attrs.get("tir.is_scheduled"):
        return func
    body = _Outermost()(func.body)
    return func if body is func.body else replace(func, body=body)
