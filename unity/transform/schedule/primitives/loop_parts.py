"""loop_partition and merge: one loop becomes several that follow each other, several nests that follow each other
become one."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.build import add, const, dtype_of, gt, int_value
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.stmt import Block, BlockRealize, Stmt, seq, statements_of
from ....ir.types import Expr
from ....ir.walk import fresh_copy
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import LoopRef, Sref, loops_of
from ..core.state import ScheduleState
from ..preconditions.conditions import require_complete_values, require_not_empty
from ..preconditions.coverage import why_not_independent
from ..preconditions.dependence import block_scope, scope_of
from ..rewrites.rewriting import BlockTracker, LoopBody, analyzer_at, nest
from .reduction import reads_of_update
from .split_fuse import require_factors, require_only_child, require_plain


@primitive(
    checks=("plain loop", "positive factors", "one factor inferred", "parts within the loop"),
    rewrite="for i in n: f(i)  ->  for i_0 in 4: f(i_0); for i_1 in n - 4: f(i_1 + 4)",
    example='i, j = sch.get_loops(sch.get_block("D"))\nj0, j1 = sch.loop_partition(j, [4, None])',
)
def loop_partition(
    state: ScheduleState, loop: LoopRef, factors: list[int | None], preserve_unit_iters: bool = True
) -> list[LoopRef]:
    """Cut a loop into consecutive loops with the given numbers of iterations; the rest becomes one more loop.

    At most one factor is None: it takes what the others leave. The blocks inside are copied: those of part ``n`` are named
    ``<name>_<n>``, and references to the old ones become invalid. Each part runs from zero. Raises ScheduleError E421 for a bound
    or annotated loop, E422 for factors that do not fit.
    """
    stmt = require_plain(loop)
    extent = int_value(stmt.extent)
    if extent is None:
        refuse(
            "E422",
            f"the extent of loop {loop.name} is not a constant",
            "constant extent",
            loop,
            "split divides a loop of any extent",
        )
    parts = _parts(loop, extent, factors)
    require_not_empty(state, loop, [loop, *loops_of(loop)])
    starts = [sum(parts[:k]) for k in range(len(parts))]
    pieces: list[Stmt] = []
    made: list[Var] = []
    for number, (start, count) in enumerate(zip(starts, parts)):
        var = Var(f"{stmt.loop_var.name}_{number}", stmt.loop_var.ty)
        made.append(var)
        ana = analyzer_at(state, loop)
        index: Expr = add(var, const(start, dtype_of(var)))
        if count == 1 and not preserve_unit_iters:
            index = const(start, dtype_of(var))
        body = fresh_copy(BlockTracker({Block: _renamed(number)})(stmt.body))
        ana.bind_range(var, 0, count - 1)
        body = _without_late_init(LoopBody(state, {stmt.loop_var: index}, ana)(body), ana)
        pieces.append(nest([(var, const(count, dtype_of(var)), stmt.kind)], body))
    state.replace(loop, seq(*pieces))
    return [state.sref(loop.func, var) for var in made]


def _without_late_init(body: Stmt, ana: Analyzer) -> Stmt:
    """Blocks whose reduction iterators cannot be at their first value here lose the initialisation: an earlier part has it."""

    def visit(realize: BlockRealize) -> BlockRealize:
        block = realize.block
        late = [
            axis for axis, value in realize.bindings
            if axis.kind == "R" and ana.can_prove(gt(value, axis.domain.min))
        ]  # fmt: skip
        if block.init is None or not late:
            return realize
        return with_fields(realize, block=with_fields(block, init=None, reads=reads_of_update(block)))

    return BlockTracker({BlockRealize: visit})(body)


def _renamed(number: int) -> Any:
    return lambda block: with_fields(block, name=f"{block.name}_{number}")


def _parts(loop: Sref, extent: int, factors: list[int | None]) -> list[int]:
    inferred = require_factors(loop, factors)  # type: ignore[arg-type]
    known = [f for f in factors if isinstance(f, int)]
    if len(known) < len(factors) - (inferred is not None):
        refuse("E422", "a factor is not a constant", "positive factors", loop, "e.g. [4, 8], the sizes of the parts")
    rest = extent - sum(known)
    if rest < (0 if inferred is None else 1):
        refuse(
            "E422",
            f"loop {loop.name} has {extent} iterations, the parts {sum(known)}",
            "parts within the loop",
            loop,
            f"parts whose sizes add up to at most {extent}",
        )
    if inferred is not None:
        return [rest if f is None else f for f in factors]
    return [*known, rest] if rest else list(known)


@primitive(
    checks=("plain loop", "same scope", "same extents", "neighbours", "only children in a chain", "region cover"),
    rewrite="for i: f(i); for i: g(i)  ->  for m: f(m); g(m)",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nx, y = sch.get_loops(sch.get_block("D"))\nm = sch.merge(j, y)',
)
def merge(state: ScheduleState, *loops: LoopRef) -> LoopRef:
    """Merge loops of consecutive nests into one nest that does the work of all. Returns the innermost merged loop.

    From the common ancestor down to each given loop there must be equally many loops, each the only child of its parent, with equal
    extents. Raises ScheduleError E423 if not, E415 if an iteration of a later nest would read what the merged iteration has not
    computed yet.
    """
    if len(loops) < 2 or len(set(loops)) != len(loops):
        refuse(
            "E423",
            "merge needs at least two different loops",
            "two loops",
            list(loops),
            "sch.merge(a, b), one loop of each nest",
        )
    chains = _chains(loops)
    for chain in chains:
        for sref in chain:
            require_plain(sref)
        require_not_empty(state, chain[-1], [*chain, *loops_of(chain[0])])
    ana = analyzer_at(state, chains[0][0], inside=False)
    for level in zip(*chains):
        for other in level[1:]:
            if not ana.can_prove_equal(level[0].loop.extent, other.loop.extent):
                refuse("E423", f"loops {level[0].name} and {other.name} have different extents", "same extents",
                       [level[0], other],
                       "split them to equal extents first, or compute_at / reverse_compute_at")  # fmt: skip
    parent = chains[0][0].parent
    assert parent is not None
    body = parent.block.body if parent.is_block else parent.loop.body
    siblings = statements_of(body)
    positions = [next((k for k, s in enumerate(siblings) if s is chain[0].node), -1) for chain in chains]
    if -1 in positions or sorted(positions) != list(range(min(positions), min(positions) + len(positions))):
        refuse(
            "E423",
            "the nests do not follow each other directly",
            "neighbours",
            [c[0] for c in chains],
            "merge nests that stand directly after each other",
        )
    ordered = [chains[positions.index(position)] for position in sorted(positions)]
    made = [(Var(f"{s.loop.loop_var.name}_m", s.loop.loop_var.ty), s.loop.extent, "serial") for s in ordered[0]]
    bodies: list[Stmt] = []
    blocks: dict[Block, Block] = {}
    for chain in ordered:
        mapping = {s.loop.loop_var: var for s, (var, _, _) in zip(chain, made)}
        inner = LoopBody(state, mapping, analyzer_at(state, chain[-1]))
        bodies.append(inner(chain[-1].loop.body))
        blocks.update(inner.blocks)
    merged = nest(made, seq(*bodies))
    kept = [merged if s is ordered[0][0].node else s for s in siblings if s not in [c[0].node for c in ordered[1:]]]
    state.change(parent, blocks, body=seq(*kept))
    result = state.sref(loops[0].func, made[-1][0])
    _require_order(state, state.sref(loops[0].func, made[0][0]))
    return result


def _chains(loops: tuple[Sref, ...]) -> list[list[Sref]]:
    """For each loop the loops from below where the nests meet down to it."""
    if len({scope_of(s) for s in loops}) != 1:
        refuse(
            "E423", "the loops stand in different blocks", "same scope", list(loops), "take this step before blockize"
        )
    above = [set(s.above()) for s in loops]
    common = set.intersection(*above)
    chains: list[list[Sref]] = []
    for sref in loops:
        chain = [sref]
        while chain[0].parent not in common and chain[0].parent is not None:
            outer = chain[0].parent
            require_only_child(outer, chain[0], "E423", f"merge the loops outside of {chain[0].name}")
            chain.insert(0, outer)
        chains.append(chain)
    if len({len(c) for c in chains}) != 1 or len({id(c[0].node) for c in chains}) != len(chains):
        refuse(
            "E423",
            "the loops are not equally deep below where their nests meet",
            "same depth",
            list(loops),
            "give the loop at the same depth of each nest",
        )
    return chains


def _require_order(state: ScheduleState, top: Sref) -> None:
    """Refuse E415 when a block under the merged loop reads what is not computed yet, or is overwritten before it is
    read."""
    blocks = state.blocks_below(top)
    require_complete_values(state, blocks)
    known = block_scope(state, blocks[0])
    for block in blocks:
        for other in [b for b in known.after(block) if b in set(blocks)]:
            if not set(known.writes[block]).isdisjoint(known.writes[other]):
                refuse(
                    "E415",
                    f"blocks {block.name} and {other.name} write the same buffer",
                    "written once",
                    [block, other],
                    f"cache_write of {other.name} gives it a buffer of its own",
                )
    fault = why_not_independent(state, top)
    if fault is not None:
        refuse("E415", fault.reason, "region cover", fault.block, "compute_at moves what is needed, cell by cell; "
               "cache_write gives a block that writes what was read a buffer of its own")  # fmt: skip
