"""legalize_narrow_float: arithmetic on float16, bfloat16 and float8 values is done in float32, on those of float8_e8m0fnu, whose
products float32 does not hold, in float64.

Rewrite: ``C[i] = A[i] * B[i] + A[i]`` (bfloat16) -> ``C[i] = T.Cast("bfloat16", f32(A[i]) * f32(B[i]) + f32(A[i]))``. Only what is
stored, bound or cast on purpose is rounded to the narrow type. A choice between values that nothing was computed for stays narrow.
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir.build import cast, dtype_of
from ....ir.expr import Call, FloatImm
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import ARITHMETIC, Broadcast, Cast, Compare, Select
from ....ir.types import Expr, PrimType, prim_type
from ....ir.walk import Rewriter
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import PURE_CALLS

_BITS = frozenset(["T.reinterpret", "T.bitwise_and", "T.bitwise_or", "T.bitwise_xor", "T.bitwise_not"])


def _wide(dtype: DataType) -> DataType:
    """The type in which arithmetic on a narrow type is done. A power of two that became zero would be no number."""
    return DataType("float64" if dtype.element.name == "float8_e8m0fnu" else "float32").with_lanes(dtype.lanes)


class _Legalize(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.rounded: dict[Cast, Expr] = {}
        """Casts made here, and the wide value each rounds."""

    def wide(self, expr: Expr) -> Expr:
        """The wide value of a narrow expression."""
        if type(expr) is Cast and expr in self.rounded:
            return self.rounded[expr]
        target = _wide(dtype_of(expr))
        return FloatImm(expr.value, prim_type(target), expr.span) if type(expr) is FloatImm else cast(expr, target)

    def round(self, value: Expr, ty: PrimType) -> Expr:
        """A wide value rounded to a narrow type."""
        made = Cast(value, ty)
        self.rounded[made] = value
        return made

    def leave(self, node: Any) -> Any:
        kind: Any = type(node)
        if isinstance(node, Compare):
            if dtype_of(node.a).is_narrow:
                return kind(self.wide(node.a), self.wide(node.b), node.ty, node.span)
            return node
        if kind is Cast:
            value = node.value
            return (
                cast(self.rounded[value], node.ty.dtype, node.span)
                if type(value) is Cast and value in self.rounded
                else node
            )
        if isinstance(node, Expr) and type(node.ty) is PrimType and node.ty.dtype.is_narrow:
            return self._value(node, node.ty)
        return node

    def _value(self, node: Any, ty: PrimType) -> Any:
        """A narrow expression as a wide value rounded once."""
        kind = type(node)
        wide = prim_type(_wide(ty.dtype))
        chosen = _chosen(node)
        if chosen and not any([self.is_rounded(part) for part in chosen]):
            return node
        if kind in ARITHMETIC:
            return self.round(kind(self.wide(node.a), self.wide(node.b), wide, node.span), ty)
        if kind is Select:
            return self.round(
                Select(node.cond, self.wide(node.true_value), self.wide(node.false_value), wide, node.span), ty
            )
        if kind is Broadcast and type(node.value) is Cast and node.value in self.rounded:
            return self.round(Broadcast(self.wide(node.value), node.lanes, wide), ty)
        if kind is Call and node.op_name in PURE_CALLS and node.op.name not in _BITS:
            return self._call(node)
        return node

    def is_rounded(self, expr: Expr) -> bool:
        """True if a value is the result of arithmetic, on all lanes or on one."""
        return (expr.value if type(expr) is Broadcast else expr) in self.rounded

    def _call(self, node: Call) -> Expr:
        args = tuple([self.wide(a) if type(a.ty) is PrimType and a.ty.dtype.is_narrow else a for a in node.args])
        narrow = node.ty
        assert type(narrow) is PrimType
        target = prim_type(_wide(narrow.dtype))
        return self.round(replace(node, args=args, ty=target), narrow)


def _chosen(node: Any) -> tuple[Expr, ...]:
    """The values of which one is chosen."""
    if type(node) is Select:
        return node.true_value, node.false_value
    return node.args[1:] if type(node) is Call and node.op_name == "T.if_then_else" else ()


@prim_func_pass()
def legalize_narrow_float(func: PrimFunc) -> PrimFunc:
    """Compute float16, bfloat16 and float8 arithmetic in a wider type."""
    return replace(func, body=_Legalize()(func.body))
