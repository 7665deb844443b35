"""``torch.compile(model, backend="unity")``: graphs captured by torch become modules; AOT autograd removes mutation and views.

Registered by the entry point group ``torch_dynamo_backends``.
"""

from __future__ import annotations

import operator
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from ... import op
from ...ffi.calls.check import Refused
from ...ffi.targets.target import Target, target as make_target
from ...ffi.tensor import Tensor
from ...ir.builder import BlockBuilder
from ...ir.expr import ShapeExpr, Tuple, Var
from ...ir.module import IRModule
from ...ir.types import Expr
from ...support.errors import FrontendError, VMError
from ...support.optional import require
from ...transform.infra.backend import backend_of
from ...vm.builtins.placement import Placement
from ...vm.executable.executable import Executable
from ...vm.out_calls import allocated_results
from ...vm.virtual_machine import VirtualMachine
from ..entry import BuildOptions, compile_chosen
from .capture.inputs import device_target
from .context.context import Context
from .context.fallback import Deferred, complex_of
from .context.report import FallbackWarning, Gap, ImportReport
from .context.symbols import Symbols
from .frozen_weights import FrozenWeights, frozen_inputs, graph_weights
from .runtime.memory import addresses, as_pairs, copy_if_aliased, is_on_device, on_host
from .translate.graph import EFFECTS, TOKEN, GraphImporter

_MODES: dict[str | None, dict[str, Any]] = {
    None: {}, "default": {}, "reduce-overhead": {"cuda_graph": True}, "max-autotune": {"choose": "measured"},
    "max-autotune-no-cudagraphs": {"choose": "measured"},
}  # fmt: skip
"""The meaning of the modes of ``torch.compile`` here."""


@dataclass(slots=True, frozen=True)
class BackendOptions:
    """The options of ``torch.compile(..., options={...})``; each as in ``unity.compile``."""

    strict: bool = False
    target: str | Target | None = None
    exec_mode: str = "native"
    choose: str = "analytic"
    cuda_graph: bool = False
    freezing: bool = True


def unity_backend(
    graph_module: Any, example_inputs: Sequence[Any], mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend that ``torch.compile`` calls with each captured graph: ``graph_module`` and its ``example_inputs``. Backward
    graphs run in torch.

    ``options``: the fields of ``BackendOptions``. ``mode``: "max-autotune" measures kernels (``choose="measured"``),
    "reduce-overhead" captures CUDA graphs where tensors lie on a device; others change nothing. Raises FrontendError E733.
    """
    known = [f.name for f in fields(BackendOptions)]
    unknown = [f"option {name!r}" for name in options or () if name not in known]
    unknown += [f"mode {mode!r}"] if mode not in _MODES else []
    if unknown:
        raise FrontendError("E733", f"the backend does not know the {', '.join(unknown)}",
                            help=f"options: {', '.join(known)}; modes: {', '.join([m for m in _MODES if m])}")  # fmt: skip
    chosen = BackendOptions(**{**_MODES[mode], **(options or {})})
    weights = graph_weights(example_inputs) if chosen.freezing else ()
    make = require("torch._dynamo.backends.common").aot_autograd(
        fw_compiler=partial(compile_graph, options=chosen),
        bw_compiler=_run_in_torch,
        inference_compiler=partial(compile_graph, options=chosen, weights=weights),
    )
    compiled: Callable[..., Any] = make(graph_module, list(example_inputs))
    return compiled


def _run_in_torch(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    boxed: Callable[..., Any] = require("functorch.compile").make_boxed_func(graph_module.forward)
    return boxed


@dataclass(slots=True, frozen=True)
class LinkedGraph:
    """A graph's program in this process: ``main``; ``direct``, which refuses what needs more care, None where there is none; the
    addresses of its constants; whether every result that torch gets is memory of its own."""

    main: Callable[..., Any]
    direct: Callable[..., Any] | None
    placement: Placement
    constants: set[int]
    apart: bool

    @staticmethod
    def of(executable: Executable, options: BackendOptions, plans: Sequence[OutputPlan]) -> LinkedGraph:
        """That of an executable; with a FallbackWarning where it should be captured and cannot be."""
        vm = VirtualMachine(executable, exec_mode=options.exec_mode)
        placement = vm.placement
        vm.cuda_graph |= options.cuda_graph and placement.own_memory
        try:
            main = vm["main"]
        except VMError as error:
            if not vm.cuda_graph:
                raise
            warnings.warn(f"a graph is not captured: {error.message}", FallbackWarning, stacklevel=2)
            vm.cuda_graph = False
            main = vm["main"]
        given_results = [own for plan in plans for own in plan.given_results]
        own_memory = allocated_results(executable.program, "main")
        return LinkedGraph(
            main,
            None if placement.own_memory else vm.silent("main"),
            placement,
            {c.data_ptr for c in executable.program.constants},
            all([not given or own for given, own in zip(given_results, own_memory)]),
        )

    def results(self, torch: Any, given: Sequence[Any]) -> Any:
        """Those of ``main`` for arguments of a call."""
        if self.direct is not None:
            try:
                return self.direct(*given)
            except Refused:  # gaps, complex numbers, or a mistake
                pass
        made = [as_pairs(a) if isinstance(a, torch.Tensor) else a for a in given]
        if self.direct is not None:
            try:
                return self.direct(*made)
            except Refused:  # the general way explains
                return self.main(*made)
        placement = self.placement
        results = self.main(
            *[placement.value(Tensor.from_torch(m) if isinstance(m, torch.Tensor) else m) for m in made]
        )
        on_device = placement.own_memory and any([is_on_device(placement.device.kind, a) for a in given])
        return results if on_device or not placement.own_memory else on_host(results)


def compile_graph(
    graph_module: Any,
    example_inputs: Sequence[Any],
    options: BackendOptions = BackendOptions(),
    weights: Sequence[weakref.ref[Any] | None] = (),
) -> Callable[..., Any]:
    """A callable for a functional ATen graph with metadata; takes and returns flat sequences, as AOT autograd asks.

    ``weights``: for each input of the graph that torch captured, the weight it is. A graph that cannot be imported (an unknown
    operator of operators, a quantised result) runs in torch, with a FallbackWarning; with ``strict`` that is the FrontendError.
    """
    torch = require("torch")
    target = make_target(device_target(example_inputs) if options.target is None else options.target)

    def build(module: IRModule) -> Executable:
        return compile_chosen(module, BuildOptions(target, options.exec_mode, choose=options.choose))

    with require("torch._subclasses.fake_tensor").unset_fake_temporarily():  # constants made here are true tensors
        try:
            module, plans, report = import_graph(graph_module, options.strict)
        except FrontendError as error:
            if options.strict:
                raise
            warnings.warn(f"a whole graph runs in torch: {error.message}", FallbackWarning, stacklevel=2)
            return _run_in_torch(graph_module, example_inputs)
        if report.fallbacks:
            warnings.warn(str(report), FallbackWarning, stacklevel=2)
        inputs = [(k, n) for k, n in enumerate(graph_module.graph.find_nodes(op="placeholder")) if not _is_token(n)]
        places, nodes = [k for k, _ in inputs], [n for _, n in inputs]
        kept = frozen_inputs(weights, nodes, places) if backend_of(target).runtime.device.host_memory else {}
        positions = [k for k, n in inputs if not _is_ragged(n)]
        link = partial(LinkedGraph.of, options=options, plans=plans)
        places, left = [*kept], [k for k in positions if k not in kept]
        frozen = FrozenWeights(module, [module["main"].params[positions.index(k)] for k in places], build, link)
        if kept:
            frozen.program([*kept.values()])
        else:
            frozen.plain()

    def run(*args: Any) -> list[Any]:
        packed = frozen.program([args[k] for k in places]) if places else None
        linked = frozen.plain() if packed is None else packed
        given = [args[k] for k in (positions if packed is None else left)]
        found = iter(linked.results(torch, given))
        taken = None if linked.apart else linked.constants | addresses(args)
        outputs: list[Any] = []
        for plan in plans:
            outputs.append(plan.rebuild(found, args, outputs, taken))
        return outputs

    return require("functorch.compile").make_boxed_func(run)  # type: ignore[no-any-return]


def _is_token(node: Any) -> bool:
    """True for an input that orders effects: it has no value."""
    return node.op == "placeholder" and any([str(u.target) == EFFECTS and u.args[0] is node for u in node.users])


def _is_ragged(node: Any) -> bool:
    """True for the size of a nested tensor's uneven axis among the inputs: it stands for a tensor of offsets, not a number."""
    return node.op == "placeholder" and getattr(getattr(node.meta["val"], "node", None), "is_nested_int", bool)()


@dataclass(slots=True, frozen=True)
class OutputPlan:
    """One output: a value known beforehand, an argument or a view of it (of a data type), an earlier output, or the next result,
    laid out as torch traced it where that is not contiguous: with its axes in another ``order``, or copied where ``strided``.

    torch makes the views of a function anew with the strides and the offset of what a backend gives it: a view of an argument lies
    in the argument's memory, so that the offset counts from where the argument lies in this call.
    """

    value: Any = None
    argument: int | None = None
    view: Any = None
    earlier: int | None = None
    computed: bool = False
    order: tuple[int, ...] = ()
    strided: bool = False
    complex: bool = False

    @property
    def given_results(self) -> tuple[bool, ...]:
        """For each result of ``main`` that the output is made of, true if torch gets its memory."""
        if self.argument is not None:
            return (False,) if self.view is not None else ()
        return ((False, False) if self.strided else (True,)) if self.computed else ()

    def rebuild(self, found: Iterator[Any], args: Sequence[Any], results: Sequence[Any], taken: set[int] | None) -> Any:
        """The output from the results of ``main``: a tensor is followed by its strides and offset where they matter; a view is
        these alone.

        ``results``: the outputs before it. ``taken``: addresses of memory that it may not have.
        """
        if self.argument is not None:
            return args[self.argument] if self.view is None else _view_of(args[self.argument], self.view, *next(found))
        if self.earlier is not None:
            return results[self.earlier]
        if not self.computed:
            return self.value
        result = next(found)
        if self.strided:
            tensor = result.torch()
            return _with_layout(require("torch").view_as_complex(tensor) if self.complex else tensor, *next(found))
        view = copy_if_aliased(result, taken)
        view = require("torch").view_as_complex(view) if self.complex else view
        return view.permute(self.order) if self.order else view


def _view_of(argument: Any, dtype: Any, *layout: int) -> Any:
    """A view of the memory of an argument, in sizes, strides and at an offset; last is the offset the argument had in the trace."""
    *dims, offset, traced = layout
    size, strides = dims[: len(dims) // 2], dims[len(dims) // 2 :]
    offset += (argument.storage_offset() - traced) * argument.itemsize // dtype.itemsize
    result = argument.detach()
    if argument.dtype != dtype:
        storage_bytes = argument.untyped_storage().nbytes() // dtype.itemsize * dtype.itemsize
        result = result.as_strided((storage_bytes // argument.itemsize,), (1,), 0).view(dtype)
    return result.as_strided(size, strides, offset)


def _with_layout(source: Any, *layout: int) -> Any:
    """A tensor with the values of another in strides and at an offset; elements that share a place are written once."""
    *strides, offset = layout
    last = sum([(size - 1) * stride for size, stride in zip(source.shape, strides)])
    target = made = source.new_empty(offset + max(last, 0) + 1).as_strided(source.shape, strides, offset)
    for axis, stride in enumerate(strides):
        if stride == 0:
            target, source = target.narrow(axis, 0, 1), source.narrow(axis, 0, 1)
    target.copy_(source)
    return made


def import_graph(graph_module: Any, strict: bool = False) -> tuple[IRModule, list[OutputPlan], ImportReport]:
    """(module, what stands at every output, report) of a functional ATen graph."""
    builder, symbols, report = BlockBuilder(), Symbols(), ImportReport()
    context = Context(builder, symbols)
    graph = GraphImporter(context, strict, report, trains=True)
    nodes = list(graph_module.graph.nodes)
    params: list[Var] = []
    for node in nodes:
        if _is_token(node):
            graph.values[node] = TOKEN
        elif _is_ragged(node):
            continue  # a result may be it
        elif node.op == "placeholder":
            params.append(graph.parameter(node, params))
        elif node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph_module)
            if isinstance(value, context.torch.Tensor):  # else a branch or the body of a loop
                constant = op.constant(Tensor.from_torch(as_pairs(value.detach())))
                graph.values[node] = complex_of(constant, value) if value.is_complex() else constant
    with builder.function("main", params):
        graph.run(nodes)
        raw = next(n for n in nodes if n.op == "output").args[0]
        leaves: list[Expr] = []
        plans: list[OutputPlan] = []
        given = {n: k for k, n in enumerate([n for n in nodes if n.op == "placeholder"])}
        known: dict[Any, int] = {}
        for position, node in enumerate(raw):
            if node in given:
                plans.append(OutputPlan(argument=given[node]))
                continue
            if isinstance(node, context.torch.fx.Node) and known.setdefault(node, position) != position:
                plans.append(OutputPlan(earlier=known[node]))
                continue
            if seen := _view(context, node, list(given)):
                plans.append(OutputPlan(argument=seen[0], view=node.meta["val"].dtype))
                leaves.append(seen[1])
                continue
            value = graph.value_of(node)
            paired = isinstance(value, Deferred)
            if paired:
                value = graph.as_real(value, node)
            if not isinstance(value, Expr):
                plans.append(OutputPlan(value))
                continue
            order = _order(context, node.meta["val"])
            if order:
                places = sorted(range(len(order)), key=order.__getitem__)
                value = builder.emit(op.permute_dims(value, [*places, len(order)] if paired else places))
            layout = None if order else _layout(context, node.meta["val"])
            plans.append(OutputPlan(computed=True, order=order, strided=layout is not None, complex=paired))
            leaves += [value] if layout is None else [value, layout]
        builder.emit_func_output(Tuple(tuple(leaves)))
    return builder.get(), plans, report


def _view(context: Context, node: Any, inputs: Sequence[Any]) -> tuple[int, ShapeExpr] | None:
    """For a view of an input: which one, and sizes, strides, offset and the offset of the input; None where only the data knows
    them, and where elements are conjugates or negatives of what lies in memory."""
    value: Any = node.meta["val"] if isinstance(node, context.torch.fx.Node) else None
    if not _strided(context, value):
        return None
    storage = value.untyped_storage()._cdata
    for position, given in enumerate([n.meta["val"] for n in inputs]):
        if _strided(context, given) and given.untyped_storage()._cdata == storage:
            layout = [*value.shape, *value.stride(), value.storage_offset(), given.storage_offset()]
            try:
                return position, ShapeExpr(context.symbols.dims(layout))
            except Gap:
                return None
    return None


def _strided(context: Context, value: Any) -> bool:
    """True for a tensor whose elements are what lies in memory."""
    torch = context.torch
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and not (value.is_conj() or value.is_neg())


def _order(context: Context, value: Any) -> tuple[int, ...]:
    """For each axis of an output of known sizes its place in memory, where all its elements lie there without gaps in another order
    than that of the axes; empty for other outputs."""
    torch = context.torch
    known = isinstance(value, torch.Tensor) and all([isinstance(d, int) for d in (*value.shape, *value.stride())])
    if not known or value.is_contiguous() or value.storage_offset() != 0:
        return ()
    axes = sorted(range(value.ndim), key=lambda axis: -value.stride(axis))
    places = tuple(sorted(range(value.ndim), key=axes.__getitem__))
    made = torch.empty([value.shape[axis] for axis in axes], device="meta").permute(places)
    return places if made.stride() == value.stride() else ()


def _layout(context: Context, value: Any) -> ShapeExpr | None:
    """Strides and offset of an output; None where it is contiguous, and where only the data knows them."""
    torch = context.torch
    if not isinstance(value, torch.Tensor):
        return None
    offset = value.storage_offset()
    if isinstance(offset, int) and offset == 0 and torch._prims_common.is_contiguous_or_false(value):
        return None
    try:
        return ShapeExpr(context.symbols.dims([*value.stride(), offset]))
    except Gap:
        return None
