"""``unity.relax.transform``: passes under TVM's names, ``FuseOps()(mod)``, ``BindParams("main", params)(mod)``.

A name with its arguments gives the pass of ``unity.transform`` with its options; the table says which. Nothing is computed here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..ir.module import IRModule
from ..support.errors import PassError
from ..transform import DEFAULT_PIPELINE, Pipeline
from ..transform.all_passes import PASSES
from ..transform.infra.passes import Pass, dataflowblock_pass, function_pass, module_pass
from ..transform.infra.tvm_names import TVM_NAMES
from ..transform.relax.fusion.fuse_ops_by_pattern import FusionPattern, PatternCheckContext

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
"""How the value of an option is made from TVM's."""


def find_pass(name: str, table: Mapping[str, str]) -> Callable[..., Pass]:
    """The function that makes the pass of TVM's name. Raises AttributeError for a name that a table of them does not have."""
    if name not in table:
        close = difflib.get_close_matches(name, table, 3) or sorted(table)
        raise AttributeError(f"there is no pass {name}; did you mean {', '.join(close)}?")
    found, *arguments = table[name].split()
    options = {theirs: ours or theirs for theirs, _, ours in [a.partition("=") for a in arguments]}
    step = PASSES[found]
    nothing = [f.name for f in fields(step.options) if "None" in str(f.type) and f.default] if step.options else []

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


def __getattr__(name: str) -> Any:
    globals()[name] = made = find_pass(name, TVM_NAMES)
    return made


def __dir__() -> list[str]:
    return sorted([*TVM_NAMES, *__all__])


__all__ = [
    "FusionPattern", "LowerRuntimeBuiltin", "PatternCheckContext", "VMBuiltinLower", "VMShapeLower", "dataflowblock_pass",
    "function_pass", "get_default_pipeline", "get_pipeline", "register_pipeline",
]  # fmt: skip
