"""Reduction loops cut into chunks. Not here: how long a chunk is (``transform/tir/analysis/chunk_sizes.py``), what becomes of
its sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.build import add, dtype_of, floordiv, int_imm, minimum, mul, sub
from ....ir.expr import IntImm, Var
from ....ir.node import replace
from ....ir.stmt import For, Stmt
from ....ir.types import Expr, prim_type


def cut_loop(loop: For, size: int) -> tuple[For, For, Expr]:
    """A loop from 0 as a loop over chunks of ``size`` steps, one over the steps of a chunk, and what the loop variable is there."""
    ty = prim_type(dtype_of(loop.loop_var))
    chunk, here, most = Var("chunk", ty), Var(loop.loop_var.name, ty), int_imm(size, ty)
    start = mul(chunk, most)
    whole = type(loop.extent) is IntImm and loop.extent.value % size == 0
    inner = replace(loop, loop_var=here, extent=most if whole else minimum(most, sub(loop.extent, start)))
    number = floordiv(add(loop.extent, int_imm(size - 1, ty)), most)
    return replace(loop, loop_var=chunk, extent=number), inner, add(start, here)


def nested(loops: Sequence[For], body: Stmt) -> Stmt:
    """The loops, outermost first, around a body."""
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body
