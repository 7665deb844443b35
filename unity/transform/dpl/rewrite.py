"""Rewriting of what patterns match: one call at a time (``rewrite_call``), or several bindings of a block at once
(``rewrite_bindings``). The result is normalised, in order of definition, and without bindings that lost their use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.expr import (
    Binding,
    DataflowBlock,
    MatchCast,
    Var,
    VarBinding,
)
from ...ir.function import Function
from ...ir.names import NameSupply
from ...ir.types import Expr
from ...ir.walk import used_vars
from ...support.errors import PassError
from ..relax.normalize.dead_code import clean_function
from ..relax.normalize.normalize import normalize
from ..relax.rewriting.graph_rewriter import GraphRewriter, OnBlocks, Replaced
from .context import PatternContext
from .pattern import DFPattern

Matches = dict[DFPattern, Expr]


def rewrite_call(pattern: DFPattern, rewriter: Callable[[Expr, Matches], Expr], func: Function) -> Function:
    """Replace each bound value that matches by ``rewriter(value, matches)``; the value itself means no change. Raises
    PassError E553 for what is not an expression.

    >>> x = wildcard()
    >>> rewrite_call(is_op("R.add")(x, x), lambda expr, found: R.multiply(found[x], R.const(2.0)), mod["main"])
    """
    known: dict[Var, Expr] = {}

    def rule(value: Expr, graph: GraphRewriter) -> Any:
        found = pattern.extract_matched_expr(value, known)
        made = value if found is None else rewriter(value, found)
        if not isinstance(made, Expr):
            raise PassError("E553", f"the rewriter returned {made!r} ({type(made).__name__}), which is not an expression",
                            help="return the value itself where nothing changes")  # fmt: skip
        known[graph.var] = made
        return Replaced(made) if isinstance(made, Var) and made is not value else made

    made: Function = GraphRewriter(rule).function(func)
    return func if made is func else clean_function(normalize.on(made))


def rewrite_bindings(
    ctx: PatternContext, rewriter: Callable[[dict[DFPattern, Var], dict[Var, Expr]], dict[Var, Expr]], func: Function
) -> Function:
    """In each dataflow block, as long as the patterns of ``ctx`` match, bind the variables that
    ``rewriter(matched variables, values of the block)`` returns to what it says. Raises PassError E554 where it never ends."""

    names = NameSupply([v.name for v in used_vars(func)])
    made = OnBlocks(lambda block: _rewrite_block(ctx, rewriter, block, names))(func)
    return func if made is func else clean_function(made)


ROUNDS = 1000
"""Most rewrites of one block."""


def _rewrite_block(ctx: PatternContext, rewriter: Any, block: DataflowBlock, names: NameSupply) -> DataflowBlock:
    for _ in range(ROUNDS):
        found = ctx.match_dfb(block)
        if found is None:
            return block
        values = {b.var: b.value for b in block.bindings if isinstance(b, VarBinding)}
        changes = rewriter(found, dict(values))
        changes = {var: value for var, value in changes.items() if values.get(var) is not value}
        if not changes:
            return block
        block = _bind(block, changes, names)
    raise PassError("E554", f"the rewriter matches its own result: {ROUNDS} rewrites of one block",
                    help="return {} for what is rewritten already, or make the pattern exclude it")  # fmt: skip


def _bind(block: DataflowBlock, changes: dict[Var, Expr], names: NameSupply) -> DataflowBlock:
    def rule(value: Expr, graph: GraphRewriter) -> Expr | None:
        var = graph.var
        if var not in changes:
            return value
        graph.append(VarBinding(var, graph.flat(changes[var]), getattr(changes[var], "span", None)))
        return None

    made = GraphRewriter(rule, names=names).block(block).bindings
    return DataflowBlock(tuple(topological_order(remove_unused_bindings(list(made)))), block.span)


def remove_unused_bindings(bindings: list[Binding]) -> list[Binding]:
    """Bindings of a dataflow block without those inner ones that nothing uses."""
    used: set[Var] = set()
    kept: list[Binding] = []
    for binding in reversed(bindings):
        if binding.var.dataflow and binding.var not in used and not isinstance(binding, MatchCast):
            continue
        used.update(used_vars(binding.value))
        used.update(used_vars(binding.var.ty))
        kept.append(binding)
    return kept[::-1]


def topological_order(bindings: list[Binding]) -> list[Binding]:
    """Bindings with every definition before its uses; otherwise in the order given."""
    by_var = {b.var: b for b in bindings}
    done: set[Var] = set()
    out: list[Binding] = []
    for start in bindings:
        stack: list[tuple[Binding, bool]] = [(start, False)]
        while stack:
            binding, ready = stack.pop()
            if binding.var in done:
                continue
            if ready:
                done.add(binding.var)
                out.append(binding)
                continue
            stack.append((binding, True))
            needed = [by_var[v] for v in used_vars(binding.value) if v in by_var and v not in done]
            stack += [(b, False) for b in reversed(needed) if b is not binding]
    return out
