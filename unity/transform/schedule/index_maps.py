"""Index maps as arguments of primitives: a Python function of indices becomes an ``IndexMap``, which the trace can record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...arith import Analyzer
from ...arith.index_map import IndexMap
from ...ir.build import const, dtype_of, ge, index_var, maximum
from ...ir.types import Expr, PrimType
from ...support.errors import ScheduleError
from ...te.value import Value, to_scalar


def to_index_map(value: IndexMap | Callable[..., Any], ndim: int, dtype: str = "int64") -> IndexMap:
    """An index map of ``ndim`` indices from a function such as ``lambda i, j: (i // 4, j, i % 4)``, which may also take
    ``*indices`` and give one index or several. Raises ScheduleError E403 for another number of indices."""
    if isinstance(value, IndexMap):
        if len(value.initial_indices) != ndim:
            raise ScheduleError("E403", f"the index map takes {len(value.initial_indices)} indices, {ndim} are mapped")
        return value
    if not callable(value):
        raise ScheduleError("E403", f"an index map or a function of indices is wanted, got {value!r}")
    names = [p.name for p in inspect.signature(value).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    variadic = any([p.kind is p.VAR_POSITIONAL for p in inspect.signature(value).parameters.values()])
    if len(names) > ndim or (len(names) < ndim and not variadic):
        raise ScheduleError("E403", f"the index map takes {len(names)} indices, {ndim} are mapped",
                            help=f"write lambda {', '.join([f'i{k}' for k in range(ndim)])}: (...)")  # fmt: skip
    variables = tuple([index_var(names[k] if k < len(names) else f"i{k}", dtype) for k in range(ndim)])
    made = value(*[Value(v) for v in variables])
    given: Sequence[Any] = made if isinstance(made, (list, tuple)) else [made]
    for item in given:
        if item is Ellipsis:
            raise ScheduleError("E403", "an index map gives indices, no axis separators",
                                help="sch.set_axis_separator(block, buffer, [place]) divides the axes afterwards")  # fmt: skip
        if not isinstance(item, (Value, Expr, int)):
            raise ScheduleError("E403", f"an index map gives integer expressions of its indices, got {item!r}")
    found = tuple([to_scalar(e, dtype) for e in given])
    for index in found:
        if not isinstance(index.ty, PrimType) or not index.ty.dtype.is_int:
            raise ScheduleError("E403", f"an index map gives integer expressions of its indices, got {index}")
    return IndexMap(variables, found)


def no_less_than_zero(extent: Expr, sizes: Analyzer) -> Expr:
    """An extent of a layout: a size of zero may make it negative."""
    zero = const(0, dtype_of(extent))
    return sizes.simplify(extent if sizes.can_prove(ge(extent, zero)) else maximum(extent, zero))
