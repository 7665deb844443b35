"""Pieces that a program takes of tensors whose sizes vary must lie inside for every size that is let in.

torch.export takes sizes of at least two for granted: it says of ``x[:2]`` that it has two rows. Here sizes
of zero and one are let in, so what does not follow for them becomes a condition on the inputs. Not here: sizes only the data knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....ir import build
from ....ir.expr import IntImm
from ....ir.scalar import Sub
from ....ir.types import Expr
from ..context.context import Context, axis_of, bind, is_node, mapped, to_dim
from ..context.report import Gap
from ..operators.shape import slice_bound

_SPLITS = (
    "aten.split.",
    "aten.split_with_sizes.",
    "aten.chunk.",
    "aten.tensor_split.",
    "aten.unsafe_split",
    "aten.unsafe_chunk.",
)


def cut_conditions(c: Context, nodes: Any) -> list[Expr]:
    """The conditions on the inputs' sizes, each once."""
    found: dict[str, Expr] = {}
    for node in nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        try:
            for condition in _conditions(c, node):
                found.setdefault(str(condition), condition)
        except Gap:
            continue  # a size that only the data knows
    return list(found.values())


def _conditions(c: Context, node: Any) -> Iterator[Expr]:
    name = str(node.target)
    if not name.startswith(("aten.slice.", "aten.select.int", "aten.narrow", *_SPLITS)):
        return
    a = bind(node.target, *mapped(lambda v: v.meta["val"] if is_node(v) else v, [node.args, node.kwargs]))
    axis = axis_of(a.dim, a.self.dim())
    extent = c.symbols.expr(a.self.shape[axis])
    if type(extent) is IntImm:
        return
    if name.startswith(_SPLITS):
        begin: Expr = to_dim(0)
        for part in node.meta["val"]:
            size = c.symbols.expr(part.shape[axis])
            yield from _unproven(c, size)
            begin = begin + size
        yield from _unproven(c, extent - begin)
    elif name.startswith("aten.select."):
        at = c.symbols.expr(a.index)
        if type(at) is IntImm:
            yield from _unproven(c, extent - (at.value + 1 if at.value >= 0 else -at.value))
    else:
        size = c.symbols.expr(node.meta["val"].shape[axis])
        yield from _unproven(c, size)
        start = c.symbols.expr(0 if a.start is None else a.start)
        if type(start) is IntImm and start.value < 0 and type(size) is IntImm:
            begin = extent + start
            yield from _unproven(c, begin)
        else:
            begin = slice_bound(c, start, extent, beyond=True)
        step = to_dim(getattr(a, "step", 1))
        rest = extent - begin - ((size - 1) * step + 1)
        for inside in _unproven(c, rest):
            yield inside if type(size) is IntImm else build.logical_or(build.eq(size, 0), inside)


def _unproven(c: Context, size: Expr) -> Iterator[Expr]:
    """That a size is not below zero, where this does not follow; ``n >= 2`` for the size ``n - 2``."""
    if not c.symbols.is_nonnegative(size):
        plain = c.symbols.simplify(size)
        if type(plain) is Sub and type(plain.b) is IntImm:
            yield build.ge(plain.a, plain.b)
        else:
            yield build.ge(plain, 0)
