"""``unity.compile`` for torch models: a callable that takes and returns torch tensors, as the model does."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from ..ffi.tensor import Tensor
from ..ffi.torch_bridge import shared_with_torch
from ..ffi.trim import trim_heap
from ..ir.expr import Constant, Var
from ..ir.module import IRModule
from ..ir.types import Expr, TensorType
from ..ir.walk import collect, rewrite
from ..support.deep import deep_recursion
from ..support.errors import FrontendError
from ..target.target import Target
from ..transform.base import Pipeline
from ..transform.releases import Releases
from ..vm.build import Passes
from ..vm.executable import Executable
from ..vm.torch_model.interface import Interface
from ..vm.torch_model.model import TorchModel
from .accuracy import Accuracy, as_inputs
from .calibration import Quantization
from .compile import compile_chosen
from .discard import eraser
from .exported import Options, float_outputs, import_program, output_constants, state_updates
from .inputs import forward_signature
from .precision import Reduction
from .reduced import model_accuracy, model_results
from .report import FallbackWarning, ImportReport
from .trace import export, functional, least_promised


def compile_model(
    mod: Any,
    target: str | Target | None,
    example_inputs: tuple[Any, ...] | None,
    example_kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    strict: bool,
    exec_mode: str,
    pipeline: Passes | None,
    tir_pipeline: Pipeline | None,
    reduction: Reduction | None = None,
    choose: str = "analytic",
    discard_parameters: bool = False,
) -> CompiledModel:
    """Compile a torch module or an ``ExportedProgram``; the arguments of ``unity.compile``. Raises FrontendError E010 to E016."""
    program, names, inputs, named = mod, [], example_inputs, dict(example_kwargs or {})
    if not hasattr(mod, "graph_signature"):
        if example_inputs is None and example_kwargs is None:
            raise FrontendError("E013", "a torch model is compiled for example inputs",
                                help="unity.compile(model, example_inputs=(x,))")  # fmt: skip
        refuse_training(mod)
        if isinstance(example_inputs, sys.modules["torch"].Tensor):
            example_inputs = (example_inputs,)
        if not isinstance(example_inputs, (tuple, list, type(None))):
            raise FrontendError("E962", f"example_inputs is a {type(example_inputs).__name__}, expected a tuple of tensors",
                                help="inputs by name: example_kwargs={'x': x}")  # fmt: skip
        signature = forward_signature(mod)
        names = list(signature.parameters) if signature is not None else []
        inputs = tuple(example_inputs or ())
        program = export(mod, inputs, dynamic_shapes, named)
    elif inputs is None and mod.example_inputs is not None:
        inputs, named = mod.example_inputs
    exported, program = program, functional(program)
    report = ImportReport()
    module = import_program(
        program, Options(strict=strict, least=least_promised(dynamic_shapes), check_indices=True), report
    )
    if report.fallbacks:
        warnings.warn(str(report), FallbackWarning, stacklevel=2)
    expected = None if reduction is None or inputs is None else model_results(mod, inputs, named)
    decided = None
    erase = eraser(mod, (exported, program), report.weights) if discard_parameters else None
    if reduction is not None:
        probes: dict[IRModule, CompiledModel] = {}

        def run(probed: IRModule, given: Any, *more: Any) -> Any:
            if probed not in probes:
                executable = compile_chosen(probed, target, "analytic", exec_mode, None, None)
                probes[probed] = CompiledModel(program, probed, executable, exec_mode, report, names)
            return probes[probed].results(as_inputs(given), more)

        module, decided = reduction.apply(module, run)
    executable = compile_chosen(module, target, choose, exec_mode, pipeline, tir_pipeline, erase or False)
    if erase is not None:
        Releases(report.weights.values(), erase).sweep(executable.program.constants)
        trim_heap()
    made = CompiledModel(program, module, executable, exec_mode, report, names)
    made.quantization = executable.quantization = decided
    if reduction is not None and inputs is not None:
        made.accuracy = executable.accuracy = model_accuracy(reduction, expected, made, inputs, named)
    return made


def refuse_training(model: Any) -> None:
    """Raise FrontendError E011 where a submodule in training mode would behave differently; names them."""
    found = [f"{path or 'the model'} ({type(m).__name__})" for path, m in model.named_modules() if _trains(m)]
    if found:
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise FrontendError("E011", f"in training mode: {', '.join(found[:4])}{more}", help="call model.eval() first")


def _trains(module: Any) -> bool:
    """Does a module in training mode draw random numbers or change its statistics?"""
    if not module.training:
        return False
    name = type(module).__name__
    if "Norm" in name:
        return bool(getattr(module, "track_running_stats", False))
    if "Drop" in name or name == "RReLU":
        return bool(getattr(module, "p", getattr(module, "drop_prob", 1)))
    return isinstance(getattr(module, "dropout", None), float) and module.dropout > 0


class CompiledModel(TorchModel):
    """A compiled torch model: call it as the model. ``module`` is the imported IRModule, ``report`` says what runs in torch."""

    def __init__(
        self, program: Any, module: IRModule, executable: Executable, exec_mode: str, report: ImportReport,
        names: list[str],
    ) -> None:  # fmt: skip
        interface = interface_of(program, module, names)
        targets = [t for t in interface.updates if isinstance(t, str)]
        state = {t: program.state_dict.get(t, program.constants.get(t)) for t in targets}
        super().__init__(executable, interface, state, exec_mode)
        self.module = module
        self.accuracy: Accuracy | None = None
        self.quantization: Quantization | None = None
        self.choices = executable.choices
        self.report = report

    def results(self, args: tuple[Any, ...], more: tuple[Any, ...] = ()) -> Any:
        """What ``main`` returns for the arguments of a call (and further ones of ``main``), as it stands: state is not updated,
        nothing is rearranged."""
        return self._main(*self._leaves(args, {})[1], *more)

    def script(self, **options: Any) -> str:
        """The imported module as script, the weights as names; options as in ``IRModule.script``, e.g. ``places=True``."""
        return readable(self.module, self.report.weights, **options)


def interface_of(program: Any, module: IRModule, names: list[str]) -> Interface:
    """What callers see of an exported program; ``names`` are the parameters of the model's ``forward``."""
    inputs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    places = [s.arg.name for s in inputs]
    return Interface(
        names,
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        [(type(s.arg).__name__ == "ConstantArgument", getattr(s.arg, "value", None)) for s in inputs],
        output_constants(program),
        float_outputs(program),
        [places.index(t) if kind == "USER_INPUT_MUTATION" else t for kind, t in state_updates(program)],
        all([shared_with_torch(ty.dtype) for ty in collect(module["main"].ret_ty, TensorType)]),
    )


def readable(mod: IRModule, weights: Mapping[str, Tensor], **options: Any) -> str:
    """A module as script in which the weights given stand as names instead of their elements. Such text is for reading only."""
    names = {id(data): re.sub(r"\W", "_", name) for name, data in weights.items()}
    made: dict[str, Var] = {}

    def shown(node: Constant) -> Expr:
        name = names.get(id(node.data))
        return node if name is None or node.data.size < 2 else made.setdefault(name, Var(name, node.ty))

    with deep_recursion():
        return str(rewrite(mod, {Constant: shown}).script(**options))


__all__ = ["CompiledModel", "compile_model", "readable", "refuse_training"]
