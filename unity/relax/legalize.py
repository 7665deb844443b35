"""``customize_legalize_map`` of TVM's ``LegalizeOps``: functions ``(bb, call) -> expression`` by operator.

What a function gives takes the call's place before the other operators are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.expr import Call, op
from ..ir.module import IRModule
from ..ir.types import Expr
from ..op.building.block_builder import BlockBuilder
from ..transform.infra.passes import module_pass
from .mutator import PyExprMutator

Rules = Mapping[str, Callable[[BlockBuilder, Call], Expr]]


class _Customized(PyExprMutator):
    """Calls of some operators replaced by what functions of a user make of them."""

    def __init__(self, mod: IRModule, rules: Rules) -> None:
        super().__init__(mod)
        self.rules = {op(name).name: rule for name, rule in rules.items()}

    def visit_call_(self, call: Call) -> Expr:
        made = self.visit_expr_post_order(call)
        rule = self.rules.get(made.op_name) if isinstance(made, Call) else None
        return rule(self.builder_, made) if rule is not None and isinstance(made, Call) else made

    def module(self, mod: IRModule) -> IRModule:
        """The module with its graph functions rewritten."""
        for name, fn in mod.graph_functions().items():
            self.builder_.update_func(name, self.visit_expr(fn))
        return self.builder_.get()


@module_pass()
def customize_ops(mod: IRModule, *, rules: Rules | None = None) -> IRModule:
    """Replace calls of some operators by what functions of a user, ``rules``, make of them: ``(bb, call) -> expression``."""
    return _Customized(mod, rules or {}).module(mod)
