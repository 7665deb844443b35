"""Buffers: the arguments shared by ``T.Buffer``, ``T.match_buffer``, ``T.alloc_buffer`` and their kin.

Not here: where a buffer is declared. Invariant: a ``BufferSpec`` is checked; ``make`` only gives it a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ffi.dtype import DataType
from ....ir import AllocBuffer, Bind, Buffer, BufferLoad, Call, DeclBuffer, Expr, PointerType, PrimType, Var, prim_type
from ....support.source import Span
from ...parser import syntax as s
from ..common.reading import Reading, bind_arguments
from ..common.types import dimension, dimensions, extents
from ..common.values import as_dtype, as_integer, as_sequence, as_text
from .program import ProgramReading

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

    def make(self, name: str, span: Span | None) -> Buffer:
        """The buffer, with a new pointer unless one was given."""
        data = self.data or Var(name, PointerType(prim_type(self.dtype), self.scope), span)
        return Buffer(
            data, self.dtype, self.shape, self.strides, self.elem_offset, name, self.align, self.offset_factor,
            self.axis_separators, span,
        )  # fmt: skip


def buffer_spec(
    r: Reading, path: str, node: s.Syntax, args: list[Any], keywords: dict[str, Any], fields: tuple[str, ...] = FIELDS
) -> BufferSpec:
    """A buffer description from the arguments of a buffer form."""
    bound = bind_arguments(r, node, path, fields, args, keywords, 1)
    shape = extents(r, bound["shape"], node)
    dtype = as_dtype(r, bound.get("dtype", "float32"), node)
    data = bound.get("data")
    if type(data) is Buffer:
        data = data.data
    if type(data) is Call and _is_pointer(data) and isinstance(r, ProgramReading):
        data = _pointer(r, data, dtype, bound.get("scope"), node)
    if data is not None and not (isinstance(data, Var) and _is_pointer(data)):
        raise r.error("E113", "data= must be a pointer variable such as A.data", node)
    strides = () if bound.get("strides") is None else dimensions(r, bound["strides"], node)
    if strides and len(strides) != len(shape):
        raise r.error("E113", f"{len(strides)} strides for {len(shape)} axes", node)
    offset = bound.get("elem_offset")
    if offset is not None:
        offset = dimension(r, offset, node)
    default_scope = data.ty.scope if data is not None and isinstance(data.ty, PointerType) else "global"
    scope = as_text(r, bound.get("scope") or default_scope, node, 'a scope such as "shared"')
    align = as_integer(r, bound.get("align", 64), node)
    factor = as_integer(r, bound.get("offset_factor", 1), node)
    separators = tuple([as_integer(r, k, node) for k in as_sequence(r, bound.get("axis_separators") or (), node)])
    return BufferSpec(
        shape, dtype, data, strides, offset, scope, align if align > 0 else 64, factor if factor > 0 else 1, separators
    )


def _is_pointer(data: Expr) -> bool:
    ty = data.ty
    return isinstance(ty, PointerType) or (isinstance(ty, PrimType) and ty.dtype.code == "handle")


def _pointer(r: ProgramReading, value: Call, dtype: DataType, scope: str | None, node: s.Syntax) -> Var:
    """``data=T.address_of(A[0])``: the address under a name of its own."""
    of = value.args[0] if value.args else None
    if scope is None:
        ty = of.buffer.data.ty if isinstance(of, BufferLoad) else None
        scope = ty.scope if isinstance(ty, PointerType) else "global"
    var = Var(f"{r.hint or 'buffer'}_ptr", PointerType(prim_type(dtype), scope), r.span(node))
    r.out.append(Bind(var, value, r.span(node)))
    return var


def declare_buffer(r: ProgramReading, spec: BufferSpec, name: str, node: s.Syntax) -> Buffer:
    """A buffer described in the body: a view of existing memory, or memory of its own."""
    span = r.span(node)
    buffer = spec.make(name, span)
    r.out.append(DeclBuffer(buffer, span) if spec.data is not None else AllocBuffer(buffer, None, span))
    return buffer
