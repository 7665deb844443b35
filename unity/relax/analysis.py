"""``unity.relax.analysis``: what can be asked of graph functions, by TVM's names; found in ``unity.ir.analysis``."""

from ..ir.analysis import (
    bound_vars,
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
from ..ir.infer import find_impure_call
from ..ir.verifier.verifier import is_well_formed as well_formed
from ..ir.walk import free_vars, post_order as post_order_visit, used_vars as all_vars
from ..support.arguments import make_public
from ..transform.relax.normalize.dead_code import clean_function as remove_all_unused

__all__ = [
    "all_global_vars", "all_vars", "bound_vars", "computable_at_compile_time", "contains_impure_call", "definable_tir_vars_in_type",
    "defined_symbolic_vars", "detect_recursion", "find_impure_call", "free_symbolic_vars", "free_vars", "get_var2val",
    "has_reshape_pattern", "name_to_binding", "post_order_visit", "remove_all_unused", "tir_vars_in_type", "udchain", "well_formed",
]  # fmt: skip

make_public(globals(), __all__)
