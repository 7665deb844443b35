"""order_loops: a sane loop order where the program gives none.

For a perfect nest over one block that computes independent cells (``loop_nests.point_update``):

- the loop along which most accesses step by one element goes innermost; loops over reduction iterators keep their order
  among themselves, so every cell is accumulated in the written order;
- the initialisation of a reduction becomes a block of its own, run once per cell before the accumulation. (A reduction
  over nothing therefore gives the initial value.)
- the innermost loop is marked ``vectorize``;
- a nest that writes along one axis and reads along another goes through memory in square blocks;
- the outermost loop of many independent cells is shared between threads.

Rewrite: ``for i, j, p: [init Y[i, j] = 0]; Y[i, j] += X[i, p] * W[p, j]`` ->
``for i: { for j: Y[i, j] = 0; for p, j: Y[i, j] += X[i, p] * W[p, j] }``.
Other nests stay as they are, and so does a function that was scheduled (attribute ``tir.is_scheduled``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....ir.build import add, ceildiv, dtype_of, int_imm, int_value, is_int, logical_and, lt, minimum, mul, sub
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, IterVar
from ....ir.stmt import Block, BlockRealize, BufferStore, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, Visit, collect, fresh_copy, rewrite, substitute
from ...infra.backend import machine_in_use
from ...infra.passes import prim_func_pass
from ..analysis.choices import choose
from ..analysis.loop_nests import Nest, Update, linear_step, perfect_nest, point_update, stride_class
from ..analysis.parallel_cost import MATH_WORK, SHARED_WORK, is_few, store_work
from .loop_partition import HINT
from .transposed import transposed

PIECE = 1 << 12
"""Iterations of a piece of a single long loop."""
LONG = 256
"""Iterations of an innermost loop that vectors fill by themselves."""
BLOCK = 32
"""Lines and columns of a block of a transposition."""
MASKED_BYTES, MASKED_ITEM = 32, 4
"""Bytes of the registers of machines that load vectors under masks, and of the least elements of these."""
FILLED = 1.125
"""Elements of all vectors of a line by those of the line, at most."""
SHORT = 64
"""Iterations below which much of a loop is not in the vectors that LLVM makes of it."""
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
    found = [loop for loop in reversed(nest.loops) if loop not in reductions[:-1]]
    costs = [_cost(update, loop.loop_var) + (32 if _small(loop) else 0) for loop in found]
    best = found[choose(nest.realize.block, "innermost", range(len(found)), costs.index(min(costs)))]
    return [loop for loop in nest.loops if loop is not best] + [best]


def _loops_over(loops: list[For], body: Stmt, vectorize: bool) -> Stmt:
    for position, loop in enumerate(reversed(loops)):
        notes = {"vectorize": 1} if vectorize and position == 0 else loop.annotations
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
    return fresh_copy(made)


def _iterations(loops: list[For]) -> int:
    """Number of iterations; symbolic extents count as one."""
    return math.prod([int_value(loop.extent, 1) for loop in loops])


def _large(loops: list[For], update: Update) -> bool:
    """Enough cells to share between threads. Of symbolic extents nobody knows: code generation decides when the loop runs."""
    symbolic = not all([type(loop.extent) is IntImm for loop in loops])
    return symbolic or _iterations(loops) * store_work(update.store) >= SHARED_WORK


def _shared(loops: list[For], realize: BlockRealize, vectorize: bool) -> Stmt:
    """Loops over independent cells, the outermost shared between threads, with the next where it has few iterations; a single loop
    is cut into pieces first."""
    outer, *inner = [loop for loop in loops if not is_int(loop.extent, 1)]
    marked = [outer]
    last = inner[-1] if inner else outer
    if inner and is_few(outer.extent):
        # loops that end at a short innermost one may become one with it, which is worth more
        if len(inner) > 2 or (len(inner) == 2 and _iterations(inner[-1:]) >= LONG):
            marked.append(inner[0])
        elif len(inner) == 1 and _iterations(inner) >= 2 * PIECE:
            marked.append(last)
    if last in marked:
        pieces, piece = _split(last, PIECE)
        realize = replace(realize, iter_values=tuple([substitute(v, piece.values) for v in realize.iter_values]))
        at = loops.index(last)
        loops = [*loops[:at], pieces, *loops[at + 1 :], piece.loop]
        marked[marked.index(last)] = pieces
    variables = [loop.loop_var for loop in marked]
    shared: dict[type, Visit] = {
        For: lambda loop: replace(loop, kind="parallel") if loop.loop_var in variables else loop
    }
    return rewrite(_loops_over(loops, realize, vectorize), shared)


@dataclass(slots=True)
class _Piece:
    """The inner of two loops that one was cut into, and the value of the old variable."""

    loop: For
    values: dict[Var, Expr]


def _split(loop: For, size: int) -> tuple[For, _Piece]:
    """A loop as a loop over pieces of ``size`` iterations and a loop inside; the last piece may be shorter."""
    ty = prim_type(dtype_of(loop.loop_var))
    step, zero = int_imm(size, ty), int_imm(0, ty)
    outer, inner = Var(f"{loop.loop_var.name}_piece", ty), Var(loop.loop_var.name, ty)
    first = mul(outer, step)
    count = ceildiv(loop.extent, step)
    whole = type(loop.extent) is IntImm and loop.extent.value % size == 0
    extent = step if whole else minimum(step, sub(loop.extent, first))
    over = For(outer, zero, count, "serial", loop.body)
    return over, _Piece(For(inner, zero, extent, "serial", loop.body), {loop.loop_var: add(first, inner)})


def _blocked(order: list[For], nest: Nest, update: Update) -> Stmt | None:
    """A nest that writes along one axis and reads along another, as in a transposition: in square blocks, so that each line of
    memory that comes into cache is used whole. None where that does not apply."""
    iterator = {loop: it for it, loop in update.axis.items()}
    along = order[-1]
    if stride_class(update.store, iterator[along.loop_var]) != 1:
        return None
    far = [load for load in update.loads if stride_class(load, iterator[along.loop_var]) == 2]
    lines = [loop for loop in order[:-1] if far and all([stride_class(f, iterator[loop.loop_var]) == 1 for f in far])]
    if len(lines) != 1 or not all([_long(loop) for loop in (along, lines[0])]):
        return None
    side = choose(nest.realize.block, "side", (8, 16, BLOCK, 2 * BLOCK), BLOCK)
    (columns, column), (rows, row) = _split(along, side), _split(lines[0], side)
    values = {**column.values, **row.values}
    realize = nest.realize
    realize = replace(realize, iter_values=tuple([substitute(v, values) for v in realize.iter_values]))
    rest = [loop for loop in order if loop is not along and loop is not lines[0]]
    loops = [*rest, rows, columns, row.loop, column.loop]
    return _shared(loops, realize, False) if _large(order, update) else _loops_over(loops, realize, False)


def _in_vectors(order: list[For], realize: BlockRealize, update: Update) -> tuple[list[For], BlockRealize, bool]:
    """The loops of independent cells, the innermost cut into vectors where that was decided: of the last, which may not be filled,
    some lanes count. Otherwise LLVM makes the vectors of it: the flag that it is to."""
    last = order[-1]
    if type(last.extent) is not IntImm:
        return order, realize, True
    full = machine_in_use().lanes(update.store.buffer.dtype.itemsize)
    lanes = choose(realize.block, "lanes", (0, full, full // 2), _masked_lanes(order, full, update))
    if not lanes:
        return order, realize, True
    pieces, piece = _split(last, lanes)
    at = piece.values[last.loop_var]
    whole = last.extent.value % lanes == 0
    loop = replace(piece.loop, extent=int_imm(lanes, prim_type(dtype_of(last.loop_var))), kind="vectorized")
    values = tuple([substitute(v, piece.values) for v in realize.iter_values])
    predicate = realize.predicate if whole else logical_and(realize.predicate, lt(at, last.extent))
    pieces = pieces if whole else replace(pieces, annotations={HINT: 1})
    return [*order[:-1], pieces, loop], replace(realize, iter_values=values, predicate=predicate), False


def _masked_lanes(order: list[For], full: int, update: Update) -> int:
    """Elements of the vectors of a line; 0 where LLVM makes them, or the machine has no masks for such elements. LLVM takes one
    element after the other under a condition, such as that of a border, and behind its vectors, several at once, of a line: that is
    much of a short line, and of a longer one with a mathematical function."""
    size, extent = update.store.buffer.dtype.itemsize, int_value(order[-1].extent, 0)
    if machine_in_use().vector_bytes < MASKED_BYTES or size < MASKED_ITEM:
        return 0
    bordered = any([call.op_name == "T.if_then_else" for call in collect(update.store.value, Call)])
    if bordered:
        filled = [lanes for lanes in (full, full // 2) if -(-extent // lanes) * lanes <= FILLED * extent]
        return filled[0] if filled else 0
    has_function = store_work(update.store) >= MATH_WORK
    lanes, most = (full, 2 * LONG) if has_function else (MASKED_BYTES // size, SHORT)
    return lanes if lanes <= extent < most and not _coalesce(order, update) else 0


def _coalesce(order: list[For], update: Update) -> bool:
    """True if the two innermost loops walk through memory like one (`coalesce_loops.py`), and threads do not share the outer; or if
    there is one loop."""
    turning = [loop for loop in order if not is_int(loop.extent, 1)]
    if len(turning) < 2 + _large(order, update):
        return len(turning) < 2
    iterator = {loop: it for it, loop in update.axis.items()}
    outer, inner = [iterator[loop.loop_var] for loop in turning[-2:]]
    accesses: list[BufferLoad | BufferStore] = [update.store, *update.loads]
    steps = [(linear_step(access, outer), linear_step(access, inner)) for access in accesses]
    extent = int_value(order[-1].extent, 0)
    return all([far is not None and near is not None and far == extent * near for far, near in steps])


def _long(loop: For) -> bool:
    return type(loop.extent) is IntImm and loop.extent.value >= 2 * BLOCK


def _order(stmt: For, parallel: bool) -> Stmt:
    nest = perfect_nest(stmt)
    update = point_update(nest) if nest is not None else None
    if nest is None or update is None:
        return stmt
    order = _new_order(nest, update)
    block = nest.realize.block
    accesses: list[BufferLoad | BufferStore] = [update.store, *update.loads]
    inner = [iterator for iterator, loop in update.axis.items() if loop is order[-1].loop_var]
    vectorize = all([stride_class(access, iterator) < 2 for access in accesses for iterator in inner])
    realize = nest.realize
    if block.init is None:
        cells = parallel and "R" not in update.kinds.values()
        if cells and not vectorize:
            large = _large(order, update)
            blocked = transposed(order, nest, update, machine_in_use().vector_bytes, large) or _blocked(
                order, nest, update
            )
            if blocked is not None:
                return blocked
        if cells and vectorize:
            order, realize, vectorize = _in_vectors(order, nest.realize, update)
        if cells and choose(block, "parallel", (0, 1), _large(order, update)):
            return _shared(order, realize, vectorize)
        if order == nest.loops and not vectorize:
            return stmt
        return _loops_over(order, realize, vectorize)
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


class _Outermost(StatementRewriter):
    """Visits each outermost candidate nest once; a nest that was reordered is not entered again."""

    def __init__(self, parallel: bool) -> None:
        super().__init__()
        self.parallel = parallel

    def enter(self, node: object) -> object | None:
        if type(node) is For:
            made = _order(node, self.parallel)
            return made if made is not node else None
        return None


@prim_func_pass()
def order_loops(func: PrimFunc, *, parallel: bool = True) -> PrimFunc:
    """Order the loops of unscheduled nests for unit stride, and split off initialisation.

    For programs with blocks. Scheduled programs stay.
    """
    if func.attrs.get("tir.is_scheduled"):
        return func
    body = _Outermost(parallel and func.attrs.get("tir.noalias", True) is not False)(func.body)
    return replace(func, body=body)
