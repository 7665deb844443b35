"""Local functions become functions of the module; what they capture becomes leading parameters.

Rewrite: ``f = function(y) using x; z = f(a)`` -> ``z = M.f(x, a)``. A local function used as a value becomes
``R.make_closure(M.f, (x,))``, and calls of variables that may hold a closure become ``R.invoke_closure``. Symbols
of shapes that no parameter binds any more are captured as a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ir.binders import bound_symbols
from ....ir.expr import Call, GlobalVar, ShapeExpr, Tuple, Var, VarBinding, op
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.relation import shape_type
from ....ir.types import OBJECT, Expr, PrimType, Type
from ....ir.walk import free_vars, fresh_copy, substitute
from ....op.common.table import R
from ...infra.passes import module_pass
from ..analysis.mutable_vars import leaf_vars
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, each_binding, rewrite_calls

_Lifted = tuple[GlobalVar, tuple[Expr, ...], Type]
"""The global name of a function that was local, what it captures, the type of its result."""


class _Lifter:
    def __init__(self, mod: IRModule) -> None:
        self.names = NameSupply(mod.functions)
        self.added: dict[str, Function] = {}

    def function(self, fn: Function, path: str) -> Function:
        """The function with its local functions lifted; inner ones first."""
        lifted: dict[Var, _Lifted] = {}
        values = _used_as_values(fn)
        pure = {
            b.var
            for _, b in each_binding(fn)
            if isinstance(b, VarBinding) and type(b.value) is Call and is_pure_call(b.value)
        }

        def rule(value: Expr, rewriter: GraphRewriter) -> Any:
            var = rewriter.var
            if type(value) is Function:
                target, captured = self.lift(value, var, f"{path}_{var.name}", lifted)
                lifted[var] = (target, captured, value.ret_ty)
                if var not in values:
                    return Replaced(target) if not captured else None
                if not captured:
                    return Replaced(target)
                return Call(R.make_closure.op, (target, Tuple(captured)), {}, (), OBJECT, value.span)
            if type(value) is Call and isinstance(value.op, Var):
                if (direct := _direct_call(value, lifted)) is not None:
                    return direct
                name = R.invoke_pure_closure.name if var in pure else R.invoke_closure.name
                return Call(op(name), (value.op, Tuple(value.args)), {}, (value.ty,), value.ty, value.span)
            return value

        rewriter = GraphRewriter(rule)
        rewriter.enters_functions = False
        return rewriter.function(fn)

    def lift(self, inner: Function, var: Var, hint: str, outer: dict[Var, Any]) -> tuple[GlobalVar, tuple[Expr, ...]]:
        name = self.names.fresh(hint)
        self.added[name] = inner  # its place, before those of functions inside
        free = [v for v in free_vars(inner) if v is not var]
        known: dict[Var, Expr] = {}
        for v in list(free):
            if v in outer:  # a local function lifted before: its captures are captured instead
                target, captured, _ = outer[v]
                free.remove(v)
                known[v] = target
                free += [c for c in captured if isinstance(c, Var) and c not in free]
        values = [v for v in free if not isinstance(v.ty, PrimType)]
        symbols = [v for v in free if isinstance(v.ty, PrimType)]
        defined = {s for v in [*values, *inner.params] for s in bound_symbols(v.ty)}
        loose = [s for s in symbols if s not in defined]
        params = [Var(v.name, v.ty) for v in values]
        passed: list[Expr] = list(values)
        if loose:
            params.append(Var("symbols", shape_type(loose)))
            passed.append(ShapeExpr(tuple(loose)))
        body_map: dict[Any, Any] = dict(zip(values, params))
        made = Function((*params, *inner.params), inner.body, inner.ret_ty, inner.pure, dict(inner.attrs), inner.span)
        direct = {**outer, var: (GlobalVar(name), tuple(params), inner.ret_ty)}
        made = rewrite_calls(made, lambda call, rewriter: _direct_call(call, direct))
        made = fresh_copy(substitute(made, body_map))
        ref = GlobalVar(name, made.ty)
        made = self.function(made, name)
        self.added[name] = made
        return ref, tuple(passed)


def _direct_call(call: Call, lifted: Mapping[Any, _Lifted]) -> Call | None:
    """The call of a function that was lifted by its global name, with what it captures."""
    if call.op not in lifted:
        return None
    target, captured, _ = lifted[call.op]
    return replace(call, op=target, args=(*captured, *call.args))


def _used_as_values(fn: Function) -> set[Var]:
    """Variables of local functions that stand somewhere else than as the callee of a call."""
    local = {b.var for _, b in each_binding(fn) if isinstance(b, VarBinding) and type(b.value) is Function}
    found: set[Var] = set()
    for _, binding in each_binding(fn):
        value = binding.value
        if type(value) is Call:
            for arg in value.args:
                found.update([v for v in free_vars(arg) if v in local])
        elif type(value) is not Function:
            found.update([v for v in leaf_vars(value) if v in local])
    found.update([v for v in leaf_vars(fn.body) if v in local])
    return found


@module_pass()
def lambda_lift(mod: IRModule) -> IRModule:
    """Move local functions to the module; captured values become leading parameters.

    Gives ``R.make_closure`` and ``R.invoke_closure`` where functions are values.
    """
    lifter = _Lifter(mod)
    changes = {name: lifter.function(fn, name) for name, fn in mod.graph_functions().items()}
    return mod.with_functions({**changes, **lifter.added})
