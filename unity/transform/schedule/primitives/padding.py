"""decompose_padding: padding and copying in blocks of their own; pad_einsum: a product whose loops are whole multiples.

Not here: layouts with padding (``layout.py``). Invariant: cells of padding hold the value they held, or take no part in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ....arith import Analyzer
from ....arith.solve import deduce_bound
from ....ir.analysis.reductions import reduction_operand
from ....ir.buffer import Buffer, Range, make_buffer
from ....ir.build import add, buffer_load, const, dtype_of, if_then_else, int_value, is_int, logical_and, lt, sub
from ....ir.expr import Call, FloatImm, IntImm, Var
from ....ir.node import replace as with_fields
from ....ir.scalar import Add, BufferLoad, Cast, IterVar, Mul, Select
from ....ir.stmt import Block, BlockRealize, BufferStore, For, Stmt, seq
from ....ir.types import Expr
from ....ir.walk import free_vars, fresh_copy, substitute
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, LoopRef, Sref, block_of, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import require_blocks_only, require_complete, require_reduction
from ..preconditions.dependence import scope_of
from ..preconditions.distinct import require_distinct
from ..preconditions.domains import nest_of
from ..preconditions.first_step import conditions
from ..preconditions.ownership import allocate
from ..rewrites.inline_blocks import block_of_store
from ..rewrites.rewriting import BlockTracker, analyzer_at, axes_over, copied_nest, loop_copies


@primitive(
    checks=("complete block", "one block inside", "padding with a constant", "distinct cells"),
    rewrite="B[v] = if_then_else(inside, A[..], 0)  ->  B[v] = 0 for all v; B[v] = A[..] for the v inside",
    example='block = sch.get_block("C")\nsch.pad_einsum(block, [1, 1, 12])\npad = sch.get_block("A_pad")\n'
    "sch.decompose_padding(pad, sch.get_loops(pad)[0])",
)
def decompose_padding(state: ScheduleState, block: BlockRef, loop: LoopRef) -> BlockRef:
    """Divide a padding block into one that stores the padding everywhere, before ``loop``, and one that stores the inside. Returns
    the first, named ``<name>_pad_const``.

    The block must store ``if_then_else(condition, value, constant)``. Loops that drive a single iterator of a condition run over
    the inside only; other conditions stay. Raises ScheduleError E446.
    """
    require_complete(state, block)
    loops = loops_of(block)
    if loop not in loops or len(state.blocks_below(loop)) != 1:
        refuse(
            "E446",
            f"loop {loop.name} does not hold block {block.name} alone",
            "one block inside",
            [loop, block],
            f"a loop around {block.name} alone: take this step before compute_at",
        )
    require_blocks_only(loop)
    require_distinct(state, block, loop)
    store, condition, value, fill = _padding(block)
    inner = loops[loops.index(loop) :]
    with deep_recursion():
        first = _fill(block, inner, with_fields(store, value=fill))
        made, nest = _inside(state, block, inner, with_fields(store, value=value), condition)
        state.replace(loop, seq(first, nest), {block.block: made})
    return state.sref(loop.func, block_of(first))


def _padding(block: Sref) -> tuple[BufferStore, Expr, Expr, Expr]:
    """(store, condition, value inside, value of the padding). Refuses E446."""
    store = block.block.body
    if type(store) is BufferStore and store.predicate is None:
        value = store.value
        parts: tuple[Expr, ...] = ()
        if type(value) is Call and value.op_name == "T.if_then_else":
            parts = value.args
        elif type(value) is Select:
            parts = (value.cond, value.true_value, value.false_value)
        if len(parts) == 3 and isinstance(parts[2], (IntImm, FloatImm)):
            return store, parts[0], parts[1], parts[2]
    refuse(
        "E446",
        f"block {block.name} does not store if_then_else(condition, value, constant)",
        "padding with a constant",
        block,
        "a block whose only statement stores T.if_then_else(condition, value, constant)",
    )


def _fill(block: Sref, loops: Sequence[Sref], store: BufferStore) -> Stmt:
    """The padding in every cell, in copies of the loops."""
    old = block.block
    copies, mapping = loop_copies([s.loop for s in loops], {s.loop.loop_var for s in loops})
    made = fresh_copy(Block(old.iter_vars, (), old.writes, (), (), {}, f"{old.name}_pad_const", store))
    realize = block.realize
    values = tuple([substitute(v, mapping) for v in realize.iter_values])
    return copied_nest(copies, mapping, BlockRealize(values, substitute(realize.predicate, mapping), made))


def _inside(
    state: ScheduleState, block: Sref, loops: Sequence[Sref], store: BufferStore, condition: Expr
) -> tuple[Block, Stmt]:
    """The block on the iterations that meet the condition: loops over the inside where it is a range, else a predicate."""
    realize, old = block.realize, block.block
    ana = analyzer_at(state, block)
    left = conditions(condition)
    bounds: dict[Var, Range] = {}
    values = list(realize.iter_values)
    for k, (axis, value) in enumerate(zip(old.iter_vars, values)):
        item = next((s for s in loops if s.loop.loop_var is value), None)
        others = [v for j, v in enumerate(values) if j != k]
        if item is None or any([value in free_vars(v) for v in (*others, realize.predicate)]):
            continue
        low, high = item.loop.min, sub(add(item.loop.min, item.loop.extent), const(1, dtype_of(value)))
        for part in left:
            on = [v for v in free_vars(part) if v in {a.var for a in old.iter_vars}]
            found = deduce_bound(axis.var, part, ana) if on == [axis.var] else None
            if found is not None:
                low = ana.simplify(found.low) if found.low is not None and ana.can_prove(lt(low, found.low)) else low
                high = (
                    ana.simplify(found.high) if found.high is not None and ana.can_prove(lt(found.high, high)) else high
                )
        inside = Analyzer()
        inside.bind(axis.var, Range(low, ana.simplify(add(sub(high, low), const(1, dtype_of(value))))))
        met = [part for part in left if inside.can_prove(part)]
        extent = int_value(ana.simplify(add(sub(high, low), const(1, dtype_of(value)))))
        if met and extent is not None and extent > 0:
            left = [part for part in left if part not in met]
            bounds[item.loop.loop_var] = Range(const(0, dtype_of(value)), const(extent, dtype_of(value)))
            values[k] = ana.simplify(add(value, low))
    bound = dict(zip([axis.var for axis in old.iter_vars], values))
    guard = reduce(logical_and, [substitute(part, bound) for part in left], realize.predicate)
    made = with_fields(old, body=store)
    stmt: Stmt = BlockRealize(tuple(values), guard, made, realize.span)
    for item in reversed(loops):
        own = item.loop
        span = bounds.get(own.loop_var, Range(own.min, own.extent))
        stmt = with_fields(own, min=span.min, extent=span.extent, body=stmt)
    return made, stmt


# ---- pad_einsum


@primitive(
    checks=("complete or reduction block", "trivial binding", "an einsum", "positive padding"),
    rewrite="C[i, j] += A[i, k] * B[k, j]  ->  A_pad, B_pad with zeros; C_pad[i, j] += ...; C[i, j] = C_pad[i, j]",
    example='sch.pad_einsum(sch.get_block("C"), [5, 16, 12])',
)
def pad_einsum(state: ScheduleState, block: BlockRef, padding: list[int]) -> None:
    """Round the extents of a product, or of a sum of products, up to multiples of ``padding``, one number for each iterator of the
    block.

    Operands that a padded iterator indexes are copied with zeros (blocks ``<buffer>_pad`` before it); with a padded spatial
    iterator the result is computed in a padded buffer and copied back. Each iterator must be bound to a loop of its own, and
    indices must be iterators. Raises ScheduleError E447.
    """
    axes = block.block.iter_vars
    (require_reduction if any([axis.kind == "R" for axis in axes]) else require_complete)(state, block)
    if len(padding) != len(axes) or any([n < 1 for n in padding]):
        refuse(
            "E447",
            f"{len(axes)} positive numbers are wanted, got {list(padding)}",
            "positive padding",
            block,
            f"{[1] * len(axes)} pads nothing",
        )
    extents = _extents(state, block)
    wide = {axis.var: -(-n // p) * p for axis, n, p in zip(axes, extents, padding)}
    changed = {axis.var for axis, n in zip(axes, extents) if wide[axis.var] != n}
    store, loads = _einsum(block, changed)
    if not changed:
        return
    with deep_recursion():
        _pad(state, block, wide, changed, store, loads)


def _extents(state: ScheduleState, block: Sref) -> list[int]:
    """Extents of the iterators, each bound to a loop of its own around this block alone. Refuses E447."""
    loops = loops_of(block)
    own = {s.loop.loop_var: s for s in loops}
    found = []
    values = block.realize.iter_values
    for axis, value in zip(block.block.iter_vars, values):
        item = own.get(value) if isinstance(value, Var) else None
        extent = int_value(axis.domain.extent) if is_int(axis.domain.min, 0) else None
        if item is None or extent is None or not is_int(item.loop.extent, extent) or not is_int(item.loop.min, 0):
            refuse(
                "E447",
                f"iterator {axis.var.name} of block {block.name} is not bound to a loop of its own of constant extent",
                "trivial binding",
                block,
                "pad before splitting",
            )
        found.append(extent)
    if len(set(values)) < len(values) or not is_int(block.realize.predicate, 1):
        refuse(
            "E447",
            f"block {block.name} runs under a condition, or two iterators share a loop",
            "trivial binding",
            block,
            "pad before splitting",
        )
    if not loops or len(state.blocks_below(loops[0])) != 1:
        refuse("E447", f"block {block.name} shares its loops", "trivial binding", block, "pad before compute_at")
    require_blocks_only(loops[0])
    return found


def _einsum(block: Sref, changed: set[Var]) -> tuple[BufferStore, list[BufferLoad]]:
    """The store and the operands of a product or a sum of products. Refuses E447."""
    store, init = block.block.body, block.block.init
    axes = {axis.var: axis.kind for axis in block.block.iter_vars}
    summed = "R" in axes.values()
    if type(store) is BufferStore and (
        type(store.value) is Add and type(init) is BufferStore if summed else init is None
    ):
        term = reduction_operand(store) if summed else store.value
        factors = _factors(term) if term is not None else None
        accesses: list[BufferLoad | BufferStore] = [
            *(factors or ()),
            store,
            *([init] if type(init) is BufferStore else ()),
        ]
        plain = factors is not None and all([_by_iterators(access, axes) for access in accesses])
        if factors and plain:
            for var in changed:
                if axes[var] == "R" and any([var not in f.indices for f in factors]):
                    refuse(
                        "E447",
                        f"an operand of {block.name} does not depend on {var.name}: zeros would meet its infinities",
                        "an einsum",
                        block,
                        f"1 in the place of {var.name}",
                    )
            return store, factors
    refuse(
        "E447",
        f"block {block.name} is not a product, or sum of products, of elements selected by iterators",
        "an einsum",
        block,
        "C[i, j] = C[i, j] + A[i, k] * B[k, j], each index an iterator",
    )


def _factors(expr: Expr) -> list[BufferLoad] | None:
    if type(expr) is BufferLoad:
        return [expr]
    if type(expr) is Cast:
        return _factors(expr.value)
    if type(expr) is not Mul:
        return None
    a, b = _factors(expr.a), _factors(expr.b)
    return None if a is None or b is None else a + b


def _by_iterators(access: BufferLoad | BufferStore, axes: dict[Var, str]) -> bool:
    plain = [i for i in access.indices if isinstance(i, Var) and i in axes]
    return len(plain) == len(access.indices) == len(set(plain)) and access.predicate is None


def _pad(
    state: ScheduleState,
    block: Sref,
    wide: dict[Var, int],
    changed: set[Var],
    store: BufferStore,
    loads: list[BufferLoad],
) -> None:
    top = loops_of(block)[0]
    ana = analyzer_at(state, top, inside=False)
    before: list[Stmt] = []
    after: list[Stmt] = []
    table: dict[Buffer, Buffer] = {}
    accesses: list[BufferLoad | BufferStore] = [*loads, store]
    for access in accesses:
        if access.buffer in table or changed.isdisjoint(access.indices):
            continue
        table[access.buffer] = made = _padded(access, wide)
        sizes = access.buffer.shape if access is store else made.shape
        axes = axes_over(sizes)
        cell = tuple([axis.var for axis in axes])
        source, target = (made, access.buffer) if access is store else (access.buffer, made)
        value: Expr = buffer_load(source, *cell)
        if access is not store:
            inside = [lt(v, n) for v, n, m in zip(cell, source.shape, made.shape) if not ana.can_prove_equal(n, m)]
            value = if_then_else(reduce(logical_and, inside), value, const(0, source.dtype))
        copy = block_of_store(f"{access.buffer.name}_pad", axes, BufferStore(target, value, cell))
        (after if access is store else before).append(nest_of(axes, copy, {}, ana, preserve_unit_loops=True)[0])
    tracker = _Wider(wide, block, {**{old.data: new.data for old, new in table.items()}, **table})
    stmt = tracker(top.loop)
    allocate(state, scope_of(top), table.values(), [old.data for old in table])
    state.replace(top, seq(*before, stmt, *after), tracker.blocks)


def _padded(access: BufferLoad | BufferStore, wide: dict[Var, int]) -> Buffer:
    """A buffer of the padded extents."""
    old = access.buffer
    shape = tuple([const(wide[i], dtype_of(n)) for i, n in zip(access.indices, old.shape)])  # type: ignore[index]
    return make_buffer(f"{old.name}_pad", old.dtype, shape, old.scope)


class _Wider(BlockTracker):
    """Extents of loops and iterators become the padded ones."""

    def __init__(self, wide: dict[Var, int], block: Sref, mapping: dict[Any, Any]) -> None:
        super().__init__(mapping=mapping)
        self.wide = wide
        self.loops = {v: wide[axis.var] for axis, v in block.realize.bindings}

    def leave(self, node: object) -> object:
        if type(node) is For and node.loop_var in self.loops:
            return with_fields(node, extent=const(self.loops[node.loop_var], dtype_of(node.extent)))
        if type(node) is IterVar and node.var in self.wide:
            return with_fields(
                node, dom=Range(node.domain.min, const(self.wide[node.var], dtype_of(node.domain.extent)))
            )
        return super().leave(node)
