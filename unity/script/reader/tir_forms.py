"""Forms of tensor programs that are written as calls: buffers, attributes, threads.

Not here: frames (``tir_frames.py``), Python's own statements (``tir_stmt.py``), what a block says of itself
(``tir_blocks.py``). Invariant: a form appends its statements to those being read, or wraps what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor
from ...ir import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    Buffer,
    DeclBuffer,
    Evaluate,
    Expr,
    GlobalVar,
    IntImm,
    IterVar,
    MatchBufferRegion,
    Return,
    Stmt,
    Var,
    build as b,
    prim_type,
)  # fmt: skip
from ..parser import syntax as s
from ..spelling.spelling import AXES
from .base import bind_arguments
from .buffers import FIELDS, BufferSpec
from .constants import attribute_value, constant_bytes, constant_data
from .tir_blocks import BlockReader

_INT64 = prim_type("int64")
_TRUE = b.const(True)
_ALLOC_FIELDS = ("shape", "dtype", "scope", *[field for field in FIELDS if field not in ("shape", "dtype", "scope")])
_ALLOCATE_FIELDS = ("shape", "dtype", "scope", "condition", "annotations")


class FormReader(BlockReader):
    """Reads the forms written as calls."""

    # --------------------------------------------------------------------------------------------------- dispatch by path

    def call_path(self, path: str, node: s.Call) -> Any:
        form = _FORMS.get(path)
        if form is not None:
            return form(self, path, node)
        kind = AXES.get(path)
        if kind is not None:
            return self._axis(path, node, kind)
        of_address = path == "T.prefetch" and bool(node.args) and type(node.args[0]) is s.Call  # the intrinsic
        if path in _REFUSED and not of_address:
            raise self.error("E117", f"{path}: {_REFUSED[path]}", node)
        return super().call_path(path, node)

    # ----------------------------------------------------------------------------------------------------------- buffers

    def declare_buffer(self, spec: BufferSpec, name: str, node: s.Syntax) -> Buffer:
        buffer = spec.make(name, self.reading.span(node))
        span = self.reading.span(node)
        self.out.append(DeclBuffer(buffer, span) if spec.data is not None else AllocBuffer(buffer, None, span))
        return buffer

    def _belongs_to_block(self, node: s.Call) -> bool:
        """Is this ``T.alloc_buffer`` the block's own memory: by its place, or by the name of 2026."""
        if self.block is None:
            return False
        if isinstance(node.func, s.Attribute) and node.func.name == "sblock_alloc_buffer":
            return True
        return self.scope is self.block_scope and not self.block.late

    def _alloc_buffer(self, path: str, node: s.Call) -> Buffer:
        args, keywords = self.arguments(node)
        annotations = keywords.pop("annotations", None)
        scope = {"T.alloc_local": "local", "T.alloc_shared": "shared"}.get(path)
        fields = _ALLOC_FIELDS if len(args) > 2 and type(args[2]) is str else FIELDS
        if scope is not None and "scope" not in fields[: len(args)]:
            keywords.setdefault("scope", scope)
        spec = BufferSpec.read(self, path, node, args, keywords, fields)
        name = self.hint or "buffer"
        buffer = spec.make(name, self.reading.span(node))
        if path == "T.alloc_buffer" and annotations is None and self._belongs_to_block(node):
            assert self.block is not None
            self.block.alloc_buffers.append(buffer)
        else:
            noted = None if annotations is None else attribute_value(annotations)
            self.out.append(AllocBuffer(buffer, noted, self.reading.span(node)))
        return buffer

    def _decl_buffer(self, path: str, node: s.Call) -> Buffer:
        args, keywords = self.arguments(node)
        spec = BufferSpec.read(self, path, node, args, keywords)
        return self.declare_buffer(spec, self.hint or "buffer", node)

    def _allocate(self, path: str, node: s.Call) -> Buffer:
        bound = self.bound(path, node, _ALLOCATE_FIELDS, 2)
        if bound.get("condition") is not None and bound["condition"] is not True:
            raise self.error("E117", "an allocation with a condition", node)
        keywords = {"scope": bound.get("scope", "global")}
        spec = BufferSpec.read(self, path, node, [bound["shape"], bound["dtype"]], keywords)
        buffer = spec.make(self.hint or "buffer", self.reading.span(node))
        noted = attribute_value(bound["annotations"]) if bound.get("annotations") else None
        self.out.append(AllocBuffer(buffer, noted, self.reading.span(node)))
        return buffer

    def _alloc_const(self, path: str, node: s.Call) -> Buffer:
        args, keywords = self.arguments(node)
        if path == "T.alloc_const_bytes":
            bound = bind_arguments(self.reading, node, path, ("data", "shape", "dtype"), args, keywords, 3)
            data = constant_bytes(self, bound, node)
        else:
            bound = bind_arguments(self.reading, node, path, ("data", "dtype", "shape"), args, keywords, 1)
            data = constant_data(self, bound["data"], bound.get("dtype"), node)
            if bound.get("shape") is not None:
                shape = [self.as_integer(item, node) for item in self.items(bound["shape"], node)]
                if int(np.prod(shape, dtype=np.int64)) != data.size:
                    raise self.error("E113", f"{data.size} values for the shape {tuple(shape)}", node)
                data = Tensor(data.numpy().reshape(shape))
        dims = tuple([IntImm(extent, _INT64) for extent in data.shape])
        buffer = BufferSpec(dims, data.data_type).make(self.hint or "const", self.reading.span(node))
        self.out.append(AllocConst(buffer, data, self.reading.span(node)))
        return buffer

    def _match_buffer(self, path: str, node: s.Call) -> Buffer:
        if not node.args and not node.keywords:
            raise self.error("E112", "T.match_buffer needs a parameter or a region", node)
        first = node.args[0] if node.args else node.keywords[0].value
        span = self.reading.span(node)
        rest = s.Call(node.start, node.end, node.func, node.args[1:], node.keywords if node.args else node.keywords[1:])
        source: Any = self.region(first) if type(first) is s.Subscript else self.evaluate(first)
        hint = self.hint
        args, keywords = self.arguments(rest)
        if isinstance(source, Var) and source in self.params:
            spec = BufferSpec.read(self, path, node, args, keywords)
            if source in self.buffer_map:
                raise self.error("E115", f"{source.name} already has a buffer", node)
            if spec.data is not None:
                raise self.error("E114", "the memory of a parameter is given by the caller", node, "leave data= out")
            buffer = spec.make(hint or source.name, span)
            self.buffer_map[source] = buffer
            return buffer
        region = self.region(first)
        block = self.open_block(path, node)
        own = {"shape": tuple([part.extent for part in region.region]), "dtype": region.buffer.dtype}
        keywords = {**{name: own[name] for name in ("shape", "dtype")[len(args) :]}, **keywords}
        spec = BufferSpec.read(self, path, node, args, keywords)
        buffer = spec.make(hint or "view", span)
        block.match_buffers.append(MatchBufferRegion(buffer, region, span))
        return buffer

    def _buffer_store(self, path: str, node: s.Call) -> None:
        bound = self.bound(path, node, ("buffer", "value", "indices", "predicate"), 3)
        buffer = bound["buffer"]
        if type(buffer) is not Buffer:
            raise self.error("E113", "expected a buffer", node)
        items = bound["indices"] if isinstance(bound["indices"], (tuple, list)) else (bound["indices"],)
        predicate = bound.get("predicate")
        mask = None if predicate is None else self.expr(predicate, node)
        indices = tuple([self.index(item, node) for item in items])
        if len(indices) != len(buffer.shape):
            raise self.error("E112", f"{buffer.name} has {len(buffer.shape)} axes, got {len(indices)} indices", node)
        self.store(buffer, indices, bound["value"], mask, node)

    # -------------------------------------------------------------------------------------------- attributes and threads

    def _func_attr(self, path: str, node: s.Call) -> None:
        value = self.bound(path, node, ("attrs",), 1)["attrs"]
        if not isinstance(value, dict):
            raise self.error("E113", f"{path} takes a dict", node)
        for key, item in value.items():
            name = self.text(key, node, "a text as key")
            self.attrs[f"tir.{name[5:]}" if name.startswith("tirx.") else name] = attribute_value(item)

    def _attr(self, path: str, node: s.Call) -> None:
        for wrap in self._attr_wraps(path, node):
            self.wrap_rest(wrap, node)

    def _attr_wraps(self, path: str, node: s.Call) -> list[Callable[[Stmt], Stmt]]:
        args, keywords = self.arguments(node)
        if len(args) == 1 and isinstance(args[0], dict) and not keywords:
            return [self.attr_wrap(0, self.text(key, node), attribute_value(v), node) for key, v in args[0].items()]
        bound = bind_arguments(self.reading, node, path, ("node", "attr_key", "value"), args, keywords, 3)
        target = attribute_value(bound["node"])
        if isinstance(target, Var):
            target = self.iters.get(target, target)
        key, value = self.text(bound["attr_key"], node), bound["value"]
        if type(target) is IterVar and key in ("thread_extent", "virtual_thread"):
            return [self.attr_wrap(target, key, b.cast(self.index(value, node), b.dtype_of(target.var)), node)]
        return [self.attr_wrap(target, key, attribute_value(value), node)]

    def _hint_wrap(self, node: s.Call) -> Callable[[Stmt], Stmt]:
        args, keywords = self.arguments(node)
        if len(args) != 1:
            raise self.error("E112", "T.hint takes a name and keywords", node)
        return self.attr_wrap(0, f"hint_{self.text(args[0], node)}", attribute_value(keywords), node)

    def _env_thread(self, path: str, node: s.Call) -> IterVar:
        bound = self.bound(path, node, ("thread_tag", "dtype"), 1)
        ty = prim_type(self.dtype(bound.get("dtype", "int64"), node))
        var = Var(self.hint or "t", ty, self.reading.span(node))
        axis = IterVar(var, None, "thread", self.text(bound["thread_tag"], node), self.reading.span(node))
        self.iters[var] = axis
        return axis

    def _launch_thread(self, path: str, node: s.Call) -> Var:
        var, wrap = self._launch(node, self.hint)
        self.wrap_rest(wrap, node)
        self.declared.add(var)
        return var

    def _launch(self, node: s.Call, name: str) -> tuple[Var, Callable[[Stmt], Stmt]]:
        bound = self.bound("T.launch_thread", node, ("thread", "extent"), 2)
        thread, extent = bound["thread"], self.index(bound["extent"], node)
        if type(thread) is str:
            var = Var(name or "t", extent.ty, self.reading.span(node))
            thread = IterVar(var, None, "thread", thread, self.reading.span(node))
            self.iters[var] = thread
        elif isinstance(thread, Var) and thread in self.iters:
            thread = self.iters[thread]
        if type(thread) is not IterVar:
            raise self.error("E113", "expected T.env_thread(...) or the name of a thread axis", node)
        extent = b.cast(extent, b.dtype_of(thread.var))
        key = "virtual_thread" if thread.thread_tag.startswith("vthread") else "thread_extent"
        return thread.var, self.attr_wrap(thread, key, extent, node)

    # ------------------------------------------------------------------------------------------------- statements as calls

    def _evaluate(self, path: str, node: s.Call) -> None:
        if len(node.args) != 1 or node.keywords:
            raise self.error("E112", "T.evaluate takes one value", node)
        value = self.evaluate(node.args[0])
        self.out.append(Evaluate(self.expr(value, node.args[0]), self.reading.span(node)))

    def _ret(self, path: str, node: s.Call) -> None:
        value = self.bound(path, node, ("value",), 1)["value"]
        self.out.append(Return(self.expr(value, node), self.reading.span(node)))

    def _assert_call(self, path: str, node: s.Call) -> None:
        bound = self.bound(path, node, ("condition", "message"), 2)
        condition = b.as_bool(self.operand(bound["condition"], node))
        self.out.append(AssertStmt(condition, self.text(bound["message"], node), span=self.reading.span(node)))

    def _bind_call(self, path: str, node: s.Call) -> Expr:
        bound = self.bound(path, node, ("value", "dtype", "var"), 1)
        name = self.hint or "v"
        value = self.expr(bound["value"], node)
        if bound.get("dtype") is not None:
            value = b.cast(value, self.dtype(bound["dtype"], node))
        var = self.bind(name, value, node)
        self.declared.add(var)
        return var

    def _global_var(self, path: str, node: s.Call) -> GlobalVar:
        return GlobalVar(self.text(self.bound(path, node, ("name",), 1)["name"], node), span=self.reading.span(node))


_FORMS: dict[str, Callable[[Any, str, s.Call], Any]] = {
    "T.axis.remap": FormReader._remap,
    "T.where": FormReader._where,
    "T.reads": FormReader._regions,
    "T.writes": FormReader._regions,
    "T.block_attr": FormReader._block_attr,
    "T.alloc_buffer": FormReader._alloc_buffer,
    "T.allocate_buffer": FormReader._alloc_buffer,
    "T.alloc_local": FormReader._alloc_buffer,
    "T.alloc_shared": FormReader._alloc_buffer,
    "T.decl_buffer": FormReader._decl_buffer,
    "T.allocate": FormReader._allocate,
    "T.allocate_const": FormReader._alloc_const,
    "T.alloc_const": FormReader._alloc_const,
    "T.alloc_const_bytes": FormReader._alloc_const,
    "T.match_buffer": FormReader._match_buffer,
    "T.buffer_store": FormReader._buffer_store,
    "T.func_attr": FormReader._func_attr,
    "T.attr": FormReader._attr,
    "T.env_thread": FormReader._env_thread,
    "T.launch_thread": FormReader._launch_thread,
    "T.evaluate": FormReader._evaluate,
    "T.ret": FormReader._ret,
    "T.Assert": FormReader._assert_call,
    "T.bind": FormReader._bind_call,
    "I.GlobalVar": FormReader._global_var,
}

_REFUSED: dict[str, str] = {
    "T.realize": "realization regions belong to the tensor-expression era; allocate with T.alloc_buffer",
    "T.prefetch": "prefetch statements are not part of this language",
    "T.store": "a raw store through a pointer; declare a buffer with T.decl_buffer and assign to it",
    "T.load": "a raw load through a pointer; declare a buffer with T.decl_buffer and read it",
    "T.preflattened_buffer": "a flat view of a parameter; give the parameter its shape and use T.decl_buffer(data=A.data)",
    "T.tvm_stack_make_array": "calling conventions are no part of a program; give buffers to T.call_packed as they are",
    "T.tvm_stack_make_shape": "calling conventions are no part of a program; give buffers to T.call_packed as they are",
    "T.tvm_struct_get": "calling conventions are no part of a program; take the program from before it was lowered",
    "T.tvm_struct_set": "calling conventions are no part of a program; take the program from before it was lowered",
}

FORM_NAMES = tuple(_FORMS)
"""Spellings of statements."""
