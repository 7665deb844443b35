"""Blocks: axes, predicates, regions, annotations. ``BLOCK_FORMS`` is the table of what a block says about itself.

Invariant: it is collected in the ``BlockContext`` that is open while the body is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir import Block, BlockRealize, Expr, IterVar, Range, Stmt, Var, build as b, substitute
from ...parser import syntax as s
from ...spelling.ranges import extent_of
from ...spelling.spelling import AXES, AXIS_LETTERS
from ..common.calls import bound_arguments, takes_arguments
from ..common.constants import attribute_value
from ..common.plain import is_number
from ..common.reading import Form
from ..common.values import INT64, as_index, as_text
from .access import read_region
from .expr import as_condition
from .program import BlockContext, ProgramReading

_TRUE = b.const(True)


def open_block(r: ProgramReading, path: str, node: s.Syntax) -> BlockContext:
    """The block being read. Raises E116 outside of one."""
    if r.block is None:
        raise r.error("E116", f"{path} stands only inside `with T.block(...)`", node)
    return r.block


@takes_arguments
def _axis(r: ProgramReading, path: str, node: s.Call, dom: Any, binding: Any = None, dtype: Any = None) -> Var:
    block, kind = open_block(r, path, node), AXES[path]
    value = binding
    dom = _domain(r, dom, value, node)
    if value is None:
        return _add_axis(r, block, kind, r.hint, dom, None, node)
    value = as_index(r, value, node)
    if dom is not None and dom.min.ty is not value.ty:  # a size of int32 beside literal loops: both are as wide as one
        index_dtype = b.dtype_of(b.unify(dom.extent, value)[1])
        dom, value = Range(b.cast(dom.min, index_dtype), b.cast(dom.extent, index_dtype)), b.cast(value, index_dtype)
    return _add_axis(r, block, kind, r.hint, dom, value, node)


def _domain(r: ProgramReading, dom: Any, value: Any, node: s.Syntax) -> Range | None:
    if dom is None or type(dom) is Range:
        return dom
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise r.error("E113", "a domain is an extent or (start, stop)", node)
        low, high = as_index(r, dom[0], node), as_index(r, dom[1], node)
        if is_number(dom[0]) != is_number(dom[1]):
            low, high = b.unify(dom[0], high) if is_number(dom[0]) else b.unify(low, dom[1])
        return Range(low, extent_of(low, high))
    if isinstance(value, Expr) and type(dom) is int and b.dtype_of(value).is_integral:
        extent: Expr = b.const(dom, b.dtype_of(value))
    else:
        extent = as_index(r, dom, node)
    return Range(b.const(0, b.dtype_of(extent)), extent)


def _add_axis(
    r: ProgramReading, block: BlockContext, kind: str, name: str, dom: Range | None, value: Expr | None, node: s.Syntax
) -> Var:
    ty = dom.min.ty if dom is not None else value.ty if value is not None else INT64
    span = r.span(node)
    var = Var(name or "v", ty, span)
    axis = IterVar(var, dom, kind, "", span)
    r.iters[var] = axis
    r.declared.add(var)
    block.iter_vars.append(axis)
    if value is not None:
        block.iter_values.append(value)
    return var


@takes_arguments
def _remap(r: ProgramReading, path: str, node: s.Call, kinds: Any, bindings: Any, dtype: Any = None) -> list[Var] | Var:
    block = open_block(r, path, node)
    letters = as_text(r, kinds, node)
    if not isinstance(bindings, (tuple, list)) or len(letters) != len(bindings):
        raise r.error("E112", f"{path}: {len(letters)} letters for {len(bindings)} loops", node)
    hints = r.hint.split(",") if r.hint else []
    result: list[Var] = []
    for place, (letter, value) in enumerate(zip(letters, bindings)):
        kind = AXIS_LETTERS.get(letter)
        if kind is None:
            raise r.error("E113", f"{letter!r} is not a kind of axis", node, f"one of: {', '.join(AXIS_LETTERS)}")
        loop = r.loops.get(value) if isinstance(value, Var) else None
        if loop is None:
            raise r.error("E113", "T.axis.remap takes loop variables", node, "write T.axis.spatial(extent, value)")
        name = hints[place] if place < len(hints) else f"v{value.name}"
        result.append(_add_axis(r, block, kind, name, Range(loop.min, loop.extent), value, node))
    return result[0] if len(result) == 1 and len(hints) <= 1 else result


@takes_arguments
def _where(r: ProgramReading, path: str, node: s.Call, predicate: Any) -> None:
    block = open_block(r, path, node)
    condition = as_condition(r, predicate, node)
    block.predicate = condition if block.predicate is None else b.logical_and(block.predicate, condition)


def _regions(r: ProgramReading, path: str, node: s.Call) -> None:
    block = open_block(r, path, node)
    nodes: list[s.Syntax] = []
    for arg in node.args:
        nodes += arg.items if isinstance(arg, (s.ListLit, s.TupleLit)) else [arg]
    regions = [read_region(r, arg) for arg in nodes]
    if path == "T.reads":
        block.reads = (block.reads or []) + regions
    else:
        block.writes = (block.writes or []) + regions


@takes_arguments
def _block_attr(r: ProgramReading, path: str, node: s.Call, attrs: Any) -> None:
    if not isinstance(attrs, dict):
        raise r.error("E113", f"{path} takes a dict", node)
    open_block(r, path, node).annotations.update(attribute_value(attrs))


def read_block(r: ProgramReading, path: str, node: s.Call, body: Callable[[], Stmt]) -> Stmt:
    """``with T.block(...)``."""
    bound = bound_arguments(r, path, node, ("name", "no_realize", "exec_scope"), 0)
    name = as_text(r, bound.get("name", ""), node)
    outer = r.block, r.block_scope
    r.block = block = BlockContext(isinstance(node.func, s.Attribute) and node.func.name == "sblock")
    r.block_scope = None
    try:
        inner = body()
    finally:
        r.block, r.block_scope = outer
    span = r.span(node)
    result = Block(
        tuple(block.iter_vars), None if block.reads is None else tuple(block.reads),
        None if block.writes is None else tuple(block.writes), tuple(block.alloc_buffers),
        tuple(block.match_buffers), block.annotations, name, inner, block.init, span,
    )  # fmt: skip
    if bound.get("no_realize") or (block.iter_vars and not block.iter_values):
        return result
    if len(block.iter_values) != len(block.iter_vars):
        raise r.error("E112", "every axis of a block needs a value", node)
    predicate = block.predicate or _TRUE  # stands outside the block: an axis means what it is bound to
    values = {axis.var: value for axis, value in zip(block.iter_vars, block.iter_values)}
    return BlockRealize(tuple(block.iter_values), substitute(predicate, values), result, span)


BLOCK_FORMS: dict[str, Form] = {
    "T.axis.remap": _remap, "T.where": _where, "T.reads": _regions, "T.writes": _regions,
    "T.block_attr": _block_attr,
}  # fmt: skip
AXIS_FORMS: dict[str, Form] = dict.fromkeys(AXES, _axis)
