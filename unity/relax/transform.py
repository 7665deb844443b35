"""``unity.relax.transform``: passes under TVM's names, ``FuseOps()(mod)``, ``BindParams("main", params)(mod)``.

A name with its arguments gives the pass of ``unity.transform`` with its options; the table says which. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..support.errors import PassError
from ..transform import DEFAULT_PIPELINE, Pipeline
from ..transform.base import Pass, dataflowblock_pass, function_pass
from ..transform.library import PASSES

_TABLE = {
    "AnnotateTIROpPattern": "annotate_tir_op_pattern",
    "AttachGlobalSymbol": "attach_global_symbol",
    "BindParams": "bind_params func_name params",
    "BindSymbolicVars": "bind_symbolic_vars binding_map=symbols func_name",
    "BundleModelParams": "bundle_model_params param_tuple_name",
    "CallTIRRewrite": "lower_call_dps",
    "CanonicalizeBindings": "canonicalize",
    "CombineParallelMatmul": "combine_parallel_matmul",
    "ComputePrimValue": "compute_prim_value",
    "ConvertLayout": "convert_layout",
    "ConvertToDataflow": "convert_to_dataflow min_size",
    "DataflowUseInplaceCalls": "dataflow_use_inplace_calls",
    "DeadCodeElimination": "dead_code",
    "DecomposeOpsForInference": "decompose_ops_for_inference",
    "DecomposeOpsForTraining": "decompose_ops_for_training",
    "EliminateCommonSubexpr": "eliminate_common_subexpr",
    "ExpandTupleArguments": "expand_tuple_arguments",
    "FoldBatchnormToConv2D": "fold_batch_norm_to_conv2d",
    "FoldConstant": "fold_constant",
    "FuseOps": "fuse_ops",
    "FuseOpsByPattern": "fuse_ops_by_pattern patterns bind_constants annotate_codegen entry_functions",
    "FuseTIR": "fuse_tir",
    "FuseTransposeMatmul": "fuse_transpose_matmul",
    "Gradient": "gradient func_name require_grads target_index",
    "InlinePrivateFunctions": "inline_private_functions",
    "KillAfterLastUse": "kill_after_last_use",
    "LambdaLift": "lambda_lift",
    "LegalizeOps": "legalize_ops skip_ops=skip",
    "LiftTransformParams": "lift_transform_params shared_transform=shared",
    "MergeCompositeFunctions": "merge_composite_functions",
    "Normalize": "normalize",
    "NormalizeGlobalVar": "normalize_global_var",
    "RemovePurityChecking": "remove_purity_checking",
    "RemoveRedundantReshape": "remove_redundant_reshape",
    "RemoveUnusedOutputs": "remove_unused_outputs",
    "RemoveUnusedParameters": "remove_unused_parameters",
    "RewriteDataflowReshape": "rewrite_reshape",
    "RunCodegen": "run_codegen target_options",
    "StaticPlanBlockMemory": "plan_memory",
    "ToMixedPrecision": "to_mixed_precision",
    "ToNonDataflow": "to_non_dataflow",
    "TopologicalSort": "topological_sort order direction",
    "UpdateParamStructInfo": "update_param_type sinfo_func=update",
    "UpdateParamType": "update_param_type ty_func=update",
}
"""TVM's name to the pass, and its arguments in TVM's order: ``theirs=option`` where they are called otherwise."""
_IN_THE_VM = ("LowerAllocTensor", "LowerRuntimeBuiltin", "VMBuiltinLower", "VMShapeLower")
"""Passes whose work is part of writing bytecode (``unity/vm/compiler``): modules stay as they are."""


def _names(value: Any) -> tuple[str, ...]:
    """Names of parameters, given as a variable or a name, or several."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    return tuple([item if isinstance(item, str) else item.name for item in given])


_VALUES: dict[str, Callable[[Any], Any]] = {
    "require_grads": _names,
    "skip": lambda value: tuple([f"R.{name.removeprefix('relax.').removeprefix('R.')}" for name in value]),
    "patterns": tuple,
    "entry_functions": tuple,
    "order": lambda value: value.replace("-", "_"),
    "direction": lambda value: value.replace("-", "_"),
}
"""How the value of an option is made from TVM's."""


def _factory(name: str) -> Callable[..., Pass]:
    found, *arguments = _TABLE[name].split()
    options = {theirs: ours or theirs for theirs, _, ours in [a.partition("=") for a in arguments]}
    step = PASSES[found]

    def make(*args: Any, **kwargs: Any) -> Pass:
        given = dict(zip(options, args)) | kwargs
        wrong = [key for key in kwargs if key not in options] + [repr(arg) for arg in args[len(options) :]]
        if wrong:
            raise PassError(
                "E501", f"{name} has no argument {wrong[0]}",
                help=f"it has: {', '.join(options) or 'none'}; options of {found}: unity.transform.{found}.with_options(...)",
            )  # fmt: skip
        chosen = {options[key]: value for key, value in given.items() if value is not None}
        return step.with_options(**{key: _VALUES.get(key, lambda v: v)(value) for key, value in chosen.items()})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"``unity.transform.{found}``: {step.doc}"
    return make


def get_pipeline(name: str = "default") -> Pipeline:
    """A pipeline of graph passes: "default", or "zero" (legalize, annotate, fold, fuse). Raises PassError E502."""
    if name == "zero":
        return Pipeline.parse("legalize_ops,annotate_tir_op_pattern,fold_constant,fuse_ops,fuse_tir")
    if name in ("default", "default_build"):
        return DEFAULT_PIPELINE
    raise PassError("E502", f"no pipeline {name!r}", help="pipelines are: default, default_build, zero")


def __getattr__(name: str) -> Any:
    if name in _IN_THE_VM:
        raise AttributeError(f"{name} is no pass here: what it does is done where bytecode is written (docs/vm.md)")
    if name not in _TABLE:
        raise AttributeError(f"there is no pass {name}; passes are: {', '.join(_TABLE)}")
    globals()[name] = made = _factory(name)
    return made


def __dir__() -> list[str]:
    return sorted([*_TABLE, *__all__])


__all__ = ["dataflowblock_pass", "function_pass", "get_pipeline"]
