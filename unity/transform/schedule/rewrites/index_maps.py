"""Index maps as arguments of primitives: a Python function of indices becomes an ``IndexMap``, which the trace can record.

Invariant: a map of this room has the integer type of what it maps, and uses its indices and sizes of the function alone:
sampled integers stand in it as the numbers they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....arith import Analyzer
from ....arith.index_map import ARITHMETIC, IndexMap
from ....ir import build
from ....ir.build import const, dtype_of, ge, index_var, maximum
from ....ir.expr import IntImm, Var
from ....ir.scalar import Cast
from ....ir.types import Expr, PrimType
from ....support.errors import ScheduleError, UnityError
from ..core.state import ScheduleState
from .rewriting import size_vars

Given = IndexMap | Callable[..., Any]


def to_index_map(state: ScheduleState, func: str, value: Given, sizes: Sequence[Expr]) -> IndexMap:
    """An index map of indices below ``sizes`` from a function such as ``lambda i, j: (i // 4, j, i % 4)``, which may take
    ``*indices`` and give one index or several. Raises ScheduleError E403 for another number of indices, and for a map that is not
    integer arithmetic of them."""
    if not callable(value) and not isinstance(value, IndexMap):
        raise ScheduleError("E403", f"an index map or a function of indices is wanted, got {value!r}")
    try:
        found = value if isinstance(value, IndexMap) else IndexMap.from_func(value, len(sizes))
    except UnityError as error:
        about = "" if error.code == "E207" else "an index map is integer arithmetic of its indices: "
        raise ScheduleError("E403", about + error.message, help=error.help) from None
    if len(found.initial_indices) != len(sizes):
        given = len(found.initial_indices)
        raise ScheduleError("E403", f"the index map takes {given} indices, {len(sizes)} are mapped")
    dtype = dtype_of(sizes[0]).name if sizes else "int64"
    own = {v: index_var(v.name, dtype) for v in found.initial_indices}
    known: dict[Var, Expr] = {v: const(number, dtype) for v, number in state.values.items()}
    symbols = {v.name: v for v in size_vars(state, func)}
    indices = tuple([_typed(e, {**known, **own}, symbols, dtype) for e in found.final_indices])
    return IndexMap(tuple(own.values()), indices)


def _typed(expr: Expr, known: Mapping[Var, Expr], symbols: Mapping[str, Var], dtype: str) -> Expr:
    """The expression with known variables replaced, others taken for sizes of the function by their name, in one integer type."""
    if isinstance(expr, Var):
        found = known.get(expr) or symbols.get(expr.name)
        if found is None:
            raise ScheduleError("E403", f"the index map uses {expr.name}, which is none of its indices and no size of the function",
                                help="sizes are the symbols that stand alone as a dimension of a parameter")  # fmt: skip
        return build.cast(found, dtype)
    if type(expr) is IntImm:
        return const(expr.value, dtype)
    if type(expr) is Cast and isinstance(expr.ty, PrimType) and expr.ty.dtype.is_int:
        return _typed(expr.value, known, symbols, dtype)
    make = ARITHMETIC.get(type(expr))
    if make is None:
        raise ScheduleError("E403", f"an index map gives integer expressions of its indices, got {expr}",
                            help="write it with +, -, *, // and %")  # fmt: skip
    a, b = [_typed(e, known, symbols, dtype) for e in (expr.a, expr.b)]  # type: ignore[attr-defined]
    return make(a, b)


def no_less_than_zero(extent: Expr, sizes: Analyzer) -> Expr:
    """An extent of a layout: a size of zero may make it negative."""
    zero = const(0, dtype_of(extent))
    return sizes.simplify(extent if sizes.can_prove(ge(extent, zero)) else maximum(extent, zero))
