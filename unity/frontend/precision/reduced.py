"""Builds with reduced precision: a module built twice to compare, a model compared with itself in torch.

Not here: what the precisions do (``precision.py``), the figures (``accuracy.py``).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...support.optional import require
from ...support.options import bool_option
from ...transform.infra.constant_lifetime import Releases, module_constants
from ...vm.executable.executable import Executable
from ...vm.stages import as_module
from ..entry import BuildOptions, compile_chosen
from .accuracy import Accuracy, as_inputs, compare, copies
from .precision import Reduction, runs_of


def compile_reduced(
    mod: IRModule | Function | PrimFunc, how: BuildOptions, reduction: Reduction, example_inputs: Any
) -> Executable:
    """A module built with a precision; with example inputs of ``main`` also built in float32, and compared."""
    source, plain = as_module(mod), replace(how, choose="analytic", tune=None)
    given = None if example_inputs is None else as_inputs(example_inputs)
    expected = None if given is None else compile_chosen(source, plain)["main"](*copies(given))
    reduced, decided = reduction.apply(source, runs_of(partial(compile_chosen, how=plain)))
    compiled = compile_chosen(reduced, how, how.discard_parameters)
    compiled.quantization = decided
    if how.discard_parameters:
        Releases(module_constants(source)).sweep(compiled.program.constants)
    if given is not None:
        compiled.accuracy = _report(compare(reduction.name, [(expected, compiled["main"](*copies(given)))]))
    return compiled


def model_results(model: Any, inputs: Any, named: Mapping[str, Any]) -> Any:
    """The results of the torch model (or exported program) for inputs; both stay as they are."""
    reference = model.module() if hasattr(model, "graph_signature") else copy.deepcopy(model)
    return _called(reference, inputs, named)


def model_accuracy(
    reduction: Reduction, expected: Any, compiled: Callable[..., Any], inputs: Any, named: Mapping[str, Any]
) -> Accuracy:
    """A compiled model against the results of the torch model on the same inputs, which stay as they are."""
    return _report(compare(reduction.name, [(expected, _called(compiled, inputs, named))]))


def _called(model: Callable[..., Any], inputs: Any, named: Mapping[str, Any]) -> Any:
    args, kwargs = copy.deepcopy((as_inputs(inputs), dict(named)))
    with require("torch").no_grad():
        return model(*args, **kwargs)


def _report(accuracy: Accuracy) -> Accuracy:
    if bool_option("UNITY_EXPLAIN"):
        print(accuracy, file=sys.stderr)
    return accuracy
