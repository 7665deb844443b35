"""Operators to tensor programs: ``R.exp(x)`` -> ``R.call_dps(exp, (x,), R.Tensor(...))`` with ``exp`` in the module.

Equal kernels are shared. An operator without a lowering stays; one whose result shape is unknown raises E218. A
lowering of one's own for an operator, as rows have it, goes into the option ``custom``; targets have some as well.

Calls with one key have the same lowering, up to the arguments passed: a key holds the operator, its attributes, the types of
arguments and result, scalar values, and which arguments are the same. Symbols count by identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from .... import te
from ....ir.expr import Call, Constant, GlobalVar, Tuple, Var
from ....ir.function import Function
from ....ir.module import IRModule
from ....ir.op import OPS, OpInfo
from ....ir.types import Expr, TupleType
from ....op.building.call_inputs import CallInputs, kernel_call
from ....support.errors import UnityError
from ....te.kernel_table import KernelTable
from ...infra.backend import lowerings_in_use
from ...infra.passes import module_pass
from ..analysis.value_key import value_key
from ..rewriting.graph_rewriter import GraphRewriter, Replaced, rewrite_calls

Lowered = dict[Hashable, tuple[GlobalVar, Sequence[Expr]]]
"""Lowerings found so far: the kernel and the symbols passed to it, by key of the call."""


def lower_call(call: Call, info: OpInfo, rewriter: GraphRewriter, kernels: KernelTable, lowered: Lowered) -> Any:
    """The call as call_dps of a kernel, or what it simply is (an argument)."""
    inputs = CallInputs(call, info, rewriter.field)
    converted = inputs.all()
    key = call_key(call)
    if key in lowered:
        target, symbols = lowered[key]
        return kernel_call(target, inputs.values, symbols, call.ty, call.span)
    assert callable(info.lower)
    made = info.lower(call, *converted)
    several = isinstance(made, (tuple, list))
    results = list(made) if several else [made]
    given = inputs.by_param
    computed = [r for r in results if r not in given]
    if not computed:
        same = [given[r] for r in results]
        return Tuple(tuple(same), call.span) if several else Replaced(same[0])
    hint = info.name.split(".")[-1]
    func, symbols = te.create_prim_func_with_symbols([*inputs.params, *computed], attrs={"tir.noalias": True})
    target = kernels.add(func, hint)
    types = call.ty.fields if isinstance(call.ty, TupleType) else (call.ty,)
    outs = tuple([t for t, r in zip(types, results) if r not in given])
    if len(outs) == len(types) and (len(outs) > 1 or not several):
        lowered[key] = target, symbols
        return kernel_call(target, inputs.values, symbols, call.ty, call.span)
    ty = TupleType(outs) if len(outs) > 1 else outs[0]
    held = rewriter.emit(kernel_call(target, inputs.values, symbols, ty, call.span))
    parts = iter([held] if len(outs) == 1 else [rewriter.field(held, i) for i in range(len(outs))])
    return Tuple(tuple([given[r] if r in given else next(parts) for r in results]), call.span)


@module_pass()
def legalize_ops(
    mod: IRModule,
    *,
    skip: tuple[str, ...] = (),
    custom: tuple[tuple[str, Callable[..., Any]], ...] = (),
    warn: bool = False,
) -> IRModule:
    """Replace operators by calls of tensor programs.

    Requires known result shapes (E218). Gives ``R.call_dps``; operators without a lowering stay.
    ``skip``: names of operators to leave; ``custom``: lowerings asked before the target's and the rows' own; ``warn``: operators
    without one are named.
    """
    kernels, lowered, left = KernelTable(mod), Lowered(), set[str]()
    own = {**lowerings_in_use(), **dict(custom)}

    def change(call: Call, rewriter: GraphRewriter) -> Any:
        info = OPS.get(call.op_name)
        if info is None or info.name in skip:
            return None
        if info.name in own:
            info = replace(info, lower=own[info.name])
        if not callable(info.lower):
            left.add(info.name)
            return None
        try:
            return lower_call(call, info, rewriter, kernels, lowered)
        except UnityError as error:
            if error.span is None:
                error.span = call.span
            raise

    def lower(fn: Function) -> Function:
        return fn if fn.attrs.get("Primitive") and fn.attrs.get("Codegen") else rewrite_calls(fn, change)

    made = mod.with_graph_functions(lower, kernels.added)
    if warn and left:
        warnings.warn(f"no lowering of {', '.join(sorted(left))}", stacklevel=2)
    return made


def call_key(call: Call) -> Hashable:
    """Key of a call of an operator."""
    seen: dict[Expr, int] = {}
    args = tuple([_argument(a, seen) for a in call.args])
    return (
        value_key(getattr(call.op, "name", call.op)),
        args,
        value_key(call.attrs),
        value_key(call.ty_args),
        value_key(call.ty),
    )


def _argument(arg: Expr, seen: dict[Expr, int]) -> Hashable:
    if type(arg) is Tuple:
        return (Tuple, tuple([_argument(f, seen) for f in arg.fields]))
    if type(arg) is Constant and arg.data.ndim == 0:
        return (Constant, arg.data.dtype, arg.data.numpy().tobytes())
    if isinstance(arg, (Var, Constant)):
        number = seen.setdefault(arg, len(seen))
        return (Var, number, value_key(arg.ty))
    return value_key(arg)
