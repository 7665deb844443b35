"""annotate_tir_op_pattern: each tensor program gets its pattern kind as attribute ``op_pattern`` (TVM's numbers).

Rewrite: ``T.func_attr({"tir.noalias": True})`` -> ``T.func_attr({"op_pattern": 0, "tir.noalias": True})``. A kind written in the
program stays.
"""

from __future__ import annotations

from ....ir.function import PrimFunc
from ...infra.passes import prim_func_pass
from ...tir.blocks.op_pattern import analyze_pattern


@prim_func_pass()
def annotate_tir_op_pattern(func: PrimFunc) -> PrimFunc:
    """Classify tensor programs for fusion. Gives the attribute ``op_pattern``, in TVM's numbers."""
    if "op_pattern" in func.attrs:
        return func
    return func.with_attr("op_pattern", int(analyze_pattern(func).kind))
