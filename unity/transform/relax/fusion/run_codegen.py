"""run_codegen: functions marked for a code generator (``{"Codegen": name}``) are handed to it and replaced by what it returns.

A code generator is a Python function ``(functions, options) -> {name: replacement}``. It gets all functions marked for it, by name,
each holding its composites as local functions. A replacement is

- the name of a registered function (or an ``ExternFunc``): the call becomes ``R.call_dps`` of it, with outputs as last arguments;
- a Python callable: registered under the function's name, and called the same way;
- a ``PrimFunc``: the call becomes ``R.call_dps`` of it;
- a graph ``Function``: it takes the place of the one given.

A function that is left out stays; without its mark it is then compiled like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....ffi.registry import register_func
from ....ir.expr import Call, ExternFunc, GlobalVar, ShapeExpr
from ....ir.function import Function, PrimFunc
from ....ir.module import IRModule
from ....ir.node import Node
from ....ir.types import Expr, ShapeType
from ....op.building.call_inputs import kernel_call
from ....support.arguments import checked
from ....support.errors import PassError
from ...infra.passes import module_pass
from ..normalize.dead_code import reachable, require_functions
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls

Codegen = Callable[[dict[str, Function], Mapping[str, Any]], Mapping[str, Any]]

CODEGENS: dict[str, Codegen] = {}
"""Code generators by name."""


@checked
def register_codegen(name: str, codegen: Codegen | None = None) -> Any:
    """Register ``codegen`` as the code generator ``name``; without it, return a decorator. A later one replaces an earlier one."""
    if codegen is None:
        return lambda function: register_codegen(name, function)
    CODEGENS[name] = codegen
    return codegen


def _as_call_dps(value: Call, callee: Expr, fn: Function) -> Call:
    """The call of a graph function as ``R.call_dps`` of a kernel: tensors as arguments, the values of shapes as scalars after the
    outputs."""
    tensors: list[Expr] = []
    scalars: list[Expr] = []
    for param, arg in zip(fn.params, value.args):
        if isinstance(param.ty, ShapeType):
            values = arg.values if type(arg) is ShapeExpr else getattr(arg.ty, "values", None)
            if values is None:
                raise PassError("E550", f"the shape given for {param.name} is not known", value.span)
            scalars += values
        else:
            tensors.append(arg)
    return kernel_call(callee, tensors, scalars, value.ty, value.span)


def calling_kernels(
    callers: Mapping[str, Function], kernels: Mapping[str, Expr], functions: Mapping[str, Any]
) -> dict[str, Function]:
    """The callers with calls of ``functions`` that have a kernel as ``R.call_dps`` of it."""

    def change(call: Call, rewriter: GraphRewriter) -> Call | None:
        if type(call.op) is not GlobalVar or call.op.name not in kernels:
            return None
        return _as_call_dps(call, kernels[call.op.name], functions[call.op.name])

    return {name: rewrite_calls(fn, change) for name, fn in callers.items()}


def _target(name: str, made: Any) -> Expr | PrimFunc | Function:
    if isinstance(made, str):
        return ExternFunc(made)
    if isinstance(made, (ExternFunc, PrimFunc, Function)):
        return made
    if callable(made) and not isinstance(made, Node):
        register_func(name, made, override=True)
        return ExternFunc(name)
    raise PassError("E553", f"the code generator returned {type(made).__name__} for {name}",
                    help="return a function, a PrimFunc, or the name of a registered function")  # fmt: skip


@module_pass()
def run_codegen(
    mod: IRModule,
    *,
    target_options: Mapping[str, Mapping[str, Any]] | None = None,
    entry_functions: tuple[str, ...] = (),
) -> IRModule:
    """Hand functions marked for a code generator to it, and replace them by its results. Requires the attribute ``Codegen``.

    ``target_options``: options by name of the code generator; ``entry_functions``: where given, functions that neither these nor
    public ones need are removed.
    """
    marked: dict[str, dict[str, Function]] = {}
    for name, fn in mod.graph_functions().items():
        if fn.attrs.get("Codegen"):
            marked.setdefault(str(fn.attrs["Codegen"]), {})[name] = fn
    changes: dict[str, Any] = {}
    targets: dict[str, Expr] = {}
    for library, functions in marked.items():
        codegen = CODEGENS.get(library)
        if codegen is None:
            raise PassError("E553", f"no code generator {library!r} is registered for {next(iter(functions))}",
                            help=f"register_codegen({library!r}, function); known: {', '.join(CODEGENS) or 'none'}")  # fmt: skip
        made = codegen(dict(functions), (target_options or {}).get(library, {}))
        for name, fn in functions.items():
            if name not in made:
                changes[name] = fn.without_attr("Codegen")
                continue
            found = _target(name, made[name])
            if isinstance(found, Function):
                changes[name] = found
            elif isinstance(found, PrimFunc):
                changes[name], targets[name] = found, GlobalVar(name)
            else:
                changes[name], targets[name] = None, found

    callers = {name: fn for name, fn in mod.graph_functions().items() if name not in changes}
    changes |= calling_kernels(callers, targets, mod.functions)
    result = mod.with_functions(changes)
    if not entry_functions:
        return result
    require_functions(result, entry_functions)
    alive = reachable(result, entry_functions)
    return result.with_functions({name: None for name in result.functions if name not in alive})
