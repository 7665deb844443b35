"""Buffers in script: the arguments shared by ``T.Buffer``, ``T.match_buffer``, ``T.alloc_buffer``, and slices of them.

Not here: where a buffer is declared. Invariant: a ``BufferSpec`` is checked; ``make`` only gives it a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ffi.dtype import DataType
from ...ir import Buffer, Call, Expr, PointerType, PrimType, Var, prim_type
from ...support.source import Span
from ..parser import syntax as s
from .base import bind_arguments
from .tir_access import TensorValueReader

FIELDS = (
    "shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor", "buffer_type",
    "axis_separators",
)  # fmt: skip


@dataclass(slots=True)
class BufferSpec:
    """The properties that a program gives a buffer before it has a name."""

    shape: tuple[Expr, ...]
    dtype: DataType
    data: Var | None = None
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    scope: str = "global"
    align: int = 64
    offset_factor: int = 1
    axis_separators: tuple[int, ...] = ()

    @staticmethod
    def read(
        reader: TensorValueReader, path: str, node: s.Syntax, args: list[Any], keywords: dict[str, Any],
        fields: tuple[str, ...] = FIELDS,
    ) -> BufferSpec:  # fmt: skip
        """Check the arguments of a buffer form."""
        call = node if type(node) is s.Call else s.Call(node.start, node.end, node, [], [])
        bound = bind_arguments(reader.reading, call, path, fields, args, keywords, 1)
        shape = reader.extents(bound["shape"], node)
        dtype = reader.dtype(bound.get("dtype", "float32"), node)
        data = bound.get("data")
        if type(data) is Buffer:
            data = data.data
        if type(data) is Call and _is_pointer(data):
            data = reader.pointer(data, dtype, bound.get("scope"), node)
        if data is not None and not (isinstance(data, Var) and _is_pointer(data)):
            raise reader.error("E113", "data= must be a pointer variable such as A.data", node)
        strides = bound.get("strides")
        strides = () if strides is None else reader.dimensions(strides, node)
        if strides and len(strides) != len(shape):
            raise reader.error("E113", f"{len(strides)} strides for {len(shape)} axes", node)
        offset = bound.get("elem_offset")
        if offset is not None:
            offset = reader.dimension(offset, node)
        default_scope = data.ty.scope if data is not None and isinstance(data.ty, PointerType) else "global"
        scope = reader.text(bound.get("scope") or default_scope, node, 'a scope such as "shared"')
        align = reader.as_integer(bound.get("align", 64), node)
        factor = reader.as_integer(bound.get("offset_factor", 1), node)
        separators = tuple([reader.as_integer(n, node) for n in reader.items(bound.get("axis_separators") or (), node)])
        return BufferSpec(
            shape,
            dtype,
            data,
            strides,
            offset,
            scope,
            align if align > 0 else 64,
            factor if factor > 0 else 1,
            separators,
        )

    def make(self, name: str, span: Span | None) -> Buffer:
        """The buffer, with a new pointer unless one was given."""
        data = self.data or Var(name, PointerType(prim_type(self.dtype), self.scope), span)
        return Buffer(
            data, self.dtype, self.shape, self.strides, self.elem_offset, name, self.align, self.offset_factor,
            self.axis_separators, span,
        )  # fmt: skip


def _is_pointer(data: Expr) -> bool:
    ty = data.ty
    return isinstance(ty, PointerType) or (isinstance(ty, PrimType) and ty.dtype.code == "handle")
