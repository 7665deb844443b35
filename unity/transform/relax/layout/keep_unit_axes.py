"""Products keep axes of size one that a reshape dropped before them and another brings back, and so does what is computed of them
element by element: no reshape stands between a product and what can be fused with it.

Rewrite, of x (1, n, k) and w (k, m): ``a = R.reshape(x, (n, k)); y = R.add(R.matmul(a, w), b); z = R.reshape(y, (1, n, m))`` ->
``u = R.add(R.matmul(x, w), b); y = R.reshape(u, (n, m)); z = R.reshape(y, (1, n, m))``; ``remove_redundant_reshape`` makes z u.
Axes of other sizes stay merged: rows of one axis fill tiles best. The other operands of operators by element have one axis at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....ir.build import is_int
from ....ir.builder import make_call
from ....ir.expr import Call, Op, ShapeExpr, Var, VarBinding
from ....ir.function import Function
from ....ir.op import row_of
from ....ir.relation import Answer, dims, same_dims
from ....ir.types import Expr, TensorType
from ....op.linalg.products import matmul
from ....op.manipulate.manipulate import reshape
from ...infra.passes import function_pass
from ..analysis.use_def import Definitions
from ..rewriting.graph_rewriter import GraphRewriter, each_binding


@dataclass(slots=True)
class _Flat:
    """A matrix that has its rows as a tensor with more axes: their sizes, and the variables it is computed of."""

    shape: tuple[Expr, ...]
    of: list[Var] = field(default_factory=list)


@function_pass()
def keep_unit_axes(fn: Function) -> Function:
    """Keep axes of size one through products and elementwise operators, so that no reshape separates what can be fused."""
    known = Definitions(fn)
    flat: dict[Var, _Flat] = {}
    wanted: set[Var] = set()
    for _, binding in each_binding(fn):
        value = binding.value
        if type(value) is not Call or not isinstance(binding, VarBinding) or binding.var in known.changed:
            continue
        found = _flat_of(value, flat, known.changed)
        if found is not None:
            flat[binding.var] = found
        elif _back(value, flat):
            _want(value.args[0], flat, wanted)
    if not wanted:
        return fn
    whole: dict[Var, Expr] = {}

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        var = rewriter.var
        if var not in wanted or type(value) is not Call or type(value.op) is not Op:
            return value
        if row_of(value).view:
            if known.usable(value.args[0], var):
                whole[var] = value.args[0]
            return value
        parts = [a for a in value.args if a in flat]
        if not all([a in whole and known.home[a] is known.home[var] for a in parts]):
            return value
        args = [whole.get(a, a) for a in value.args]  # type: ignore[call-overload]
        made = rewriter.emit(make_call(value.op, args, value.attrs, value.ty_args, value.span))
        whole[var] = made
        shape = dims(value.ty)
        assert shape is not None
        return reshape(made, ShapeExpr(shape), span=value.span)

    return GraphRewriter(rule).function(fn)


def _flat_of(value: Call, flat: dict[Var, _Flat], changed: set[Var]) -> _Flat | None:
    """The result of a call as a matrix without unit axes, if it is one."""
    row, shape = row_of(value), dims(value.ty)
    if shape is None or len(shape) != 2:
        return None
    if row.view:
        given = dims(value.args[0].ty)
        plain = isinstance(value.args[0], Var) and value.args[0] not in changed
        return _Flat(given) if plain and given is not None and len(given) > 2 and _same_rows(given, shape) else None
    parts = [a for a in value.args if isinstance(a, Var) and a in flat]
    if row is matmul.info:
        if len(parts) != 1 or parts[0] is not value.args[0] or _rank(value.args[1]) != 2:
            return None
        return _Flat((*flat[parts[0]].shape[:-1], shape[-1]), parts)
    if not row.pointwise or not parts or any([_rank(a) > 1 for a in value.args if a not in flat]):
        return None
    first = flat[parts[0]]
    agree = [same_dims(flat[a].shape, first.shape) for a in parts[1:]] + [same_dims(first.shape[-1:], shape[-1:])]
    return _Flat(first.shape, parts) if min(agree) is Answer.YES else None


def _rank(value: Expr) -> int:
    """Axes of a tensor, three where they are not known; none of what is not a tensor."""
    if not isinstance(value.ty, TensorType):
        return 0
    return value.ty.ndim if value.ty.ndim >= 0 else 3


def _same_rows(whole: Sequence[Expr], shape: Sequence[Expr]) -> bool:
    """True if two shapes are the same except for axes of size one before the last."""
    rows, own = [[d for d in sizes[:-1] if not is_int(d, 1)] for sizes in (whole, shape)]
    return same_dims([*rows, whole[-1]], [*own, shape[-1]]) is Answer.YES


def _back(value: Call, flat: dict[Var, _Flat]) -> bool:
    """True if a call gives a matrix the axes that it has dropped."""
    known = flat.get(value.args[0]) if row_of(value).view else None  # type: ignore[call-overload]
    shape = dims(value.ty)
    return known is not None and known.of != [] and shape is not None and same_dims(shape, known.shape) is Answer.YES


def _want(var: Any, flat: dict[Var, _Flat], wanted: set[Var]) -> None:
    work = [var]
    while work:
        item = work.pop()
        if item not in wanted:
            wanted.add(item)
            work += flat[item].of
