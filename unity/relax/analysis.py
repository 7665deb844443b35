"""``unity.relax.analysis``: what can be asked of graph functions, by TVM's names; found in ``unity.ir.analysis``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import analysis, walk
from ..ir.analysis import (
    computable_at_compile_time,
    contains_impure_call,
    defined_symbols as defined_symbolic_vars,
    detect_recursion,
    find_reshape as has_reshape_pattern,
    free_symbols as free_symbolic_vars,
    global_vars as all_global_vars,
    name_to_binding,
    used_symbols as tir_vars_in_type,
    users as udchain,
    var_to_value as get_var2val,
)
from ..ir.binders import bound_symbols as definable_tir_vars_in_type
from ..ir.expr import Var
from ..ir.infer import find_impure_call
from ..ir.node import Node
from ..ir.types import PrimType
from ..ir.verifier.verifier import is_well_formed as well_formed
from ..ir.walk import nodes_in
from ..support.arguments import make_public
from ..transform.relax.normalize.dead_code import clean_function as remove_all_unused


def post_order_visit(expr: Node, fvisit: Callable[[Any], None]) -> None:
    """Call ``fvisit`` on every node, children first, each shared node once."""
    for node in nodes_in(expr):
        fvisit(node)


def _of_the_graph(find: Callable[[Node], list[Var]]) -> Callable[[Node], list[Var]]:
    def found(expr: Node) -> list[Var]:
        return [var for var in find(expr) if not isinstance(var.ty, PrimType)]

    found.__doc__ = f"{find.__doc__} Symbols and other scalars are none of them."
    return found


all_vars, free_vars, bound_vars = [
    _of_the_graph(find) for find in (walk.used_vars, walk.free_vars, analysis.bound_vars)
]
check_well_formed, used_vars = well_formed, all_vars
__all__ = [
    "all_global_vars", "all_vars", "bound_vars", "check_well_formed", "computable_at_compile_time", "contains_impure_call",
    "definable_tir_vars_in_type", "defined_symbolic_vars", "detect_recursion", "find_impure_call", "free_symbolic_vars",
    "free_vars", "get_var2val", "has_reshape_pattern", "name_to_binding", "post_order_visit", "remove_all_unused",
    "tir_vars_in_type", "udchain", "used_vars", "well_formed",
]  # fmt: skip

make_public(globals(), __all__)
