"""Equal expressions without effects are computed once.

Rewrite: ``a = R.exp(x); b = R.exp(x); c = R.add(a, b)`` -> ``a = R.exp(x); c = R.add(a, a)``. A value computed before a
conditional is used inside it, never the other way round. Kept apart are values that a later call writes into, and two
results of one function, since a caller may change one of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ....ir.expr import Call, Constant, DataflowBlock, GlobalVar, Op, Tuple, TupleGetItem, Var
from ....ir.function import Function
from ....ir.infer import is_pure_call
from ....ir.op import OPS
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....op.common.table import R
from ...infra.constant_provenance import OPEN_BYTES, peek
from ...infra.passes import function_pass
from ..analysis.mutable_vars import changed_vars, returned_vars
from ..analysis.value_key import value_key
from ..rewriting.graph_rewriter import GraphRewriter, Replaced

_CALLS = {R.call_dps.name, R.call_dps_with_grad.name, R.call_pure_packed.name, R.shape_of.name, R.size.name}
"""Single numbers and a few integers are compared by value; others, which may be weights, by identity of their data."""
Scope = dict[Hashable, list[tuple[Var, list[Constant]]]]
"""Variables by the keys of their values, with the constants in these."""


def _mergeable(value: Expr) -> bool:
    if type(value) is TupleGetItem:
        return True
    if type(value) is not Call or not is_pure_call(value):
        return False
    if type(value.op) is GlobalVar:
        return True
    info = OPS.get(value.op.name) if type(value.op) is Op else None
    return info is not None and (info.name in _CALLS or callable(info.lower))


def _data(value: Constant) -> Hashable:
    array = peek(value.data)
    if array.nbytes > OPEN_BYTES or (array.size > 1 and array.dtype.kind not in "iub"):
        return value.data
    return (str(array.dtype), array.shape, array.tobytes())


def _key(value: Any, seen: list[Constant]) -> Hashable:
    """Key of a value; the constants in it are added to ``seen``."""
    if type(value) is Constant:
        seen.append(value)
        return _data(value)
    if type(value) is Tuple:
        return (Tuple, *[_key(f, seen) for f in value.fields])
    if type(value) is TupleGetItem:
        return (TupleGetItem, value.index, _key(value.tuple_value, seen))
    if type(value) is Call:
        parts = [_key(a, seen) for a in value.args]
        return (Call, value_key(value.op), *parts, value_key(value.attrs), value_key(value.ty_args))
    return value_key(value)


class _Sharing(GraphRewriter):
    """A rewriter that knows the values computed in the scopes around."""

    def __init__(self, fn: Function, call_only: bool) -> None:
        super().__init__(lambda value, rewriter: self.share(value))
        self.call_only = call_only
        self.fixed = changed_vars(fn)
        self.leaving = returned_vars(fn)
        self.scopes: list[Scope] = []

    def _sequence(self, expr: Expr) -> Expr:
        self.scopes.append({})
        made = super()._sequence(expr)
        self.scopes.pop()
        return made

    def block(self, block: Any) -> Any:
        if type(block) is not DataflowBlock:
            return super().block(block)
        self.scopes.append({})
        made = super().block(block)
        inner = self.scopes.pop()
        for key, entries in inner.items():  # outputs stay known, inner variables end with the block
            outside = [e for e in entries if not e[0].dataflow]
            if outside:
                self.scopes[-1].setdefault(key, []).extend(outside)
        return made

    def share(self, value: Expr) -> Any:
        var = self.var
        if var in self.fixed or not _mergeable(value) or (self.call_only and type(value) is not Call):
            return value
        used: list[Constant] = []
        key = _key(value, used)
        for scope in self.scopes:
            for earlier, known in scope.get(key, ()):
                if (earlier in self.leaving and var in self.leaving) or not structural_equal(earlier.ty, var.ty):
                    continue
                for one, other in zip(used, known):  # what becomes of small constants now depends on their elements
                    for data in (one.data, other.data) if one.data is not other.data else ():
                        data.numpy()
                if earlier.dataflow and not var.dataflow:
                    return earlier  # an output that stands for an inner variable
                if var in self.leaving:
                    self.leaving.add(earlier)
                return Replaced(earlier)
        self.scopes[-1].setdefault(key, []).append((var, used))
        return value


@function_pass()
def eliminate_common_subexpr(fn: Function, *, call_only: bool = False) -> Function:
    """Compute equal expressions without effects once.

    ``call_only``: share calls alone, not fields of tuples.
    """
    return _Sharing(fn, call_only).function(fn)
