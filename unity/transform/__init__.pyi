"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from ..relax.names import PASSES as PASSES
from ..relax.passes.adjust_matmul_order import adjust_matmul_order as adjust_matmul_order
from ..relax.passes.alter_op_impl import alter_op_impl as alter_op_impl
from ..relax.passes.combine_parallel_matmul import combine_parallel_matmul as combine_parallel_matmul
from ..relax.passes.compute_prim_value import compute_prim_value as compute_prim_value
from ..relax.passes.dataflow_use_inplace_calls import dataflow_use_inplace_calls as dataflow_use_inplace_calls
from ..relax.passes.decompose_ops import (
    decompose_ops_for_inference as decompose_ops_for_inference,
    decompose_ops_for_training as decompose_ops_for_training,
)
from ..relax.passes.lazy_params import lazy_get_input as lazy_get_input, lazy_set_output as lazy_set_output
from ..relax.passes.lazy_transform_params import lazy_transform_params as lazy_transform_params
from ..relax.passes.lift_transform_params import lift_transform_params as lift_transform_params
from ..relax.passes.optimize_layout_transform import optimize_layout_transform as optimize_layout_transform
from ..relax.passes.remove_purity_checking import remove_purity_checking as remove_purity_checking
from ..relax.passes.split_layout_rewrite_preproc import split_layout_rewrite_preproc as split_layout_rewrite_preproc
from .infra.passes import (
    DumpInstrument as DumpInstrument,
    Instrument as Instrument,
    Pass as Pass,
    PassContext as PassContext,
    Pipeline as Pipeline,
    PrintInstrument as PrintInstrument,
    Sequential as Sequential,
    TimeInstrument as TimeInstrument,
    VerifyInstrument as VerifyInstrument,
    dataflowblock_pass as dataflowblock_pass,
    function_pass as function_pass,
    module_pass as module_pass,
    prim_func_pass as prim_func_pass,
    traced_passes as traced_passes,
)
from .relax.algebra.attend_in_place import attend_in_place as attend_in_place
from .relax.algebra.canonicalize import canonicalize as canonicalize
from .relax.algebra.eliminate_common_subexpr import eliminate_common_subexpr as eliminate_common_subexpr
from .relax.algebra.fold_batch_norm_to_conv2d import fold_batch_norm_to_conv2d as fold_batch_norm_to_conv2d
from .relax.algebra.fold_constant import fold_constant as fold_constant
from .relax.algebra.fuse_transpose_matmul import fuse_transpose_matmul as fuse_transpose_matmul
from .relax.algebra.remove_redundant_reshape import remove_redundant_reshape as remove_redundant_reshape
from .relax.fusion.fuse_ops import fuse_ops as fuse_ops
from .relax.fusion.fuse_ops_by_pattern import (
    FusionPattern as FusionPattern,
    fuse_ops_by_pattern as fuse_ops_by_pattern,
    get_pattern as get_pattern,
    get_patterns_with_prefix as get_patterns_with_prefix,
    register_patterns as register_patterns,
)
from .relax.fusion.fuse_tir import fuse_tir as fuse_tir
from .relax.fusion.merge_composite_functions import merge_composite_functions as merge_composite_functions
from .relax.fusion.op_pattern import annotate_tir_op_pattern as annotate_tir_op_pattern
from .relax.fusion.run_codegen import register_codegen as register_codegen, run_codegen as run_codegen
from .relax.gradient.gradient import gradient as gradient
from .relax.interprocedural.clean_signatures import (
    expand_tuple_arguments as expand_tuple_arguments,
    remove_unused_outputs as remove_unused_outputs,
    remove_unused_parameters as remove_unused_parameters,
)
from .relax.interprocedural.inline_private_functions import (
    inline_private_functions as inline_private_functions,
)
from .relax.interprocedural.lambda_lift import lambda_lift as lambda_lift
from .relax.interprocedural.normalize_global_var import (
    attach_global_symbol as attach_global_symbol,
    normalize_global_var as normalize_global_var,
)
from .relax.layout.convert_layout import convert_layout as convert_layout
from .relax.layout.image_lines import image_lines as image_lines
from .relax.layout.winograd import winograd as winograd
from .relax.lowering.legalize_ops import legalize_ops as legalize_ops
from .relax.memory.kill_after_last_use import kill_after_last_use as kill_after_last_use
from .relax.memory.lower_call_dps import lower_call_dps as lower_call_dps
from .relax.memory.plan_memory import lower_alloc_tensor as lower_alloc_tensor, plan_memory as plan_memory
from .relax.memory.rewrite_reshape import rewrite_reshape as rewrite_reshape
from .relax.normalize.convert_to_dataflow import (
    convert_to_dataflow as convert_to_dataflow,
    to_non_dataflow as to_non_dataflow,
)
from .relax.normalize.dead_code import dead_code as dead_code
from .relax.normalize.normalize import normalize as normalize
from .relax.normalize.topological_sort import assert_last as assert_last, topological_sort as topological_sort
from .relax.params.bind_params import (
    bind_params as bind_params,
    bind_symbolic_vars as bind_symbolic_vars,
    bundle_model_params as bundle_model_params,
    update_param_type as update_param_type,
)
from .relax.pipeline import DEFAULT_PIPELINE as DEFAULT_PIPELINE
from .relax.precision.quantize_weights import quantize_weights as quantize_weights
from .relax.precision.shift_signed_data import shift_signed_data as shift_signed_data
from .relax.precision.to_mixed_precision import to_mixed_precision as to_mixed_precision
from .validation.translation_validation import (
    CheckInstrument as CheckInstrument,
    CheckRecord as CheckRecord,
)
