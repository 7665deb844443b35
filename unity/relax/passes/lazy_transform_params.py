"""Weights of a function that transforms weights, loaded and stored one by one by registered functions.

Rewrite: ``main_transform_params(params)`` with ``w = params[0]; v = R.permute_dims(w); return (v,)`` -> ``main_transform_params()``
with ``w_any = R.call_packed("get_item", 0); w = R.match_cast(w_any, its type); v = R.permute_dims(w);
R.call_packed("set_item", 0, v)``. Functions whose name ends with ``transform_params`` alone, as ``lift_transform_params`` makes
them. Loading stands before the first use and ``kill_after_last_use`` drops what is not needed any more, so weights that do not fit
in memory together can be transformed. Unlike ``lazy_get_input`` the functions are looked up by name, with arguments of your own.
"""

from __future__ import annotations

from typing import Any

from ...ir.build import const
from ...ir.expr import Call, ExternFunc, StringImm, Tuple, Var, VarBinding
from ...ir.function import Function, seq_body
from ...ir.module import IRModule
from ...ir.names import NameSupply
from ...ir.node import replace
from ...ir.types import OBJECT, VOID_TYPE, Expr, TupleType
from ...ir.walk import used_vars
from ...op.common.table import R
from ...support.errors import PassError
from ...transform.infra.passes import module_pass
from ...transform.relax.algebra.canonicalize import canonicalize
from ...transform.relax.normalize.convert_to_dataflow import to_non_dataflow
from ...transform.relax.normalize.dead_code import clean_function
from ...transform.relax.params.bind_params import with_head
from .lazy_params import with_loads, with_stores


def _inputs(fn: Function) -> int:
    """The number of parameters that are not weights."""
    count = fn.attrs.get("num_input", 0)
    return count if isinstance(count, int) else 0


def _argument(value: Any) -> Expr:
    """An extra argument as an expression. Raises PassError E750."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (bool, int, float)):
        return const(value, "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64")
    raise PassError("E750", f"{value!r} cannot be an extra argument", help="give numbers, strings or expressions")


def _call(name: str, arguments: tuple[Any, ...], last: tuple[Expr, ...], ty: Any) -> Call:
    args = (ExternFunc(name), *[_argument(a) for a in arguments], *last)
    return Call(R.call_packed.op, args, {}, (ty,), ty)


def _flat_weights(fn: Function, count: int, names: NameSupply) -> tuple[Function, list[Var]]:
    """The function with tuples of weights taken apart, and the weights."""
    weights: list[Var] = []
    tuples: list[VarBinding] = []
    for param in fn.params[count:]:
        if not isinstance(param.ty, TupleType):
            weights.append(param)
            continue
        fields = tuple([Var(names.fresh(f"{param.name}_{k}"), ty) for k, ty in enumerate(param.ty.fields)])
        weights += fields
        tuples.append(VarBinding(param, Tuple(fields)))
    params = (*fn.params[:count], *weights)
    made = canonicalize.on(replace(fn, params=params, body=with_head(tuple(tuples), seq_body(fn))))
    return clean_function(made), weights  # without the tuples, where all their uses are fields


def _lazy(
    fn: Function,
    get_item: str,
    set_item: str | None,
    extra_get_item_params: tuple[Any, ...],
    extra_set_item_params: tuple[Any, ...],
) -> Function:
    names = NameSupply([v.name for v in used_vars(fn)])
    flat, weights = _flat_weights(fn, _inputs(fn), names)

    def load(index: int, weight: Var) -> Call:
        return _call(get_item, extra_get_item_params, (const(index, "int64"),), OBJECT)

    body, ret_ty = with_loads(flat, weights, names, load), fn.ret_ty
    if set_item is not None:
        target, extra = set_item, extra_set_item_params
        body = with_stores(body, names, lambda i, r: _call(target, extra, (const(i, "int64"), r), VOID_TYPE))
        ret_ty = VOID_TYPE
    return replace(flat, params=flat.params[: len(flat.params) - len(weights)], body=body, ret_ty=ret_ty, pure=False)


@module_pass()
def lazy_transform_params(
    mod: IRModule,
    *,
    get_item: str = "get_item",
    set_item: str | None = "set_item",
    extra_get_item_params: tuple[Any, ...] = (),
    extra_set_item_params: tuple[Any, ...] = (),
) -> IRModule:
    """Load and store weights one by one in functions that transform them.

    Requires functions whose names end with ``transform_params`` (``lift_transform_params``).
    ``get_item(*extra, number)`` gives a weight, ``set_item(*extra, number, value)`` takes a result; None: results are
    returned. The extra arguments are numbers, strings or expressions that need no variable.
    """
    changes = {
        name: _lazy(to_non_dataflow.on(fn), get_item, set_item, extra_get_item_params, extra_set_item_params)
        for name, fn in mod.graph_functions().items()
        if name.endswith("transform_params") and len(fn.params) > _inputs(fn)
    }
    return mod.with_functions(changes)
