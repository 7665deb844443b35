"""Weights loaded where they are first needed, results handed over as soon as they are there, both by callbacks.

``lazy_get_input``: ``main(x, w)`` with ``num_input = 1`` -> ``main(x, fget_param)`` with ``w_any = fget_param(0, R.str("w")); w =
R.match_cast(w_any, type of w)`` before the first use. ``lazy_set_output``: ``return (a, b)`` -> ``fset_output(0, a)`` behind the
binding of a, ``fset_output(1, b)`` after that of b, ``return ()``. Public functions alone. A model whose weights do not fit in
memory together runs so; ``kill_after_last_use`` lets them go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.binders import bound_symbols
from ...ir.build import const
from ...ir.expr import Binding, BindingBlock, Call, MatchCast, SeqExpr, StringImm, Tuple, Var, VarBinding
from ...ir.function import Function, seq_body
from ...ir.names import NameSupply
from ...ir.node import replace
from ...ir.relation import erase
from ...ir.types import OBJECT, VOID_TYPE, Expr, FuncType, prim_type
from ...ir.walk import free_vars, used_vars
from ...transform.infra.passes import function_pass
from ...transform.relax.rewriting.graph_rewriter import join_blocks

_INT64 = prim_type("int64")


def _inputs(fn: Function) -> int | None:
    """The number of parameters that are not weights; None if the function does not say."""
    count = fn.attrs.get("num_input")
    return count if isinstance(count, int) and count <= len(fn.params) else None


def with_loads(fn: Function, weights: Sequence[Var], names: NameSupply, load: Callable[[int, Var], Call]) -> SeqExpr:
    """The body with each weight bound before what first needs it, by ``load(its number, the weight)`` and a match_cast. Symbols
    that only types of weights show come with the first weight that shows them."""
    own = set(weights)
    known = {s for p in fn.params if p not in own for s in bound_symbols(p.ty)}
    waiting: dict[Var, tuple[int, Var]] = {}
    """The weight to load when a variable is met: the weight itself, or a symbol that its type is the first to show."""
    for index, weight in enumerate(weights):
        first = [s for s in bound_symbols(weight.ty) if s not in known]
        known.update(first)
        waiting.update(dict.fromkeys((weight, *first), (index, weight)))
    loaded: set[Var] = set()

    def loads(node: Binding | Expr) -> list[Binding]:
        """Bindings that load what a binding or the result needs."""
        made: list[Binding] = []
        work = [waiting[v] for v in used_vars(node) if v in waiting]
        for index, weight in sorted({i: (i, w) for i, w in work}.values(), key=lambda item: item[0]):
            if weight in loaded:
                continue
            loaded.add(weight)
            for symbol in free_vars(weight.ty):  # what its type takes from an earlier one
                if symbol in waiting and waiting[symbol][1] not in loaded:
                    made += loads(symbol)
            whole = Var(names.fresh(f"{weight.name}_any"), OBJECT)
            made += [VarBinding(whole, load(index, weight)), MatchCast(weight, whole, weight.ty)]
        return made

    body = seq_body(fn)
    blocks = [type(b)(tuple([x for y in b.bindings for x in (*loads(y), y)]), b.span) for b in body.blocks]
    blocks.append(BindingBlock(tuple(loads(body.body))))
    return SeqExpr(join_blocks(blocks), body.body, body.span)


def with_stores(body: SeqExpr, names: NameSupply, store: Callable[[int, Expr], Call]) -> SeqExpr:
    """The body that hands each result over by ``store(its number, the result)`` after its binding and returns nothing."""
    results = body.body.fields if type(body.body) is Tuple else (body.body,)

    def hand_over(var: Expr | None) -> BindingBlock:
        """Calls for the results that are a variable; with None for those that are bound nowhere in the body."""
        chosen = [(i, r) for i, r in enumerate(results) if (r is var if var is not None else r not in bound)]
        return BindingBlock(tuple([VarBinding(Var(names.fresh("_"), VOID_TYPE), store(i, r)) for i, r in chosen]))

    bound: set[Expr] = {b.var for b in body.bindings}
    blocks: list[BindingBlock] = [hand_over(None)]
    for block in body.blocks:
        if type(block) is not BindingBlock:  # no effects in a dataflow block
            blocks += [block, *[hand_over(b.var) for b in block.bindings]]
            continue
        for binding in block.bindings:
            blocks += [BindingBlock((binding,), block.span), hand_over(binding.var)]
    return SeqExpr(join_blocks(blocks), Tuple(()), body.span)


@function_pass()
def lazy_get_input(fn: Function) -> Function:
    """Ask a callback for each parameter after ``num_input`` at its first use."""
    count = _inputs(fn)
    if count is None or count == len(fn.params) or "global_symbol" not in fn.attrs:
        return fn
    names = NameSupply([v.name for v in used_vars(fn)])
    loader = Var(names.fresh("fget_param"), FuncType((_INT64, OBJECT), OBJECT, True))

    def load(index: int, weight: Var) -> Call:
        return Call(loader, (const(index, "int64"), StringImm(weight.name)), {}, (), OBJECT)

    body = with_loads(fn, fn.params[count:], names, load)
    params = (*fn.params[:count], loader)
    ret_ty = erase(fn.ret_ty, [v for p in params for v in (p, *free_vars(p.ty))])
    return replace(fn, params=params, body=body, ret_ty=ret_ty)


@function_pass()
def lazy_set_output(fn: Function) -> Function:
    """Hand each result to a callback as soon as it is computed."""
    if "global_symbol" not in fn.attrs:
        return fn
    names = NameSupply([v.name for v in used_vars(fn)])
    keeper = Var(names.fresh("fset_output"), FuncType((_INT64, OBJECT), VOID_TYPE, False))
    body = with_stores(seq_body(fn), names, lambda i, r: Call(keeper, (const(i, "int64"), r), {}, (), VOID_TYPE))
    count = _inputs(fn)
    position = len(fn.params) if count is None else count
    params = (*fn.params[:position], keeper, *fn.params[position:])
    attrs = fn.attrs if count is None else {**fn.attrs, "num_input": count + 1}
    return replace(fn, params=params, body=body, ret_ty=VOID_TYPE, pure=False, attrs=attrs)
