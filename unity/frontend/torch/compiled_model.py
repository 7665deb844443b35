"""``unity.compile`` for torch models: a callable that takes and returns torch tensors, as the model does."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...ffi.device import CPU
from ...ffi.native.native_helpers import trim_heap
from ...ffi.tensor import Tensor
from ...ir.expr import Constant, Var
from ...ir.module import IRModule
from ...ir.types import Expr
from ...ir.walk import rewrite
from ...support.errors import FrontendError
from ...support.recursion import deep_recursion
from ...transform.infra.constant_lifetime import Releases, module_constants
from ...vm.executable.executable import Executable
from ..entry import BuildOptions, compile_chosen
from ..precision.accuracy import Accuracy, as_inputs
from ..precision.calibration import Quantization
from ..precision.precision import Reduction
from ..precision.reduced import model_accuracy, model_results
from .capture.discard_parameters import copied_weights, eraser, tie_lifetimes
from .capture.dynamic import smallest_lower_bound
from .capture.inputs import device_target, placed_names, refuse_training
from .capture.trace import export
from .context.report import FallbackWarning
from .exported_program import Options
from .imported import Imported, imported
from .refresh import Weight, imported_weights, present_tensors, refreshed, shared_names
from .runtime.model import TorchModel


def compile_model(
    mod: Any,
    how: BuildOptions,
    reduction: Reduction | None,
    example_inputs: tuple[Any, ...] | None,
    example_kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    strict: bool,
) -> CompiledModel:
    """Compile a torch module or an ``ExportedProgram``; the arguments of ``unity.compile``. Raises FrontendError E010 to E016."""
    options = Options(strict=strict, least=smallest_lower_bound(dynamic_shapes), check_indices=True)
    if hasattr(mod, "graph_signature"):
        if dynamic_shapes is not None:
            raise FrontendError("E693", "dynamic_shapes= is for a torch.nn.Module, got an ExportedProgram",
                                help="give it to torch.export.export")  # fmt: skip
        inputs, named = example_inputs, dict(example_kwargs or {})
        if inputs is None and mod.example_inputs is not None:
            inputs, named = mod.example_inputs
        found = imported(mod, options)
        held = list(found.held[-1].state_dict.values())
    else:
        inputs, named = _example(mod, example_inputs, example_kwargs)
        found = imported(export(mod, inputs, dynamic_shapes, named), options, placed_names(mod))
        held = [*mod.parameters(), *mod.buffers()]
    leaves = sys.modules["torch"].utils._pytree.tree_leaves((inputs or (), named))
    fixed = [kept for kept, _ in found.interface.fixed]
    how = replace(how, examples=tuple([leaf for leaf, kept in zip(leaves, fixed) if not kept]))
    if how.target is None:
        how = replace(how, target=device_target([*leaves, *held]))
    if found.report.fallbacks:
        warnings.warn(str(found.report), FallbackWarning, stacklevel=2)
    expected = None if reduction is None or inputs is None else model_results(mod, inputs, named)
    erase = eraser(mod, found.held, found.report.weights) if how.discard_parameters else None
    module, decided = found.module, None
    if reduction is not None:
        module, decided = reduction.apply(module, _probe(found, how))
    executable = compile_chosen(module, how, erase or False)
    if erase is not None:
        Releases(found.report.weights.values(), erase).sweep(executable.program.constants)
        trim_heap()
    else:
        tie_lifetimes(mod, found.held[-1], found.report.weights, executable.program.constants)
    compiled = CompiledModel(found, module, executable, how.exec_mode)
    compiled.made_of(mod)
    if erase is None:
        read = module_constants(found.module)
        compiled.weights = imported_weights(found.held[-1], found.report.weights, read)
        compiled.shared = shared_names(found.held[-1])
        compiled.copied = copied_weights(compiled.present(), compiled.shared_constants())
    compiled.quantization = executable.quantization = decided
    if reduction is not None:
        executable.provenance = None  # its module holds the weights in other numbers
    if reduction is not None and inputs is not None:
        compiled.accuracy = executable.accuracy = model_accuracy(
            reduction, expected, copy.deepcopy(compiled), inputs, named
        )
    compiled.seal()
    return compiled


def _example(model: Any, inputs: Any, named: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example call of a torch module. Raises FrontendError E013 without one, E962 for what is not a tuple."""
    if inputs is None and named is None:
        raise FrontendError("E013", "a torch model is compiled for example inputs",
                            help="unity.compile(model, example_inputs=(x,))")  # fmt: skip
    refuse_training(model)
    if isinstance(inputs, sys.modules["torch"].Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list, type(None))):
        raise FrontendError("E962", f"example_inputs is a {type(inputs).__name__}, expected a tuple of tensors",
                            help="inputs by name: example_kwargs={'x': x}")  # fmt: skip
    return tuple(inputs or ()), dict(named or {})


def _probe(found: Imported, how: BuildOptions) -> Callable[..., Any]:
    """Runs modules that differ from the imported one in what they compute with, each built once: for calibration."""
    plain = BuildOptions(how.target, how.exec_mode)
    built: dict[IRModule, CompiledModel] = {}

    def run(module: IRModule, given: Any, *more: Any) -> Any:
        if module not in built:
            built[module] = CompiledModel(found, module, compile_chosen(module, plain), how.exec_mode)
        return built[module].results(as_inputs(given), more)

    return run


class CompiledModel(TorchModel):
    """A compiled torch model: call it as the model. ``module`` is the imported IRModule, ``report`` says what runs in torch."""

    def __init__(self, found: Imported, module: IRModule, executable: Executable, exec_mode: str) -> None:
        super().__init__(executable, found.interface, found.state, exec_mode)
        self.module = module
        self.accuracy: Accuracy | None = None
        self.quantization: Quantization | None = None
        self.choices = executable.choices
        self.report = found.report
        self.weights: list[Weight] = []
        self.shared: list[list[str]] = []

    def present(self) -> list[tuple[str, Any]]:
        """The weights as the torch model has them now, by name."""
        tables = present_tensors(self.origin())
        return [(weight.name, weight.present(tables)) for weight in self.weights]

    def shared_constants(self) -> list[Tensor]:
        """The constants that the program reads where they are, and in no other form; a device has copies of all."""
        constants, provenance = self.executable.program.constants, self.executable.provenance
        if self._place != CPU.kind:
            return []
        if provenance is None:
            return constants
        read = {id(provenance.sources[k]) for k in provenance.read_sources(len(provenance.sources))}
        return [constant for constant in constants if id(constant) not in read]

    def refresh(self) -> CompiledModel:
        """Take the weights the torch model has now, without compiling: folded and packed as when the model was compiled.

        Copies keep the weights they have. Not while other threads call the model. Raises FrontendError E662.
        """
        tables = present_tensors(self.origin())
        self.executable, self.module, self.weights = refreshed(
            self.executable, self.module, self.weights, self.shared, tables
        )
        self.report = replace(self.report, weights={**self.report.weights, **{w.name: w.data for w in self.weights}})
        self.state = {name: tables.get(name, value) for name, value in self.state.items()}
        self._bind_state()
        self._link()
        self.copied = copied_weights(self.present(), self.shared_constants())
        return self

    def results(self, args: tuple[Any, ...], more: tuple[Any, ...] = ()) -> Any:
        """Return the results of ``main`` for the arguments ``args`` of a call and further ones (``more``) of ``main``, without
        updating state or nesting results.
        """
        return self._main(*self._converted(self._leaves(args, {})[1]), *more)

    def script(self, **options: Any) -> str:
        """The imported module as script, the weights as names; options as in ``IRModule.script``, e.g. ``places=True``."""
        return readable(self.module, self.report.weights, **options)


def readable(mod: IRModule, weights: Mapping[str, Tensor], **options: Any) -> str:
    """A module as script in which the weights given stand as names instead of their elements. Such text is for reading only."""
    names = {id(data): re.sub(r"\W", "_", name) for name, data in weights.items()}
    made: dict[str, Var] = {}

    def shown(node: Constant) -> Expr:
        name = names.get(id(node.data))
        return node if name is None or node.data.size < 2 else made.setdefault(name, Var(name, node.ty))

    with deep_recursion():
        return str(rewrite(mod, {Constant: shown}).script(**options))
