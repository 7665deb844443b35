"""blockize: a loop nest, or neighbouring blocks, become one outer block that a tile of the work is an instance of.

Not here: putting instructions in the place of such a block (``tensorize.py``). Invariant: an instance of the outer block runs
exactly the instances of the inner ones that its loops ran, in the same order; the initialisation of a reduction moves to the outer
block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....arith import Analyzer
from ....arith.itermap_inverse import Division, subspace_divide
from ....ir.analysis import block_regions
from ....ir.buffer import Buffer, BufferRegion, Range
from ....ir.build import add, const, dtype_of, ge, is_int, lt, minimum, mul, sub
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad, IterVar
from ....ir.stmt import Block, BlockRealize, For, Stmt, seq, statements_of
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, free_vars, fresh_copy, substitute
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, ItemRef, Sref, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import check_of, require_no_repetition, require_regular
from ..preconditions.coverage import common_ancestor, is_defined
from ..preconditions.dependence import scope_of
from ..preconditions.enclosing import triangular
from ..preconditions.first_step import all_of, conditions, init_predicate
from ..rewrites.inline_blocks import with_regions
from ..rewrites.moving import Mover, body_of, position_of
from ..rewrites.rewriting import analyzer_at, copied_nest, loop_copies, loop_range
from .reduction import reads_of_update


@primitive(
    checks=("one block inside", "a division of the iterators", "a divisible condition", "spatial tiles"),
    rewrite="for io, ii: block C (vi = io * 4 + ii)  ->  for io: block C_o (vi_o = io): for ii: block C (vi_i = ii)",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\ni0, i1 = sch.split(i, factors=[None, 4])\n'
    "sch.reorder(i0, j, k, i1)\nsch.blockize(i1)",
)
def blockize(state: ScheduleState, target: ItemRef | list[BlockRef], preserve_unit_iters: bool = True) -> BlockRef:
    """Turn the subtree of a loop, or neighbouring blocks with their loops, into one outer block ``<name>_o``. Returns that block.

    Each iterator ``v`` is divided into ``v_o``, bound to the loops outside, and ``v_i``, bound to those inside. The initialisation
    of a reduction moves to the outer block, over the inner spatial iterators. ``preserve_unit_iters=False`` leaves out outer
    iterators of one value. Raises ScheduleError E440 if a loop contains anything but one block, or an iterator cannot be divided
    between the loops.
    """
    with deep_recursion():
        if isinstance(target, list):
            return _siblings(state, target, preserve_unit_iters)
        return blockize_one(state, target, preserve_unit_iters)


def blockize_one(state: ScheduleState, target: Sref, preserve_unit_iters: bool) -> Sref:
    """Blockize the subtree of a loop; a block given itself becomes the only instance's content."""
    at = target.node
    inside: list[For] = []
    while type(at) is For:
        inside.append(at)
        at = at.body  # type: ignore[assignment]
    if type(at) is not BlockRealize or target.parent is None:
        what = "the root block" if target.parent is None else "more than one block"
        refuse(
            "E440",
            f"loop {target.name} holds {what}" if inside else "the root block stays as it is",
            "one block inside",
            target,
            "give the blocks as a list" if inside else "a loop or a block inside of it",
        )
    block = state.sref(target.func, at)
    require_no_repetition(block, [state.sref(target.func, loop) for loop in inside])
    parts = _divide(state, block, [loop.loop_var for loop in inside])
    outer = _Outer(state, target.parent or target, preserve_unit_iters)
    outer.enter(block, parts)
    inner = parts.inner_realize(outer.replacement(parts), drop_init=True)
    body: Stmt = inner
    for loop in reversed(inside):
        body = with_fields(loop, body=body)
    init = _init(state, block, inside, parts, outer) if block.block.init is not None else None
    made = outer.block(body, init, block.name)
    state.replace(target, made, {block.block: inner.block})
    return state.sref(target.func, made.block)


def _siblings(state: ScheduleState, blocks: Sequence[Sref], preserve_unit_iters: bool) -> Sref:
    """One block around neighbouring blocks and the loops that they do not share."""
    if not blocks:
        refuse(
            "E440",
            "no blocks are given",
            "one block inside",
            nearest="a loop, a block, or a list of neighbouring blocks",
        )
    if len(blocks) == 1:
        return blockize_one(state, blocks[0], preserve_unit_iters)
    for block in blocks:
        if block.parent is None or scope_of(block) is not scope_of(blocks[0]):
            refuse(
                "E440",
                f"block {block.name} stands in another block than {blocks[0].name}",
                "one scope",
                block,
                f"blockize blocks that stand directly in block {scope_of(blocks[0]).name}",
            )
    at = common_ancestor(*blocks)
    stmts = statements_of(body_of(at))
    positions = [position_of(stmts, block.block) for block in blocks]
    known = [p for p in positions if p is not None]
    span = stmts[min(known) : max(known) + 1]
    found = [b for b in state.blocks_below(at) if any([position_of([s], b.block) is not None for s in span])]
    if set(found) != set(blocks) or len(known) != len(blocks):
        extra = [b for b in found if b not in blocks]
        refuse(
            "E440",
            f"block {extra[0].name if extra else blocks[0].name} stands between the blocks given",
            "neighbouring blocks",
            [*blocks, *extra],
            "give all blocks from the first to the last",
        )
    outer = _Outer(state, at, preserve_unit_iters)
    moves: list[tuple[Stmt, Stmt]] = []
    renamed: dict[Block, Block] = {}
    for block in found:
        parts = _divide(state, block, [s.loop.loop_var for s in loops_of(block, at)])
        outer.enter(block, parts)
        if block.block.init is not None and any([k == "R" and not is_int(d.outer_extent, 1) for k, d in parts.kinds()]):
            refuse(
                "E440",
                f"the reduction {block.name} goes on over several instances of the outer block",
                "spatial tiles",
                block,
                "decompose_reduction first, or blockize the block alone",
            )
        inner = parts.inner_realize(outer.replacement(parts), drop_init=False)
        moves.append((block.realize, inner))
        renamed[block.block] = inner.block
    tracker = Mover({id(old): new for old, new in moves})
    body = seq(*[tracker(s) for s in span])
    made = outer.block(body, None, found[0].name)
    state.change(at, renamed, body=seq(*stmts[: min(known)], made, *stmts[max(known) + 1 :]))
    return state.sref(at.func, made.block)


@dataclass(slots=True)
class _Parts:
    """A block's iterators divided: ``inner`` are the new iterators of the inner block with their values (None: the iterator is
    constant inside)."""

    block: Sref
    divisions: list[Division]
    inner: list[IterVar | None]
    outer_guard: Expr
    inner_guard: Expr
    names: dict[Var, Expr] = field(default_factory=dict)

    def kinds(self) -> list[tuple[str, Division]]:
        """Kind of each iterator with its division."""
        return [(axis.kind, d) for axis, d in zip(self.block.block.iter_vars, self.divisions)]

    def inner_realize(self, mapping: Mapping[Var, Expr], drop_init: bool) -> BlockRealize:
        """The block over its inner iterators."""
        old = self.block.block
        axes = tuple([axis for axis in self.inner if axis is not None])
        values = tuple([d.inner for d, axis in zip(self.divisions, self.inner) if axis is not None])
        bare = with_fields(old, iter_vars=(), init=None if drop_init else old.init)
        made = with_fields(substitute(bare, mapping), iter_vars=axes)
        if drop_init and old.init is not None:
            made = with_fields(made, reads=reads_of_update(made))
        return BlockRealize(values, self.inner_guard, made)


def _divide(state: ScheduleState, block: Sref, inner: Sequence[Var]) -> _Parts:
    """Division of a block's iterators between the loops ``inner`` and those around them. Refuses E440."""
    require_regular(state, block)
    realize = block.realize
    loops = loops_of(block)
    bent = triangular(loops)
    if bent is not None:
        refuse(
            "E440",
            f"the bounds of loop {bent.name} use another loop",
            "a division of the iterators",
            [bent, block],
            "a nest over a box, with the condition in the block",
        )
    ranges = {s.loop.loop_var: loop_range(s.loop) for s in loops}
    ana = analyzer_at(state, block, inside=False)
    outer_guard, inner_guard = _split_guard(block, set(inner), set(ranges))
    units = {v: r.min for v, r in ranges.items() if is_int(r.extent, 1)}
    values = [substitute(v, units) for v in realize.iter_values]
    live = {v: r for v, r in ranges.items() if v not in units}
    guard = None if is_int(realize.predicate, 1) else substitute(realize.predicate, units)
    found = subspace_divide(values, live, [v for v in inner if v in live], guard, check_of(block))
    if found is None:
        refuse(
            "E440",
            f"the iterators of block {block.name} cannot be divided between the loops outside and inside",
            "a division of the iterators",
            [block, *[s for s in loops if s.loop.loop_var in inner]],
            "split the loops so that those inside run the fastest, each a whole tile",
        )
    for value, d in zip(values, found):
        for part, extent in ((d.outer, d.outer_extent), (d.inner, d.inner_extent)):
            zero = const(0, dtype_of(part))
            below = ana.can_prove(lt(part, extent))
            if not below and guard is not None:  # the extent counts the values that the predicate lets through
                first = ana.simplify(substitute(part, {v: r.min for v, r in ranges.items()}))
                below = is_int(first, 0) and ana.modular_set(part).coeff == 1
            inside = ana.can_prove(ge(part, zero)) and below
            if not inside or not ana.can_prove_equal(value, add(mul(d.outer, d.inner_extent), d.inner)):
                refuse(
                    "E440",
                    f"{value} of block {block.name} is not a whole number of tiles of {d.inner_extent}",
                    "a division of the iterators",
                    block,
                    "split the loops with factors that divide the extents",
                )
    made: list[IterVar | None] = []
    for axis, d in zip(block.block.iter_vars, found):
        if is_int(d.inner_extent, 1):
            made.append(None)
            continue
        var = Var(f"{axis.var.name}_i", axis.var.ty)
        dtype = dtype_of(axis.var)
        made.append(IterVar(var, Range(const(0, dtype), d.inner_extent), axis.kind))
    return _Parts(block, found, made, outer_guard, inner_guard)


def _split_guard(block: Sref, inner: set[Var], loops: set[Var]) -> tuple[Expr, Expr]:
    """A predicate's conjuncts on the loops outside and inside. Refuses E440 for one on both."""
    outside: list[Expr] = []
    inside: list[Expr] = []
    for part in conditions(block.realize.predicate):
        used = [v for v in free_vars(part) if v in loops]
        within = [v for v in used if v in inner]
        if within and len(within) < len(used):
            refuse(
                "E440",
                f"the condition {part} of block {block.name} is on loops outside and inside",
                "a divisible condition",
                block,
                "split with factors that divide, or pad_einsum first",
            )
        (inside if within else outside).append(part)
    return all_of(outside), all_of(inside)


class _Outer:
    """The outer block as it is put together; equal bindings of several blocks share an iterator."""

    def __init__(self, state: ScheduleState, at: Sref, preserve_unit_iters: bool) -> None:
        self.state = state
        self.at = at
        self.keep_units = preserve_unit_iters
        self.axes: list[IterVar] = []
        self.values: list[Expr] = []
        self.guards: list[Expr] = []

    def enter(self, block: Sref, parts: _Parts) -> None:
        """Add what a block needs."""
        for axis, d in zip(block.block.iter_vars, parts.divisions):
            parts.names[axis.var] = self._iterator(axis, d)
        self.guards.append(parts.outer_guard)

    def _iterator(self, axis: IterVar, d: Division) -> Expr:
        if not self.keep_units and is_int(d.outer_extent, 1) and is_int(d.outer, 0):
            return d.outer
        for known, value in zip(self.axes, self.values):
            if (
                known.kind == axis.kind
                and structural_equal(value, d.outer)
                and structural_equal(known.domain.extent, d.outer_extent)
            ):
                return known.var
        var = Var(f"{axis.var.name}_o", axis.var.ty)
        self.axes.append(IterVar(var, Range(const(0, dtype_of(var)), d.outer_extent), axis.kind))
        self.values.append(d.outer)
        return var

    def replacement(self, parts: _Parts) -> dict[Var, Expr]:
        """The value of each iterator of a block inside the new one."""
        ana = Analyzer()
        found: dict[Var, Expr] = {}
        for axis, d, inner in zip(parts.block.block.iter_vars, parts.divisions, parts.inner):
            base = parts.names[axis.var]
            if inner is None:
                found[axis.var] = base
            else:
                only = is_int(d.outer_extent, 1)
                found[axis.var] = inner.var if only else ana.simplify(add(mul(base, d.inner_extent), inner.var))
        return found

    def block(self, body: Stmt, init: Stmt | None, name: str) -> BlockRealize:
        """The outer block's realization."""
        guard = self.guards[0]
        if any([not structural_equal(g, guard) for g in self.guards[1:]]):
            refuse(
                "E440",
                "the blocks run under different conditions",
                "a divisible condition",
                self.at,
                "blockize each block alone, or put them under one condition",
            )
        made = Block(tuple(self.axes), None, None, (), (), {}, f"{name}_o", body, init)
        reads, writes = block_regions(made)
        ana = analyzer_at(self.state, self.at)
        ana.bind_iterators(self.axes)
        changed = {w.buffer for w in writes}
        made = with_fields(made, reads=_simple(ana, reads, changed), writes=_simple(ana, writes, changed))
        return BlockRealize(tuple(self.values), guard, made)


def _simple(ana: Analyzer, regions: Sequence[BufferRegion], changed: set[Buffer]) -> tuple[BufferRegion, ...]:
    """Regions as they stand at the block's entry: a bound that reads what the block changes is not known there, nor one
    that divides by a size that may be zero: loops inside then run not at all."""
    found = []
    for region in regions:
        ranges = []
        for r, dim in zip(region.region, region.buffer.shape):
            known = not any([load.buffer in changed for load in collect(r, BufferLoad)])
            if not known or not all([is_defined(e, lambda: ana) for e in (r.min, r.extent)]):
                ranges.append(Range(const(0, dtype_of(dim)), dim))
                continue
            low, extent = ana.simplify(r.min), ana.simplify(r.extent)
            if not ana.can_prove(ge(dim, add(low, extent))):  # a tile at the edge, under a condition inside
                extent = extent if is_int(extent, 1) else ana.simplify(minimum(extent, sub(dim, low)))
            ranges.append(Range(low, extent))
        found.append(BufferRegion(region.buffer, tuple(ranges)))
    return tuple(found)


def _init(state: ScheduleState, block: Sref, inside: Sequence[For], parts: _Parts, outer: _Outer) -> Stmt:
    """The initialisation over the inner spatial iterators, in copies of the loops that drive them."""
    old = block.block
    spatial = [
        (axis, d, inner) for axis, d, inner in zip(old.iter_vars, parts.divisions, parts.inner) if axis.kind != "R"
    ]
    used = {v for _, d, inner in spatial if inner is not None for v in free_vars(d.inner)}
    copies, mapping = loop_copies(inside, used, "_init")
    axes = tuple([inner for _, _, inner in spatial if inner is not None])
    values = tuple([substitute(d.inner, mapping) for _, d, inner in spatial if inner is not None])
    assert old.init is not None
    content = substitute(old.init, outer.replacement(parts))
    made = Block(axes, None, None, (), (), {}, f"{old.name}_init", content)
    made = made if old.writes is None else with_regions(made)
    gone = [loop for loop in inside if loop.loop_var not in used]
    guard = init_predicate(analyzer_at(state, block, inside=False), parts.inner_guard, mapping, gone)
    bound = [loop.loop_var for loop in inside if loop.kind == "thread_binding"]
    return copied_nest(copies, mapping, BlockRealize(values, guard, fresh_copy(made)), bound)
