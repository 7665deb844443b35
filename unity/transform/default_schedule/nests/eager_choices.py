"""eager_choices: a choice both sides of which may be evaluated becomes a selection.

``T.if_then_else``, ``and`` and ``or`` are lazy for the sake of reads that are in bounds only under their condition, and of
failures. Where there are none the processor takes both sides: in vectors a lazy side is a branch and a read under a mask.

Rewrite: ``T.if_then_else(x[i] < 0, 0, x[i])`` -> ``T.Select(x[i] < 0, 0, x[i])``; ``a[i] and b[i]`` -> ``T.min(a[i], b[i])``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....arith.cost import MATH_CALLS
from ....ir.build import dtype_of, is_int, maximum, minimum, select
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import And, BufferLoad, IterVar, Let, Or
from ....ir.stmt import Block, BufferStore
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, rewrite, used_vars
from ...infra.passes import prim_func_pass
from ...tir.analysis.eager import is_eager, reads_anyway
from ...tir.analysis.loop_nests import is_choice

_COSTLY = MATH_CALLS - {
    f"T.{name}" for name in ("floor", "ceil", "trunc", "round", "nearbyint", "abs", "copysign", "sqrt")
}
"""Functions that are worth a branch around them."""
_GUARDED = {"T.shift_left", "T.shift_right"}
"""Functions that the thread checker refuses for arguments from which a condition keeps them."""


def _is_inside(load: BufferLoad, axes: Mapping[Var, IterVar]) -> bool:
    """True if indices are iterators that begin at 0 and end with the axes."""
    iterators = [axes.get(index) if type(index) is Var else None for index in load.indices]
    return load.predicate is None and all(
        [
            axis is not None and is_int(axis.domain.min, 0) and structural_equal(axis.domain.extent, size)
            for axis, size in zip(iterators, load.buffer.shape)
        ]
    )


def _chosen(block: Block, reads_more: bool) -> Block:
    store = block.body
    if type(store) is not BufferStore:
        return block
    lazy = [node for node in collect(store.value, (Call, And, Or)) if type(node) is not Call or is_choice(node)]
    if not lazy:
        return block
    axes = {iterator.var: iterator for iterator in block.iter_vars}
    read = reads_anyway(store.value)
    inside = [load for load in collect(store.value, BufferLoad) if _is_inside(load, axes)]
    given = [*read, *inside] if reads_more else read
    barred = _COSTLY | _GUARDED if reads_more else _COSTLY

    def is_free(side: Expr, reads: list[BufferLoad]) -> bool:
        return is_eager(side, reads) and not any([call.op_name in barred for call in collect(side, Call)])

    def choice(node: Call) -> Expr:
        if not is_choice(node):
            return node
        cond, yes, no = node.args
        if not collect(cond, BufferLoad) and set(used_vars(cond)) <= axes.keys():  # loops are divided where it changes
            return node
        if not is_free(yes, given) or not is_free(no, given):
            return node
        if not reads_more:
            return select(cond, yes, no)
        first, second = [Var("read", prim_type(dtype_of(side))) for side in (yes, no)]
        return Let(first, yes, Let(second, no, select(cond, first, second)))

    def both(node: And | Or) -> Expr:
        if not collect(node.b, BufferLoad) or not is_free(node.b, [*read, *inside]):
            return node
        return (minimum if type(node) is And else maximum)(node.a, node.b)

    return replace(block, body=replace(store, value=rewrite(store.value, {Call: choice, And: both, Or: both})))


@prim_func_pass()
def eager_choices(func: PrimFunc, *, reads_more: bool = False) -> PrimFunc:
    """Make ``T.Select`` of choices, and ``T.min`` and ``T.max`` of ``and`` and ``or``, whose sides may all be evaluated and are
    cheap. With ``reads_more`` a side may read elements that are not read in any case, if they are in bounds; it is then read before
    the choice (``T.Let``): for devices, on which threads that do not read wait for those that do. For programs with blocks."""
    return rewrite(func, {Block: lambda block: _chosen(block, reads_more)})
