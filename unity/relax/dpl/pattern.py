"""``unity.relax.dpl.pattern``: the patterns of ``unity.transform.dpl``, with TVM's names of their classes.

``TuplePattern([a, b])`` makes what ``is_tuple([a, b])`` does; in ``isinstance`` it stands for the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.expr import ExternFunc
from ...ir.types import Type
from ...support.arguments import make_public
from ...transform.dpl import *  # noqa: F403
from ...transform.dpl import __all__ as _SHARED, builders as _b, pattern as _p
from ..nodes import makes

AndPattern, NotPattern, OrPattern, PatternSeq = _p.AndPattern, _p.NotPattern, _p.OrPattern, _p.PatternSeq
AttrPattern, CallPattern, DataTypePattern = _p.AttrPattern, _p.CallPattern, _p.DataTypePattern
ShapePattern, TypePattern, StructInfoPattern = _p.ShapePattern, _p.TypePattern, _p.TypePattern
ConstantPattern, WildcardPattern = _p.ConstantPattern, _p.WildcardPattern
ExprPattern = makes(_p.ExprPattern)(_b.is_expr)
TuplePattern = makes(_p.TuplePattern)(_b.is_tuple)
TupleGetItemPattern = makes(_p.TupleGetItemPattern)(_b.is_tuple_get_item)
PrimArrPattern = makes(_p.ShapeExprPattern)(_b.is_shape)
VarPattern, DataflowVarPattern, GlobalVarPattern = [makes(_p.VarPattern)(f) for f in (_b.is_var, _b.is_dfv, _b.is_gv)]


@makes(_p.TuplePattern)
def UnorderedTuplePattern(fields: Any) -> _p.DFPattern:
    """A tuple of these fields in any order."""
    return _b.is_tuple(fields, unordered=True)


@makes(_p.ExprPattern)
def ExternFuncPattern(global_symbol: str) -> _p.DFPattern:
    """A registered function."""
    return _b.is_expr(ExternFunc(global_symbol))


def has_attr(attrs: Mapping[str, Any], pattern: _p.DFPattern | None = None) -> _p.DFPattern:
    """A call or function with these attributes."""
    return (pattern or _b.wildcard()).has_attr(attrs)


def has_dtype(dtype: str, pattern: _p.DFPattern | None = None) -> _p.DFPattern:
    """A tensor or scalar of a data type."""
    return (pattern or _b.wildcard()).has_dtype(dtype)


def has_ty(ty: Type, pattern: _p.DFPattern | None = None) -> _p.DFPattern:
    """An expression whose type is ``ty`` or narrower."""
    return (pattern or _b.wildcard()).has_ty(ty)


def reject(pattern: _p.DFPattern) -> _p.DFPattern:
    """All that a pattern does not match."""
    return ~pattern


has_struct_info = has_ty
__all__ = [
    *_SHARED, "AndPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DataTypePattern", "DataflowVarPattern", "ExprPattern",
    "ExternFuncPattern", "GlobalVarPattern", "NotPattern", "OrPattern", "PatternSeq", "PrimArrPattern", "ShapePattern",
    "StructInfoPattern", "TupleGetItemPattern", "TuplePattern", "TypePattern", "UnorderedTuplePattern", "VarPattern",
    "WildcardPattern", "has_attr", "has_dtype", "has_struct_info", "has_ty", "reject",
]  # fmt: skip
make_public(globals(), __all__)
