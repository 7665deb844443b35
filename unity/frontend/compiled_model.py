"""``unity.compile`` for torch models: a callable that takes and returns torch tensors, as the model does."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..ffi.tensor import Tensor
from ..ffi.torch_bridge import shared_with_torch
from ..ffi.trim import trim_heap
from ..ir.expr import Constant, Var
from ..ir.module import IRModule
from ..ir.types import Expr, TensorType
from ..ir.walk import collect, rewrite
from ..support.deep import deep_recursion
from ..support.errors import FrontendError, VMError
from ..support.extras import require
from ..target.target import Target
from ..transform.base import Pipeline
from ..transform.releases import Releases
from ..vm.executable import Executable
from ..vm.machine import VirtualMachine
from ..vm.out_calls import allocates_results
from .accuracy import Accuracy, as_inputs
from .compile import compile_chosen
from .discard import eraser
from .exported import Options, float_outputs, import_program, output_constants, state_updates
from .inputs import arguments_outline, forward_signature, rearranged, refuse_tensor
from .precision import Reduction
from .reduced import model_accuracy, model_results
from .report import FallbackWarning, ImportReport
from .structures import register_classes
from .trace import export, functional, least_promised


def compile_model(
    mod: Any,
    target: str | Target | None,
    example_inputs: tuple[Any, ...] | None,
    example_kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    strict: bool,
    exec_mode: str,
    pipeline: Pipeline | Callable[[IRModule], IRModule] | str | None,
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
    erase = eraser(mod, (exported, program), report.weights) if discard_parameters else None
    if reduction is not None:
        probes: dict[IRModule, CompiledModel] = {}

        def run(probed: IRModule, given: Any) -> Any:
            if probed not in probes:
                executable = compile_chosen(probed, target, "analytic", exec_mode, None, None)
                probes[probed] = CompiledModel(program, probed, executable, exec_mode, report, names)
            return probes[probed].results(*as_inputs(given))

        module = reduction.apply(module, run)
    executable = compile_chosen(module, target, choose, exec_mode, pipeline, tir_pipeline, erase or False)
    if erase is not None:
        Releases(report.weights.values(), erase).sweep(executable.program.constants)
        trim_heap()
    made = CompiledModel(program, module, executable, exec_mode, report, names)
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


class CompiledModel:
    """A compiled torch model: call it as the model. ``module`` is the imported IRModule, ``report`` says what runs in torch."""

    def __init__(
        self, program: Any, module: IRModule, executable: Executable, exec_mode: str, report: ImportReport,
        names: list[str],
    ) -> None:  # fmt: skip
        self.module = module
        self.executable = executable
        self.accuracy: Accuracy | None = None
        self.choices = executable.choices
        self.report = report
        self._names = names
        self.vm = VirtualMachine(executable, exec_mode=exec_mode)
        self._main = self.vm["main"]
        self._torch = require("torch")
        self._tree = self._torch.utils._pytree
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        self._fixed = [(type(s.arg).__name__ == "ConstantArgument", getattr(s.arg, "value", None)) for s in specs]
        self._outputs = output_constants(program)
        self._floats = float_outputs(program)
        self._updates = self._targets(program)
        self._state = [t for t in self._updates if not isinstance(t, int)]
        self._weights = {c.data_ptr for c in executable.program.constants}
        self._flat = self._plain_count()
        self._single = bool(self._out_spec.is_leaf())
        types = [ty.dtype for ty in collect(module["main"].ret_ty, TensorType)]
        self._share = self._torch.from_numpy if all([shared_with_torch(dtype) for dtype in types]) else None

    def _targets(self, program: Any) -> list[Any]:
        """Where the leading results are stored: tensors of the model, or places among the inputs."""
        names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        found: list[Any] = []
        for kind, target in state_updates(program):
            if kind == "USER_INPUT_MUTATION":
                found.append(names.index(target))
            else:
                found.append(program.state_dict.get(target, program.constants.get(target)))
        return found

    def _plain_count(self) -> int:
        """Number of positional tensors when the model takes nothing else, changes nothing, and gives new tensors flat;
        else -1."""
        arguments, *named = self._in_spec.children()
        simple = all([child.is_leaf() for child in arguments.children()]) and not any([n.children() for n in named])
        outputs = self._out_spec.is_leaf() or (
            (self._out_spec.type is tuple or self._out_spec.type.__module__ == "torch.return_types")
            and all([child.is_leaf() for child in self._out_spec.children()])
        )
        computed = all([computed for computed, _ in self._outputs])
        changed = self._updates or any(self._floats) or any([fixed for fixed, _ in self._fixed])
        if simple and outputs and computed and not changed and allocates_results(self.executable.program, "main"):
            return len(arguments.children())
        return -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on torch tensors; ``out=`` (unless the model has an argument of that name) is what the results are written into.

        Raises FrontendError E017 for another structure, VMError for tensors that do not fit.
        """
        if len(args) == self._flat and not kwargs:
            try:
                results = self._main(*args)
            except VMError:
                pass  # strides, or a mistake: the general way makes compact tensors and explains
            else:
                if self._single:
                    return self._share(results[0].numpy()) if self._share else results[0].torch()
                return self._out_spec.type([value.torch() for value in results])
        out = kwargs.pop("out", None) if "out" not in self._names else None
        return self._general(args, kwargs, out)

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None) -> Any:
        leaves, inputs = self._leaves(args, kwargs)
        self._refuse_shared(leaves)
        taken = {v.data_ptr for v in inputs if isinstance(v, Tensor)} | self._weights
        given = {} if out is None else {"out": self._given(out)}
        found = [self._output(v, taken) for v in self._main(*inputs, **given)]
        with self._torch.no_grad():
            for target, value in zip(self._updates, found):
                (leaves[target] if isinstance(target, int) else target).copy_(value)
        results = found[len(self._updates) :]
        rest = iter([v.item() if number else v for v, number in zip(results, self._floats)])
        made = [next(rest) if computed else value for computed, value in self._outputs]
        return self._tree.tree_unflatten(made, self._out_spec)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """The leaves of a call's arguments, and the arguments of ``main``. Raises FrontendError E017."""
        leaves, spec = self._tree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            leaves = self._rearranged(args, kwargs, spec)
        inputs = []
        for leaf, (fixed, value) in zip(leaves, self._fixed):
            if not fixed:
                inputs.append(self._input(leaf))
            elif leaf is not value and leaf != value:
                raise FrontendError("E017", f"an input was exported as the constant {value!r}, got {leaf!r}",
                                    help="compile again for this value")  # fmt: skip
        inputs += [self._input(t) for t in self._state]
        return leaves, inputs

    def results(self, *args: Any, **kwargs: Any) -> Any:
        """What ``main`` returns for the arguments of a call, as it stands: state is not updated, nothing is rearranged."""
        return self._main(*self._leaves(args, kwargs)[1])

    def _given(self, out: Any) -> tuple[Any, ...]:
        """What ``out=`` holds for each result of ``main``. Raises VMError E982 where it has another structure than the results."""
        leaves, spec = self._tree.tree_flatten(out)
        if spec != self._out_spec:
            raise VMError(
                "E982", f"out= is {spec}, the results are {self._out_spec}", help="give it as the model returns it"
            )
        wanted = [leaf for leaf, (computed, _) in zip(leaves, self._outputs) if computed]
        return (*[None] * len(self._updates), *wanted)

    def _rearranged(self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> list[Any]:
        """Leaves of a call that gives by name what was traced by place, or the other way round. Raises FrontendError E017."""
        register_classes((args, kwargs))
        moved = rearranged(self._names, self._in_spec, args, kwargs)
        leaves, found = self._tree.tree_flatten(moved if moved is not None else (args, kwargs))
        if found != self._in_spec:
            raise FrontendError("E017", f"the inputs are {arguments_outline(spec)}, the model was exported for "
                                f"{arguments_outline(self._in_spec)}", help="pass the inputs as in example_inputs")  # fmt: skip
        return list(leaves)

    def _refuse_shared(self, leaves: list[Any]) -> None:
        """Raise FrontendError E970 where an input the model writes to shares memory with another one."""
        for place in [t for t in self._updates if isinstance(t, int)]:
            for other, leaf in enumerate(leaves):
                if other != place and isinstance(leaf, self._torch.Tensor) and _overlap(leaves[place], leaf):
                    raise FrontendError(
                        "E970", f"the model writes to input {place}, which shares memory with input {other}",
                        help="pass a copy: .clone()",
                    )  # fmt: skip

    def _input(self, leaf: Any) -> Any:
        if isinstance(leaf, self._torch.Tensor):
            if leaf.layout is not self._torch.strided:
                refuse_tensor(self._torch, "an input", leaf)
            return Tensor.from_torch(leaf if leaf.is_contiguous() else leaf.contiguous())
        return leaf

    @staticmethod
    def _output(value: Any, taken: set[int]) -> Any:
        """A result as torch has it; a copy where it would be an input or a weight itself."""
        if not isinstance(value, Tensor):
            return value
        return value.torch().clone() if value.data_ptr in taken else value.torch()

    def script(self, **options: Any) -> str:
        """The imported module as script, the weights as names; options as in ``IRModule.script``, e.g. ``places=True``."""
        return readable(self.module, self.report.weights, **options)

    def __repr__(self) -> str:
        return f"CompiledModel({self._main.signature})"


def _overlap(first: Any, second: Any) -> bool:
    """Do the memory ranges of two tensors meet?"""
    spans = []
    for t in (first, second):
        extent = sum([(size - 1) * stride for size, stride in zip(t.shape, t.stride())]) + 1 if t.numel() else 0
        spans.append((t.data_ptr(), t.data_ptr() + extent * t.element_size()))
    return bool(max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1]))


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
