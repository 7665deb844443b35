"""Buffers: typed memory with shape, strides and scope, and regions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ffi.dtype import DataType
from ..support.errors import ArgumentError
from ..support.source import Span
from .expr import IntImm, Var
from .node import Aside, Def, Node, node
from .types import ARITHMETIC, Expr, PointerType, prim_type


@node
class Range(Node):
    """Half-open interval ``[min, min + extent)``."""

    min: Expr
    extent: Expr
    span: Aside[Span | None] = None


@node
class Buffer(Node):
    """Memory behind pointer ``data``. Empty ``strides`` mean compact row-major; units of strides and offset are elements.

    Identity is the object: loads and stores refer to it, one statement or the function's ``buffer_map`` declares it.
    ``axis_separators`` split the axes into the physical dimensions of the flattened buffer.
    """

    data: Var
    dtype: DataType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    name: str = "buffer"
    align: int = 64
    offset_factor: int = 1
    axis_separators: tuple[int, ...] = ()
    span: Aside[Span | None] = None

    @property
    def scope(self) -> str:
        """Storage scope, kept in the type of ``data``."""
        ty = self.data.ty
        return ty.scope if isinstance(ty, PointerType) else "global"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Expr:
        """The element at integers or integer expressions, one for each axis. Raises ArgumentError E217 for others."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != self.ndim or not all([isinstance(i, (int, Expr)) for i in given]):
            raise ArgumentError("E217", f"the element {given} of {self.name}, which has {self.ndim} axes",
                                help="write an integer or an expression for each axis; tir.BufferLoad takes te.var")  # fmt: skip
        return ARITHMETIC["element"](self, given)

    __iter__ = None  # Python would count indices without end


Buffer.is_reference = True


@node
class BufferRegion(Node):
    """Rectangular part of a buffer, one Range per axis."""

    buffer: Buffer
    region: tuple[Range, ...]
    span: Aside[Span | None] = None


@node
class MatchBufferRegion(Node):
    """``buffer`` is declared as a view of the region ``source``; symbols of its strides and offset are bound here."""

    buffer: Def[Buffer]
    source: BufferRegion
    span: Aside[Span | None] = None


def make_buffer(name: str, dtype: DataType | str, shape: Sequence[Expr | int], scope: str = "global") -> Buffer:
    """A new compact buffer behind a pointer of its own; numbers among its extents are int64."""
    ty, index = prim_type(dtype), prim_type("int64")
    extents = tuple([IntImm(n, index) if isinstance(n, int) else n for n in shape])
    return Buffer(Var(name, PointerType(ty, scope)), ty.dtype, extents, name=name)
