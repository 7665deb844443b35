"""``unity.relax.analysis``: what can be asked of graph functions, by TVM's names; found in ``unity.ir.analysis``."""

from ..ir.analysis import (
    bound_vars,
    computable_at_compile_time,
    detect_recursion,
    name_to_binding,
    users as udchain,
    var_to_value as get_var2val,
)
from ..ir.infer import find_impure_call
from ..ir.verify import is_well_formed as well_formed
from ..ir.walk import free_vars, post_order as post_order_visit, used_vars as all_vars
from ..transform.relax.dead_code import clean_function as remove_all_unused

__all__ = [
    "all_vars", "bound_vars", "computable_at_compile_time", "detect_recursion", "find_impure_call", "free_vars", "get_var2val",
    "name_to_binding", "post_order_visit", "remove_all_unused", "udchain", "well_formed",
]  # fmt: skip
