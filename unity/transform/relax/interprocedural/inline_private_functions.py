"""Calls of private graph functions are replaced by their bodies; the functions then unused go.

Rewrite: ``y = helper(x)`` with ``helper(a): b = R.exp(a); return b`` -> ``b = R.exp(x)``, uses of y become b. Kept are calls of
recursive functions, of functions marked for a library or a fused kernel (``Primitive``, ``Composite``, ``Codegen``), and
inside a dataflow block of functions that are not straight-line. Symbols of the callee become what the arguments' types say;
where these say too little, a match_cast binds them.
"""

from __future__ import annotations

from typing import Any

from ....ir.analysis import detect_recursion
from ....ir.binders import bound_symbols
from ....ir.expr import Call, GlobalVar, If, SeqExpr, Tuple, TupleGetItem, Var
from ....ir.function import Function, has_global_symbol, is_marked
from ....ir.module import IRModule
from ....ir.relation import Answer, bind_symbols, is_subtype
from ....ir.types import Expr
from ....ir.walk import Rewriter, collect, free_vars, substitute
from ...infra.passes import module_pass
from ..normalize.dead_code import reachable
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, each_binding, rewrite_calls


class _Copy(Rewriter):
    """A copy with new variables of one kind and names that are free in the caller."""

    def __init__(self, dataflow: bool, mapping: dict[Any, Any], rewriter: GraphRewriter) -> None:
        super().__init__(mapping=mapping, fresh=True)
        self.dataflow = dataflow
        self.names = rewriter.names

    def leave(self, node: Any) -> Any:
        if type(node) is TupleGetItem and type(node.tuple_value) is Tuple:
            return node.tuple_value.fields[node.index]
        return super().leave(node)

    def define(self, node: Any) -> Any:
        if isinstance(node, Var) and node not in self.mapping:
            ty = self.visit(node.ty) if node.ty.walked else node.ty
            self.mapping[node] = Var(self.names.fresh(node.name), ty, node.span, self.dataflow)
        return super().define(node)


def _straight_line(fn: Function) -> bool:
    return fn.pure and not any([isinstance(b.value, (If, Function)) for _, b in each_binding(fn)])


def _inlinable(mod: IRModule) -> dict[str, Function]:
    circular = {name for group in detect_recursion(mod) for name in group}
    return {
        name: fn
        for name, fn in mod.graph_functions().items()
        if not has_global_symbol(fn) and name not in circular and isinstance(fn.body, SeqExpr) and not is_marked(fn)
    }


def _symbols_known(fn: Function, args: tuple[Expr, ...], mapping: dict[Any, Any]) -> bool:
    """True if the arguments' types determine the callee's symbols, and fit."""
    for param, arg in zip(fn.params, args):
        bind_symbols(param.ty, arg.ty, mapping)
    if any([s not in mapping for p in fn.params for s in bound_symbols(p.ty)]):
        return False
    return all([is_subtype(a.ty, substitute(p.ty, mapping)) is Answer.YES for p, a in zip(fn.params, args)])


def inline_call(call: Call, fn: Function, rewriter: GraphRewriter) -> Any:
    """Put the body of ``fn`` before the current binding; the value it returns."""
    mapping: dict[Any, Any] = {}
    args = call.args
    copy = _Copy(rewriter.in_dataflow, mapping, rewriter)
    if not _symbols_known(fn, args, copy.mapping):
        copy.mapping = {}
        for param, arg in zip(fn.params, args):
            if free_vars(param.ty) or is_subtype(arg.ty, param.ty) is not Answer.YES:
                copy.define_symbols(param.ty)
                copy.mapping[param] = rewriter.emit_match(arg, copy.visit(param.ty), param.name)
            else:
                copy.mapping[param] = arg
    else:
        copy.mapping.update(zip(fn.params, args))
    assert isinstance(fn.body, SeqExpr)
    for binding in fn.body.bindings:
        rewriter.append(copy.visit(binding))
    return copy.visit(fn.body.body)


@module_pass()
def inline_private_functions(mod: IRModule) -> IRModule:
    """Replace calls of private graph functions by their bodies. Recursive functions and those of fusion and libraries stay."""
    found = _inlinable(mod)
    if not found:
        return mod
    done: dict[str, Function] = {}

    def finished(name: str) -> Function:
        """The callee with its own calls inlined first."""
        if name not in done:
            done[name] = run(found[name])
        return done[name]

    def run(fn: Function) -> Function:
        def change(call: Call, rewriter: GraphRewriter) -> Any:
            if type(call.op) is not GlobalVar or call.op.name not in found:
                return None
            callee = finished(call.op.name)
            if len(callee.params) != len(call.args) or (rewriter.in_dataflow and not _straight_line(callee)):
                return None
            made, var = inline_call(call, callee, rewriter), rewriter.var
            same = is_subtype(made.ty, var.ty) is Answer.YES
            simple = isinstance(made, Var) and same and (var.dataflow or not made.dataflow)
            return Replaced(made) if simple else made

        return rewrite_calls(fn, change)

    after = mod.with_functions(
        {name: finished(name) if name in found else run(fn) for name, fn in mod.graph_functions().items()}
    )
    if after is mod:
        return mod
    called = {g.name for fn in after.functions.values() for g in collect(fn, GlobalVar)} | reachable(after)
    used = reachable(after) if any([has_global_symbol(f) for f in after.functions.values()]) else called
    return after.with_functions({name: None for name in found if name not in used})
