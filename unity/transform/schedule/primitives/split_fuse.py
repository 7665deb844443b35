"""split and fuse: one loop becomes several, several become one."""

from __future__ import annotations

import itertools
from functools import reduce

from ....ir.buffer import Range
from ....ir.build import add, ceildiv, const, dtype_of, floordiv, floormod, int_value, is_int, lt, mul
from ....ir.expr import Var
from ....ir.stmt import For, Stmt
from ....ir.types import Expr
from ....ir.walk import free_vars
from ..core.refuse import refuse
from ..core.registry import primitive
from ..core.sref import LoopRef, Sref
from ..core.state import ScheduleState
from ..preconditions.conditions import iterators_driven, require_not_empty
from ..preconditions.enclosing import loads_outside
from ..rewrites.rewriting import LoopBody, analyzer_at, as_index, nest

MAX_NAME = 40
"""Characters of a loop name joined from several; a longer one is just "fused"."""


def require_plain(loop: Sref) -> For:
    """Refuse E421 unless the loop has no annotation and no thread and starts at zero; the loop."""
    stmt = loop.loop
    if stmt.annotations or stmt.thread is not None:
        what = (
            f"is bound to {stmt.thread}"
            if stmt.thread is not None
            else f"has annotations {sorted(stmt.annotations or ())}"
        )
        refuse(
            "E421", f"loop {loop.name} {what}", "plain loop", loop,
            "take this step before bind, or unannotate the loop first",
        )  # fmt: skip
    if not stmt.counts_up:
        refuse(
            "E421",
            f"loop {loop.name} does not start at 0 in steps of 1",
            "loop starts at zero",
            loop,
            "write the loop from zero, with the first value added in the bindings: vi = T.axis.spatial(n, i + first)",
        )
    return stmt


def require_only_child(outer: Sref, inner: Sref, code: str, nearest: str) -> None:
    """Refuse ``code`` unless a loop is all that stands in another."""
    if outer.loop.body is not inner.node:
        text = f"loop {inner.name} is not the only statement inside loop {outer.name}"
        refuse(code, text, "only children in a chain", [outer, inner], nearest)


def require_factors(loop: Sref, factors: list[Expr | int | None]) -> int | None:
    """The place of the factor to infer, None where there is none. Refuses E422 unless the others are positive integers."""
    if not isinstance(factors, list) or not factors:
        refuse(
            "E422",
            f"factors must be a list of at least one factor, got {factors!r}",
            "factors",
            loop,
            "e.g. factors=[None, 8]",
        )
    missing = [k for k, f in enumerate(factors) if f is None]
    if len(missing) > 1:
        refuse(
            "E422",
            f"only one factor may be None, got {len(missing)}",
            "one factor inferred",
            loop,
            "e.g. factors=[None, 4, 8]",
        )
    for factor in [f for f in factors if f is not None]:
        value = int_value(factor) if isinstance(factor, Expr) else factor
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            refuse(
                "E422",
                f"a factor must be an integer or None, got {factor!r}",
                "factors",
                loop,
                "e.g. factors=[None, 8]",
            )
        if value is not None and value <= 0:
            refuse(
                "E422", f"factor {value} of loop {loop.name} is not positive", "positive factors", loop,
                "factors count iterations: 1 or more",
            )  # fmt: skip
    return missing[0] if missing else None


def _sizes(extent: Expr, factors: list[Expr | int | None], inferred: int | None) -> list[Expr]:
    """Factors as expressions, the one to infer filled in."""
    one = const(1, dtype_of(extent))
    known = [one if factor is None else as_index(factor, extent) for factor in factors]
    if inferred is not None:
        known[inferred] = ceildiv(extent, reduce(mul, known, one))
    return known


@primitive(
    checks=("plain loop", "loop starts at zero", "positive factors", "one factor inferred"),
    rewrite="for i in n: f(i)  ->  for i_0 in n / 8: for i_1 in 8: f(i_0 * 8 + i_1)",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nj0, j1 = sch.split(j, factors=[None, 8])',
)
def split(
    state: ScheduleState,
    loop: LoopRef,
    factors: list[int | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRef]:
    """Split a loop into nested loops with the given extents, outermost first. Returns them.

    ``factors``: integers or expressions; at most one is None and is inferred (rounded up). If they do not multiply to the extent
    exactly, the blocks inside get a predicate. ``preserve_unit_iters=False``: leave loops of one iteration out of the bindings.
    ``disable_predication``: leave out the predicate; the step is then tested or refused. Raises ScheduleError E421 for a bound or
    annotated loop, E422 for wrong factors.
    """
    stmt = require_plain(loop)
    extent, var = stmt.extent, stmt.loop_var
    ana = analyzer_at(state, loop)
    inferred = require_factors(loop, factors)  # type: ignore[arg-type]
    sizes = [ana.simplify(s) for s in _sizes(extent, factors, inferred)]  # type: ignore[arg-type]
    loops: list[tuple[Var, Expr, str]] = []
    index: Expr = const(0, dtype_of(var))
    product: Expr = const(1, dtype_of(var))
    for number, size in enumerate(sizes):
        made = Var(f"{var.name}_{number}", var.ty)
        loops.append((made, size, _kind_of_part(stmt.kind, number, len(sizes))))
        ana.bind(made, _range(size, made))
        unit = is_int(size, 1) and not preserve_unit_iters
        index = add(mul(index, size), const(0, dtype_of(var)) if unit else made)
        product = mul(product, size)
    product = ana.simplify(product)
    exact = ana.can_prove_equal(product, extent)
    if not exact and inferred is None and not ana.can_prove_less(extent, add(product, 1)):
        shown = [int_value(s) for s in sizes]
        total, needed = int_value(product), int_value(extent)
        words = (
            f"{' * '.join([str(n) for n in shown])} = {total} < {needed}"
            if total is not None
            else f"{product} >= {extent} is not known"
        )
        refuse(
            "E422", f"the factors do not cover loop {loop.name}: {words}", "factors cover the loop", loop,
            f"sch.split({loop.name}, factors={[None, *shown[1:]]}) infers the outermost",
        )  # fmt: skip
    guard = None
    if not exact and not ana.can_prove_less(product, add(extent, 1)):
        if disable_predication:
            state.assumptions.append(f"{product} iterations of {loop.name} are exactly {extent}")
        else:
            guard = ana.simplify(lt(index, extent))
            if inferred is None:
                require_not_empty(state, loop, [loop])
            if loads_outside(stmt.body):
                text = f"the factors give more than {extent} iterations, and what is loaded outside of blocks is loaded in all"
                refuse(
                    "E422", text,
                    "factors divide the loop", loop, "factors whose product is the extent",
                )  # fmt: skip
    inner = LoopBody(state, {var: index}, ana, guard)
    body = inner(stmt.body)
    state.replace(loop, nest(loops, body), inner.blocks)
    return [state.sref(loop.func, made) for made, _, _ in loops]


def _kind_of_part(kind: str, number: int, count: int) -> str:
    """The kind of a part of a split loop: the outermost part of a parallel loop, the innermost of a vectorized one, all of an
    unrolled one go on as the loop did."""
    keeps = {"parallel": number == 0, "vectorized": number == count - 1, "unrolled": True}
    return kind if keeps.get(kind, False) else "serial"


def _range(extent: Expr, like: Var) -> Range:
    return Range(const(0, dtype_of(like)), extent)


@primitive(
    checks=("plain loop", "only children in a chain", "one kind", "independent extents", "reduction not empty"),
    rewrite="for i in n: for j in m: f(i, j)  ->  for f in n * m: f(f // m, f % m)",
    example='i, j, k = sch.get_loops(sch.get_block("C"))\nij = sch.fuse(i, j)',
)
def fuse(state: ScheduleState, *loops: LoopRef, preserve_unit_iters: bool = True) -> LoopRef:
    """Fuse nested loops, each the only child of the one before, into one. Returns it.

    Raises ScheduleError E421 for a bound or annotated loop; E423 if the loops are not a chain, the extent of one uses another, or
    they run in different ways (one parallel, one not).
    """
    if not loops:
        refuse("E423", "fuse needs at least one loop", "at least one loop", nearest="sch.fuse(i, j)")
    stmts = [require_plain(loop) for loop in loops]
    for outer, inner in itertools.pairwise(loops):
        if inner in outer.above():
            refuse(
                "E423", f"loop {outer.name} stands inside loop {inner.name}", "outer loop first", [inner, outer],
                f"sch.fuse({inner.name}, {outer.name})",
            )  # fmt: skip
        if outer not in inner.above():
            refuse(
                "E423", f"loop {inner.name} stands in another nest than loop {outer.name}", "one nest", [outer, inner],
                "merge brings equal loops of two nests together, compute_at one nest under a loop of the other",
            )  # fmt: skip
        require_only_child(
            outer, inner, "E423", "give neighbouring loops from the outside in; reorder can bring them together"
        )
    kinds = {s.kind for s in stmts}
    if len(kinds) > 1:
        refuse("E423", f"the loops run in different ways: {', '.join(sorted(kinds))}", "one kind", list(loops),
               "fuse first, then parallel, vectorize or unroll")  # fmt: skip
    variables = {s.loop_var for s in stmts}
    for loop, stmt in zip(loops, stmts):
        if any([v in variables for v in free_vars(stmt.extent)]):
            refuse(
                "E423",
                f"the extent of loop {loop.name} uses a loop to be fused",
                "independent extents",
                loop,
                "loops over a box, with the condition in the block",
            )
    for block in state.blocks_below(loops[-1]):
        if any([kind != "R" for loop in loops for kind, _ in iterators_driven(block, loop)]):
            require_not_empty(state, loops[-1], loops)
    ana = analyzer_at(state, loops[-1])
    name = "_".join([s.loop_var.name for s in stmts]) + "_fused"
    var = Var(name if len(name) <= MAX_NAME else "fused", stmts[0].loop_var.ty)
    total = ana.simplify(reduce(mul, [stmt.extent for stmt in stmts], const(1, dtype_of(var))))
    ana.bind(var, _range(total, var))
    mapping: dict[Var, Expr] = {}
    rest: Expr = var
    for number, stmt in reversed(list(enumerate(stmts))):
        value = rest if number == 0 else floormod(rest, stmt.extent)
        if is_int(stmt.extent, 1) and not preserve_unit_iters:
            value = const(0, dtype_of(var))
        mapping[stmt.loop_var] = value
        rest = floordiv(rest, stmt.extent)
    inner_body = LoopBody(state, {v: ana.simplify(e) for v, e in mapping.items()}, ana)
    body: Stmt = inner_body(stmts[-1].body)
    state.replace(loops[0], nest([(var, total, stmts[0].kind)], body), inner_body.blocks)
    return state.sref(loops[0].func, var)
