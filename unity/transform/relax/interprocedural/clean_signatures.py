"""Signatures of private graph functions are cleaned together with their calls.

``expand_tuple_arguments``: a parameter that is a tuple becomes its fields. ``remove_unused_parameters``: parameters the body
does not need go. ``remove_unused_outputs``: fields of a returned tuple that no call reads go. A function that is used otherwise
than by a direct call (as a value, in a closure) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.analysis.use import bindings, used_otherwise
from ....ir.binders import bound_symbols
from ....ir.expr import Call, GlobalVar, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function, has_global_symbol, is_marked, seq_body
from ....ir.module import IRModule
from ....ir.node import replace
from ....ir.types import Expr, TupleType
from ....ir.walk import Rewriter, free_vars
from ...infra.passes import module_pass
from ..params.bind_params import with_head
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, rewrite_calls

Arguments = Callable[[tuple[Expr, ...], GraphRewriter], tuple[Expr, ...]]


def _candidates(mod: IRModule) -> dict[str, Function]:
    """Private graph functions that are only called directly."""
    values = used_otherwise(mod, lambda call: call.op)
    return {
        name: fn
        for name, fn in mod.graph_functions().items()
        if name not in values and not has_global_symbol(fn) and not is_marked(fn)
    }


def _update_calls(mod: IRModule, changed: dict[str, Function], arguments: dict[str, Arguments]) -> IRModule:
    """The module with changed functions and every call of them rewritten."""
    if not changed:
        return mod

    def change(call: Call, rewriter: GraphRewriter) -> Call | None:
        if type(call.op) is not GlobalVar or call.op.name not in changed:
            return None
        name = call.op.name
        return replace(call, op=GlobalVar(name, changed[name].ty), args=arguments[name](call.args, rewriter))

    return mod.with_functions(changed).with_graph_functions(lambda fn: rewrite_calls(fn, change))


@module_pass()
def expand_tuple_arguments(mod: IRModule) -> IRModule:
    """Pass tuple arguments of private functions as their fields."""
    changed: dict[str, Function] = {}
    arguments: dict[str, Arguments] = {}
    for name, fn in _candidates(mod).items():
        if not any([isinstance(p.ty, TupleType) for p in fn.params]):
            continue
        params: list[Var] = []
        heads: list[VarBinding] = []
        for param in fn.params:
            if isinstance(param.ty, TupleType):
                fields = [Var(f"{param.name}_{i}", ty, param.span) for i, ty in enumerate(param.ty.fields)]
                params += fields
                heads.append(VarBinding(Var(param.name, param.ty, param.span), Tuple(tuple(fields))))
            else:
                params.append(param)
        mapping: dict[Any, Any] = dict(
            zip([p for p in fn.params if isinstance(p.ty, TupleType)], [h.var for h in heads])
        )
        body = seq_body(replace(fn, body=Rewriter(mapping=mapping)(fn.body)))
        changed[name] = replace(fn, params=tuple(params), body=with_head(tuple(heads), body))
        arguments[name] = _fields_of(fn.params)
    return _update_calls(mod, changed, arguments)


def _fields_of(params: tuple[Var, ...]) -> Arguments:
    def change(args: tuple[Expr, ...], rewriter: GraphRewriter) -> tuple[Expr, ...]:
        made: list[Expr] = []
        for param, arg in zip(params, args):
            if isinstance(param.ty, TupleType):
                made += [rewriter.field(arg, i) for i in range(len(param.ty.fields))]
            else:
                made.append(arg)
        return tuple(made)

    return change


@module_pass()
def remove_unused_parameters(mod: IRModule) -> IRModule:
    """Remove unused parameters of private functions."""
    changed: dict[str, Function] = {}
    arguments: dict[str, Arguments] = {}
    for name, fn in _candidates(mod).items():
        kept = needed_params(fn)
        if len(kept) < len(fn.params):
            changed[name] = replace(fn, params=tuple([fn.params[i] for i in kept]))
            arguments[name] = _chosen(kept)
    return _update_calls(mod, changed, arguments)


def needed_params(fn: Function) -> list[int]:
    """Parameters the body uses, and those that bind a symbol it (or a type) uses."""
    needed = set(free_vars(fn.body)) | set(free_vars(fn.ret_ty))
    kept: set[int] = set()
    while True:
        chosen = {i for i, p in enumerate(fn.params) if p in needed} | kept
        for index in chosen:
            needed |= set(free_vars(fn.params[index].ty))
        bound = {s for i in chosen for s in bound_symbols(fn.params[i].ty)}
        missing = [
            i for i, p in enumerate(fn.params) if i not in chosen and (set(bound_symbols(p.ty)) & needed) - bound
        ]
        if not missing:
            return sorted(chosen)
        kept = chosen | {missing[0]}


def _chosen(kept: list[int]) -> Arguments:
    return lambda args, rewriter: tuple([args[i] for i in kept])


@module_pass()
def remove_unused_outputs(mod: IRModule) -> IRModule:
    """Remove fields of tuples that private functions return and no call reads."""
    found = {
        name: fn
        for name, fn in _candidates(mod).items()
        if isinstance(fn.ret_ty, TupleType) and len(fn.ret_ty.fields) > 1 and type(seq_body(fn).body) is Tuple
    }
    read: dict[str, set[int]] = {name: set() for name in found}
    for fn in mod.graph_functions().values():
        _note_reads(fn, found, read)
    changed: dict[str, Function] = {}
    for name, fn in found.items():
        body = seq_body(fn)
        assert isinstance(fn.ret_ty, TupleType) and type(body.body) is Tuple
        if not read[name] or len(read[name]) == len(fn.ret_ty.fields):
            continue
        kept = sorted(read[name])
        fields = tuple([body.body.fields[i] for i in kept])
        single = len(kept) == 1
        value: Expr = fields[0] if single else Tuple(fields)
        types = tuple([fn.ret_ty.fields[i] for i in kept])
        ret = types[0] if single else TupleType(types)
        changed[name] = replace(fn, body=SeqExpr(body.blocks, value, body.span), ret_ty=ret)
    if not changed:
        return mod

    def results(call: Call, rewriter: GraphRewriter) -> Any:
        assert type(call.op) is GlobalVar and isinstance(call.ty, TupleType)
        kept = sorted(read[call.op.name])
        types = tuple([call.ty.fields[i] for i in kept])
        whole = replace(call, ty=types[0] if len(kept) == 1 else TupleType(types))
        bound = rewriter.var
        made: list[Var] = []
        for value in [whole] if len(kept) == 1 else [whole, *[None] * len(kept)]:
            item = TupleGetItem(made[0], len(made) - 1) if value is None else value
            made.append(replace(bound, name=rewriter.names.fresh(bound.name), ty=item.ty))
            rewriter.append(VarBinding(made[-1], item))
        places[bound] = dict(zip(kept, made if len(kept) == 1 else made[1:]))
        return None

    places: dict[Expr, dict[int, Var]] = {}

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if type(value) is Call and type(value.op) is GlobalVar and value.op.name in changed:
            return results(replace(value, op=GlobalVar(value.op.name, changed[value.op.name].ty)), rewriter)
        if type(value) is TupleGetItem and value.tuple_value in places:
            part = places[value.tuple_value][value.index]
            inner = part.dataflow and not rewriter.var.dataflow
            return part if inner else Replaced(part)
        return value

    return mod.with_functions(changed).with_graph_functions(GraphRewriter(rule).function)


def _note_reads(fn: Function, found: dict[str, Function], read: dict[str, set[int]]) -> None:
    """The fields of the calls' results that are read; all of a result that is used as a whole."""
    owner: dict[Var, str] = {}
    for binding in bindings(fn):
        value = binding.value
        if type(value) is Call and type(value.op) is GlobalVar and value.op.name in found:
            if isinstance(binding, VarBinding):
                owner[binding.var] = value.op.name
            else:
                read[value.op.name].update(range(len(found[value.op.name].ret_ty.fields)))  # type: ignore[attr-defined]
    if not owner:
        return
    whole: set[Var] = set()
    for binding in bindings(fn):
        value = binding.value
        if type(value) is TupleGetItem and value.tuple_value in owner:
            read[owner[value.tuple_value]].add(value.index)
        else:
            whole.update([v for v in free_vars(value) if v in owner and not isinstance(value, (SeqExpr, Function))])
    whole.update([v for v in free_vars(getattr(fn.body, "body", fn.body)) if v in owner])
    for var in whole:
        read[owner[var]].update(range(len(found[owner[var]].ret_ty.fields)))  # type: ignore[attr-defined]
