"""Builds with reduced precision: a module built twice to compare, a model compared with itself in torch.

Not here: what the precisions do (``precision.py``), the figures (``accuracy.py``).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.function import Function, PrimFunc
from ..ir.module import IRModule
from ..support.extras import require
from ..support.options import bool_option
from ..target.target import Target
from ..transform.base import Pipeline
from ..vm import build
from ..vm.executable import Executable
from .accuracy import Accuracy, as_inputs, compare, copies
from .compile import compile_chosen
from .precision import Reduction


def compile_reduced(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | None,
    reduction: Reduction,
    example_inputs: Any,
    exec_mode: str,
    pipeline: Pipeline | Callable[[IRModule], IRModule] | str | None,
    tir_pipeline: Pipeline | None,
    choose: str = "analytic",
) -> Executable:
    """A module built with a precision; with example inputs of ``main`` also built in float32, and compared."""
    source = build.as_module(mod)

    def built(module: IRModule, how: str) -> Executable:
        return compile_chosen(module, target, how, exec_mode, pipeline, tir_pipeline)

    machines: dict[IRModule, Executable] = {}

    def run(module: IRModule, inputs: Any) -> Any:
        if module not in machines:
            machines[module] = built(module, "analytic")
        return machines[module]["main"](*as_inputs(inputs))

    made = built(reduction.apply(source, run), choose)
    if example_inputs is not None:
        given = as_inputs(example_inputs)
        expected = built(source, "analytic")["main"](*copies(given))
        made.accuracy = _told(compare(reduction.name, [(expected, made["main"](*copies(given)))]))
    return made


def model_accuracy(
    reduction: Reduction, model: Any, made: Callable[..., Any], inputs: Any, named: Mapping[str, Any]
) -> Accuracy:
    """A compiled model against the torch model (or exported program) on the same inputs, which stay as they are."""
    torch = require("torch")
    reference = model.module() if hasattr(model, "graph_signature") else copy.deepcopy(model)
    with torch.no_grad():
        args, kwargs = copy.deepcopy((as_inputs(inputs), dict(named)))
        expected = reference(*args, **kwargs)
        args, kwargs = copy.deepcopy((as_inputs(inputs), dict(named)))
        return _told(compare(reduction.name, [(expected, made(*args, **kwargs))]))


def _told(accuracy: Accuracy) -> Accuracy:
    if bool_option("UNITY_EXPLAIN"):
        print(accuracy, file=sys.stderr)
    return accuracy


__all__ = ["compile_reduced", "model_accuracy"]
