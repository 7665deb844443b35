"""Reductions: axes, sum / prod / min / max, and reducers of one's own over tuples (argmax).

A reduction is an ``ir.scalar.Reduce`` over the axes it names; it stands as the whole value of a ``te.compute``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, overload

from ..ir import build
from ..ir.buffer import Range
from ..ir.expr import Var
from ..ir.scalar import CommReducer, IterVar, Reduce
from ..ir.types import Expr, prim_type
from ..support.arguments import guarded_class
from ..support.errors import TypeRuleError
from .value import Scalar, Value, maximum, minimum, to_scalar


@guarded_class
class ReduceAxis(Value):
    """An axis reduced over; usable as an index."""

    __slots__ = ("iter_var",)

    def __init__(self, iter_var: IterVar) -> None:
        super().__init__(iter_var.var)
        self.iter_var = iter_var

    @property
    def var(self) -> ReduceAxis:
        """TVM's variable of the axis: the axis itself, which is an index."""
        return self


def reduce_axis(dom: Sequence[Scalar], name: str = "rv") -> ReduceAxis:
    """Axis over ``dom``, a pair ``(begin, end)``; ``name`` is that of its loop. Raises TypeRuleError E217."""
    if not isinstance(dom, (list, tuple)) or len(dom) != 2:
        raise TypeRuleError(
            "E217", f"an axis runs over a pair (begin, end), not over {dom!r}", help="te.reduce_axis((0, n))"
        )
    begin, end = to_scalar(dom[0], "int64"), to_scalar(dom[1], "int64")
    begin, end = build.unify(begin, end)
    return ReduceAxis(IterVar(Var(name, end.ty), Range(begin, end - begin), "R"))


Axes = ReduceAxis | list[ReduceAxis] | tuple[ReduceAxis, ...]


class Reduction(Protocol):
    """A reduction over axes of a value."""

    def __call__(self, expr: Scalar, axis: Axes, where: Scalar | None = None) -> Value: ...


class Reducer(Protocol):
    """A reduction over axes of the elements where the condition holds: of a value, or of several to as many."""

    @overload
    def __call__(self, expr: Scalar, axis: Axes, where: Scalar | None = None) -> Value: ...
    @overload
    def __call__(self, expr: Sequence[Scalar], axis: Axes, where: Scalar | None = None) -> tuple[Value, ...]: ...


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Reducer:
    """A reducer from ``fcombine(x, y)`` and its neutral element ``fidentity(dtype)``; tuples of values for several fields.
    ``name`` is that of the reducer, which raises TypeRuleError E217 for anything but axes.

    >>> argmax = comm_reducer(lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
    ...                       lambda t0, t1: (te.const(-1, t0), te.min_value(t1)))
    """

    def reducer(expr: Any, axis: Axes, where: Scalar | None = None) -> Any:
        several = isinstance(expr, (tuple, list))
        sources = tuple([to_scalar(e) for e in (expr if several else (expr,))])
        dtypes = [build.dtype_of(s) for s in sources]
        lhs = tuple([Var(f"x{i}" if several else "x", prim_type(d)) for i, d in enumerate(dtypes)])
        rhs = tuple([Var(f"y{i}" if several else "y", prim_type(d)) for i, d in enumerate(dtypes)])
        if several:
            made = fcombine([Value(v) for v in lhs], [Value(v) for v in rhs])
            neutral = fidentity(*[d.name for d in dtypes])
        else:
            made = (fcombine(Value(lhs[0]), Value(rhs[0])),)
            neutral = (fidentity(dtypes[0].name),)
        result = tuple([build.cast(to_scalar(m), d) for m, d in zip(made, dtypes)])
        identity = tuple([build.cast(to_scalar(m, d.name), d) for m, d in zip(neutral, dtypes)])
        combiner = CommReducer(lhs, rhs, result, identity)
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        if not all([isinstance(one, ReduceAxis) for one in axes]):
            raise TypeRuleError(
                "E217", f"{name} reduces over axes, got {axis!r}", help='k = te.reduce_axis((0, n), "k")'
            )
        if not axes:
            raise TypeRuleError("E217", f"{name} needs an axis", help='k = te.reduce_axis((0, n), "k")')
        condition: Expr = build.const(True) if where is None else to_scalar(where)
        iter_vars = tuple([a.iter_var for a in axes])
        fields = tuple(
            [Value(Reduce(combiner, sources, iter_vars, condition, i, (), prim_type(d))) for i, d in enumerate(dtypes)]
        )
        return fields if several else fields[0]

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = (
        f"Return the {name} of ``expr`` over ``axis``, of the elements for which the condition ``where`` holds."
        " Raises TypeRuleError E217."
    )
    return reducer


def lowest(dtype: str) -> Value:
    """Return the neutral element of max in ``dtype``: minus infinity, or the smallest value."""
    return Value(build.lowest(dtype))


def highest(dtype: str) -> Value:
    """Return the neutral element of min in ``dtype``: infinity, or the largest value."""
    return Value(build.highest(dtype))


sum: Reduction = comm_reducer(lambda x, y: x + y, lambda dtype: build.const(0, dtype), "sum")
prod: Reduction = comm_reducer(lambda x, y: x * y, lambda dtype: build.const(1, dtype), "prod")
_max = comm_reducer(lambda x, y: Value(build.maximum(x.expr, y.expr)), lowest, "max")
_min = comm_reducer(lambda x, y: Value(build.minimum(x.expr, y.expr)), highest, "min")


def max(expr: Scalar, axis: Axes | Scalar, where: Scalar | None = None) -> Value:
    """Return the largest ``expr`` over ``axis`` where the condition ``where`` holds, or the larger of two values; NaN if any is
    NaN.
    """
    return _max(expr, axis, where) if isinstance(axis, (ReduceAxis, list, tuple)) else maximum(expr, axis)


def min(expr: Scalar, axis: Axes | Scalar, where: Scalar | None = None) -> Value:
    """Return the smallest ``expr`` over ``axis`` where the condition ``where`` holds, or the smaller of two values; NaN if any is
    NaN.
    """
    return _min(expr, axis, where) if isinstance(axis, (ReduceAxis, list, tuple)) else minimum(expr, axis)
