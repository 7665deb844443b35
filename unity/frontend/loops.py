"""Loops as functions of functions: ``torch.while_loop`` becomes a private function that ends with a call of itself.

``loop(carried, rest) = loop(body(carried, rest), rest) if cond(carried, rest) else carried``; the VM runs it as a loop
of any length.
Not here: conditionals (``control.py``). Invariant: every value carried keeps the dtype and shape torch gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.builder import make_call
from ..ir.expr import Call, Constant, GlobalVar, If, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.node import replace
from ..ir.relation import Answer, is_subtype
from ..ir.types import Expr, FuncType, PrimType, ShapeType, Type, prim_type
from ..ir.walk import fresh_copy, rewrite
from ..op import reshape, tensor_to_shape
from .context import Context, rank_of, to_dim
from .report import Gap

Nodes = Callable[[Any], None]
"""Translates the nodes of a graph."""


def is_while_loop(node: Any) -> bool:
    """Is this node a ``torch.while_loop``?"""
    return node.op == "call_function" and str(node.target) == "while_loop"


def while_loop(c: Context, values: dict[Any, Any], node: Any, run: Nodes, value_of: Callable[[Any], Any]) -> list[Expr]:
    """The values carried when the condition no longer holds. Raises Gap."""
    cond, body, raw_carried, raw_rest = node.args
    carried, rest = value_of(list(raw_carried)), value_of(list(raw_rest))
    numbers = {k for k, found in enumerate(node.meta["val"]) if isinstance(found, c.torch.SymInt)}
    carried = [c.emit(c.cast(value, "int64")) if k in numbers else value for k, value in enumerate(carried)]
    for k, (value, found) in enumerate(zip(carried, node.meta["val"])):
        if not isinstance(value, Expr) or isinstance(value.ty, PrimType):
            raise Gap(f"it carries {value}, which is no tensor and no integer")
        if k not in numbers and is_subtype(value.ty, c.type_of(found)) is not Answer.YES:
            raise Gap(f"it carries a value of type {value.ty}, torch's result is {c.type_of(found)}")
    params = [Var(f"c{i}", value.ty) for i, value in enumerate(carried)]
    shared: list[Any] = []
    """Of each further operand, what stands for it inside: a parameter, or a constant or size that is known there too."""
    outside: list[Expr] = []
    for value in rest:
        if isinstance(value, Expr) and not isinstance(value, Constant) and not isinstance(value.ty, PrimType):
            outside.append(value)
            shared.append(Var(f"a{len(outside)}", value.ty))
        else:
            shared.append(value)
    inside: list[Expr] = [v for v in shared if isinstance(v, Var) and not isinstance(v.ty, PrimType)]
    sizes = c.symbols.variables()
    if sizes:
        shape = ShapeExpr(tuple(sizes))
        outside.append(shape)
        inside.append(shape)
    parameters = [
        *params,
        *[v if isinstance(v, Var) else Var("sizes", ShapeType(tuple(sizes), len(sizes))) for v in inside],
    ]
    wanted: Type = Tuple(tuple(params)).ty
    declared = FuncType(tuple([p.ty for p in parameters]), wanted)
    loop = GlobalVar("while_loop", declared)  # its name is known when the loops inside have theirs
    graphs = [getattr(node.graph.owning_module, part.target).graph for part in (cond, body)]

    def results(graph: Any) -> list[Any]:
        for k, (inner, value) in enumerate(zip([n for n in graph.nodes if n.op == "placeholder"], [*params, *shared])):
            values[inner] = value
            if k in numbers:
                c.symbols.define(inner.meta["val"], counters[k])
                values[inner] = counters[k]
        run(graph.nodes)
        given = next(n for n in graph.nodes if n.op == "output").args[0]
        return value_of(list(given) if isinstance(given, (list, tuple)) else [given])  # type: ignore[no-any-return]

    with c.symbols.scope():
        counters = {k: Var(f"i{k}", prim_type("int64")) for k in numbers}
        c.builder.begin_sequence()
        for k, counter in counters.items():
            _read(c, params[k], counter)
        again = results(graphs[0])[0]
        if not isinstance(again, Expr):
            again = c.symbols.expr(again)
        if not isinstance(again.ty, PrimType) and rank_of(again):
            again = c.reshape(again, [])
        again = c.emit(again)
        c.builder.begin_sequence()
        made = results(graphs[1])
        following = [
            c.emit(c.cast(value, "int64")) if k in numbers else _as_carried(c, value, param)
            for k, (value, param) in enumerate(zip(made, params))
        ]
        call = c.emit(Call(loop, (*following, *inside), {}, (), wanted))
        then = c.builder.end_sequence(call)
    c.builder.begin_sequence()
    otherwise = c.builder.end_sequence(c.emit(Tuple(tuple(params))))
    result = c.emit(If(again, then, otherwise, wanted))
    function = c.builder.finish_function(parameters, result, None, None, wanted)
    name = c.builder.get().fresh_name("while_loop")
    itself = GlobalVar(name, replace(declared, pure=function.pure))
    named = rewrite(function, {GlobalVar: lambda v: itself if v is loop else v})
    reference = c.builder.add_func(fresh_copy(named), name)
    found = c.emit(make_call(reference, [*carried, *outside]))
    results_after = [c.emit(TupleGetItem(found, i)) for i in range(len(carried))]
    for k in sorted(numbers):
        symbol = Var(f"n{k}", prim_type("int64"))
        _read(c, results_after[k], symbol)
        c.symbols.define(node.meta["val"][k], symbol)
        results_after[k] = symbol
    return results_after


def _read(c: Context, x: Expr, symbol: Var) -> None:
    """Bind a symbol to the one number of a tensor."""
    values = c.emit(reshape(x, ShapeExpr((to_dim(1),))))
    c.builder.match_cast(c.emit(tensor_to_shape(values)), ShapeType((symbol,), 1))


def _as_carried(c: Context, value: Any, param: Var) -> Expr:
    """A result of the body as the next value of a parameter. Raises Gap."""
    if not isinstance(value, Expr) or is_subtype(value.ty, param.ty) is Answer.NO:
        raise Gap(f"the body gives {getattr(value, 'ty', value)} for a value of type {param.ty}")
    if is_subtype(value.ty, param.ty) is Answer.YES:
        return c.emit(value)
    return c.builder.match_cast(value, param.ty)


__all__ = ["is_while_loop", "while_loop"]
