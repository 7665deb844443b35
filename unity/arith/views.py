"""The bytes that an element of a view is in the memory that the view shows.

``V = T.decl_buffer((16,), data=A.data)`` shows the memory of ``A``; an index that is inside ``V`` may lie after the end of ``A``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from ..ir.buffer import Buffer
from ..ir.build import add, cast, const, mul
from ..ir.expr import Var
from ..ir.function import PrimFunc
from ..ir.stmt import AllocBuffer, Block
from ..ir.types import Expr
from ..ir.walk import collect


@dataclass(slots=True, frozen=True)
class ByteRange:
    """The bytes ``[first, end)`` of the ``size`` bytes that ``owner`` has."""

    owner: Buffer
    first: Expr
    end: Expr
    size: Expr


def owners(fn: PrimFunc) -> dict[Var, Buffer]:
    """The buffer whose elements a pointer's memory is, without gaps: parameters and allocations."""
    buffers = [*fn.buffer_map.values()]
    for node in collect(fn.body, (AllocBuffer, Block)):
        buffers += node.alloc_buffers if type(node) is Block else [node.buffer]
    return {buffer.data: buffer for buffer in buffers if not buffer.strides and buffer.elem_offset is None}


def elements_of(buffer: Buffer) -> Expr:
    """The elements of a compact buffer."""
    return reduce(mul, [cast(extent, "int64") for extent in buffer.shape], _number(1))


def byte_range(view: Buffer, indices: Sequence[Expr], owner: Buffer) -> ByteRange | None:
    """The bytes of an element of a view; None where an element is not a whole number of bytes."""
    if any([buffer.dtype.bits % 8 or buffer.dtype.scalable for buffer in (view, owner)]):
        return None
    strides, step = [*view.strides], _number(1)
    if not strides:
        for extent in reversed(view.shape):
            strides.insert(0, step)
            step = mul(step, cast(extent, "int64"))
    offset = _number(0) if view.elem_offset is None else cast(view.elem_offset, "int64")
    for index, stride in zip(indices, strides):
        offset = add(offset, mul(cast(index, "int64"), cast(stride, "int64")))
    size = mul(_bytes(owner), elements_of(owner))
    first = mul(offset, _bytes(view))
    return ByteRange(owner, first, add(first, _bytes(view)), size)


def viewed_buffer(view: Buffer, memory: Mapping[Var, Buffer]) -> Buffer | None:
    """The other buffer whose memory a view shows, where it is known."""
    owner = memory.get(view.data)
    return None if owner is view else owner


def _number(value: int) -> Expr:
    return const(value, "int64")


def _bytes(buffer: Buffer) -> Expr:
    return _number(buffer.dtype.bits * buffer.dtype.lanes // 8)
