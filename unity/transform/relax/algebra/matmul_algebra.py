"""Algebra of matrix products; the first three rewrite them as weights of low-rank updates (LoRA) need it.

- ``expand_matmul_of_sum``: ``R.matmul(x, R.add(a, b))`` -> ``R.add(R.matmul(x, a), R.matmul(x, b))`` for matrices of one shape.
- ``reorder_take_after_matmul``: ``R.matmul(x, R.take(w, i, axis=1))`` -> ``R.take(R.matmul(x, w), i, axis=-1)``.
- ``reorder_permute_dims_after_concat``: ``R.concat((R.permute_dims(a), R.permute_dims(b)))`` -> one ``R.permute_dims`` of one
  ``R.concat``.
- ``adjust_matmul_order``: ``(x @ a) @ b`` or ``x @ (a @ b)``, whichever is less work (multiply-adds) for all sizes of at least 1.
- ``combine_parallel_matmul``: ``a = R.matmul(x, w1); b = R.matmul(x, w2)`` -> ``t = R.split(R.matmul(x, R.concat((w1, w2))))``. The
  matrices have rank 2, equal rows and dtype, known columns, and stand ready where the first product does. Worth it where they are
  constants or weights, because the concatenation is then done once: ``only_weights`` asks for that.

What nobody needs any more is left to ``dead_code``; the order of sums, and with it rounding, changes where a sum is expanded or
three matrices are multiplied in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.analysis import used_symbols, var_to_value
from ....ir.expr import BindingBlock, Call, Constant, IntImm, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ....ir.function import Function
from ....ir.relation import Answer, dims, same_dim, same_dims
from ....ir.types import Expr, TensorType
from ....op.common.channels_last import rank_of
from ....op.common.table import R
from ....op.common.type_rules import int_attr, normal_axis, product
from ....op.elementwise.binary import add
from ....op.linalg.products import matmul
from ....op.manipulate.index import take
from ....op.manipulate.manipulate import permutation, permute_dims
from ....op.manipulate.slicing import concat, split
from ...infra.passes import function_pass
from ..analysis.mutable_vars import changed_vars
from ..analysis.use_def import Source, calls_of, rewrite_with_sources
from ..normalize.normalize import normal_form
from ..rewriting.graph_rewriter import GraphRewriter, each_binding


def _same_shape(a: Expr, b: Expr) -> bool:
    x, y = dims(a.ty), dims(b.ty)
    return x is not None and y is not None and same_dims(x, y) is Answer.YES


@function_pass()
def expand_matmul_of_sum(fn: Function) -> Function:
    """Rewrite a product with a sum of matrices as a sum of products. Changes rounding."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        total = source(call.args[1]) if is_product(call) else None
        if total is None or rank_of(total) < 2 or not _same_shape(*total.args):
            return None
        parts = [rewriter.emit(matmul(call.args[0], part)) for part in total.args]
        return add(*parts)

    return rewrite_with_sources(fn, calls_of(R.add.name), change)


@function_pass()
def reorder_take_after_matmul(fn: Function) -> Function:
    """Take columns of a product instead of columns of its right operand."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        taken = source(call.args[1]) if is_product(call) else None
        if taken is None or rank_of(taken) != 2 or rank_of(taken.args[0]) != 2 or taken.attrs.get("axis") is None:
            return None
        if normal_axis(taken, int_attr(taken, "axis", 0), 2) != 1 or rank_of(call.args[0]) < 1:
            return None
        whole = rewriter.emit(matmul(call.args[0], taken.args[0]))
        return take(whole, taken.args[1], axis=rank_of(whole) - 1, mode=taken.attrs.get("mode", "fast"))

    return rewrite_with_sources(fn, calls_of(R.take.name), change)


@function_pass()
def reorder_permute_dims_after_concat(fn: Function) -> Function:
    """Concatenate before transposing: tensors that are transposed alike are joined first."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        if call.op_name != R.concat.name or type(call.args[0]) is not Tuple or not call.args[0].fields:
            return None
        turned = [source(field) for field in call.args[0].fields]
        found = [t for t in turned if t is not None]
        rank = rank_of(call)
        if len(found) != len(turned) or rank < 0 or call.attrs.get("axis") is None:
            return None
        orders = {tuple(permutation(t, rank)) for t in found}
        if len(orders) != 1:
            return None
        (order,) = orders
        axis = normal_axis(call, int_attr(call, "axis", 0), rank)
        joined = rewriter.emit(concat([t.args[0] for t in found], axis=order[axis]))
        return permute_dims(joined, axes=list(order))

    return rewrite_with_sources(fn, calls_of(R.permute_dims.name), change)


def _work(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """Multiply-adds of a product."""
    return product([*left, right[-1]])


def _cheaper(x: Expr, a: Expr, b: Expr, x_first: bool) -> bool:
    """True if ``(x @ a) @ b`` (else ``x @ (a @ b)``) is certainly less work than the other."""
    sizes = [dims(v.ty) for v in (x, a, b)]
    if any([s is None for s in sizes]) or len(sizes[1] or ()) != 2 or len(sizes[2] or ()) != 2:
        return False
    of_x, of_a, of_b = [s for s in sizes if s is not None]
    if not of_x:
        return False
    first = _work(of_x, of_a), _work((*of_x[:-1], of_a[1]), of_b)
    last = _work(of_a, of_b), _work(of_x, (of_a[0], of_b[1]))
    analyzer = Analyzer()
    for symbol in used_symbols(ShapeExpr((*of_x, *of_a, *of_b))):
        analyzer.bind_size(symbol, at_least=1)
    costs = [analyzer.simplify(c[0] + c[1]) for c in (first, last)]
    return analyzer.can_prove_less(*(costs if x_first else reversed(costs)))


def is_product(value: Expr) -> bool:
    """A product of matrices in the type of its operands."""
    return type(value) is Call and value.op_name == R.matmul.name and not value.attrs.get("out_dtype")


@function_pass()
def adjust_matmul_order(fn: Function) -> Function:
    """Multiply three matrices in the cheaper order. Changes rounding. Requires matrices of rank 2 behind the first operand."""

    def change(call: Call, source: Source, rewriter: GraphRewriter) -> Expr | None:
        if not is_product(call):
            return None
        left, right = call.args[0], call.args[1]
        inner = source(right)
        if inner is not None:
            a, b = inner.args[0], inner.args[1]
            if _cheaper(left, a, b, x_first=True):
                return matmul(rewriter.emit(matmul(left, a)), b)
        inner = source(left)
        if inner is not None:
            x, a = inner.args[0], inner.args[1]
            if _cheaper(x, a, right, x_first=False):
                return matmul(x, rewriter.emit(matmul(a, right)))
        return None

    return rewrite_with_sources(fn, is_product, change)


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

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        assert rewriter.var is not None
        group = groups.get(rewriter.var)
        if group is None:
            return value
        index = [var for var, _ in group.calls].index(rewriter.var)
        if group.split is None:
            assert type(value) is Call
            matrices = [rewriter.replacer.visit(call.args[1]) for _, call in group.calls]
            edges, total = [], 0
            for matrix in matrices[:-1]:
                total += _columns(matrix) or 0
                edges.append(total)
            joined = rewriter.emit(normal_form(matmul(value.args[0], concat(matrices, axis=-1)), rewriter))
            group.split = rewriter.emit(split(joined, edges, axis=-1))
        return TupleGetItem(group.split, index)

    return GraphRewriter(rule).function(fn)
