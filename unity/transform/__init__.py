"""Passes and pipelines: the names a program takes from ``unity.transform``. Lowering of tensor programs lives in ``tir/``.

A pass with options is changed by ``with_options``: ``bind_params.with_options(params={"w": array})(mod)``. A pass is loaded when
its name is first used; ``library.py`` loads all.
"""

from typing import TYPE_CHECKING

from ..support.late import lazy_names

if TYPE_CHECKING:
    from .base import (
        DumpInstrument,
        Instrument,
        Pass,
        PassContext,
        Pipeline,
        PrintInstrument,
        Sequential,
        TimeInstrument,
        VerifyInstrument,
        dataflowblock_pass,
        function_pass,
        module_pass,
        prim_func_pass,
        traced_passes,
    )  # fmt: skip
    from .check import CheckInstrument, CheckRecord
    from .instrument import DumpIR, PassTimingInstrument, PrintAfterAll, PrintBeforeAll, PrintIR, pass_instrument
    from .library import PASSES
    from .relax.adjust_matmul_order import adjust_matmul_order
    from .relax.alter_op_impl import alter_op_impl
    from .relax.annotate_tir_op_pattern import annotate_tir_op_pattern
    from .relax.attach_global_symbol import attach_global_symbol
    from .relax.bind_params import bind_params
    from .relax.bind_symbolic_vars import bind_symbolic_vars
    from .relax.bundle_model_params import bundle_model_params
    from .relax.canonicalize import canonicalize
    from .relax.clean_signatures import expand_tuple_arguments, remove_unused_outputs, remove_unused_parameters
    from .relax.combine_parallel_matmul import combine_parallel_matmul
    from .relax.compute_prim_value import compute_prim_value
    from .relax.convert_layout import convert_layout
    from .relax.convert_to_dataflow import convert_to_dataflow
    from .relax.dataflow_use_inplace_calls import dataflow_use_inplace_calls
    from .relax.dead_code import dead_code
    from .relax.decompose_ops import decompose_ops_for_inference, decompose_ops_for_training
    from .relax.eliminate_common_subexpr import eliminate_common_subexpr
    from .relax.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d
    from .relax.fold_constant import fold_constant
    from .relax.fuse_ops import fuse_ops
    from .relax.fuse_ops_by_pattern import (
        FusionPattern,
        fuse_ops_by_pattern,
        get_pattern,
        get_patterns_with_prefix,
        register_patterns,
    )
    from .relax.fuse_tir import fuse_tir
    from .relax.fuse_transpose_matmul import fuse_transpose_matmul
    from .relax.gradient import gradient
    from .relax.inline_private_functions import inline_private_functions
    from .relax.kill_after_last_use import kill_after_last_use
    from .relax.lambda_lift import lambda_lift
    from .relax.lazy_params import lazy_get_input, lazy_set_output
    from .relax.legalize_ops import legalize_ops
    from .relax.lift_transform_params import lift_transform_params
    from .relax.lower_alloc_tensor import lower_alloc_tensor
    from .relax.lower_call_dps import lower_call_dps
    from .relax.matmul_algebra import expand_matmul_of_sum, reorder_permute_dims_after_concat, reorder_take_after_matmul
    from .relax.merge_composite_functions import merge_composite_functions
    from .relax.normalize import normalize
    from .relax.normalize_global_var import normalize_global_var
    from .relax.pipeline import DEFAULT_PIPELINE
    from .relax.plan_memory import plan_memory
    from .relax.remove_purity_checking import remove_purity_checking
    from .relax.remove_redundant_reshape import remove_redundant_reshape
    from .relax.rewrite_reshape import rewrite_reshape
    from .relax.run_codegen import register_codegen, run_codegen
    from .relax.shift_signed_data import shift_signed_data
    from .relax.to_mixed_precision import to_mixed_precision
    from .relax.to_non_dataflow import to_non_dataflow
    from .relax.topological_sort import topological_sort
    from .relax.update_param_type import update_param_type
    from .relax.winograd import winograd

_PLACES = {
    "base": (
        "DumpInstrument",
        "Instrument",
        "Pass",
        "PassContext",
        "Pipeline",
        "PrintInstrument",
        "Sequential",
        "TimeInstrument",
        "VerifyInstrument",
        "dataflowblock_pass",
        "function_pass",
        "module_pass",
        "prim_func_pass",
        "traced_passes",
    ),
    "check": (
        "CheckInstrument",
        "CheckRecord",
    ),
    "instrument": ("DumpIR", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "PrintIR", "pass_instrument"),
    "relax.adjust_matmul_order": ("adjust_matmul_order",),
    "relax.alter_op_impl": ("alter_op_impl",),
    "relax.annotate_tir_op_pattern": ("annotate_tir_op_pattern",),
    "relax.attach_global_symbol": ("attach_global_symbol",),
    "relax.bind_params": ("bind_params",),
    "relax.bind_symbolic_vars": ("bind_symbolic_vars",),
    "relax.bundle_model_params": ("bundle_model_params",),
    "relax.canonicalize": ("canonicalize",),
    "relax.clean_signatures": (
        "expand_tuple_arguments",
        "remove_unused_outputs",
        "remove_unused_parameters",
    ),
    "relax.combine_parallel_matmul": ("combine_parallel_matmul",),
    "relax.compute_prim_value": ("compute_prim_value",),
    "relax.convert_layout": ("convert_layout",),
    "relax.convert_to_dataflow": ("convert_to_dataflow",),
    "relax.dataflow_use_inplace_calls": ("dataflow_use_inplace_calls",),
    "relax.dead_code": ("dead_code",),
    "relax.decompose_ops": (
        "decompose_ops_for_inference",
        "decompose_ops_for_training",
    ),
    "relax.eliminate_common_subexpr": ("eliminate_common_subexpr",),
    "relax.fold_batch_norm_to_conv2d": ("fold_batch_norm_to_conv2d",),
    "relax.fold_constant": ("fold_constant",),
    "relax.fuse_ops": ("fuse_ops",),
    "relax.fuse_ops_by_pattern": (
        "FusionPattern",
        "fuse_ops_by_pattern",
        "get_pattern",
        "get_patterns_with_prefix",
        "register_patterns",
    ),
    "relax.fuse_tir": ("fuse_tir",),
    "relax.fuse_transpose_matmul": ("fuse_transpose_matmul",),
    "relax.gradient": ("gradient",),
    "relax.inline_private_functions": ("inline_private_functions",),
    "relax.kill_after_last_use": ("kill_after_last_use",),
    "relax.lambda_lift": ("lambda_lift",),
    "relax.lazy_params": (
        "lazy_get_input",
        "lazy_set_output",
    ),
    "relax.legalize_ops": ("legalize_ops",),
    "relax.lift_transform_params": ("lift_transform_params",),
    "relax.lower_alloc_tensor": ("lower_alloc_tensor",),
    "relax.lower_call_dps": ("lower_call_dps",),
    "relax.matmul_algebra": (
        "expand_matmul_of_sum",
        "reorder_permute_dims_after_concat",
        "reorder_take_after_matmul",
    ),
    "relax.merge_composite_functions": ("merge_composite_functions",),
    "relax.normalize": (
        "normalize",
        "normalize_global_var",
    ),
    "relax.normalize_global_var": ("normalize_global_var",),
    "relax.pipeline": ("DEFAULT_PIPELINE",),
    "relax.plan_memory": ("plan_memory",),
    "relax.remove_purity_checking": ("remove_purity_checking",),
    "relax.remove_redundant_reshape": ("remove_redundant_reshape",),
    "relax.rewrite_reshape": ("rewrite_reshape",),
    "relax.run_codegen": (
        "register_codegen",
        "run_codegen",
    ),
    "relax.shift_signed_data": ("shift_signed_data",),
    "relax.to_mixed_precision": ("to_mixed_precision",),
    "relax.to_non_dataflow": ("to_non_dataflow",),
    "relax.topological_sort": ("topological_sort",),
    "relax.update_param_type": ("update_param_type",),
    "relax.winograd": ("winograd",),
    "library": ("PASSES",),
}

__getattr__, __dir__ = lazy_names(__name__, _PLACES)

__all__ = [
    "DEFAULT_PIPELINE", "PASSES", "CheckInstrument", "CheckRecord", "DumpIR", "DumpInstrument", "FusionPattern", "Instrument",
    "Pass", "PassContext", "PassTimingInstrument", "Pipeline", "PrintAfterAll", "PrintBeforeAll", "PrintIR", "PrintInstrument",
    "Sequential", "TimeInstrument", "VerifyInstrument", "adjust_matmul_order", "alter_op_impl", "annotate_tir_op_pattern",
    "attach_global_symbol", "bind_params", "bind_symbolic_vars", "bundle_model_params", "canonicalize", "combine_parallel_matmul",
    "compute_prim_value", "convert_layout", "convert_to_dataflow", "dataflow_use_inplace_calls", "dataflowblock_pass",
    "dead_code", "decompose_ops_for_inference", "decompose_ops_for_training", "eliminate_common_subexpr", "expand_matmul_of_sum",
    "expand_tuple_arguments", "fold_batch_norm_to_conv2d", "fold_constant", "function_pass", "fuse_ops", "fuse_ops_by_pattern",
    "fuse_tir", "fuse_transpose_matmul", "get_pattern", "get_patterns_with_prefix", "gradient", "inline_private_functions",
    "kill_after_last_use", "lambda_lift", "lazy_get_input", "lazy_set_output", "legalize_ops", "lift_transform_params",
    "lower_alloc_tensor", "lower_call_dps", "merge_composite_functions", "module_pass", "normalize", "normalize_global_var",
    "pass_instrument", "plan_memory", "prim_func_pass", "register_codegen", "register_patterns", "remove_purity_checking",
    "remove_redundant_reshape", "remove_unused_outputs", "remove_unused_parameters", "reorder_permute_dims_after_concat",
    "reorder_take_after_matmul", "rewrite_reshape", "run_codegen", "shift_signed_data", "to_mixed_precision", "to_non_dataflow",
    "topological_sort", "traced_passes", "update_param_type", "winograd",
]  # fmt: skip
