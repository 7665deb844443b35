"""Scalar expressions on symbols become calls of small tensor programs that return a number.

Rewrite: ``v = R.prim_value(n * 2 + 1)`` -> ``v = compute_symbolic_expr(n)`` with a private program that returns
``n * 2 + 1``; scalar arguments of calls likewise. Literals and symbols alone stay, and so do dimensions inside shapes and
types: the VM computes these as formulas. The pass is for targets that cannot. Needs functions without dataflow blocks (E541),
because a call of a tensor program counts as having an effect; functions that change are marked ``force_pure``.
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import Call, FloatImm, GlobalVar, IntImm, Var
from ...ir.function import Function, PrimFunc
from ...ir.module import IRModule
from ...ir.node import replace
from ...ir.stmt import Return
from ...ir.types import Expr, PrimType
from ...ir.walk import free_vars, fresh_copy
from ...support.errors import PassError
from ...te.kernel_table import KernelTable
from ...transform.infra.passes import module_pass
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter

_LEAVES = (Var, IntImm, FloatImm)
_HINT = "compute_symbolic_expr"


def _is_expression(value: Expr) -> bool:
    """A scalar computed from others: neither a literal nor a symbol, nor a call of the graph level."""
    if isinstance(value, _LEAVES) or not isinstance(value.ty, PrimType):
        return False
    return type(value) is not Call or value.op_name.startswith("T.")


def _program(value: Expr, symbols: list[Var]) -> PrimFunc:
    made: PrimFunc = fresh_copy(PrimFunc(tuple(symbols), {}, Return(value), value.ty, {"tir.is_host_func": True}))
    return made


@module_pass()
def compute_prim_value(mod: IRModule) -> IRModule:
    """Compute scalar expressions on symbols in tensor programs of their own.

    Requires functions without dataflow blocks (E541). Gives functions marked ``force_pure``.
    """
    programs = KernelTable(mod)

    def call(value: Expr, rewriter: GraphRewriter) -> Call:
        if rewriter.in_dataflow:
            raise PassError(
                "E541", "a call of a tensor program cannot stand in a dataflow block", getattr(value, "span", None),
                help="run to_non_dataflow first",
            )  # fmt: skip
        symbols = free_vars(value)
        target = programs.add(_program(value, symbols), _HINT)
        return Call(GlobalVar(target.name), tuple(symbols), {}, (value.ty,), value.ty, getattr(value, "span", None))

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if _is_expression(value):
            return call(value, rewriter)
        if type(value) is Call:
            args = tuple([call(a, rewriter) if _is_expression(a) else a for a in value.args])
            return replace(value, args=args)
        return value

    changes: dict[str, Any] = {}
    for name, fn in mod.graph_functions().items():
        made: Function = GraphRewriter(rule).function(fn)
        if made is not fn:
            changes[name] = made.with_attr("force_pure", True) if made.pure else made
    return mod.with_functions({**changes, **programs.added})
