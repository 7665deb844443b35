"""flatten_buffer: every buffer becomes one-dimensional; indices become one row-major (or strided) offset.

Rewrite: ``A[i, j]`` with ``A: T.Buffer((n, m))`` -> ``A_flat[i * m + j]``. Parameters keep their buffers: a view
``A_flat`` is declared over the same pointer, and so do buffers that are handed to registered functions. ``axis_separators``
mean nothing on a processor and are ignored.
"""

from __future__ import annotations

import math

from ....arith.views import elements_of
from ....ffi.dtype import DataType
from ....ffi.tensor import Tensor
from ....ir.buffer import Buffer
from ....ir.build import add, cast, const, dtype_of, int_values, mul, ramp
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Cast, FloorDiv, FloorMod, Ramp
from ....ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr
from ....ir.walk import collect, rewrite
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.vector_index import index_add, index_mul
from ..blocks.lower_opaque_block import refuse_block

_HAND_ON = ("T.call_packed", "T.call_cpacked")
"""Calls that give a buffer to a registered function."""


def _flat_index(outer: Expr, extent: Expr, inner: Expr) -> Expr:
    """``outer * extent + inner``; of quotient and rest of one number that number."""
    quotient, rest = [e.value if type(e) is Cast else e for e in (outer, inner)]
    if type(quotient) is FloorDiv and type(rest) is FloorMod:
        if all([structural_equal(a, b) for a, b in ((quotient.b, extent), (rest.b, extent), (quotient.a, rest.a))]):
            return cast(quotient.a, dtype_of(outer))
    return index_add(index_mul(outer, extent), inner)


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None


def _is_short(buffer: Buffer) -> bool:
    """True if offsets of elements fit into 32 bits."""
    shape, strides = [int_values(part) for part in (buffer.shape, buffer.strides)]
    if len(shape) < len(buffer.shape) or len(strides) < len(buffer.strides):
        return False
    steps = strides or [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return sum([n * abs(step) for n, step in zip(shape, steps)]) < 1 << 31


def _wide(index: Expr) -> Expr:
    """An index in 64 bits, of lanes where it is one of lanes."""
    dtype = dtype_of(index)
    if dtype.bits == 64 or not dtype.is_integral:
        return index
    if type(index) is Ramp:
        return ramp(_wide(index.base), _wide(index.stride), index.lanes)
    return cast(index, DataType("int64").with_lanes(dtype.lanes))


class _Flattener:
    def __init__(self, func: PrimFunc) -> None:
        self.parameters = set(func.buffer_map.values())
        self.flat: dict[Buffer, Buffer] = {}
        calls = [c for c in collect(func.body, Call) if c.op_name in _HAND_ON]
        self.handed_on = {argument for call in calls for argument in call.args if type(argument) is Var}

    def flat_of(self, buffer: Buffer) -> Buffer:
        """The one-dimensional buffer that stands for ``buffer``."""
        found = self.flat.get(buffer)
        if found is None:
            if buffer.strides and buffer.shape:
                size: Expr = const(1, "int64")
                for extent, stride in zip(buffer.shape, buffer.strides):
                    size = add(size, mul(add(cast(extent, "int64"), -1), cast(stride, "int64")))
            else:
                size = elements_of(buffer)
            offset = self._offset(buffer)
            if offset is not None:
                size = add(size, offset)
            self._check_size(buffer)
            found = replace(buffer, shape=(size,), strides=(), elem_offset=None, axis_separators=())
            self.flat[buffer] = found
        return found

    def _check_size(self, buffer: Buffer) -> None:
        """The product of constant extents must not wrap. Raises PassError E525."""
        count = math.prod(int_values(buffer.shape))
        if abs(count) * buffer.dtype.itemsize >= 1 << 47:
            raise PassError("E525", f"buffer {buffer.name} needs {count * buffer.dtype.itemsize} bytes", buffer.span)

    def _offset(self, buffer: Buffer) -> Expr | None:
        """Offset of element 0; the pointer of a parameter already is at element 0."""
        return None if buffer in self.parameters else buffer.elem_offset

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """Offset of an element, in 64 bits unless 32 certainly hold it."""
        if len(indices) > 1 and not _is_short(buffer):
            indices = tuple([_wide(index) for index in indices])
        total: Expr | None = self._offset(buffer)
        if buffer.strides:
            for position, stride in zip(indices, buffer.strides, strict=True):
                step = index_mul(position, stride)
                total = step if total is None else index_add(total, step)
        else:
            inner: Expr | None = None
            for position, extent in zip(indices, buffer.shape, strict=True):
                inner = position if inner is None else _flat_index(inner, extent, position)
            total = inner if total is None else total if inner is None else index_add(total, inner)
        return total if total is not None else const(0, "int32")

    def access(self, node: BufferLoad | BufferStore) -> BufferLoad | BufferStore:
        if _is_flat(node.buffer):
            return node
        return replace(node, buffer=self.flat_of(node.buffer), indices=(self.index(node.buffer, node.indices),))

    def declare(self, node: AllocBuffer | AllocConst | DeclBuffer) -> Stmt:
        if _is_flat(node.buffer):
            return node
        flat = self.flat_of(node.buffer)
        if type(node) is not DeclBuffer and node.buffer.data in self.handed_on:
            return seq(node, DeclBuffer(flat))  # a registered function sees it in its own shape
        if type(node) is AllocConst:
            return replace(node, buffer=flat, data=Tensor(node.data.numpy().reshape(-1)))
        return replace(node, buffer=flat)


@prim_func_pass()
def flatten_buffer(func: PrimFunc) -> PrimFunc:
    """Make every buffer one-dimensional. For programs without blocks. Parameters keep their shapes in the signature."""
    flattener = _Flattener(func)
    body = rewrite(
        func.body,
        {
            BufferLoad: flattener.access, BufferStore: flattener.access, AllocBuffer: flattener.declare,
            AllocConst: flattener.declare, DeclBuffer: flattener.declare, Block: refuse_block,
        },
    )  # fmt: skip
    views = [DeclBuffer(flattener.flat[b]) for b in func.buffer_map.values() if b in flattener.flat]
    if body is func.body:
        return func
    return replace(func, body=seq(*views, body) if views else body)
