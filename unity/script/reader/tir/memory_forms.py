"""Buffers that a program declares: allocations, constants, views, parameters. ``MEMORY_FORMS`` is the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ffi.tensor import Tensor
from ....ir import AllocBuffer, AllocConst, Buffer, IntImm, MatchBufferRegion, Var
from ...parser import syntax as s
from ..common.calls import arguments, bound_arguments, takes_arguments
from ..common.constants import attribute_value, constant_bytes, constant_data
from ..common.reading import Form
from ..common.values import INT64, as_expr, as_integer, as_sequence, read_expr
from .access import indices_from, of_each_axis, read_region, store
from .blocks import open_block
from .buffers import FIELDS, BufferSpec, buffer_spec, declare_buffer
from .program import ProgramReading

_ALLOC_FIELDS = ("shape", "dtype", "scope", *[field for field in FIELDS if field not in ("shape", "dtype", "scope")])
_ALLOCATE_FIELDS = ("shape", "dtype", "scope", "condition", "annotations")


def _belongs_to_block(r: ProgramReading, node: s.Call) -> bool:
    """True if this ``T.alloc_buffer`` is the block's own memory: by its place, or by the name of 2026."""
    if r.block is None:
        return False
    by_name = isinstance(node.func, s.Attribute) and node.func.name == "sblock_alloc_buffer"
    return by_name or (r.scope is r.block_scope and not r.block.late)


def _alloc_buffer(r: ProgramReading, path: str, node: s.Call) -> Buffer:
    args, keywords = arguments(r, node)
    annotations = keywords.pop("annotations", None)
    scope = {"T.alloc_local": "local", "T.alloc_shared": "shared"}.get(path)
    fields = _ALLOC_FIELDS if len(args) > 2 and type(args[2]) is str else FIELDS
    if scope is not None and "scope" not in fields[: len(args)]:
        keywords.setdefault("scope", scope)
    spec = buffer_spec(r, path, node, args, keywords, fields)
    buffer = spec.make(r.hint or "buffer", r.span(node))
    if path == "T.alloc_buffer" and annotations is None and _belongs_to_block(r, node):
        assert r.block is not None
        r.block.alloc_buffers.append(buffer)
    else:
        noted = None if annotations is None else attribute_value(annotations)
        r.out.append(AllocBuffer(buffer, noted, r.span(node)))
    return buffer


def _decl_buffer(r: ProgramReading, path: str, node: s.Call) -> Buffer:
    spec = buffer_spec(r, path, node, *arguments(r, node))
    return declare_buffer(r, spec, r.hint or "buffer", node)


def _allocate(r: ProgramReading, path: str, node: s.Call) -> Buffer:
    bound = bound_arguments(r, path, node, _ALLOCATE_FIELDS, 2)
    if bound.get("condition") is not None and bound["condition"] is not True:
        raise r.error("E117", "an allocation with a condition", node)
    keywords = {"scope": bound.get("scope", "global")}
    spec = buffer_spec(r, path, node, [bound["shape"], bound["dtype"]], keywords)
    buffer = spec.make(r.hint or "buffer", r.span(node))
    noted = attribute_value(bound["annotations"]) if bound.get("annotations") else None
    r.out.append(AllocBuffer(buffer, noted, r.span(node)))
    return buffer


def _alloc_const(r: ProgramReading, path: str, node: s.Call) -> Buffer:
    if path == "T.alloc_const_bytes":
        data = constant_bytes(r, path, node)
    else:
        bound = bound_arguments(r, path, node, ("data", "dtype", "shape"), 1)
        data = constant_data(r, bound["data"], bound.get("dtype"), node)
        if bound.get("shape") is not None:
            shape = [as_integer(r, item, node) for item in as_sequence(r, bound["shape"], node)]
            if int(np.prod(shape, dtype=np.int64)) != data.size:
                raise r.error("E113", f"{data.size} values for the shape {tuple(shape)}", node)
            data = Tensor(data.numpy().reshape(shape))
    dims = tuple([IntImm(extent, INT64) for extent in data.shape])
    buffer = BufferSpec(dims, data.data_type).make(r.hint or "const", r.span(node))
    r.out.append(AllocConst(buffer, data, r.span(node)))
    return buffer


def _match_buffer(r: ProgramReading, path: str, node: s.Call) -> Buffer:
    if not node.args and not node.keywords:
        raise r.error("E112", "T.match_buffer needs a parameter or a region", node)
    first = node.args[0] if node.args else node.keywords[0].value
    span = r.span(node)
    rest = s.Call(node.start, node.end, node.func, node.args[1:], node.keywords if node.args else node.keywords[1:])
    source: Any = read_region(r, first) if type(first) is s.Subscript else read_expr(r, first)
    hint = r.hint
    args, keywords = arguments(r, rest)
    if isinstance(source, Var) and source in r.params:
        spec = buffer_spec(r, path, node, args, keywords)
        if source in r.buffer_map:
            raise r.error("E115", f"{source.name} already has a buffer", node)
        if spec.data is not None:
            raise r.error("E114", "the memory of a parameter is given by the caller", node, "leave data= out")
        buffer = spec.make(hint or source.name, span)
        r.buffer_map[source] = buffer
        return buffer
    region = read_region(r, first)
    block = open_block(r, path, node)
    own = {"shape": tuple([part.extent for part in region.region]), "dtype": region.buffer.dtype}
    keywords = {name: own[name] for name in ("shape", "dtype")[len(args) :]} | keywords
    spec = buffer_spec(r, path, node, args, keywords)
    buffer = spec.make(hint or "view", span)
    block.match_buffers.append(MatchBufferRegion(buffer, region, span))
    return buffer


@takes_arguments
def _buffer_store(
    r: ProgramReading, path: str, node: s.Call, buffer: Any, value: Any, indices: Any, predicate: Any = None
) -> None:
    if type(buffer) is not Buffer:
        raise r.error("E113", "expected a buffer", node)
    mask = None if predicate is None else as_expr(r, predicate, node)
    indices = of_each_axis(r, buffer, indices_from(r, indices, node), node)
    store(r, buffer, indices, value, mask, node)


MEMORY_FORMS: dict[str, Form] = {
    "T.alloc_buffer": _alloc_buffer, "T.allocate_buffer": _alloc_buffer, "T.alloc_local": _alloc_buffer,
    "T.alloc_shared": _alloc_buffer, "T.decl_buffer": _decl_buffer, "T.allocate": _allocate,
    "T.allocate_const": _alloc_const, "T.alloc_const": _alloc_const, "T.alloc_const_bytes": _alloc_const,
    "T.match_buffer": _match_buffer, "T.buffer_store": _buffer_store,
}  # fmt: skip
