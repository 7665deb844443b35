"""The default order of graph passes: from operators to calls with explicit outputs and planned memory, ready for bytecode.

Afterwards a graph function holds only calls of tensor programs by GlobalVar with explicit outputs, memory operators,
R.call_packed, calls of graph functions, views, shape and tuple operators, conditionals, match_cast, closures and leaves; no
dataflow blocks.
"""

from __future__ import annotations

from ..default_schedule.apply import compact_constants, schedule_default, schedule_nests
from ..infra.passes import Pipeline
from .algebra.attend_in_place import attend_in_place
from .algebra.canonicalize import canonicalize
from .algebra.eliminate_common_subexpr import eliminate_common_subexpr
from .algebra.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
from .algebra.fold_constant import fold_constant
from .algebra.fuse_attention import fuse_attention
from .algebra.fuse_transpose_matmul import fuse_transpose_matmul
from .algebra.remove_redundant_reshape import remove_redundant_reshape
from .fusion.auto_inline import auto_inline
from .fusion.fuse_ops import fuse_ops
from .fusion.fuse_tir import fuse_tir
from .fusion.merge_families import merge_families
from .fusion.op_pattern import annotate_tir_op_pattern
from .fusion.share_blocks import share_blocks
from .interprocedural.lambda_lift import lambda_lift
from .interprocedural.normalize_global_var import attach_global_symbol
from .layout.convert_layout import convert_layout
from .layout.image_lines import image_lines
from .layout.keep_unit_axes import keep_unit_axes
from .lowering.legalize_ops import legalize_ops
from .memory.kill_after_last_use import kill_after_last_use
from .memory.lower_call_dps import lower_call_dps
from .memory.plan_memory import plan_memory
from .memory.rewrite_reshape import rewrite_reshape
from .normalize.check_shapes import check_shapes
from .normalize.convert_to_dataflow import convert_to_dataflow, to_non_dataflow
from .normalize.dead_code import dead_code
from .normalize.normalize import normalize
from .normalize.topological_sort import assert_last
from .precision.shift_signed_data import shift_signed_data

GRAPH_PIPELINE = Pipeline(
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
        dead_code,
        attend_in_place.with_options(where_fast=True),
        eliminate_common_subexpr,
        fold_constant,
        fuse_transpose_matmul.with_options(where_fast=True),
        shift_signed_data,
        image_lines,
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
    )
)
"""Operators become calls of tensor programs, fused."""

SCHEDULE_PIPELINE = Pipeline((schedule_default, schedule_nests, compact_constants))
"""Loops are chosen, by the rules of the target and then nest by nest; constants are laid out as they want them."""

PLAN_PIPELINE = Pipeline(
    (
        to_non_dataflow,
        lower_call_dps,
        canonicalize,
        plan_memory,
        kill_after_last_use,
        attach_global_symbol,
    )
)
"""Calls say which memory they write to, dead memory is reused."""

DEVICE_PLAN_PIPELINE = Pipeline((assert_last, PLAN_PIPELINE))
"""The same for devices that compute beside the host."""

DEFAULT_PIPELINE = Pipeline((GRAPH_PIPELINE, SCHEDULE_PIPELINE, PLAN_PIPELINE))
