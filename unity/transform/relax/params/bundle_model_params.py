"""The weights of a function become one tuple parameter.

Rewrite: ``main(x, w, b)`` with ``num_input = 1`` -> ``main(x, model_params)`` and ``w = model_params[0]``, ``b = model_params[1]``
at its start. Functions without the attribute ``num_input`` stay as they are.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import BindingBlock, SeqExpr, TupleGetItem, Var, VarBinding
from ....ir.function import Function, seq_body
from ....ir.node import replace
from ....ir.types import TupleType
from ....ir.walk import Rewriter
from ...infra.passes import function_pass


def with_head(heads: tuple[VarBinding, ...], body: SeqExpr) -> SeqExpr:
    """The sequence with bindings before its own."""
    if body.blocks and type(body.blocks[0]) is BindingBlock:
        first = BindingBlock((*heads, *body.blocks[0].bindings), body.blocks[0].span)
        return SeqExpr((first, *body.blocks[1:]), body.body, body.span)
    return SeqExpr((BindingBlock(heads), *body.blocks), body.body, body.span)


@function_pass()
def bundle_model_params(fn: Function, *, param_tuple_name: str = "model_params") -> Function:
    """Pass the parameters behind ``num_input`` as one tuple. Functions without the attribute ``num_input`` stay.

    ``param_tuple_name``: name of the tuple parameter.
    """
    count = fn.attrs.get("num_input")
    if not isinstance(count, int) or count >= len(fn.params):
        return fn
    inputs, weights = fn.params[:count], fn.params[count:]
    bundle = Var(param_tuple_name, TupleType(tuple([w.ty for w in weights])))
    fields: dict[Any, Any] = {w: Var(w.name, w.ty, w.span) for w in weights}
    body = seq_body(replace(fn, body=Rewriter(mapping=fields)(fn.body)))
    heads = tuple([VarBinding(fields[w], TupleGetItem(bundle, i)) for i, w in enumerate(weights)])
    return replace(fn, params=(*inputs, bundle), body=with_head(heads, body))
