"""Layouts that follow each other become one, and those that cancel go away: what ``alter_op_impl`` leaves between two programs.

Rewrite: ``R.layout_transform(R.layout_transform(x, f), g)`` -> x where g undoes f, else ``R.layout_transform(x, g after f)``;
``R.strided_slice`` of the first that only takes padding off again -> x. Padding is zero, or what ``pad_value`` says, so a layout
that pads is joined with nothing but its own undoing: what a program wrote into the padding of its result is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith.analyzer import Analyzer
from ...arith.index_map import IndexMap
from ...ir.buffer import Range
from ...ir.build import const
from ...ir.expr import Call, Var
from ...ir.function import Function
from ...ir.relation import Answer, dims, same_dims
from ...ir.types import Expr
from ...ir.walk import substitute
from ...op.common.table import R
from ...op.common.type_rules import attr
from ...op.manipulate.layout import layout_transform
from ...support.errors import TypeRuleError
from ...transform.infra.passes import function_pass
from ...transform.relax.analysis.mutable_vars import returned_vars
from ...transform.relax.analysis.use_def import Definitions
from ...transform.relax.rewriting.graph_rewriter import GraphRewriter, rewrite_calls


def _map_of(call: Call) -> IndexMap | None:
    """The index map of a plain layout_transform."""
    plain = not any([attr(call, name) for name in ("axis_separators", "input_axis_separators")])
    found = call.attrs.get("index_map")
    return found if plain and isinstance(found, IndexMap) else None


def _composed(first: IndexMap, second: IndexMap, shape: Sequence[Expr]) -> IndexMap:
    """``second`` after ``first`` on indices of a shape, simplified."""
    fresh = tuple([Var(v.name, v.ty) for v in first.initial_indices])
    analyzer = Analyzer()
    for var, extent in zip(fresh, shape):
        analyzer.bind(var, Range(const(0, "int64"), extent))
    renamed = dict(zip(first.initial_indices, fresh))
    whole = second.map_indices([substitute(e, renamed) for e in first.final_indices])
    return IndexMap(fresh, tuple([analyzer.simplify(e) for e in whole]))


def _is_identity(mapping: IndexMap) -> bool:
    return len(mapping.initial_indices) == len(mapping.final_indices) and all(
        [e is v for e, v in zip(mapping.final_indices, mapping.initial_indices)]
    )


def _same(a: Sequence[Expr] | None, b: Sequence[Expr] | None) -> bool:
    return a is not None and b is not None and same_dims(tuple(a), tuple(b)) is Answer.YES


def _pads(mapping: IndexMap, shape: Sequence[Expr]) -> bool:
    return not _same(mapping.padded_shape(shape), shape)


def _pair(inner: Call, call: Call) -> tuple[Expr, IndexMap, IndexMap, Sequence[Expr]] | None:
    """(x, first map, second map, shape of x) of two layouts that follow each other."""
    first, second, shape = _map_of(inner), _map_of(call), dims(inner.args[0].ty)
    return None if first is None or second is None or shape is None else (inner.args[0], first, second, shape)


def _takes_padding_off(call: Call, shape: Sequence[Expr]) -> bool:
    """True if a slice is the leading part of a shape in every axis."""
    zeros = [getattr(v, "value", v) == 0 for v in attr(call, "begin")]
    steps = attr(call, "strides") or ()
    return all(zeros) and all([getattr(v, "value", v) == 1 for v in steps]) and _same(dims(call.ty), shape)


@function_pass()
def optimize_layout_transform(fn: Function) -> Function:
    """Join consecutive layout transformations, and remove those that cancel."""
    known = Definitions(fn)
    kept = known.changed | returned_vars(fn)

    def change(call: Call, rewriter: GraphRewriter) -> Any:
        def source(value: Expr) -> Call | None:
            return known.source(value, rewriter.var, R.layout_transform.name)

        outer = source(call.args[0]) if call.op_name == R.strided_slice.name else call
        inner = source(outer.args[0]) if outer is not None else None
        found = _pair(inner, outer) if inner is not None and outer is not None else None
        if found is None:
            return None
        x, first, second, shape = found
        whole = _composed(first, second, shape)
        if _is_identity(whole):
            back = _takes_padding_off(call, shape) if outer is not call else _same(dims(call.ty), shape)
            return x if back and rewriter.var not in kept else None
        middle = dims(call.args[0].ty)
        if outer is not call or middle is None or _pads(first, shape) or _pads(second, middle) or _pads(whole, shape):
            return None
        try:
            made = layout_transform(x, whole)
        except TypeRuleError:  # a map that the prover of bijectivity does not see through
            return None
        return made if _same(dims(made.ty), dims(call.ty)) else None

    return rewrite_calls(fn, change, R.layout_transform.name, R.strided_slice.name)
