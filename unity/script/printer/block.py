"""Printing of blocks: axes, predicate, regions, annotations, buffers, initialisation, body.

Invariant: consecutive axes that take a loop each, with the loop's own domain, are written as one ``T.axis.remap``.
"""

from __future__ import annotations

from ...ir import stmt as st
from ...ir.buffer import MatchBufferRegion, Range
from ...ir.expr import IntImm, Var
from ...ir.scalar import IterVar
from ...ir.types import Expr, prim_type
from ..spelling.ranges import same_expr
from ..spelling.spelling import AXIS_CANONICAL, AXIS_LETTERS
from .attr import attr_dict
from .comments import comments
from .core import INDEX, RAW, STMTS, Printer, quote
from .scalar import bounds, region
from .tir import alloc_statement, buffer_arguments, declare_buffer, indented

_BOOL = prim_type("bool")
_LETTER = {kind: letter for letter, kind in AXIS_LETTERS.items()}


def _remaps(p: Printer, axis: IterVar, value: Expr) -> bool:
    loop = p.loops.get(value) if type(value) is Var else None
    if loop is None or axis.dom is None or axis.kind not in _LETTER or axis.var.ty is not value.ty:
        return False
    return same_expr(axis.dom.min, loop.min) and same_expr(axis.dom.extent, loop.extent) and loop.step is None


def _axes(p: Printer, axes: tuple[IterVar, ...], values: tuple[Expr, ...] | None) -> None:
    number = 0
    while number < len(axes):
        comments(p, axes[number])
        run = number
        if values is not None:
            while run < len(axes) and _remaps(p, axes[run], values[run]):
                run += 1
        if run - number > 1 and values is not None:
            letters = "".join([_LETTER[a.kind] for a in axes[number:run]])
            loops = ", ".join([p.name_of(v) for v in values[number:run]])
            names = ", ".join([p.name_of(a.var) for a in axes[number:run]])
            p.line(f'{names} = T.axis.remap("{letters}", [{loops}])')
            number = run
            continue
        axis = axes[number]
        p.line(f"{p.name_of(axis.var)} = {AXIS_CANONICAL[axis.kind]}(")
        _domain(p, axis.dom)
        if values is not None:
            p.put(", ", (values[number], INDEX))
        p.put(")")
        number += 1
    p.bound.update([a.var for a in axes])


def _domain(p: Printer, dom: Range | None) -> None:
    if dom is None:
        p.put("None")
    elif type(dom.min) is IntImm and dom.min.value == 0 and dom.min.ty is dom.extent.ty:
        p.expr(dom.extent, INDEX)
    else:
        p.put("(")
        bounds(p, dom, ", ")
        p.put(")")


def _realize(p: Printer, node: st.BlockRealize) -> None:
    start = len(p.out)
    _block(p, node.block, node.iter_values, node.predicate)
    if p.underline and id(node.block) in p.underline:
        p.marks.append((start, len(p.out)))


def _match_region(p: Printer, node: MatchBufferRegion) -> None:
    comments(p, node)
    p.line(f"{declare_buffer(p, node.buffer)} = T.match_buffer(")
    region(p, node.source)
    p.put(", ")
    buffer_arguments(p, node.buffer)
    p.put(")")


def _block(p: Printer, node: st.Block, values: tuple[Expr, ...] | None = None, predicate: Expr | None = None) -> None:
    p.line(f"with {p.word('T.block')}({quote(node.name) if node.name else ''}):")
    p.indent += 1
    start = len(p.out)
    _axes(p, node.iter_vars, values)
    if predicate is not None and not (type(predicate) is IntImm and predicate.value == 1 and predicate.ty is _BOOL):
        p.line("T.where(", (predicate, RAW), ")")
    for word, regions in (("T.reads", node.reads), ("T.writes", node.writes)):
        if regions is not None:
            p.line(f"{word}(")
            p.joined(regions, region)
            p.put(")")
    if node.annotations:
        p.line(f"{p.word('T.block_attr')}(")
        attr_dict(p, node.annotations)
        p.put(")")
    for buffer in node.alloc_buffers:
        word = "T.sblock_alloc_buffer" if p.dialect.tvm else "T.alloc_buffer"
        comments(p, buffer)
        p.line(f"{declare_buffer(p, buffer)} = {word}(")
        buffer_arguments(p, buffer)
        p.put(")")
    for item in node.match_buffers:
        _match_region(p, item)
    if node.init is not None:
        p.line("with T.init():")
        indented(p, node.init)
    stmts = st.statements_of(node.body)
    if not stmts and len(p.out) == start:
        p.line("pass")
    for inner in stmts:
        if type(inner) is st.AllocBuffer and not p.dialect.tvm:
            comments(p, inner)
            alloc_statement(p, inner, "T.allocate_buffer")
        else:
            p.stmt(inner)
    p.dedent()


STMTS[st.Block] = _block
STMTS[st.BlockRealize] = _realize
