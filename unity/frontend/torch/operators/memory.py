"""Table entries: views of the memory behind a tensor (``as_strided``), whose strides count in torch's layout of it.

Invariant: elements that lie beside a tensor in torch's memory are never made up: where they are not known the model is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import product
from ....support.optional import require
from ..context.context import Args, Context, aten, has_none, is_node, shape_of, to_dim
from ..context.report import MemoryGap
from .shape import permute
from .view import strided, strided_indices


def _memory_order(value: Any) -> list[int] | None:
    """The axes of a tensor from the outermost in memory to the innermost; None where it does not fill its memory in one piece."""
    sizes, steps = list(value.shape), list(value.stride())
    offset = value.storage_offset()
    if not isinstance(offset, int) or offset != 0:
        return None
    if require("torch._prims_common").is_contiguous_or_false(value):
        return list(range(len(sizes)))
    if not all([isinstance(step, int) for step in steps]):
        return None
    order = sorted(range(len(sizes)), key=lambda axis: (-steps[axis], axis))
    expected: Any = 1
    for axis in reversed(order):
        if isinstance(sizes[axis], int) and sizes[axis] == 1:
            continue
        if not isinstance(expected, int) or steps[axis] != expected:
            return None
        expected = sizes[axis] if expected == 1 else sizes[axis] * expected
    return order


def _is_view(node: Any) -> bool:
    """True if an operator always returns the memory of its first operand."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or str(node.target).startswith(_MAYBE_COPIES):
        return False
    alias = schema.arguments[0].alias_info if schema.arguments else None
    return alias is not None and not alias.is_write and is_node(node.args[0])


_MAYBE_COPIES = ("aten.reshape.", "aten.contiguous.", "aten.to.", "aten.flatten.", "aten.ravel.", "aten.reshape_as.")


def memory_node(c: Context, a: Args) -> tuple[Any, Expr]:
    """The node with the memory that the operand is a view of, and where in it the view begins. Raises MemoryGap."""
    node = c.node.args[0]
    begin = node.meta["val"].storage_offset() if a.storage_offset is None else a.storage_offset
    while _memory_order(node.meta["val"]) is None and _is_view(node):
        node = node.args[0]
    return node, begin if isinstance(begin, Expr) else c.symbols.expr(begin)


def _line(c: Context, x: Any, node: Any) -> Expr:
    """The elements of a node in the order of its memory. Raises MemoryGap."""
    order = _memory_order(node.meta["val"])
    if order is None or not isinstance(x, Expr):
        raise MemoryGap("it reads memory beside a tensor, which only torch has")
    return c.reshape(permute(x, order), [product(shape_of(x))])


def _inside(sizes: Sequence[Any], strides: Sequence[Any], begin: Expr, count: Expr) -> None:
    """Raise MemoryGap for a view that reaches beyond the memory."""
    last = begin + 1
    for size, stride in zip(sizes, strides):
        last = last + (to_dim(size) - 1) * to_dim(stride)
    if type(last) is IntImm and type(count) is IntImm and last.value > count.value:
        raise MemoryGap("it reads memory outside of the tensor")


def seen_memory(c: Context, a: Args, x: Any, node: Any, begin: Expr) -> Expr:
    """The view that ``as_strided`` takes of the memory of ``node``, whose elements are ``x``. Raises MemoryGap."""
    memory = _line(c, x, node)
    _inside(c.shape, a.stride, begin, shape_of(memory)[0])
    return strided(c, memory, c.shape, a.stride, begin)


@aten("as_strided.default", "as_strided_copy.default")
def _as_strided(c: Context, a: Args) -> Expr:
    node, begin = memory_node(c, a)
    return seen_memory(c, a, c.values.get(node), node, begin)


@aten("as_strided_scatter.default")
def _as_strided_scatter(c: Context, a: Args) -> Expr:
    """The positions of a view, written over."""
    order = _memory_order(c.node.args[0].meta["val"])
    if order is None:
        raise MemoryGap("it writes to memory beside a tensor, which only torch has")
    if has_none(a.size) or has_none(a.self):
        return c.cast(a.self, c.dtype)
    node, begin = memory_node(c, a)
    memory = _line(c, a.self, node)
    _inside(a.size, a.stride, begin, shape_of(memory)[0])
    index = c.emit(strided_indices(c, a.size, a.stride, begin))
    count = product(shape_of(index))
    line, values = c.reshape(index, [count]), c.reshape(a.src, [count])
    dims = shape_of(a.self)
    result = c.reshape(op.scatter_elements(memory, line, values, axis=0), [dims[axis] for axis in order])
    return permute(result, [order.index(axis) for axis in range(len(order))])
