"""Analyses of modules, functions and tensor programs; none changes anything.

`use` variables and definitions, `calls` call graph, recursion and purity, `regions` what blocks touch, `cost` operations and
bytes.
"""

from .calls import (
    call_graph,
    called_functions,
    contains_impure_call,
    detect_recursion,
    global_vars,
    is_pure_function,
    reachable_functions,
)  # fmt: skip
from .cost import allocated_bytes, estimate_bytes, estimate_flops
from .regions import block_regions, buffer_access_lca, buffer_accesses, opaque_buffers
from .use import (
    bound_vars,
    computable_at_compile_time,
    defined_symbols,
    definitions,
    find_reshape,
    free_symbols,
    name_to_binding,
    undefined_vars,
    use_counts,
    used_symbols,
    users,
    var_to_value,
)  # fmt: skip

__all__ = [
    "allocated_bytes", "block_regions", "bound_vars", "buffer_access_lca", "buffer_accesses", "call_graph",
    "called_functions", "computable_at_compile_time", "contains_impure_call", "defined_symbols", "definitions",
    "detect_recursion", "estimate_bytes", "estimate_flops", "find_reshape", "free_symbols", "global_vars",
    "is_pure_function", "name_to_binding", "opaque_buffers", "reachable_functions", "undefined_vars", "use_counts",
    "used_symbols", "users", "var_to_value",
]  # fmt: skip
