"""Products of one left operand with several matrices become one product, split afterwards.

Rewrite: ``a = R.matmul(x, w1); b = R.matmul(x, w2)`` -> ``w = R.concat((w1, w2), axis=-1)``,
``t = R.split(R.matmul(x, w), [columns of w1], axis=-1)`` with a = t[0], b = t[1].

The matrices have rank 2, equal rows and dtype, known columns, and stand ready where the first product does (parameters,
constants, or values bound before it). Worth it where the matrices are constants or weights, because the concatenation is then
done once: ``only_weights`` asks for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.analysis import var_to_value
from ...ir.expr import BindingBlock, Call, Constant, IntImm, TupleGetItem, Var, VarBinding
from ...ir.function import Function
from ...ir.relation import Answer, dims, same_dim
from ...ir.types import Expr, TensorType
from ...op.common.table import R
from ...op.linalg.products import matmul
from ...op.manipulate.slicing import concat, split
from ...transform.infra.passes import function_pass
from ...transform.relax.analysis.mutable_vars import changed_vars
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, each_binding, rewrite_calls


class _Group:
    """Products of one left operand in one block."""

    def __init__(self, calls: list[tuple[Var, Call]]) -> None:
        self.calls = calls
        self.split: Var | None = None


def _columns(value: Expr) -> int | None:
    known = dims(value.ty) if isinstance(value.ty, TensorType) else None
    return known[1].value if known is not None and len(known) == 2 and type(known[1]) is IntImm else None


def _fits(first: Expr, other: Expr) -> bool:
    a, b = dims(first.ty), dims(other.ty)
    assert isinstance(first.ty, TensorType) and isinstance(other.ty, TensorType) and a is not None and b is not None
    return first.ty.dtype is other.ty.dtype and first.ty.dtype is not None and same_dim(a[0], b[0]) is Answer.YES


def _groups(
    fn: Function,
    min_size: int,
    only_weights: bool,
    check: Callable[[Expr, list[Expr], list[Expr], dict[Var, Expr]], bool] | None,
) -> dict[Var, _Group]:
    """The group of each product that is joined with others."""
    params, fixed = set(fn.params), changed_vars(fn)
    by_left: dict[tuple[BindingBlock, Any], list[list[tuple[Var, Call]]]] = {}
    bound: set[Expr] = set(params)
    found: dict[Var, _Group] = {}
    ready: dict[Var, set[Expr]] = {}
    for block, binding in each_binding(fn):
        value = binding.value
        if isinstance(binding, VarBinding) and type(value) is Call and value.op_name == R.matmul.name:
            left, right = value.args[0], value.args[1]
            weight = right in params or type(right) is Constant
            usable = (weight or not only_weights) and _columns(right) is not None and not value.attrs.get("out_dtype")
            if (
                usable
                and isinstance(left.ty, TensorType)
                and left.ty.ndim >= 1
                and not {left, right, binding.var} & fixed
            ):
                for group in by_left.setdefault((block, left), []):
                    if _fits(group[0][1].args[1], right) and (type(right) is Constant or right in ready[group[0][0]]):
                        group.append((binding.var, value))
                        break
                else:
                    by_left[(block, left)].append([(binding.var, value)])
                    ready[binding.var] = set(bound)
        bound.add(binding.var)
    values = var_to_value(fn) if check is not None else {}
    for (_, shared), groups in by_left.items():
        for calls in groups:
            refused = check is not None and not check(shared, [c.args[1] for _, c in calls], [], values)
            if len(calls) >= min_size and not refused:
                made = _Group(calls)
                found.update({var: made for var, _ in calls})
    return found


@function_pass()
def combine_parallel_matmul(
    fn: Function,
    *,
    min_size: int = 2,
    only_weights: bool = True,
    check: Callable[[Expr, list[Expr], list[Expr], dict[Var, Expr]], bool] | None = None,
) -> Function:
    """Join products of one left operand into one product that is split afterwards.

    Requires right operands of rank 2 with equal rows and data type and known columns.
    ``min_size``: least number of products joined; ``only_weights``: the matrices are parameters or constants; ``check``: asked
    with the left operand, the matrices, an empty list (biases stay where they are) and the value of each variable.
    """
    groups = _groups(fn, min_size, only_weights, check)
    if not groups:
        return fn

    def change(call: Call, rewriter: GraphRewriter) -> Expr | None:
        group = groups.get(rewriter.var)
        if group is None:
            return None
        index = [var for var, _ in group.calls].index(rewriter.var)
        if group.split is None:
            matrices = [rewriter.replacer.visit(one.args[1]) for _, one in group.calls]
            edges, total = [], 0
            for matrix in matrices[:-1]:
                total += _columns(matrix) or 0
                edges.append(total)
            joined = rewriter.emit(matmul(call.args[0], concat(matrices, axis=-1)))
            group.split = rewriter.emit(split(joined, edges, axis=-1))
        return TupleGetItem(group.split, index)

    return rewrite_calls(fn, change)
