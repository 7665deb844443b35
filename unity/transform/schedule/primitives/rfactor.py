"""rfactor: a reduction over a loop becomes partial results, one for each value of the loop, and a reduction over those.

Not here: moving the initialisation out (``reduction.py``). Invariant: a partial result starts from the reducer's neutral element
and meets every value once; the final reduction starts where the old one did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....arith import Analyzer
from ....ffi.dtype import DataType
from ....ir.analysis.reductions import REDUCERS, reduction_operand
from ....ir.analysis.regions import block_regions
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import buffer_load, const, eq, is_int
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import Add, And, IterVar, Mul, Or
from ....ir.stmt import Bind, Block, BlockRealize, BufferStore, SeqStmt, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import free_vars, fresh_copy, substitute
from ....support.recursion import deep_recursion
from ....support.source import Span
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, LoopRef, Sref, loops_of
from ..core.state import ScheduleState
from ..preconditions.chosen import Chosen, chosen
from ..preconditions.conditions import require_blocks_only, why_not_update
from ..preconditions.dependence import scope_of
from ..preconditions.enclosing import triangular
from ..preconditions.first_step import all_of, conditions
from ..preconditions.ownership import allocate
from ..rewrites.rewriting import analyzer_at, copied_nest, loop_copies, loop_range, point

NEUTRAL: dict[type, int] = {Add: 0, Mul: 1, And: True, Or: False}
"""Neutral elements of reducers; min and max start where the reduction does."""


@primitive(
    checks=(
        "reduction block",
        "one block inside",
        "a reduction loop",
        "known reducer",
        "axis in range",
        "first step unconditional",
    ),
    rewrite="C[i] += f(i, ko, ki)  ->  C_rf[ki, i] += f(i, ko, ki); C[i] += C_rf[ki, i]",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nk0, k1 = sch.split(k, factors=[None, 4])\nsch.rfactor(k1, 0)',
)
def rfactor(state: ScheduleState, loop: LoopRef, factor_axis: int, merge_loops: bool = False) -> BlockRef:
    """Compute a partial result for each value of a reduction loop in a block ``<name>_rf``; the old block reduces them. Returns the
    new block.

    The partial results lie in a new buffer with an axis of the loop's extent at ``factor_axis`` (negative counts from the end). The
    loop becomes spatial there, so that it can be parallel or vectorized. ``merge_loops``: put both blocks into the spatial loops
    outside all reduction loops. Sums are taken in another order. A block that chooses an element with several results (argmax) has
    a buffer for each; of equal elements another one may be chosen. Raises ScheduleError E443.
    """
    with deep_recursion():
        block = _only_block(state, loop)
        plan = _plan(state, block, loop, factor_axis)
        return _rewrite(state, block, loop, plan, merge_loops)


@dataclass(slots=True)
class _Plan:
    """The reduction: ``combine`` joins the cells of the stores with ``values``; ``axis`` is where the new axis goes."""

    stores: tuple[BufferStore, ...]
    values: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    combine: Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]]
    axis: int = 0


def _only_block(state: ScheduleState, loop: Sref) -> Sref:
    blocks = state.blocks_below(loop)
    if len(blocks) != 1:
        refuse(
            "E443",
            f"loop {loop.name} holds {len(blocks)} blocks",
            "one block inside",
            loop,
            "decompose_reduction or fission separates them",
        )
    require_blocks_only(loop)
    return blocks[0]


def _plan(state: ScheduleState, block: Sref, loop: Sref, factor_axis: int) -> _Plan:
    old, realize = block.block, block.realize
    reason = why_not_update(state, block, dominant=False)
    if reason is not None or not any([axis.kind == "R" for axis in old.iter_vars]):
        refuse(
            "E443",
            f"{block.name} is not a reduction block: {reason or 'it has no reduction iterator'}",
            "reduction block",
            block,
            "a block with T.axis.reduce that combines each value into the cell it reads",
        )
    by_kind: dict[str, set[Var]] = {"S": set(), "R": set()}
    for axis, value in realize.bindings:
        by_kind[axis.kind].update(free_vars(value))
    if loop.loop.loop_var not in by_kind["R"] or loop.loop.loop_var in by_kind["S"]:
        refuse(
            "E443",
            f"loop {loop.name} does not drive reduction iterators of block {block.name} alone",
            "a reduction loop",
            [loop, block],
            "choose a loop that drives a reduction iterator",
        )
    for other in loops_of(block):
        var = other.loop.loop_var
        used = [kind for kind, names in by_kind.items() if var in names]
        if len(used) > 1 or (not used and not is_int(other.loop.extent, 1)):
            what = "drives spatial and reduction iterators" if used else "drives no iterator: values would count twice"
            refuse("E443", f"loop {other.name} {what}", "a reduction loop", [other, block],
                   "split or reorder so that each loop drives iterators of one kind")  # fmt: skip
    bent = triangular(loops_of(block))
    if bent is not None:
        text = f"the bounds of loop {bent.name} use another loop"
        refuse("E443", text, "a reduction loop", [bent, block], "a nest over a box, with the condition in the block")
    if not loop.loop.counts_up:
        refuse(
            "E443",
            f"loop {loop.name} does not run from zero in steps of one",
            "a reduction loop",
            loop,
            "split wants such a loop too: write the bounds into the block",
        )
    if loop.loop.thread is not None:
        refuse(
            "E443", f"loop {loop.name} is bound to {loop.loop.thread}", "a reduction loop", loop, "rfactor before bind"
        )
    plan = _reducer(block)
    if isinstance(plan, tuple):
        refuse("E443", plan[0], "known reducer", block, plan[1])
    ndim = plan.stores[0].buffer.ndim
    if not -ndim - 1 <= factor_axis <= ndim:
        refuse(
            "E443",
            f"{plan.stores[0].buffer.name} has {ndim} axes, the new one cannot be at {factor_axis}",
            "axis in range",
            block,
            f"from {-ndim - 1} to {ndim}",
        )
    plan.axis = factor_axis % (ndim + 1)
    return plan


def _reducer(block: Sref) -> _Plan | tuple[str, str]:
    """The reducer of a block, its value and its neutral element; else why there is none, and the form that has one."""
    store, init = block.block.body, block.block.init
    choice = chosen(store)
    if choice is not None:
        return _choice(block, choice)
    if type(store) is not BufferStore or store.predicate is not None:
        form = "a block for each store; an argmax stores T.Select(old >= new, its old, its new) for each result"
        return f"block {block.name} is more than one store", form
    node = store.value
    if type(node) not in REDUCERS:
        reason = f"{type(node).__name__} is none of the reducers sum, product, min, max, and, or"
        return reason, "a block of the form C[i] = C[i] + value, or with *, T.min, T.max, and, or"
    value = reduction_operand(store)
    if value is None:
        reason = f"block {block.name} does not combine {store.buffer.name} with a value that does not read it"
        return reason, "a block of the form C[i] = C[i] + value, where value does not read C"
    neutral: Expr | None = None
    dtype: DataType = store.buffer.dtype
    if type(node) in NEUTRAL:
        neutral = const(NEUTRAL[type(node)], dtype)
    elif type(init) is BufferStore:
        neutral = init.value
    if neutral is None:
        reason = f"the initial value of the {type(node).__name__.lower()} in {block.name} is not in its block"
        return reason, "rfactor before decompose_reduction"
    if init is not None and (type(init) is not BufferStore or init.buffer is not store.buffer):
        return f"the initialisation of {block.name} is more than one store", "one store in T.init()"
    return _Plan((store,), (value,), (neutral,), lambda cells, news: [with_fields(node, a=cells[0], b=news[0])])


def _choice(block: Sref, choice: Chosen) -> _Plan | tuple[str, str]:
    """The plan of a reduction that chooses among elements; the initial one is among them. Else as ``_reducer``."""
    first = block.block.init.stmts if type(block.block.init) is SeqStmt else ()
    begins = {stmt.buffer: stmt.value for stmt in first if type(stmt) is BufferStore and stmt.predicate is None}
    if len(begins) != len(first) or set(begins) != {store.buffer for store in choice.stores}:
        return (
            f"the initialisation of {block.name} is not one store of each result",
            "rfactor before decompose_reduction",
        )
    neutral = tuple([begins[store.buffer] for store in choice.stores])
    same = [structural_equal(store.indices, choice.stores[0].indices) for store in choice.stores]
    if not all(same) or any([free_vars(value) for value in neutral]):
        form = "the same indices for each result, and constants to begin with"
        return f"the results of {block.name} lie at different indices", form
    return _Plan(choice.stores, choice.values, neutral, choice.combine)


def _stores(buffers: Sequence[Buffer], cell: Sequence[Expr], values: Sequence[Expr], span: Span | None) -> Stmt:
    """The results of a step: several are all known before the first is stored."""
    if len(values) == 1:
        return BufferStore(buffers[0], values[0], tuple(cell), None, span)
    known = [Var(f"v_{buffer.name}", prim_type(buffer.dtype)) for buffer in buffers]
    binds = [Bind(var, value) for var, value in zip(known, values)]
    return seq(*binds, *[BufferStore(b, var, tuple(cell), None, span) for b, var in zip(buffers, known)])


def _partial(state: ScheduleState, block: Sref, loop: Sref, plan: _Plan) -> tuple[BlockRealize, list[Buffer]]:
    """The block of partial results, in place of the old one."""
    old, realize = block.block, block.realize
    ranges = {s.loop.loop_var: loop_range(s.loop) for s in loops_of(block)}
    factor = loop.loop.loop_var
    axes: list[IterVar] = []
    values: list[Expr] = []
    made: dict[Var, Var] = {}
    mapping: dict[Var, Expr] = {}

    def iterator(var: Var, kind: str) -> Var:
        if var not in made:
            made[var] = Var(f"v{var.name}", var.ty)
            axes.append(IterVar(made[var], ranges[var], kind))
            values.append(var)
        return made[var]

    iterator(factor, "S")
    for axis, value in realize.bindings:
        if axis.kind == "R" and factor in free_vars(value):
            inside = {v: iterator(v, "S" if v is factor else "R") for v in free_vars(value) if v in ranges}
            mapping[axis.var] = substitute(value, inside)
        else:
            axes.append(axis)
            values.append(value)
    ana = analyzer_at(state, block, inside=False)
    _require_first(block, loop, made, ana)
    cell = [substitute(e, mapping) for e in plan.stores[0].indices]
    cell.insert(plan.axis, made[factor])
    buffers = [_apart(store.buffer, plan.axis, loop) for store in plan.stores]
    loads = [buffer_load(buffer, *cell) for buffer in buffers]
    values_of_step = [substitute(value, mapping) for value in plan.values]
    body = _stores(buffers, cell, plan.combine(loads, values_of_step), plan.stores[0].span)
    first = seq(*[BufferStore(b, substitute(n, mapping), tuple(cell)) for b, n in zip(buffers, plan.neutral)])
    reads = None
    if old.reads is not None:
        written = [store.buffer for store in plan.stores]
        reads = tuple([substitute(r, mapping) for r in old.reads if r.buffer not in written])
    writes = tuple([point(buffer, cell) for buffer in buffers])
    block_rf = Block(tuple(axes), reads, writes, (), (), dict(old.annotations), f"{old.name}_rf", body, first, old.span)
    return BlockRealize(tuple(values), realize.predicate, block_rf, realize.span), buffers


def _apart(old: Buffer, axis: int, loop: Sref) -> Buffer:
    """The buffer of partial results."""
    shape = list(old.shape)
    shape.insert(axis, loop.loop.extent)
    return make_buffer(f"{old.name}_rf", old.dtype, shape, old.scope)


def _require_first(block: Sref, loop: Sref, made: dict[Var, Var], ana: Analyzer) -> None:
    """A partial result is initialised in its first step: refuse E443 unless that step meets the condition of the block."""
    spatial = {v for axis, e in block.realize.bindings if axis.kind == "S" for v in free_vars(e)}
    reducing = {
        s.loop.loop_var: s.loop.min for s in loops_of(block) if s.loop.loop_var not in spatial and s is not loop
    }
    for axis, value in block.realize.bindings:
        if axis.kind != "R" or loop.loop.loop_var in free_vars(value):
            continue
        if not ana.can_prove(eq(substitute(value, reducing), axis.domain.min)):
            refuse(
                "E443",
                f"a partial result for {loop.name} is never initialised: {axis.var.name} begins at {substitute(value, reducing)}",
                "first step at the beginning of the domain",
                [block, loop],
                "rfactor before loop_partition",
            )
    for part in conditions(block.realize.predicate):
        on = set(free_vars(part))
        if on & (reducing.keys() | {loop.loop.loop_var}) and not ana.can_prove(substitute(part, reducing)):
            refuse(
                "E443",
                f"a partial result for {loop.name} may meet no value: the condition {part}",
                "first step unconditional",
                [block, loop],
                "split by a factor that divides the extent",
            )


def _rewrite(state: ScheduleState, block: Sref, loop: Sref, plan: _Plan, merge_loops: bool) -> Sref:
    partial, buffers = _partial(state, block, loop, plan)
    old, realize = block.block, block.realize
    loops = loops_of(block)
    reducing = {v for axis, e in realize.bindings if axis.kind == "R" for v in free_vars(e)}
    top = len(loops)
    while top > 0 and len(state.blocks_below(loops[top - 1])) == 1:
        top -= 1
    for outer in loops[:top]:
        if outer.loop.loop_var in reducing:
            refuse(
                "E443",
                f"loop {outer.name} drives a reduction iterator and holds other blocks",
                "one block inside",
                [outer, block],
                "fission the loop first",
            )
    if merge_loops:
        while loops[top].loop.loop_var not in reducing:
            top += 1
    final = _final(state, block, loops[top:], loop, plan, buffers, reducing)
    func, at = block.func, loops[top]
    allocate(state, scope_of(block), buffers, [store.buffer.data for store in plan.stores])
    state.replace(block, partial, {old: partial.block})
    state.replace(at, seq(at.loop, final))
    return state.sref(func, partial.block)


def _final(
    state: ScheduleState, block: Sref, inside: list[Sref], loop: Sref, plan: _Plan, buffers: list[Buffer], reducing: set[Var]
) -> Stmt:  # fmt: skip
    """The reduction over the partial results, in copies of the spatial loops."""
    old, realize = block.block, block.realize
    kept = [item.loop for item in inside if item is loop or item.loop.loop_var not in reducing]
    copies, fresh = loop_copies(kept, {item.loop_var for item in kept})
    factor = Var(f"v{loop.name}", loop.loop.loop_var.ty)
    spatial = [(axis, substitute(value, fresh)) for axis, value in realize.bindings if axis.kind == "S"]
    axes = (IterVar(factor, loop_range(loop.loop), "R"), *[axis for axis, _ in spatial])
    values = (fresh[loop.loop.loop_var], *[value for _, value in spatial])
    results, place = [store.buffer for store in plan.stores], plan.stores[0].indices
    cell = list(place)
    cell.insert(plan.axis, factor)
    loads = [buffer_load(buffer, *cell) for buffer in buffers]
    body = _stores(results, place, plan.combine([buffer_load(b, *place) for b in results], loads), None)
    own = tuple([point(buffer, place) for buffer in results])
    made = Block(axes, None, own, (), (), {}, old.name, body, old.init, old.span)
    made = fresh_copy(with_fields(made, reads=block_regions(made, derive=True)[0]))
    kept_parts = [part for part in conditions(realize.predicate) if not reducing & set(free_vars(part))]
    guard = substitute(all_of(kept_parts), fresh)
    return copied_nest(copies, fresh, BlockRealize(values, guard, made), [loop.loop.loop_var])
