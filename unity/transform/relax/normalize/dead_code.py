"""Removal of what has no use: bindings without effect, and private functions nobody calls.

Kept: calls with effects, match_cast that may fail or binds symbols, functions with a global symbol, and those named in
``entry_functions``. A module without any of these keeps all its functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.analysis.use import reachable_functions
from ....ir.expr import BindingBlock, Call, DataflowBlock, If, MatchCast, SeqExpr, Var
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.module import IRModule
from ....ir.node import replace, same_items
from ....ir.relation import Answer, is_subtype
from ....ir.types import Expr
from ....ir.walk import collect, nodes_in
from ....support.errors import PassError
from ...infra.passes import module_pass
from ..rewriting.graph_rewriter import join_blocks


def _has_effect(value: Expr) -> bool:
    if type(value) is Call:
        return not is_pure_call(value)
    if type(value) is If:
        return any([not is_pure_call(c) for c in collect(value, Call) if not c.op_name.startswith("T.")]) or bool(
            list(collect(value, MatchCast))
        )
    return False


class _Cleaner:
    def __init__(self) -> None:
        self.used: set[Var] = set()
        self.seen: set[int] = set()

    def use(self, value: Any) -> None:
        """Record the variables in a part of the function as it was."""
        self.used.update([node for node in nodes_in(value, self.seen) if isinstance(node, Var)])

    def sequence(self, expr: Expr) -> Expr:
        """The sequence without unused bindings; visited backwards so that uses are known before definitions."""
        if type(expr) is not SeqExpr:
            self.use(expr)
            return expr
        self.use(expr.body)
        blocks: list[BindingBlock] = []
        for block in reversed(expr.blocks):
            made = [self.binding(binding) for binding in reversed(block.bindings)]
            kept = tuple([binding for binding in reversed(made) if binding is not None])
            if kept or (not block.bindings and type(block) is DataflowBlock):
                blocks.append(replace(block, bindings=kept))
        blocks.reverse()
        return expr if same_items(expr.blocks, tuple(blocks)) else replace(expr, blocks=join_blocks(blocks))

    def binding(self, binding: Any) -> Any:
        value = binding.value
        if isinstance(binding, MatchCast):
            if binding.var not in self.used and is_subtype(value.ty, binding.target) is Answer.YES:
                return None
            self.use(value)
            self.use(binding.target)
            return binding
        if binding.var not in self.used and not _has_effect(value):
            return None
        if type(value) is If:
            return self.conditional(binding, value)
        self.use(binding.var)
        if type(value) is Function:
            body = self.sequence(value.body)
            for param in value.params:
                self.use(param)
            return replace(binding, value=replace(value, body=body))
        self.use(value)
        return binding

    def conditional(self, binding: Any, value: If) -> Any:
        """A conditional with clean branches; None where they turn out to have no effect and nothing uses it."""
        before = None if binding.var in self.used else (set(self.used), set(self.seen))
        then_branch, else_branch = self.sequence(value.then_branch), self.sequence(value.else_branch)
        made = replace(value, then_branch=then_branch, else_branch=else_branch)
        if before is not None and not _has_effect(made):
            self.used, self.seen = before
            return None
        self.use(binding.var)
        self.use(value.cond)
        return replace(binding, value=made)


def clean_function(fn: Function) -> Function:
    """The function without unused bindings."""
    cleaner = _Cleaner()
    return replace(fn, body=cleaner.sequence(fn.body))


def reachable(mod: IRModule, entries: Sequence[str] = ()) -> set[str]:
    """Names of functions that public functions and ``entries`` need; all names where there are none."""
    public = [name for name, fn in mod.functions.items() if "global_symbol" in (getattr(fn, "attrs", None) or {})]
    needed = [*public, *entries]
    return reachable_functions(mod, needed) if needed else set(mod.functions)


def require_functions(mod: IRModule, names: Sequence[str]) -> None:
    """Raise PassError E744 for a name that is not a function of the module."""
    for name in names:
        if name not in mod:
            raise PassError("E744", f"the module has no function {name!r}", help=f"it has: {', '.join(mod.functions)}")


@module_pass()
def dead_code(mod: IRModule, *, entry_functions: tuple[str, ...] = ()) -> IRModule:
    """Remove unused bindings without effects, then private functions that nothing public or in ``entry_functions`` reaches.

    ``entry_functions``: functions kept besides the public ones.
    """
    require_functions(mod, entry_functions)
    cleaned = mod.with_graph_functions(clean_function)
    alive = reachable(cleaned, entry_functions)
    return cleaned.with_functions({name: None for name in cleaned.functions if name not in alive})
