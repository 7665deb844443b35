"""order_loops: a sane loop order where the program gives none.

For a perfect nest over one block that computes independent cells (``loop_nests.cell_nest``):

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
from collections.abc import Mapping

from ....ir.build import dtype_of, int_imm, int_value, is_int, logical_and, lt
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc, is_scheduled, may_alias
from ....ir.node import replace
from ....ir.stmt import Block, BlockRealize, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import Visit, collect, fresh_copy, rewrite, rewrite_outermost, substitute
from ...infra.backend import machine_in_use
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import Nest, cell_nest, is_choice, linear_step
from ...tir.analysis.parallel_cost import MATH_WORK, SHARED_WORK, is_few, store_work
from ...tir.loops.loop_partition import HINT
from ..common.choices import choose, choose_whether
from .tiles import split_loop
from .transposed import transposed

PIECE = 1 << 12
"""Iterations of a piece of a single long loop."""
LONG = 256
"""Iterations of an innermost loop that vectors fill by themselves."""
BLOCK = 32
"""Lines and columns of a block of a transposition."""
MASKED_BYTES, MASKED_ITEM = 32, 4
"""Bytes of the registers of machines that load vectors under masks, and of the least elements of these."""
FILLED, FILLED_MASKS = 1.125, 2.0
"""Elements of all vectors of a line by those of the line, at most; where masks have registers of their own."""
SHORT = 64
"""Iterations below which much of a loop is not in the vectors that LLVM makes of it."""
_COST = (0, 1, 16)
"""Cost of an access in the innermost loop by stride class."""


def _cost(nest: Nest, loop: For) -> int:
    """The cost of a loop as the innermost one."""
    return sum([_COST[nest.stride(access, loop)] for access in nest.accesses]) + 32 * (int_value(loop.extent, 4) < 4)


def _new_order(nest: Nest) -> list[For]:
    """The loops in their new order: the cheapest one last. Among reduction loops only the last may go last."""
    found = [loop for loop in reversed(nest.loops) if loop not in nest.of_kind("R")[:-1]]
    costs = [_cost(nest, loop) for loop in found]
    best = found[choose(nest.block, "innermost", range(len(found)), costs.index(min(costs)))]
    return [loop for loop in nest.loops if loop is not best] + [best]


def _loops_over(loops: list[For], body: Stmt, vectorize: bool) -> Stmt:
    for position, loop in enumerate(reversed(loops)):
        notes = {"vectorize": 1} if vectorize and position == 0 else loop.annotations
        body = replace(loop, body=body, annotations=notes)
    return body


def _init_nest(nest: Nest, loops: list[For]) -> Stmt:
    """The initialisation over ``loops`` as a block over all spatial iterators; its own loops get variables of their own."""
    block = nest.block
    assert block.init is not None
    iterators = [i for i in block.iter_vars if i.kind == "S"]
    values = tuple([nest.axis[i.var] for i in iterators])
    init = Block(tuple(iterators), None, None, (), (), {}, f"{block.name}_init", block.init)
    made = _loops_over(loops, BlockRealize(values, nest.realize.predicate, init), True)
    return fresh_copy(made)


def _iterations(loops: list[For]) -> int:
    """Number of iterations; symbolic extents count as one."""
    return math.prod([int_value(loop.extent, 1) for loop in loops])


def _large(loops: list[For], nest: Nest) -> bool:
    """Enough cells to share between threads. Of symbolic extents nobody knows: code generation decides when the loop runs."""
    symbolic = not all([type(loop.extent) is IntImm for loop in loops])
    return symbolic or _iterations(loops) * store_work(nest.store) >= SHARED_WORK


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
        pieces, piece, value = _split(last, PIECE)
        realize = _moved(realize, {last.loop_var: value})
        at = loops.index(last)
        loops = [*loops[:at], pieces, *loops[at + 1 :], piece]
        marked[marked.index(last)] = pieces
    variables = [loop.loop_var for loop in marked]
    shared: dict[type, Visit] = {
        For: lambda loop: replace(loop, kind="parallel") if loop.loop_var in variables else loop
    }
    return rewrite(_loops_over(loops, realize, vectorize), shared)


def _split(loop: For, size: int) -> tuple[For, For, Expr]:
    return split_loop(loop, size, f"{loop.loop_var.name}_piece")


def _moved(realize: BlockRealize, values: Mapping[Var, Expr]) -> BlockRealize:
    """The block at other values of the loop variables."""
    return replace(realize, iter_values=tuple([substitute(v, values) for v in realize.iter_values]))


def _blocked(order: list[For], nest: Nest) -> Stmt | None:
    """A nest that writes along one axis and reads along another, as in a transposition: in square blocks, so that each line of
    memory that comes into cache is used whole. None where that does not apply."""
    along = order[-1]
    if nest.stride(nest.store, along) != 1:
        return None
    far = [load for load in nest.loads if nest.stride(load, along) == 2]
    lines = [loop for loop in order[:-1] if far and all([nest.stride(load, loop) == 1 for load in far])]
    if len(lines) != 1 or not all([_long(loop) for loop in (along, lines[0])]):
        return None
    side = choose(nest.block, "side", (8, 16, BLOCK, 2 * BLOCK), BLOCK)
    (columns, column, at), (rows, row, line) = _split(along, side), _split(lines[0], side)
    realize = _moved(nest.realize, {along.loop_var: at, lines[0].loop_var: line})
    rest = [loop for loop in order if loop is not along and loop is not lines[0]]
    loops = [*rest, rows, columns, row, column]
    return _shared(loops, realize, False) if _large(order, nest) else _loops_over(loops, realize, False)


def _in_vectors(order: list[For], nest: Nest) -> tuple[list[For], BlockRealize, bool]:
    """The loops of independent cells, the innermost cut into vectors where that was decided: of the last, which may not be filled,
    some lanes count. Otherwise LLVM makes the vectors of it: the flag that it is to."""
    last, realize = order[-1], nest.realize
    if type(last.extent) is not IntImm:
        return order, realize, True
    full = machine_in_use().lanes(nest.store.buffer.dtype.itemsize)
    lanes = choose(realize.block, "lanes", (0, full, full // 2), _masked_lanes(order, full, nest))
    if not lanes:
        return order, realize, True
    pieces, piece, at = _split(last, lanes)
    realize = _moved(realize, {last.loop_var: at})
    if last.extent.value % lanes:
        piece = replace(piece, extent=int_imm(lanes, prim_type(dtype_of(last.loop_var))))
        realize = replace(realize, predicate=logical_and(realize.predicate, lt(at, last.extent)))
        pieces = replace(pieces, annotations={HINT: 1})
    return [*order[:-1], pieces, replace(piece, kind="vectorized")], realize, False


def _masked_lanes(order: list[For], full: int, nest: Nest) -> int:
    """Elements of the vectors of a line; 0 where LLVM makes them, or the machine has no masks for such elements. LLVM takes one
    element after the other under a condition, such as that of a border, and behind its vectors, several at once, of a line: that is
    much of a short line, and of a longer one with a mathematical function."""
    size, extent = nest.store.buffer.dtype.itemsize, int_value(order[-1].extent, 0)
    if machine_in_use().vector_bytes < MASKED_BYTES or size < MASKED_ITEM:
        return 0
    if any([is_choice(call) for call in collect(nest.store.value, Call)]):
        most = extent * (FILLED_MASKS if machine_in_use().masks else FILLED)
        filled = [lanes for lanes in (full, full // 2) if -(-extent // lanes) * lanes <= most]
        return filled[0] if filled else 0
    has_function = store_work(nest.store) >= MATH_WORK
    lanes, most = (full, 2 * LONG) if has_function else (MASKED_BYTES // size, SHORT)
    return lanes if lanes <= extent < most and not _coalesce(order, nest) else 0


def _coalesce(order: list[For], nest: Nest) -> bool:
    """True if the two innermost loops walk through memory like one (`transform/tir/loops/coalesce_loops.py`), and threads do not
    share the outer; or if there is one loop."""
    turning = [loop for loop in order if not is_int(loop.extent, 1)]
    if len(turning) < 2 + _large(order, nest):
        return len(turning) < 2
    outer, inner = [nest.iterator[loop.loop_var].var for loop in turning[-2:]]
    steps = [(linear_step(access, outer), linear_step(access, inner)) for access in nest.accesses]
    extent = int_value(order[-1].extent, 0)
    return all([far is not None and near is not None and far == extent * near for far, near in steps])


def _long(loop: For) -> bool:
    return type(loop.extent) is IntImm and loop.extent.value >= 2 * BLOCK


def _order(stmt: For, noalias: bool) -> Stmt | None:
    """The nest that a loop is in its order; None where it is none or stays."""
    nest = cell_nest(stmt)
    if nest is None:
        return None
    order = _new_order(nest)
    block, realize = nest.block, nest.realize
    vectorize = all([nest.stride(access, order[-1]) < 2 for access in nest.accesses])
    if block.init is None:
        cells = noalias and not nest.of_kind("R")
        if cells and not vectorize:
            blocked = transposed(order, nest, machine_in_use().vector_bytes, _large(order, nest)) or _blocked(
                order, nest
            )
            if blocked is not None:
                return blocked
        if cells and vectorize:
            order, realize, vectorize = _in_vectors(order, nest)
        several = any([not is_int(loop.extent, 1) for loop in order])
        if cells and several and choose_whether(block, "parallel", _large(order, nest)):
            return _shared(order, realize, vectorize)
        if order == nest.loops and not vectorize:
            return None
        return _loops_over(order, realize, vectorize)
    reductions = nest.of_kind("R")
    if not reductions:
        plain = replace(block, init=None, body=seq(block.init, block.body))
        return _loops_over(order, replace(realize, block=plain), False)
    first = min([order.index(loop) for loop in reductions])
    shared, rest = order[:first], order[first:]
    init = _init_nest(nest, [loop for loop in rest if loop not in reductions])
    accumulate = replace(realize, block=replace(block, init=None, name=f"{block.name}_update"))
    return _loops_over(shared, seq(init, _loops_over(rest, accumulate, vectorize)), False)


@prim_func_pass()
def order_loops(func: PrimFunc) -> PrimFunc:
    """Order the loops of unscheduled nests for unit stride, and split off initialisation.

    For programs with blocks. Scheduled programs stay.
    """
    if is_scheduled(func):
        return func
    noalias = not may_alias(func)
    return rewrite_outermost(func, lambda node: _order(node, noalias) if type(node) is For else None)
