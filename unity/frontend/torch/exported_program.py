"""``from_exported_program`` and ``from_fx``: a torch model as an IRModule with one function ``main``.

Parameters and buffers are constants over torch's own memory, or inputs with ``keep_params_as_input``. Inputs and outputs are the
leaves of the model's nested arguments and result, in order; ``compiled_model.py`` folds them back and stores what the model writes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import op, script as _script  # noqa: F401 - importing script fills the printer hooks
from ...ffi.tensor import Tensor
from ...ir import build
from ...ir.builder import BlockBuilder
from ...ir.expr import Constant, Tuple, Var, is_dataflow_var
from ...ir.function import Function
from ...ir.module import IRModule
from ...ir.types import Expr
from ...ir.walk import free_vars
from ...support.errors import FFIError, FrontendError
from ...support.gc_pause import young_collection
from ...support.optional import require
from .capture.discard_parameters import memory_key
from .capture.guards import guard_conditions
from .capture.trace import export, functional, sample_inputs
from .context.context import Context, dtype_name, dtype_of
from .context.fallback import Deferred, complex_of
from .context.report import FallbackWarning, Gap, ImportReport
from .context.symbols import Symbols
from .runtime.arguments import PLACES, refuse_tensor
from .translate.control import ASSERTIONS, READS
from .translate.cut_bounds import cut_conditions
from .translate.graph import GraphImporter
from .translate.index_checks import check_indices, constant_conditions
from .translate.loops import LOOPS


@dataclass(slots=True, frozen=True)
class Options:
    """Options of an import; see ``from_exported_program``."""

    keep_params_as_input: bool = False
    unwrap_unit_return_tuple: bool = False
    no_bind_return_tuple: bool = False
    strict: bool = False
    least: int = 3
    """Lower bounds of ranges from here on are promises to be checked."""
    check_indices: bool = False
    """Inputs that choose rows are checked on entry."""
    numbers: bool = False
    """Numbers among the results that no input changes (``x.size(1)``, ``x.numel()``) are results of the module."""


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    strict: bool = False,
    report: ImportReport | None = None,
) -> IRModule:
    """Return the module of a ``torch.export.ExportedProgram``; its results are the leaves of the model's, except None.

    Symbolic sizes become symbols; their ranges are checked on entry and are the attribute ``range_constraints``. A buffer that the
    model writes to is an input after the model's, and its new value a leading result: the attribute ``updates`` gives positions of
    results by name. Operators without translation run in torch; ``report`` and a FallbackWarning list them.

    ``exported_program``: the result of ``torch.export.export``. ``keep_params_as_input``: pass parameters after the inputs
    (``num_input`` counts those), with their values in the attribute ``params``: see ``detach_params``.
    ``unwrap_unit_return_tuple``: return a single result without its tuple. ``no_bind_return_tuple``: return a tuple without binding
    it to a variable. ``strict``: raise an error for operators without translation. Raises FrontendError E010 to E015.
    """
    options = Options(keep_params_as_input, unwrap_unit_return_tuple, no_bind_return_tuple, strict, numbers=True)
    found = report if report is not None else ImportReport()
    module = import_program(functional(exported_program), options, found)
    if found.fallbacks:
        warnings.warn(str(found), FallbackWarning, stacklevel=3)
    return module


def import_program(program: Any, options: Options, report: ImportReport) -> IRModule:
    """The module of a program that is functional already (``trace.functional``)."""
    with young_collection():
        return _Import(program, options, report).module()


class _Import:
    """One run of ``from_exported_program``."""

    def __init__(self, exported_program: Any, options: Options, report: ImportReport) -> None:
        self.program = exported_program
        self.options = options
        self.builder = BlockBuilder()
        self.symbols = Symbols()
        self.context = Context(self.builder, self.symbols)
        self.graph = GraphImporter(self.context, options.strict, report)
        self.inputs: list[Var] = []
        self.weights: list[tuple[Var, Tensor]] = []
        self._shared: dict[Any, Expr] = {}

    def module(self) -> IRModule:
        self._placeholders()
        params = [*self.inputs, *[v for v, _ in self.weights]]
        attrs: dict[str, Any] = {}
        updates = state_updates(self.program)
        if updates:
            attrs["updates"] = {target: index for index, (_, target) in enumerate(updates)}
        if self.options.keep_params_as_input:
            attrs["num_input"] = len(self.inputs)
            attrs["params"] = tuple([t for _, t in self.weights])
        ranges = self._ranges()
        for limits in ranges:
            self.symbols.limit(*limits)
        if ranges:
            attrs["range_constraints"] = {name: (low, high) for name, low, high in ranges}
        with self.builder.function("main", params, attrs):  # sizes rounded from floats are computed in it
            self._squeezed()
            self.symbols.contracts += guard_conditions(self.program, self._guarded)
            self.symbols.contracts += cut_conditions(self.context, self.program.graph.nodes)
            if not self.options.keep_params_as_input:
                self.symbols.contracts += constant_conditions(
                    self.context, self.program.graph.nodes, self._constant_tensor
                )
            self._check_ranges(ranges)
            if self.options.check_indices:
                nodes = self.program.graph.nodes
                names = {var.name for var in self.inputs}
                check_indices(self.context, nodes, self.graph.values, names, self.graph.span)
            if self._only_pure():
                self.builder.begin_dataflow()
            self.graph.run(self.program.graph.nodes)
            result = self._result()
            self.builder.end_dataflow()
            self.builder.emit_func_output(result)
        return self.builder.get()

    def _only_pure(self) -> bool:
        """False where an operator draws random numbers or asserts: its binding cannot stand in a dataflow block."""
        seeded = self.context.torch.Tag.nondeterministic_seeded
        impure = ("aten._assert_scalar.default", *ASSERTIONS, *READS, "cond", *LOOPS)
        for node in [n for n in self.program.graph.nodes if n.op == "call_function"]:
            drawn = seeded in getattr(node.target, "tags", ()) and "dropout" not in str(node.target)
            if drawn or str(node.target) in impure:
                return False
        return True

    # ---- inputs

    def _placeholders(self) -> None:
        nodes = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        pairs = list(zip(nodes, self.program.graph_signature.input_specs))
        values = [node.meta["val"] for node, spec in pairs if spec.kind.name == "USER_INPUT" and "val" in node.meta]
        self.symbols.bind_plain([d for value in values for d in getattr(value, "shape", ())])
        for node, spec in pairs:  # inputs first: they bind the symbols
            if spec.kind.name == "USER_INPUT" and type(spec.arg).__name__ != "ConstantArgument":
                self._input(node)
            elif spec.kind.name == "USER_INPUT":
                self.graph.values[node] = spec.arg.value
        changed = {target for kind, target in state_updates(self.program) if kind != "USER_INPUT_MUTATION"}
        for node, spec in pairs:
            if spec.target in changed:
                self._input(node)
            elif spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                if node.users:
                    self.graph.values[node] = self._weight(node.name, spec.target)
            elif spec.kind.name != "USER_INPUT":
                raise FrontendError("E012", f"an input of kind {spec.kind.name} cannot be imported: {spec.target}")

    def _input(self, node: Any) -> None:
        self.inputs.append(self.graph.parameter(node))

    def _dtype(self, value: Any, what: str) -> str:
        try:
            return dtype_name(value.dtype)
        except (Gap, FFIError) as error:
            raise FrontendError("E015", f"{what} cannot be imported: {error}") from error

    def _weight(self, name: str, target: str) -> Expr | Deferred:
        value = self.program.state_dict.get(target)
        value = self.program.constants[target] if value is None else value
        refuse_tensor(self.context.torch, target, value, PLACES)
        if value.is_complex():
            real = self.context.torch.view_as_real(value.detach().resolve_conj())
            return complex_of(self._shared_weight(name, target, real), value)
        self._dtype(value, target)
        return self._shared_weight(name, target, value)

    def _constant_tensor(self, node: Any) -> Any:
        """The tensor of integers a node stands for that no call changes, else None."""
        value = self.graph.values.get(node)
        return value.data.numpy() if isinstance(value, Constant) and dtype_of(value) in ("int64", "int32") else None

    def _shared_weight(self, name: str, target: str, value: Any) -> Expr:
        """Constant or input of a tensor; tied weights are one."""
        key = memory_key(value) if value.numel() else target
        found = self._shared.get(key)
        if found is None:
            constant: Constant = self.context.constant(value.detach().cpu().contiguous().resolve_neg())
            found = constant
            if self.options.keep_params_as_input:
                var = Var(name, constant.ty)
                self.weights.append((var, constant.data))
                found = var
            self._shared[key] = found
            self.graph.report.weights[target] = constant.data
        return found

    # ---- ranges

    def _ranges(self) -> list[tuple[str, int | None, int | None]]:
        """(symbol, least, most) of the symbols of the inputs; see ``Options.least``."""
        found = []
        for symbol, bounds in self.program.range_constraints.items():
            if self.symbols.known(str(symbol)) is None:
                continue
            low = (
                int(bounds.lower)
                if getattr(bounds.lower, "is_Integer", False) and bounds.lower >= self.options.least
                else None
            )
            high = int(bounds.upper) if getattr(bounds.upper, "is_Integer", False) else None
            if low is not None or high is not None:
                found.append((str(symbol), low, high))
        return found

    def _guarded(self, name: str, axis: int | None) -> Expr:
        """A size that a guard of torch speaks of. Raises Gap."""
        values = {n.name: n.meta["val"] for n in self.program.graph.nodes if n.op == "placeholder"}
        given = {
            f"flat_args_{k}": n for k, n in enumerate(self.program.graph_signature.user_inputs)
        }  # of a strict export
        value = values.get(name, values.get(given.get(name)))
        if value is None or isinstance(value, self.context.torch.Tensor) != (axis is not None):
            raise Gap(f"no input is called {name}")
        return self.symbols.expr(value if axis is None else value.shape[axis])

    def _squeezed(self) -> None:
        """``squeeze`` of an axis of symbolic size keeps it, as torch exported it: then the size may not be one."""
        for node in self.program.graph.nodes:
            if not str(node.target).startswith("aten.squeeze."):
                continue
            shape = node.args[0].meta["val"].shape
            axes = node.args[1] if len(node.args) > 1 and len(shape) else range(len(shape))
            for axis in axes if not isinstance(axes, int) else [axes]:
                if not isinstance(shape[axis], int) and self.symbols.knows([shape[axis]]):
                    self.symbols.contracts.append(build.ne(self.symbols.expr(shape[axis]), 1))

    def _check_ranges(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> None:
        for name, low, high in ranges:
            size = self.symbols.known(name)
            assert size is not None
            checks = [build.ge(size, low)] if low is not None else []
            checks += [build.le(size, high)] if high is not None else []
            cond = checks[0] if len(checks) == 1 else build.logical_and(checks[0], checks[1])
            limits = " and ".join([t for t in (f"at least {low}" if low is not None else "",
                                               f"at most {high}" if high is not None else "") if t])  # fmt: skip
            text = f"{self._describe(size)} must be {limits}, got {{}}"
            self.builder.emit(op.assert_op(cond, size, format=text))

        for contract in self.symbols.contracts:
            text = f"the sizes of the inputs do not fit: expected {self._describe(contract)}"
            self.builder.emit(op.assert_op(contract, format=text))

    def _describe(self, e: Expr) -> str:
        """An expression with sizes called by the inputs that have them."""
        text = str(e)
        for var in free_vars(e):
            text = re.sub(rf"\b{re.escape(var.name)}\b", self._dimension(var), text)
        return text

    def _dimension(self, var: Var) -> str:
        for param in self.inputs:
            if param is var:
                return param.name
            for axis, dim in enumerate(getattr(getattr(param.ty, "shape", None), "values", ())):
                if dim is var:
                    return f"{param.name}.shape[{axis}]"
        return str(var)

    # ---- outputs

    def _result(self) -> Expr:
        output = next(n for n in self.program.graph.nodes if n.op == "output")
        leaves = []
        for raw in output.args[0]:
            value = self.graph.value_of(raw)
            if isinstance(value, Deferred):
                value = self.graph.as_real(value, raw)
            if isinstance(value, Expr):
                leaves.append(value)
            elif self.options.numbers and isinstance(value, (bool, int, float)):
                kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
                leaves.append(build.const(value, kind))
        if self.options.unwrap_unit_return_tuple and len(leaves) == 1:
            return self._output(leaves[0])
        result = Tuple(tuple([self._output(v) for v in leaves]))
        return result if self.options.no_bind_return_tuple else self.builder.emit_output(result)

    def _output(self, value: Expr) -> Expr:
        if is_dataflow_var(value):  # a dataflow variable is not visible outside
            return self.builder.emit_output(value)
        return value


def state_updates(exported_program: Any) -> list[tuple[str, str]]:
    """(kind, name of the buffer, parameter or input) of the leading results, which are new values of the model's state."""
    specs = exported_program.graph_signature.output_specs
    return [(s.kind.name, s.target) for s in specs if s.kind.name.endswith("_MUTATION")]


def float_outputs(exported_program: Any) -> list[bool]:
    """For every computed leaf of the result: is it a Python float, which the module gives as a tensor of rank 0?"""
    specs = [s.arg for s in exported_program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    names = [type(arg).__name__ for arg in specs]
    return [name == "SymFloatArgument" for name in names if name != "ConstantArgument"]


def output_constants(exported_program: Any) -> list[tuple[bool, Any]]:
    """For every leaf of the result: (is it computed, its value where it is not); see ``Interface.outputs``."""
    outputs: list[tuple[bool, Any]] = []
    first: dict[str, int] = {}
    for spec in exported_program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            continue
        if type(spec.arg).__name__ == "ConstantArgument":
            outputs.append((False, spec.arg.value))
        else:
            outputs.append((True, first.get(spec.arg.name)))
            first.setdefault(spec.arg.name, sum([computed for computed, _ in outputs]) - 1)
    return outputs


def from_fx(
    graph_module: Any,
    input_info: Sequence[tuple[Sequence[Any], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    strict: bool = False,
    report: ImportReport | None = None,
) -> IRModule:
    """Return the module of the ``torch.fx.GraphModule`` ``graph_module`` for inputs ``input_info``, pairs of shape and dtype, e.g.
    ``[((1, 3, 224, 224), "float32")]``.

    A size given as text is symbolic. ``torch.export`` lowers the graph to ATen. ``keep_params_as_input``,
    ``unwrap_unit_return_tuple``, ``no_bind_return_tuple``, ``strict``, ``report``: as in ``from_exported_program``. Raises
    FrontendError E013, and what that raises.
    """
    torch = require("torch")
    if not isinstance(graph_module, torch.nn.Module):
        raise FrontendError("E013", f"expected a torch.fx.GraphModule, got {type(graph_module).__name__}",
                            help="trace the model first: torch.fx.symbolic_trace(model)")  # fmt: skip
    samples, shapes = sample_inputs(torch, input_info)
    if hasattr(graph_module, "graph"):
        wanted = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        least = len([node for node in wanted if not node.args])  # others have a default
        if not least <= len(samples) <= len(wanted):
            raise FrontendError("E013", f"the graph has the inputs {', '.join([n.name for n in wanted]) or 'none'}, input_info has "
                                f"{len(samples)} entries", help="give one (shape, dtype) for each input")  # fmt: skip
    program = export(graph_module, samples, shapes)
    return from_exported_program(
        program, keep_params_as_input=keep_params_as_input, unwrap_unit_return_tuple=unwrap_unit_return_tuple,
        no_bind_return_tuple=no_bind_return_tuple, strict=strict, report=report,
    )  # fmt: skip


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """The module without the values of its parameters, and these by function: ``mod, params = detach_params(mod)``.

    Raises FrontendError E013.
    """
    if not isinstance(mod, IRModule):
        raise FrontendError("E013", f"expected an IRModule, got {type(mod).__name__}",
                            help="import the model first: from_exported_program(program, keep_params_as_input=True)")  # fmt: skip
    params: dict[str, list[Tensor]] = {}
    changed = {}
    for name, fn in mod.graph_functions().items():
        if "params" in fn.attrs:
            params[name] = list(fn.attrs["params"])
            attrs = {k: v for k, v in fn.attrs.items() if k != "params"}
            changed[name] = Function(fn.params, fn.body, fn.ret_ty, fn.pure, attrs, fn.span)
    return mod.with_functions(changed), params
