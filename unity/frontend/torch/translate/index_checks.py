"""Indices that come from outside are checked on entry: an input that chooses rows of a tensor must lie inside it, as torch demands.

Kernels keep an index inside without saying so. Checked are inputs that go to an operator where reading the index once more costs
little: one that takes whole rows (``embedding``, ``embedding_bag``, ``index_select``, ``x[index]`` along one axis) or writes
(``x[index] = v`` along one axis, ``index_add``, ``scatter``), directly or in another shape. Not checked: what the model computes,
and reads of single elements (``gather``). Indices the model holds are looked at once, at import: of sizes that only a call knows
they make a condition on these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .... import op
from ....ir import build
from ....ir.expr import IntImm, Var
from ....ir.relation import dims
from ....ir.types import Expr
from ....op.common.type_rules import product
from ....support.errors import FrontendError
from ....support.source import Span
from ..context.context import Context, dtype_of, number

_SAME_ELEMENTS = (
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.unsqueeze.default", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.flatten.using_ints", "aten.alias.default", "aten.clone.default",
    "aten.contiguous.default", "aten.expand.default", "aten.transpose.int", "aten.permute.default", "aten.t.default",
    "aten.to.dtype", "aten._to_copy.default", "aten.detach.default", "aten.detach_.default",
    "aten.lift_fresh_copy.default", "aten.lift_fresh.default",
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


def _read_places(node: Any) -> Iterator[tuple[Any, int | None, Any, bool]]:
    """The same of operators that read single elements, for indices that cost nothing to look at; axis None: all elements."""
    name = str(node.target)
    if name == "aten.take.default":
        yield node.args[1], None, node.args[0], True
    elif name == "aten.gather.default":
        yield node.args[2], node.args[1], node.args[0], False
    elif name in ("aten.index.Tensor", "aten.index_put.default", "aten.index_put_.default"):
        masks = [t is not None and t.meta["val"].dtype.itemsize == 1 for t in node.args[1]]
        for axis, index in enumerate(node.args[1]) if not any(masks) else ():
            if index is not None:
                yield index, axis, node.args[0], True


def constant_conditions(c: Context, nodes: Any, held: Callable[[Any], Any]) -> list[Expr]:
    """The conditions on sizes under which the indices a model holds lie inside; ``held`` gives the tensor a node stands for, or
    None.

    Raises FrontendError E655 where a size is known and an index outside of it.
    """
    least: dict[str, tuple[Expr, int]] = {}
    for node in nodes:
        choices = [*_choices(node), *_read_places(node)] if node.op == "call_function" else []
        for index, axis, data, wraps in choices:
            value, rows = held(_source(index)), data.meta["val"].shape
            rows = rows if axis is None else rows[axis : axis + 1 or None]
            if value is None or 0 in index.meta["val"].shape or not c.symbols.knows(rows):
                continue
            size, first, last = product(c.symbols.dims(rows)), int(value.min()), int(value.max())
            need = max(last + 1, -first)
            if first < 0 and not wraps:
                raise _outside(node, first, size)
            if type(size) is IntImm and size.value < need:
                raise _outside(node, last if last >= size.value else first, size)
            if type(size) is not IntImm and need > least.get(str(size), (size, 1))[1]:
                least[str(size)] = size, need
    return [build.ge(size, need) for size, need in least.values()]


def _outside(node: Any, index: int, size: Expr) -> FrontendError:
    return FrontendError("E655", f"{node.target}: the model holds the index {index} for an axis of size {size}")


def _source(index: Any) -> Any:
    """The node whose elements an index has."""
    while str(getattr(index, "target", "")) in _SAME_ELEMENTS:
        index = index.args[0]
    return index


def check_indices(
    c: Context, nodes: Any, values: Mapping[Any, Expr], inputs: set[str], span: Callable[[Any], Span | None]
) -> None:
    """Emit assertions for the indices among inputs (nodes of these names, translated already in ``values``)."""
    seen, outer = set(), c.builder.span
    for node in nodes:
        for index, axis, data, wraps in _choices(node) if node.op == "call_function" else ():
            index = _source(index)
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
    """True for a tensor of integers that are positions, with elements."""
    return dtype_of(x) in ("int64", "int32") and not any([type(d) is IntImm and d.value == 0 for d in dims(x.ty) or ()])


def _check(c: Context, x: Expr, size: Expr, wraps: bool, name: str) -> None:
    high = number(size.value, "int64") if type(size) is IntImm else c.cast(size, "int64")
    given = c.emit(c.cast(x, "int64"))
    low = -high if wraps else number(0, "int64")
    inside = op.logical_and(op.greater_equal(given, low), op.less(given, high))
    count = build.int_value(size, size if type(size) is Var else f"({size})")
    least = f"-{count}" if wraps else "0"
    c.builder.emit(
        op.assert_op(
            c.emit(c.cast(op.min(c.cast(inside, "uint8")), "bool")),
            format=f"an index in {name} is out of range: expected {least} <= index < {count}",
        )
    )
