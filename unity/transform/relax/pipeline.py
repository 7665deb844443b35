"""The default order of graph passes: from operators to calls with explicit outputs and planned memory, ready for bytecode.

Afterwards a graph function holds only calls of tensor programs by GlobalVar with explicit outputs, memory operators,
R.call_packed, calls of graph functions, views, shape and tuple operators, conditionals, match_cast, closures and leaves; no
dataflow blocks.
"""

from __future__ import annotations

from ..base import Pipeline
from ..rules import schedule_default
from ..tir.auto_inline import auto_inline
from ..tir.share_blocks import share_blocks
from .annotate_tir_op_pattern import annotate_tir_op_pattern
from .attach_global_symbol import attach_global_symbol
from .canonicalize import canonicalize
from .check_shapes import check_shapes
from .compact_constants import compact_constants
from .convert_layout import convert_layout
from .convert_to_dataflow import convert_to_dataflow
from .dead_code import dead_code
from .eliminate_common_subexpr import eliminate_common_subexpr
from .fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
from .fold_constant import fold_constant
from .fuse_attention import fuse_attention
from .fuse_ops import fuse_ops
from .fuse_tir import fuse_tir
from .keep_unit_axes import keep_unit_axes
from .kill_after_last_use import kill_after_last_use
from .lambda_lift import lambda_lift
from .legalize_ops import legalize_ops
from .lower_call_dps import lower_call_dps
from .merge_families import merge_families
from .normalize import normalize
from .plan_memory import plan_memory
from .remove_redundant_reshape import remove_redundant_reshape
from .rewrite_reshape import rewrite_reshape
from .shift_signed_data import shift_signed_data
from .to_non_dataflow import to_non_dataflow

DEFAULT_PIPELINE = Pipeline(
    (
        normalize,
        check_shapes,
        lambda_lift,
        fold_batch_norm_to_conv2d,
        canonicalize,
        convert_layout,
        fuse_attention,
        keep_unit_axes,
        remove_redundant_reshape,
        eliminate_common_subexpr,
        fold_constant,
        shift_signed_data,
        rewrite_reshape,
        legalize_ops,
        canonicalize,
        dead_code,
        convert_to_dataflow,
        annotate_tir_op_pattern,
        fuse_ops,
        fuse_tir,
        share_blocks,
        auto_inline,
        dead_code,
        merge_families,
        schedule_default,
        compact_constants,
        to_non_dataflow,
        lower_call_dps,
        canonicalize,
        plan_memory,
        kill_after_last_use,
        attach_global_symbol,
    )
)
