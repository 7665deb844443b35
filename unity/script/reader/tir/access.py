"""Elements and regions of buffers: indices, loads, stores, attributes and methods.

Not here: where a buffer is declared (``buffers.py``).
"""

from __future__ import annotations

from typing import Any

from ....ffi.dtype import DataType
from ....ir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Expr,
    IntImm,
    IterVar,
    PrimType,
    Range,
    ShapeExpr,
    build as b,
    op,
    prim_type,
)  # fmt: skip
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.ranges import extent_of
from ...spelling.spelling import TYPE_FIELDS
from ..common.calls import arguments
from ..common.expr import plain_subscript
from ..common.plain import is_number
from ..common.reading import Reading, bind_arguments
from ..common.scope import Dotted, ModuleRef, dtype_name
from ..common.types import make_type
from ..common.values import (
    INT64,
    as_cast,
    as_dtype,
    as_expr,
    as_index,
    as_integer,
    as_operand,
    read_expr,
    read_integer,
    read_sequence,
)
from .buffers import BufferSpec, buffer_spec
from .program import ProgramReading

_ATTRIBUTES = ("data", "shape", "strides", "elem_offset", "dtype", "name")
_METHODS = {
    "vload": ("begin", "dtype", "predicate"), "vstore": ("begin", "value", "predicate"),
    "access_ptr": ("access_mask", "ptr_type", "content_lanes", "offset", "extent"), "scope": (),
}  # fmt: skip
_NEEDED = {"vload": 1, "vstore": 2, "access_ptr": 1, "scope": 0}
_MASKS = {"r": 1, "w": 2, "rw": 3, "wr": 3}


def subscript(r: Reading, value: Any, node: s.Subscript) -> Any:
    """``A[i, j]``, ``shape[0]``, or the bracket form of a dotted name: ``T.Buffer[...]``, ``T.float32[4]``."""
    if type(value) is Buffer:
        return load(r, value, read_indices(r, value, node), node)
    if type(value) is Dotted:
        return _dotted_subscript(r, value.text, node)
    return plain_subscript(r, value.values if isinstance(value, ShapeExpr) else value, node)


def _dotted_subscript(r: Reading, path: str, node: s.Subscript) -> Any:
    if path == "T.Buffer":
        return buffer_spec(r, path, node, [read_expr(r, item) for item in node.items], {})
    if path in TYPE_FIELDS:
        return make_type(r, path, node, [read_expr(r, item) for item in node.items], {})
    name = dtype_name(path)
    if name is not None:
        shape = tuple([as_index(r, read_expr(r, item), item) for item in node.items])
        return BufferSpec(shape, DataType(name), scope="local")
    raise r.error("E113", f"{path} takes no index", node)


# ------------------------------------------------------------------------------------------------------------- elements


def _index_items(r: Reading, node: s.Subscript) -> list[Any]:
    """Items of an index, starred ones spread."""
    items: list[Any] = []
    for item in node.items:
        if type(item) is s.Starred:
            items.extend(read_sequence(r, item.value))
        else:
            items.append(item)
    return items


def read_indices(r: Reading, buffer: Buffer, node: s.Subscript) -> tuple[Expr, ...]:
    """Indices of a buffer access; a slice is a vector of consecutive indices."""
    found: list[Expr] = []
    for item in _index_items(r, node):
        if type(item) is s.Slice:
            rng, step = _range_of(r, item, buffer, len(found))
            if type(rng.extent) is not IntImm:
                raise r.error("E113", "a slice in a load or store needs a constant length", item)
            lanes = -(-rng.extent.value // step)
            found.append(b.ramp(rng.min, step, lanes, r.span(item)) if lanes > 1 else rng.min)
            continue
        value = read_expr(r, item) if isinstance(item, s.Syntax) else item
        for part in value if isinstance(value, (tuple, list)) else (value,):
            found.append(as_index(r, part, node))
    return of_each_axis(r, buffer, found, node)


def of_each_axis(
    r: Reading, buffer: Buffer, found: list[Any], node: s.Syntax, what: str = "indices"
) -> tuple[Any, ...]:
    """One index or range for each axis. Raises E112 for another number."""
    if len(found) != len(buffer.shape):
        raise r.error("E112", f"{buffer.name} has {len(buffer.shape)} axes, got {len(found)} {what}", node)
    return tuple(found)


def indices_from(r: Reading, value: Any, node: s.Syntax) -> list[Expr]:
    """Indices given as a value: a tuple, a list, or the only one."""
    return [as_index(r, item, node) for item in (value if isinstance(value, (tuple, list)) else (value,))]


def load(r: Reading, buffer: Buffer, indices: tuple[Expr, ...], node: s.Syntax, predicate: Expr | None = None) -> Expr:
    """A read of a buffer."""
    ty = prim_type(buffer.dtype)
    if indices:
        last = b.dtype_of(indices[-1])
        if last.lanes != 1 or last.scalable:
            ty = prim_type(buffer.dtype.with_lanes(last.lanes * buffer.dtype.lanes, last.scalable))
    return BufferLoad(buffer, indices, ty, predicate, r.span(node))


def store(
    r: ProgramReading, buffer: Buffer, indices: tuple[Expr, ...], value: Any, mask: Expr | None, node: s.Syntax
) -> None:
    """A write to a buffer; the value is cast to the buffer's type."""
    lanes = b.dtype_of(indices[-1]) if indices else None
    dtype = buffer.dtype
    if lanes is not None and (lanes.lanes != 1 or lanes.scalable):
        dtype = dtype.with_lanes(lanes.lanes * dtype.lanes, lanes.scalable)
    span = r.span(node)
    if is_number(value):
        stored = b.const(value, dtype.element if dtype.scalable else dtype, span)
        if dtype.scalable:
            stored = b.broadcast(stored, dtype.lanes)
    else:
        stored = as_expr(r, value, node)
        found = b.dtype_of(stored)
        if found.lanes not in (1, dtype.lanes):
            raise r.error("E113", f"{found.lanes} lanes stored into {dtype.lanes}", node)
        if not dtype.scalable:
            stored = b.cast(stored, dtype)
    r.out.append(BufferStore(buffer, stored, indices, mask, span))


# -------------------------------------------------------------------------------------------------------------- regions


def read_region(r: Reading, node: s.Syntax) -> BufferRegion:
    """``A[i, 0:16]`` as a region; ``A`` alone is all of it."""
    if type(node) is s.Subscript:
        buffer = read_expr(r, node.value)
        if type(buffer) is Buffer:
            return _region_items(r, buffer, node)
    value = read_expr(r, node)
    if type(value) is BufferRegion:
        return value
    if type(value) is Buffer:
        zero = IntImm(0, INT64)
        return BufferRegion(value, tuple([Range(zero, dim) for dim in value.shape]), r.span(node))
    if type(value) is BufferLoad:
        one = IntImm(1, INT64)
        return BufferRegion(value.buffer, tuple([Range(i, one) for i in value.indices]), r.span(node))
    raise r.error("E113", "expected a region such as A[i, 0:16]", node)


def _region_items(r: Reading, buffer: Buffer, node: s.Subscript) -> BufferRegion:
    ranges: list[Range] = []
    for item in _index_items(r, node):
        if type(item) is s.Slice:
            rng, step = _range_of(r, item, buffer, len(ranges))
            if step != 1:
                raise r.error("E113", "a region has no step", item)
            ranges.append(rng)
            continue
        value = read_expr(r, item) if isinstance(item, s.Syntax) else item
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if type(part) is Range:
                ranges.append(part)
                continue
            point = as_index(r, part, node)
            ranges.append(Range(point, IntImm(1, point.ty if isinstance(point.ty, PrimType) else INT64), r.span(node)))
    return BufferRegion(buffer, of_each_axis(r, buffer, ranges, node, "ranges"), r.span(node))


def _range_of(r: Reading, node: s.Slice, buffer: Buffer, axis: int) -> tuple[Range, int]:
    """A slice of an axis as range and step; open ends are those of the axis."""
    step = 1 if node.step is None else read_integer(r, node.step)
    if step < 1:
        raise r.error("E113", "slice step must be positive", node)
    start: Any = 0 if node.lower is None else read_expr(r, node.lower)
    if node.upper is not None:
        stop = read_expr(r, node.upper)
    elif axis < len(buffer.shape):
        stop = buffer.shape[axis]
    else:
        raise r.error("E113", "the end of this slice is not known", node)
    if type(start) is int and type(stop) is int:
        lower, upper = as_index(r, start, node), as_index(r, stop, node)
    else:  # a bare integer takes the type of the other end
        lower, upper = b.unify(as_operand(r, start, node), as_operand(r, stop, node))
    if not isinstance(lower.ty, PrimType) or not isinstance(upper.ty, PrimType):
        raise r.error("E113", "slice bounds must be integers", node)
    return Range(lower, extent_of(lower, upper), r.span(node)), step


# -------------------------------------------------------------------------------------------------- attributes, methods


def attribute(r: Reading, value: Any, node: s.Attribute) -> Any:
    """``value.name``."""
    name = node.name
    if type(value) is Buffer:
        if name == "elem_offset" and value.elem_offset is None:
            return IntImm(0, INT64)
        if name in _ATTRIBUTES:
            return getattr(value, name)
        known = (*_ATTRIBUTES, *_METHODS)
        raise r.error("E111", f"a buffer has no attribute {name!r}", node, suggest(name, known))
    if type(value) is ModuleRef:
        return r.module.member(r, name, node)
    if isinstance(value, Expr) and name == "dtype":
        return b.dtype_of(value)
    if type(value) is IterVar and name == "var":
        return value.var
    raise r.error("E113", f"no attribute {name!r} here", node)


def method(r: Reading, value: Any, name: str, node: s.Call) -> Any:
    """``value.name(...)``."""
    args, keywords = arguments(r, node)
    if type(value) is Buffer:
        return _buffer_method(r, value, name, node, args, keywords)
    if type(value) is ModuleRef:
        return r.level.call_value(r, r.module.member(r, name, node.func), node)
    if name == "astype" and (isinstance(value, Expr) or is_number(value)):
        bound = bind_arguments(r, node, "astype", ("dtype",), args, keywords, 1)
        return as_cast(r, value, as_dtype(r, bound["dtype"], node), node)
    raise r.error("E111", f"no method {name!r} here", node.func)


def _buffer_method(
    r: Reading, buffer: Buffer, name: str, node: s.Call, args: list[Any], keywords: dict[str, Any]
) -> Any:
    fields = _METHODS.get(name)
    if fields is None:
        raise r.error("E111", f"a buffer has no method {name!r}", node.func)
    bound = bind_arguments(r, node, name, fields, args, keywords, _NEEDED[name])
    match name:
        case "scope":
            return buffer.scope
        case "access_ptr":
            return _access_ptr(r, buffer, bound, node)
    indices = indices_from(r, bound["begin"], node)
    mask = None if bound.get("predicate") is None else as_expr(r, bound["predicate"], node)
    if name == "vload":
        dtype = as_dtype(r, bound.get("dtype") or buffer.dtype, node)
    elif isinstance(r, ProgramReading):
        value = as_operand(r, bound["value"], node)
        dtype = buffer.dtype if is_number(value) else b.dtype_of(value)
    else:
        raise r.error("E113", "vstore is a statement", node)
    lanes = dtype.lanes // buffer.dtype.lanes
    if lanes > 1 and indices and b.dtype_of(indices[-1]).lanes == 1:
        indices[-1] = b.ramp(indices[-1], 1, lanes)
    if name == "vload":
        return load(r, buffer, tuple(indices), node, mask)
    assert isinstance(r, ProgramReading)
    store(r, buffer, tuple(indices), value, mask, node)
    return None


def _access_ptr(r: Reading, buffer: Buffer, bound: dict[str, Any], node: s.Call) -> Expr:
    mask = bound["access_mask"]
    if type(mask) is str:
        if mask not in _MASKS:
            raise r.error("E113", f"access mask {mask!r}: write r, w or rw", node)
        mask = _MASKS[mask]
    mask = as_integer(r, mask, node)
    offset = as_index(r, bound.get("offset", 0), node)
    extent = bound.get("extent")
    if extent is None:
        total: Expr = IntImm(1, INT64)
        for dim in buffer.shape:
            total = b.mul(total, dim)
        extent = b.sub(total, offset)
    if buffer.elem_offset is not None:
        offset = b.add(buffer.elem_offset, offset)
    marker = Call(op("T.type_annotation"), (), {}, (), prim_type(buffer.dtype))
    args = (marker, buffer.data, offset, as_index(r, extent, node), b.const(mask, "int32"))
    return Call(op("T.tvm_access_ptr"), args, {}, (), prim_type("handle"), r.span(node))
