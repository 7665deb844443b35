"""Purity is checked for the last time: functions are marked ``force_pure``, and what only marks purity is unwrapped.

Rewrite: ``R.call_pure_packed(f, x)`` -> ``R.call_packed(f, x)``, ``R.call_inplace_packed`` likewise, ``R.invoke_pure_closure`` ->
``R.invoke_closure``. Needs functions without dataflow blocks (E541): afterwards calls count as having effects.
"""

from __future__ import annotations

from ...ir.expr import Call, op
from ...ir.function import Function
from ...op.common.table import R
from ...support.errors import PassError
from ...transform.infra.passes import function_pass
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls

_UNWRAPPED = {
    R.call_pure_packed.name: R.call_packed.name,
    R.call_inplace_packed.name: R.call_packed.name,
    R.invoke_pure_closure.name: R.invoke_closure.name,
}


@function_pass()
def remove_purity_checking(fn: Function) -> Function:
    """Mark functions ``force_pure``, and unwrap calls that only mark purity.

    Requires functions without dataflow blocks (E541).
    """

    def change(value: Call, rewriter: GraphRewriter) -> Call:
        if rewriter.in_dataflow:
            raise PassError(
                "E541", "a call with an effect cannot stand in a dataflow block", value.span,
                help="run to_non_dataflow first",
            )  # fmt: skip
        attrs = {k: v for k, v in value.attrs.items() if k != "inplace_indices"}
        return Call(op(_UNWRAPPED[value.op_name]), value.args, attrs, value.ty_args, value.ty, value.span)

    made = rewrite_calls(fn, change, *_UNWRAPPED)
    if made.pure and not made.attrs.get("force_pure"):
        return made.with_attr("force_pure", True)
    return made
