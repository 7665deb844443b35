"""Indices that come from outside are checked on entry: an input that chooses rows of a tensor must lie inside it, as torch demands.

Kernels keep an index inside without saying so. Checked are inputs that go to an operator where reading the index once more costs
little: one that takes whole rows (``embedding``, ``embedding_bag``, ``index_select``, ``x[index]`` along one axis) or writes
(``x[index] = v`` along one axis, ``index_add``, ``scatter``), directly or in another shape. Not checked: what the model computes,
and reads of single elements (``gather``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import op
from ..ir.expr import IntImm
from ..ir.relation import dims
from ..ir.types import Expr
from ..support.source import Span
from .context import Context, dtype_of, number

_SAME_ELEMENTS = (
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.unsqueeze.default", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.flatten.using_ints", "aten.alias.default", "aten.clone.default",
    "aten.contiguous.default", "aten.expand.default", "aten.transpose.int", "aten.permute.default", "aten.t.default",
    "aten.to.dtype", "aten._to_copy.default", "aten.detach.default",
)  # fmt: skip
"""Operators that give the indices they take."""


_ALONG = frozenset([
    f"aten.{name}{end}"
    for name in ("index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce") for end in ("", "_")
]) | {"aten.index_select"}  # fmt: skip
"""Operators of a tensor, an axis and indices along it."""


def _choices(node: Any) -> Iterator[tuple[Any, int, Any, bool]]:
    """(index, axis, the tensor it chooses from, may it count from the end) of each index of an operator."""
    name = str(node.target)
    if name in ("aten.embedding.default", "aten.embedding_bag.padding_idx", "aten.embedding_bag.default",
                "aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"):  # fmt: skip
        yield node.args[1], 0, node.args[0], False
    elif name.rpartition(".")[0] in _ALONG:
        yield node.args[2], node.args[1], node.args[0], False
    elif name in (
        "aten.index.Tensor",
        "aten._unsafe_index.Tensor",
        "aten.index_put.default",
        "aten.index_put_.default",
    ):
        given = [(axis, index) for axis, index in enumerate(node.args[1]) if index is not None]
        if len(given) == 1:
            yield given[0][1], given[0][0], node.args[0], True


def check_indices(
    c: Context, nodes: Any, values: Mapping[Any, Expr], inputs: set[str], span: Callable[[Any], Span | None]
) -> None:
    """Emit assertions for the indices among inputs (nodes of these names, translated already in ``values``)."""
    seen, outer = set(), c.builder.span
    for node in nodes:
        for index, axis, data, wraps in _choices(node) if node.op == "call_function" else ():
            while str(getattr(index, "target", "")) in _SAME_ELEMENTS:
                index = index.args[0]
            rows = data.meta["val"].shape
            if getattr(index, "name", "") not in inputs or not rows or not c.symbols.knows(rows):
                continue
            size = c.symbols.expr(rows[axis])
            key = (index, str(size), wraps)
            if key not in seen and _is_index(values[index]):
                seen.add(key)
                c.builder.span = span(node)
                _check(c, values[index], size, wraps, index.name)
    c.builder.span = outer


def _is_index(x: Expr) -> bool:
    """Is a tensor of integers that stand for places, with elements?"""
    return dtype_of(x) in ("int64", "int32") and not any([type(d) is IntImm and d.value == 0 for d in dims(x.ty) or ()])


def _check(c: Context, x: Expr, size: Expr, wraps: bool, name: str) -> None:
    high = number(size.value, "int64") if type(size) is IntImm else c.cast(size, "int64")
    given = c.emit(c.cast(x, "int64"))
    low = op.negative(high) if wraps else number(0, "int64")
    inside = op.logical_and(op.greater_equal(given, low), op.less(given, high))
    least = f"-{size}" if wraps else "0"
    c.builder.emit(
        op.assert_op(
            c.emit(c.cast(op.min(c.cast(inside, "uint8")), "bool")),
            format=f"an index in {name} is out of range: expected {least} <= index < {size}",
        )
    )


__all__ = ["check_indices"]
