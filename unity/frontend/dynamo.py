"""``torch.compile(model, backend="unity")``: graphs captured by torch become modules; AOT autograd removes mutation and views.

Registered by the entry point group ``torch_dynamo_backends``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import op
from ..ffi.tensor import Tensor
from ..ir.builder import BlockBuilder
from ..ir.expr import Constant, Tuple, Var
from ..ir.module import IRModule
from ..ir.relation import tensor_type
from ..ir.types import Expr, prim_type
from ..support.errors import FrontendError
from ..support.extras import require
from ..vm import build
from ..vm.machine import VirtualMachine
from .context import Context, dtype_name
from .fast_paths import fast_paths
from .graph import GraphImporter
from .report import FallbackWarning, Gap, ImportReport
from .symbols import Symbols


def unity_backend(graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend function torch calls for each captured graph. Backward graphs (training) run in torch."""
    make = require("torch._dynamo.backends.common").aot_autograd(
        fw_compiler=compile_graph, bw_compiler=_in_torch, decompositions=fast_paths()
    )
    compiled: Callable[..., Any] = make(graph_module, list(example_inputs))
    return compiled


def _in_torch(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    boxed: Callable[..., Any] = require("functorch.compile").make_boxed_func(graph_module.forward)
    return boxed


def compile_graph(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A callable for a functional ATen graph with metadata; takes and returns flat sequences, as AOT autograd asks."""
    module, places, report = import_graph(graph_module)
    if report.fallbacks:
        warnings.warn(str(report), FallbackWarning, stacklevel=2)
    main = VirtualMachine(build.compile(module))["main"]
    torch = require("torch")
    boxed = require("functorch.compile").make_boxed_func

    def run(*args: Any) -> list[Any]:
        inputs = [
            Tensor.from_torch(a if a.is_contiguous() else a.contiguous()) if isinstance(a, torch.Tensor) else a
            for a in args
        ]
        found = iter(main(*inputs))
        return [_restore(next(found)) if computed else value for computed, value in places]

    return boxed(run)  # type: ignore[no-any-return]


def _restore(value: Any) -> Any:
    return value.torch() if isinstance(value, Tensor) else value


def import_graph(graph_module: Any, strict: bool = False) -> tuple[IRModule, list[tuple[bool, Any]], ImportReport]:
    """(module, for every output whether it is computed and else its value, report) of a functional ATen graph."""
    builder, symbols, report = BlockBuilder(), Symbols(), ImportReport()
    context = Context(builder, symbols)
    graph = GraphImporter(context, strict, report, trains=True)
    nodes = list(graph_module.graph.nodes)
    params = []
    for node in nodes:
        if node.op == "placeholder":
            params.append(_parameter(context, node))
            graph.values[node] = params[-1]
        elif node.op == "get_attr":
            graph.values[node] = _attribute(context, graph_module, node.target)
    with builder.function("main", params):
        graph.run(nodes)
        raw = next(n for n in nodes if n.op == "output").args[0]
        leaves: list[Expr] = []
        places: list[tuple[bool, Any]] = []
        for value in [graph.value_of(r) for r in raw]:
            places.append((isinstance(value, Expr), value))
            if isinstance(value, Expr):
                leaves.append(value)
        builder.emit_func_output(Tuple(tuple(leaves)))
    return builder.get(), places, report


def _parameter(context: Context, node: Any) -> Var:
    value = node.meta["val"]
    try:
        if isinstance(value, context.torch.Tensor):
            shape = [context.symbols.bind(d) for d in value.shape]
            return Var(node.name, tensor_type(shape, dtype_name(value.dtype)))
    except Gap as gap:
        raise FrontendError("E015", f"the input {node.name} cannot be imported: {gap}") from gap
    bound = context.symbols.bind(value)
    return bound if isinstance(bound, Var) else Var(node.name, prim_type("int64"))


def _attribute(context: Context, graph_module: Any, path: str) -> Constant:
    value: Any = graph_module
    for part in path.split("."):
        value = getattr(value, part)
    return op.constant(Tensor.from_torch(value.detach().contiguous()))


__all__ = ["compile_graph", "import_graph", "unity_backend"]
