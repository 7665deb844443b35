"""Printing of scalar expressions: literals, infix operators by level, memory reads. Intrinsics: ``intrinsic.py``.

Invariant: what is written reads back to the same node. Where the infix spelling would fold or convert on reading, the
raw node form (``T.Add(...)``) is written instead.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ...arith.index_map import IndexMap
from ...ffi.dtype import DataType
from ...ir import scalar as sc
from ...ir.buffer import BufferRegion, Range
from ...ir.build import dtype_of, round_float, scalar_type
from ...ir.expr import FloatImm, IntImm, StringImm, Var
from ...ir.types import Expr, PrimType, prim_type
from ..spelling.ranges import stop_of
from ..spelling.spelling import INFIX, LEVEL_ATOM, LEVEL_COMPARE, LEVEL_NOT, LEVEL_UNARY
from .core import EXPRS, INDEX, PAIR, RAW, VALUE, Printer, closing, quote

_INFIX = {getattr(sc, row.node): row for row in INFIX.values() if row.node is not None}
_INT32_RANGE = range(-(2**31), 2**31)
_BOOL = prim_type("bool")
_HANDLE = prim_type("handle")


# ---------------------------------------------------------------------------------------------------------- literals


@lru_cache(maxsize=4096)
def _float_digits(bits: str, dtype: DataType) -> str:
    value = float.fromhex(bits)
    if value == int(value) and abs(value) < 1e16:
        return str(int(value)) if value or math.copysign(1, value) > 0 else "-0.0"
    if dtype.name == "float64":
        return repr(value)
    if abs(value) > 3.4028234e38:  # some readers take the shortest text of the largest float32 for too large
        return repr(value)
    if dtype.name == "float32":
        short = str(np.float32(value))
        if round_float(float(short), dtype) == value:
            return short
    for digits in range(1, 17):
        short = f"{value:.{digits}g}"
        if round_float(float(short), dtype) == value:
            return short
    return repr(value)


def float_text(value: float, dtype: DataType) -> str:
    """Shortest decimal text that rounds to ``value`` in ``dtype``; strings for the non-finite ones."""
    if math.isfinite(value):
        return _float_digits(value.hex(), dtype.element)
    if math.isnan(value):
        return '"nan"' if math.copysign(1, value) > 0 else '"-nan"'
    return '"inf"' if value > 0 else '"-inf"'


def _int_imm(p: Printer, node: IntImm, where: str) -> None:
    dtype = node.ty.dtype
    if dtype.is_bool:
        p.put(f"T.bool({node.value != 0})")
        return
    name = dtype.name
    plain = (
        where is PAIR
        or (where is INDEX and name == ("int32" if p.dialect.tvm and p.level == "T" else "int64"))
        or (where is VALUE and name == "int32" and node.value in _INT32_RANGE)
    )
    p.put(str(node.value) if plain else f"T.{name}({node.value})")


def _var(p: Printer, node: Var, where: str) -> None:
    buffer = p.data_of.get(node)
    if buffer is not None:
        p.put(f"{p.name_of(buffer)}.data")
        return
    if not p.quoting and node not in p.bound:
        p.free[node] = None
    p.put(p.name_of(node))


# --------------------------------------------------------------------------------------------------------- operators


def _folds(node: Any, kind: type) -> bool:
    """True when reading the infix spelling would not give this node back."""
    a, b = node.a, node.b
    ty = a.ty
    if ty is not b.ty:
        return True
    ta, tb = type(a), type(b)
    if kind is sc.And or kind is sc.Or:
        return ta is IntImm or tb is IntImm or not (type(ty) is PrimType and ty.dtype.is_bool)
    if ta is IntImm:
        if tb is IntImm:
            return True
        if kind is sc.Add:
            return bool(a.value == 0) or a.ty is _BOOL
        if kind is sc.Mul:
            return a.value in (0, 1)
    elif tb is IntImm:
        if kind is sc.Add or kind is sc.Sub:
            return bool(b.value == 0) or b.ty is _BOOL
        if kind is sc.Mul:
            return b.value in (0, 1)
        if kind is sc.FloorDiv or kind is sc.FloorMod:
            return bool(b.value == 1)
    if type(ty) is not PrimType:
        return True
    return ty.dtype.is_bool and kind in sc.ARITHMETIC and kind not in (sc.Min, sc.Max)


def _level(node: Any) -> int:
    """Binding level of the spelling ``node`` gets."""
    kind = type(node)
    row = _INFIX.get(kind)
    if row is not None:
        if _folds(node, kind) or (kind is sc.Div and not _is_float(node)):
            return LEVEL_ATOM
        return row.level
    if kind is IntImm:
        return LEVEL_UNARY if node.value < 0 else LEVEL_ATOM
    if kind is sc.Not:
        return LEVEL_ATOM if _raw_not(node) else LEVEL_NOT
    return LEVEL_ATOM


def _is_float(node: Any) -> bool:
    return type(node.a.ty) is PrimType and node.a.ty.dtype.is_float


def _raw_not(node: sc.Not) -> bool:
    return type(node.a) is IntImm or not (type(node.a.ty) is PrimType and node.a.ty.dtype.is_bool)


def _operand(p: Printer, node: Any, min_level: int, where: str) -> None:
    if _level(node) < min_level:
        p.put("(")
        p.expr(node, where)  # one call less on the stack of a deep tree
        p.put(")")
    else:
        p.expr(node, where)


def pair_places(a: Any, b: Any) -> tuple[str, str]:
    """The spelling of literals among two operands of one type."""
    if type(a) is IntImm:
        return (VALUE, VALUE) if type(b) is IntImm else (PAIR, VALUE)
    return (VALUE, PAIR) if type(b) is IntImm else (VALUE, VALUE)


def _binary(p: Printer, node: Any, where: str) -> None:
    kind = type(node)
    row = _INFIX[kind]
    if _folds(node, kind):
        p.put(f"T.{kind.__name__}(", ((node.a, node.b), RAW), ")")
        return
    left, right = pair_places(node.a, node.b)
    if kind is sc.Div and not _is_float(node):
        p.put("T.truncdiv(", (node.a, left), ", ", (node.b, right), ")")
        return
    level = row.level
    _operand(p, node.a, level + 1 if level == LEVEL_COMPARE else level, left)
    p.put(f" {row.text} ")
    _operand(p, node.b, level + 1, right)


_CALLS = {sc.Min: "T.min", sc.Max: "T.max", sc.Mod: "T.truncmod"}


def _binary_call(p: Printer, node: Any, where: str) -> None:
    kind = type(node)
    raw = _folds(node, kind)
    p.put(f"T.{kind.__name__}(" if raw else f"{_CALLS[kind]}(")
    left, right = (RAW, RAW) if raw else pair_places(node.a, node.b)
    p.put((node.a, left), ", ", (node.b, right), ")")


def _not(p: Printer, node: sc.Not, where: str) -> None:
    if _raw_not(node):
        p.put("T.Not(", (node.a, RAW), ")")
        return
    p.put("not ")
    _operand(p, node.a, LEVEL_NOT, VALUE)


def _lanes(node: sc.Ramp | sc.Broadcast) -> Any:
    if isinstance(node.lanes, Expr):
        return node.lanes
    return f"T.vscale() * {node.lanes}" if node.ty.dtype.scalable else str(node.lanes)


def _let(p: Printer, node: sc.Let, where: str) -> None:
    p.bound.add(node.var)
    p.put("T.Let(", (node.body, RAW))
    p.put(f", where={{{p.name_of(node.var)}: ", (node.value, RAW), "})")


def comm_reducer(p: Printer, node: sc.CommReducer) -> None:
    """``T.comm_reducer(lambda x, y: x + y, [identity])``."""
    p.bound.update(node.lhs, node.rhs)
    names = ", ".join([p.name_of(v) for v in (*node.lhs, *node.rhs)])
    p.put(f"T.comm_reducer(lambda {names}: ")
    if len(node.result) == 1:
        p.expr(node.result[0], RAW)
    else:
        p.put("(", (node.result, RAW), ")")
    p.put(", [", (node.identity, RAW), "])")


def index_map(p: Printer, node: IndexMap) -> None:
    """``T.index_map(lambda i, j: (i // 4, j, i % 4))``."""
    p.bound.update(node.initial_indices)
    names = ", ".join([p.name_of(v) for v in node.initial_indices])
    p.put(
        f"T.index_map(lambda{' ' if names else ''}{names}: (", (node.final_indices, INDEX), closing(node.final_indices)
    )
    dtype = dtype_of((*node.initial_indices, *node.final_indices, IntImm(0, prim_type("int64")))[0]).name
    p.put(")" if dtype == "int64" else f', index_dtype="{dtype}")')


def _reduce(p: Printer, node: sc.Reduce, where: str) -> None:
    p.put("T.reduce(")
    comm_reducer(p, node.combiner)
    p.put(", source=[", (node.source, RAW), "], axis=[")
    p.joined(node.axis, iter_var)
    p.put("], where=", (node.condition, RAW), f", value_index={node.value_index})")


def iter_var(p: Printer, node: sc.IterVar) -> None:
    """A loose iterator: ``T.iter_var(i, dom, "S", "")``."""
    usual = node.dom.min.ty if node.dom is not None else prim_type("int64")
    p.put("T.iter_var(", p.name_of(node.var) if node.var.ty is usual else (node.var, RAW), ", ")
    if node.dom is None:
        p.put("None")
    else:
        p.put("T.Range(")
        bounds(p, node.dom, ", ")
        p.put(")")
    p.put(f", {quote(node.kind)}, {quote(node.thread_tag)})")


# ------------------------------------------------------------------------------------------------------------ memory


def indices(p: Printer, values: tuple[Expr, ...]) -> None:
    """``[i, j]``; ``[()]`` for none."""
    if not values:
        p.put("[()]")
        return
    p.put("[", (values, INDEX), "]")


def _load(p: Printer, node: sc.BufferLoad, where: str) -> None:
    p.put(p.name_of(node.buffer))
    if node.predicate is None:
        indices(p, node.indices)
        return
    p.put(".vload([", (node.indices, INDEX), f'], "{node.ty.dtype.name}", predicate=', (node.predicate, RAW), ")")


def bounds(p: Printer, node: Range, separator: str) -> None:
    """``start<separator>stop`` of an interval."""
    stop = stop_of(node.min, node.extent)
    p.put((node.min, INDEX), separator)
    p.expr(stop if stop is not None else sc.Add(node.min, node.extent, scalar_type(node.min)), INDEX)


def region(p: Printer, node: BufferRegion) -> None:
    """``A[i, 0:16]``."""
    p.put(p.name_of(node.buffer))
    if not node.region:
        p.put("[()]")
        return
    p.put("[")
    p.joined(node.region, _interval)
    p.put("]")


def _interval(p: Printer, node: Range) -> None:
    extent = node.extent
    if type(extent) is IntImm and extent.value == 1 and extent.ty is node.min.ty:
        p.expr(node.min, INDEX)
    else:
        bounds(p, node, ":")


EXPRS.update({
    IntImm: _int_imm, Var: _var, sc.Mod: _binary_call, sc.Min: _binary_call, sc.Max: _binary_call, sc.Not: _not, sc.Let: _let,
    sc.BufferLoad: _load, sc.Reduce: _reduce,
    FloatImm: lambda p, node, _: p.put(f"T.{node.ty.dtype.name}({float_text(node.value, node.ty.dtype)})"),
    StringImm: lambda p, node, _: p.put(quote(node.value) if p.level == "T" else f"R.str({quote(node.value)})"),
    sc.Cast: lambda p, node, _: p.put(f'T.Cast("{node.ty.dtype.name}", ', (node.value, RAW), ")"),
    sc.Select: lambda p, node, _: p.put("T.Select(", ((node.cond, node.true_value, node.false_value), RAW), ")"),
    sc.Ramp: lambda p, node, _: p.put("T.Ramp(", ((node.base, node.stride), RAW), ", ", _lanes(node), ")"),
    sc.Broadcast: lambda p, node, _: p.put("T.Broadcast(", (node.value, RAW), ", ", _lanes(node), ")"),
    sc.Shuffle: lambda p, node, _: p.put("T.Shuffle([", (node.vectors, RAW), "], [", (node.indices, VALUE), "])"),
})  # fmt: skip
EXPRS.update(dict.fromkeys(_INFIX, _binary))
