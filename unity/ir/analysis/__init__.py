"""Analyses of modules, functions and tensor programs; none changes anything.

`use` variables, definitions, calls and recursion; `regions` what blocks touch.
"""

from .regions import block_regions, opaque_buffers
from .use import (
    call_graph,
    called_functions,
    defined_symbols,
    definitions,
    detect_recursion,
    free_symbols,
    reachable_functions,
    use_counts,
    used_symbols,
    users,
    var_to_value,
)  # fmt: skip

__all__ = [
    "block_regions", "call_graph", "called_functions", "defined_symbols", "definitions", "detect_recursion", "free_symbols",
    "opaque_buffers", "reachable_functions", "use_counts", "used_symbols", "users", "var_to_value",
]  # fmt: skip
