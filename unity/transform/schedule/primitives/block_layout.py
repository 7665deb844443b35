"""transform_block_layout: another order of a block's iterations.

Not here: the layout of buffers (``layout.py``). Invariant: every iteration has a place of its own in the new order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....arith import Analyzer
from ....arith.index_map import IndexMap
from ....ir.buffer import Range
from ....ir.build import const, dtype_of, is_int
from ....ir.expr import Var
from ....ir.node import Node, replace as with_fields
from ....ir.scalar import BufferLoad, IterVar
from ....ir.stmt import BlockRealize, BufferStore
from ....ir.types import Expr, prim_type
from ....ir.walk import free_vars, rewrite, substitute
from ....support.errors import UnityError
from ....support.recursion import deep_recursion
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import BlockRef, Sref, loops_of
from ..core.state import ScheduleState
from ..core.tree import TRUE
from ..preconditions.conditions import require_blocks_only, require_own_cells, require_regular
from ..preconditions.distinct import require_distinct
from ..preconditions.reducers import assume_free_steps
from ..rewrites.index_maps import to_index_map
from ..rewrites.rewriting import analyzer_at, nest


def iterator_map(state: ScheduleState, value: Any, args: Mapping[str, Any]) -> IndexMap:
    """The index map of a block's iterators that an argument stands for."""
    block: Sref = args["block"]
    return to_index_map(state, block.func, value, [axis.var for axis in block.block.iter_vars])


@primitive(
    checks=("loops of its own", "trivial binding", "a bijective map", "iterators of one kind"),
    rewrite="for i, j: block D (vi = i, vj = j)  ->  for a, b: block D (va = a, vb = b), vi and vj from the inverse map",
    example='sch.transform_block_layout(sch.get_block("D"), lambda i, j: (j, i))',
    normalize={"index_map": iterator_map},
)
def transform_block_layout(state: ScheduleState, block: BlockRef, index_map: Any) -> None:
    """Iterate a block over the results of ``index_map`` of its iterators, with one loop for each.

    Each iterator must be bound to a loop of its own that contains only this block; the map must be bijective and keep spatial and
    reduction iterators apart. Raises ScheduleError E445.
    """
    axes, loops = block.block.iter_vars, loops_of(block)
    require_regular(state, block)
    if not loops:
        refuse(
            "E445",
            f"block {block.name} has no loops",
            "loops of its own",
            block,
            f"sch.add_unit_loop({block.name}) gives it a loop",
        )
    chain = [s for s in loops if len(state.blocks_below(s)) == 1]
    if chain:
        require_blocks_only(chain[0])
    own = {s.loop.loop_var: s for s in chain}
    require_own_cells(state, block)
    if chain:
        require_distinct(state, block, chain[0])
    if any([axis.kind == "R" for axis in axes]):
        assume_free_steps(state, block)
    seen: set[Expr] = set()
    for axis, value in zip(axes, block.realize.iter_values):
        item = own.get(value) if isinstance(value, Var) else None
        ana = analyzer_at(state, block, inside=False)
        if item is None or value in seen or not is_int(axis.domain.min, 0) or not is_int(item.loop.min, 0) or (
            not ana.can_prove_equal(item.loop.extent, axis.domain.extent)
        ):  # fmt: skip
            refuse(
                "E445",
                f"iterator {axis.var.name} of block {block.name} is not bound to a loop of its own",
                "trivial binding",
                block,
                "transform the block before its loops are split or shared",
            )
        seen.add(value)
    busy = [
        s for s in chain if s.loop.kind != "serial" or (s.loop.loop_var not in seen and not is_int(s.loop.extent, 1))
    ]
    if busy or len(chain) != len(loops) or not is_int(block.realize.predicate, 1):
        refuse(
            "E445",
            f"block {block.name} shares its loops, or they are not plain",
            "loops of its own",
            [block, *busy],
            "transform the block before its loops are shared, fused, bound or made parallel",
        )
    extents = [axis.domain.extent for axis in axes]
    try:
        inverse, shape = index_map.inverse(extents), index_map.map_shape(extents)
    except UnityError as problem:
        refuse(
            "E445",
            f"the map is not bijective on the iterators of {block.name} ({problem.message})",
            "a bijective map",
            block,
            "a map in which every iterator takes part, e.g. lambda i, j: (i // 4, j, i % 4) where 4 divides the extent",
        )
    kinds = {var: axis.kind for var, axis in zip(index_map.initial_indices, axes)}
    made: list[IterVar] = []
    variables: list[Var] = []
    for k, (expr, extent) in enumerate(zip(index_map.final_indices, shape)):
        used = {kinds[v] for v in free_vars(expr) if v in kinds} or {"S"}
        if len(used) > 1:
            refuse(
                "E445",
                f"{expr} mixes spatial and reduction iterators of {block.name}",
                "iterators of one kind",
                block,
                "map the iterators of each kind apart, e.g. lambda i, j, k: (i * 8 + j, k)",
            )
        dtype = dtype_of(extent)
        variables.append(Var(f"ax{k}", prim_type(dtype)))
        made.append(
            IterVar(Var(f"v{k}", prim_type(dtype)), Range(const(0, dtype), Analyzer().simplify(extent)), used.pop())
        )
    fresh = dict(zip(inverse.initial_indices, [axis.var for axis in made]))
    mapping = {axis.var: substitute(e, fresh) for axis, e in zip(axes, inverse.final_indices)}
    ana = Analyzer()
    ana.bind_iterators(made)
    with deep_recursion():
        bare = substitute(with_fields(block.block, iter_vars=()), {v: ana.simplify(e) for v, e in mapping.items()})
        bare = rewrite(bare, {kind: partial(_simplified, ana) for kind in (BufferLoad, BufferStore, Range)})
    new = with_fields(bare, iter_vars=tuple(made))
    realize = BlockRealize(tuple(variables), TRUE, new, block.realize.span)
    stmt = nest([(v, axis.domain.extent, "serial") for v, axis in zip(variables, made)], realize)
    state.replace(chain[0], stmt, {block.block: new})


def _simplified(ana: Analyzer, node: BufferLoad | BufferStore | Range) -> Node:
    """An access whose indices are as short as the domains of the iterators allow."""
    if isinstance(node, Range):
        return Range(ana.simplify(node.min), ana.simplify(node.extent))
    return with_fields(node, indices=tuple([ana.simplify(e) for e in node.indices]))
