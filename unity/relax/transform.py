"""``unity.relax.transform``: passes under TVM's names, ``FuseOps()(mod)``, ``BindParams("main", params)(mod)``.

A name with its arguments gives the pass of ``unity.transform`` with its options; the table says which. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from ..ir.expr import Call, op
from ..ir.module import IRModule
from ..ir.types import Expr
from ..op.building.block_builder import BlockBuilder
from ..support.arguments import checked, make_public, public
from ..support.errors import PassError, suggest
from ..support.lazy import absent_names, lazy_names, load
from ..transform import DEFAULT_PIPELINE, Pipeline
from ..transform.infra.context import OTHER_NAMES
from ..transform.infra.passes import PASSES, Pass, dataflowblock_pass, function_pass, module_pass
from ..transform.relax.fusion.fuse_ops_by_pattern import FusionPattern, PatternCheckContext
from .mutator import PyExprMutator

Rules = Mapping[str, Callable[[BlockBuilder, Call], Expr]]
"""``customize_legalize_map`` of TVM's ``LegalizeOps``: functions ``(bb, call) -> expression`` by operator."""

TVM_NAMES: dict[str, str] = {
    "AdjustMatmulOrder": "adjust_matmul_order",
    "AlterOpImpl": "alter_op_impl op_impl_map op_buffer_transforms",
    "AnnotateTIROpPattern": "annotate_tir_op_pattern",
    "AttachGlobalSymbol": "attach_global_symbol",
    "BindParams": "bind_params func_name params",
    "BindSymbolicVars": "bind_symbolic_vars binding_map=symbols func_name",
    "BundleModelParams": "bundle_model_params param_tuple_name",
    "CallTIRRewrite": "lower_call_dps",
    "CanonicalizeBindings": "canonicalize",
    "CombineParallelMatmul": "combine_parallel_matmul check only_weights=False",
    "ComputePrimValue": "compute_prim_value",
    "ConvertLayout": "convert_layout desired_layouts=desired layout_cb",
    "ConvertToDataflow": "convert_to_dataflow min_size",
    "DataflowUseInplaceCalls": "dataflow_use_inplace_calls",
    "DeadCodeElimination": "dead_code entry_functions",
    "DecomposeOpsForInference": "decompose_ops_for_inference func_name",
    "DecomposeOpsForTraining": "decompose_ops_for_training func_name",
    "EliminateCommonSubexpr": "eliminate_common_subexpr call_only",
    "ExpandTupleArguments": "expand_tuple_arguments",
    "FoldBatchnormToConv2D": "fold_batch_norm_to_conv2d",
    "FoldConstant": "fold_constant",
    "FuseOps": "fuse_ops fuse_opt_level",
    "FuseOpsByPattern": "fuse_ops_by_pattern patterns bind_constants annotate_codegen entry_functions",
    "FuseTIR": "fuse_tir",
    "FuseTransposeMatmul": "fuse_transpose_matmul",
    "Gradient": "gradient func_name require_grads target_index",
    "InlinePrivateFunctions": "inline_private_functions",
    "KillAfterLastUse": "kill_after_last_use",
    "LambdaLift": "lambda_lift",
    "LazyGetInput": "lazy_get_input",
    "LazySetOutput": "lazy_set_output",
    "LazyTransformParams": "lazy_transform_params fget_item=get_item fset_item=set_item extra_get_item_params "
    "extra_set_item_params",
    "LegalizeOps": "legalize_ops skip_ops=skip enable_warning=warn",
    "LiftTransformParams": "lift_transform_params shared_transform=shared",
    "LowerAllocTensor": "lower_alloc_tensor",
    "MergeCompositeFunctions": "merge_composite_functions",
    "Normalize": "normalize",
    "NormalizeGlobalVar": "normalize_global_var",
    "OptimizeLayoutTransform": "optimize_layout_transform",
    "RemovePurityChecking": "remove_purity_checking",
    "RemoveRedundantReshape": "remove_redundant_reshape",
    "RemoveUnusedOutputs": "remove_unused_outputs",
    "RemoveUnusedParameters": "remove_unused_parameters",
    "RewriteDataflowReshape": "rewrite_reshape",
    "RunCodegen": "run_codegen target_options entry_functions",
    "SplitLayoutRewritePreproc": "split_layout_rewrite_preproc",
    "StaticPlanBlockMemory": "plan_memory",
    "ToMixedPrecision": "to_mixed_precision out_dtype=wide_results fp16_input_names=narrow_inputs dtype",
    "ToNonDataflow": "to_non_dataflow",
    "TopologicalSort": "topological_sort order direction",
    "UpdateParamStructInfo": "update_param_type sinfo_func=update",
    "UpdateParamType": "update_param_type ty_func=update",
}
"""TVM's name to the pass, and its arguments in TVM's order: ``theirs=option`` where they are called otherwise."""
OTHER_NAMES |= {theirs: row.split()[0] for theirs, row in TVM_NAMES.items()}

_BUILT_IN: dict[str, dict[str, Any]] = {
    "CombineParallelMatmul": {"only_weights": False},
    "ToMixedPrecision": {"wide_results": True},
}
"""Options that TVM's pass has without being asked."""


def _names(value: Any) -> tuple[str, ...]:
    """Names of parameters, given as a variable or a name, or several."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    return tuple([item if isinstance(item, str) else item.name for item in given])


_VALUES: dict[str, Callable[[Any], Any]] = {
    "require_grads": _names,
    "skip": lambda value: tuple([f"R.{name.removeprefix('relax.').removeprefix('R.')}" for name in value]),
    "patterns": tuple,
    "narrow_inputs": tuple,
    "wide_results": lambda value: str(value) == "float32",
    "entry_functions": tuple,
    "extra_get_item_params": tuple,
    "extra_set_item_params": tuple,
    "order": lambda value: value.replace("-", "_"),
    "direction": lambda value: value.replace("-", "_"),
}
"""The conversion of an option's value from TVM's."""


def find_pass(name: str, table: Mapping[str, str]) -> Callable[..., Pass]:
    """The function that makes the pass of TVM's name. Raises AttributeError for a name that a table of them does not have."""
    if name not in table:
        close = suggest(name, table) or f"passes are: {', '.join(sorted(table))}"
        raise AttributeError(f"there is no pass {name}; {close}")
    load("names")
    found, *arguments = table[name].split()
    options = {theirs: ours or theirs for theirs, _, ours in [a.partition("=") for a in arguments]}
    step = PASSES[found]
    nothing = [
        p.name for p in signature(step.function).parameters.values() if "None" in str(p.annotation) and p.default
    ]

    def make(*args: Any, **kwargs: Any) -> Pass:
        given = dict(zip(options, args)) | kwargs
        wrong = [key for key in kwargs if key not in options] + [repr(arg) for arg in args[len(options) :]]
        if wrong:
            raise PassError(
                "E501", f"{name} has no argument {wrong[0]}",
                help=f"it has: {', '.join(options) or 'none'}; options of {found}: unity.transform.{found}.with_options(...)",
            )  # fmt: skip
        chosen = {options[key]: value for key, value in given.items() if value is not None or options[key] in nothing}
        chosen = {key: _VALUES.get(key, lambda v: v)(value) for key, value in chosen.items()}
        return step.with_options(**(_BUILT_IN.get(name, {}) | chosen))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"``unity.transform.{found}``: {step.doc}"
    return make


_PIPELINES: dict[str, Callable[..., Any]] = {}
"""Pipelines of one's own: functions that give passes, by name."""


@checked
def register_pipeline(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: ``get_pipeline(name, ...)`` calls the function, which gives a pass or a pipeline."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _PIPELINES[name] = function
        return function

    return register


def get_default_pipeline(target: Any = None) -> Pipeline:
    """The graph passes of a build; they are the same for all targets."""
    return DEFAULT_PIPELINE


def get_pipeline(name: str = "default", **options: Any) -> Any:
    """A pipeline of graph passes: "default", "zero" (legalize, annotate, fold, fuse), or a registered one, given the options.

    Raises PassError E502 for a name that is none.
    """
    if name in _PIPELINES:
        return _PIPELINES[name](**options)
    if name == "zero":
        return Pipeline.parse("legalize_ops,annotate_tir_op_pattern,fold_constant,fuse_ops,fuse_tir")
    if name in ("default", "default_build"):
        return DEFAULT_PIPELINE
    raise PassError(
        "E502",
        f"no pipeline {name!r}",
        help=f"pipelines are: {', '.join(['default', 'default_build', 'zero', *_PIPELINES])}",
    )


class _Customized(PyExprMutator):
    """Calls of some operators replaced by what functions of a user make of them."""

    def __init__(self, mod: IRModule, rules: Rules) -> None:
        super().__init__(mod)
        self.rules = {op(name).name: rule for name, rule in rules.items()}

    def visit_call_(self, call: Call) -> Expr:
        made = self.visit_expr_post_order(call)
        rule = self.rules.get(made.op_name) if isinstance(made, Call) else None
        return rule(self.builder_, made) if rule is not None and isinstance(made, Call) else made

    def module(self, mod: IRModule) -> IRModule:
        """The module with its graph functions rewritten."""
        for name, fn in mod.graph_functions().items():
            self.builder_.update_func(name, self.visit_expr(fn))
        return self.builder_.get()


@module_pass()
def customize_ops(mod: IRModule, *, rules: Rules | None = None) -> IRModule:
    """Replace calls of some operators by what functions of a user, ``rules``, make of them: ``(bb, call) -> expression``."""
    return _Customized(mod, rules or {}).module(mod)


def LegalizeOps(
    customize_legalize_map: Rules | None = None, skip_ops: Sequence[str] = (), enable_warning: bool = False
) -> Pass | Pipeline:
    """``unity.transform.legalize_ops``; before it functions of the map give what takes the place of an operator's call."""
    step = find_pass("LegalizeOps", TVM_NAMES)(skip_ops, enable_warning)
    return (
        Pipeline((customize_ops.with_options(rules=customize_legalize_map), step)) if customize_legalize_map else step
    )


@module_pass(name="written_with_bytecode")
def _written_with_bytecode(mod: IRModule) -> IRModule:
    """Nothing: what TVM's pass does here is done where bytecode is written (docs/vm.md)."""
    return mod


def VMShapeLower(*, emit_err_ctx: bool = True) -> Pass:
    """Shapes are computed and checked by the bytecode itself: the module stays as it is."""
    return _written_with_bytecode


def LowerRuntimeBuiltin() -> Pass:
    """Builtins are named by the bytecode itself: the module stays as it is."""
    return _written_with_bytecode


VMBuiltinLower = LowerRuntimeBuiltin


_SEARCH, _ = lazy_names(
    __name__,
    {
        "MetaScheduleApplyDatabase": "...meta_schedule.passes:apply_database",
        "MetaScheduleTuneIRMod": "...meta_schedule.passes:tune_module",
        "MetaScheduleTuneTIR": "...meta_schedule.passes:tune_programs",
    },
)
"""Passes of the search, loaded when one is asked for."""


def _find(name: str) -> Any:
    if name.startswith("MetaSchedule"):
        return _SEARCH(name)
    globals()[name] = made = public(find_pass(name, TVM_NAMES))
    return made


__getattr__ = absent_names(__name__, {
    "AttachExternModules": "register functions, or save libraries beside the program",
    "RealizeVDevice": "leave it out: devices of tensors are followed when bytecode is written",
    "RewriteCUDAGraph": 'build with PassContext(config={"relax.backend.use_cuda_graph": True})',
    "SplitCallTIRByPattern": "fuse_ops_by_pattern before legalize_ops",
}, _find)  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*TVM_NAMES, *__all__])


__all__ = [
    "FusionPattern", "LegalizeOps", "LowerRuntimeBuiltin", "PatternCheckContext", "VMBuiltinLower", "VMShapeLower",
    "dataflowblock_pass", "function_pass", "get_default_pipeline", "get_pipeline", "register_pipeline",
]  # fmt: skip

make_public(globals(), __all__)
