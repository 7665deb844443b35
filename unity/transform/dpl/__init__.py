"""The pattern language of dataflow: what a piece of a graph looks like, finding it, rewriting it. Names as in ``tvm.relax.dpl``."""

from ...support.arguments import checked, make_public
from .builders import (
    is_call_dps,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    wildcard,
)
from .context import PatternContext
from .pattern import DFPattern
from .rewrite import rewrite_bindings, rewrite_call

__all__ = [
    "DFPattern",
    "PatternContext",
    "is_call_dps",
    "is_call_dps_packed",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "make_fused_bias_activation_pattern",
    "rewrite_bindings",
    "rewrite_call",
    "wildcard",
]

make_public(globals(), __all__, checked)
