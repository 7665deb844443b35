"""Forms of tensor programs that are written as calls: blocks and axes, buffers, attributes, threads, frames.

Not here: Python's own statements (``tir_stmt.py``). Invariant: what a block says about itself (axes, regions, buffers,
``init``) is collected in the ``BlockContext`` that is open while its body is read.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ffi.tensor import Tensor, tensor
from ..ir import (
    AllocBuffer, AllocConst, AssertStmt, Block, BlockRealize, Buffer, DeclBuffer, Evaluate, Expr, GlobalVar, IfThenElse, IntImm,
    IterVar, MatchBufferRegion, PointerType, Range, Return, Stmt, Var, While, prim_type, seq,
)  # fmt: skip
from ..ir import build as b
from . import syntax as s
from .buffers import FIELDS, BufferSpec
from .ranges import extent_of
from .read_base import bind_arguments
from .read_expr import is_number
from .scope import Dotted
from .spelling import AXES, AXIS_LETTERS
from .tir_stmt import BlockContext, StatementReader, attribute_value

_INT64 = prim_type("int64")
_TRUE = b.const(True)
_ALLOC_FIELDS = ("shape", "dtype", "scope", "data", "strides", "elem_offset", "align", "offset_factor", "buffer_type", "axis_separators")
_DECL_FIELDS = ("shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor", "buffer_type", "axis_separators")
_ALLOCATE_FIELDS = ("shape", "dtype", "scope", "condition", "annotations")


class PrimFuncReader(StatementReader):
    """Reads one ``@T.prim_func``."""

    # --------------------------------------------------------------------------------------------------- dispatch by path

    def call_path(self, path: str, node: s.Call) -> Any:
        form = _FORMS.get(path)
        if form is not None:
            return form(self, path, node)
        kind = AXES.get(path)
        if kind is not None:
            return self._axis(path, node, kind)
        if path in _REFUSED:
            raise self.error("E117", f"{path}: {_REFUSED[path]}", node)
        return super().call_path(path, node)

    def bound(self, path: str, node: s.Call, fields: tuple[str, ...], required: int) -> dict[str, Any]:
        """Evaluated arguments by name."""
        args, keywords = self.arguments(node)
        return bind_arguments(self.reading, node, path, fields, args, keywords, required)

    # ------------------------------------------------------------------------------------------------------------ blocks

    def open_block(self, path: str, node: s.Syntax) -> BlockContext:
        """The block being read. Raises E116 outside of one."""
        if self.block is None:
            raise self.error("E116", f"{path} stands only inside `with T.block(...)`", node)
        return self.block

    def _axis(self, path: str, node: s.Call, kind: str) -> Var:
        block = self.open_block(path, node)
        bound = self.bound(path, node, ("dom", "binding", "dtype"), 1)
        value = bound.get("binding")
        dom = self._domain(bound["dom"], value, node)
        return self._add_axis(block, kind, self.hint, dom, None if value is None else self.index(value, node), node)

    def _domain(self, dom: Any, value: Any, node: s.Syntax) -> Range | None:
        if dom is None or type(dom) is Range:
            return dom
        if isinstance(dom, (tuple, list)):
            if len(dom) != 2:
                raise self.error("E113", "a domain is an extent or (start, stop)", node)
            low, high = self.index(dom[0], node), self.index(dom[1], node)
            if is_number(dom[0]) != is_number(dom[1]):
                low, high = b.unify(dom[0], high) if is_number(dom[0]) else b.unify(low, dom[1])
            return Range(low, extent_of(low, high))
        if isinstance(value, Expr) and type(dom) is int and b.dtype_of(value).is_integral:
            extent: Expr = b.const(dom, b.dtype_of(value))
        else:
            extent = self.index(dom, node)
        return Range(b.const(0, b.dtype_of(extent)), extent)

    def _add_axis(
        self, block: BlockContext, kind: str, name: str, dom: Range | None, value: Expr | None, node: s.Syntax
    ) -> Var:
        ty = dom.min.ty if dom is not None else value.ty if value is not None else _INT64
        span = self.reading.span(node)
        var = Var(name or "v", ty, span)
        axis = IterVar(var, dom, kind, "", span)
        self.iters[var] = axis
        self.declared.add(var)
        block.iter_vars.append(axis)
        if value is not None:
            block.iter_values.append(value)
        return var

    def _remap(self, path: str, node: s.Call) -> list[Var] | Var:
        block = self.open_block(path, node)
        bound = self.bound(path, node, ("kinds", "bindings", "dtype"), 2)
        letters, values = self.text(bound["kinds"], node), bound["bindings"]
        if not isinstance(values, (tuple, list)) or len(letters) != len(values):
            raise self.error("E112", f"{path}: {len(letters)} letters for {len(values)} loops", node)
        hints = self.hint.split(",") if self.hint else []
        made: list[Var] = []
        for place, (letter, value) in enumerate(zip(letters, values)):
            kind = AXIS_LETTERS.get(letter)
            if kind is None:
                raise self.error("E113", f"{letter!r} is no kind of axis", node, f"one of: {', '.join(AXIS_LETTERS)}")
            loop = self.loops.get(value) if isinstance(value, Var) else None
            if loop is None:
                raise self.error("E113", "T.axis.remap takes loop variables", node, "write T.axis.spatial(extent, value)")
            name = hints[place] if place < len(hints) else f"v{value.name}"
            made.append(self._add_axis(block, kind, name, Range(loop.min, loop.extent), value, node))
        return made[0] if len(made) == 1 and len(hints) <= 1 else made

    def _where(self, path: str, node: s.Call) -> None:
        block = self.open_block(path, node)
        condition = b.as_bool(self.operand(self.bound(path, node, ("predicate",), 1)["predicate"], node))
        block.predicate = condition if block.predicate is None else b.logical_and(block.predicate, condition)

    def _regions(self, path: str, node: s.Call) -> None:
        block = self.open_block(path, node)
        nodes: list[s.Syntax] = []
        for arg in node.args:
            nodes += arg.items if isinstance(arg, (s.ListLit, s.TupleLit)) else [arg]
        regions = [self.region(arg) for arg in nodes]
        if path == "T.reads":
            block.reads = (block.reads or []) + regions
        else:
            block.writes = (block.writes or []) + regions

    def _block_attr(self, path: str, node: s.Call) -> None:
        value = self.bound(path, node, ("attrs",), 1)["attrs"]
        if not isinstance(value, dict):
            raise self.error("E113", f"{path} takes a dict", node)
        self.open_block(path, node).annotations.update(attribute_value(value))

    def _read_block(self, node: s.Call, path: str, body: Callable[[], Stmt]) -> Stmt:
        bound = self.bound(path, node, ("name", "no_realize", "exec_scope"), 0)
        name = self.text(bound.get("name", ""), node)
        outer, outer_scope = self.block, self.block_scope
        self.block = block = BlockContext()
        self.block_scope = None
        try:
            inner = body()
        finally:
            self.block, self.block_scope = outer, outer_scope
        span = self.reading.span(node)
        made = Block(
            tuple(block.iter_vars), None if block.reads is None else tuple(block.reads),
            None if block.writes is None else tuple(block.writes), tuple(block.alloc_buffers),
            tuple(block.match_buffers), block.annotations, name, inner, block.init, span,
        )  # fmt: skip
        bare = bool(bound.get("no_realize")) or (bool(block.iter_vars) and not block.iter_values)
        if bare:
            return made
        if len(block.iter_values) != len(block.iter_vars):
            raise self.error("E112", "every axis of a block needs a value", node)
        return BlockRealize(tuple(block.iter_values), block.predicate or _TRUE, made, span)

    # ----------------------------------------------------------------------------------------------------------- buffers

    def declare_buffer(self, spec: BufferSpec, name: str, node: s.Syntax) -> Buffer:
        buffer = spec.make(name, self.reading.span(node))
        span = self.reading.span(node)
        self.out.append(DeclBuffer(buffer, span) if spec.data is not None else AllocBuffer(buffer, None, span))
        return buffer

    def _in_block_body(self) -> bool:
        return self.block is not None and self.scope is self.block_scope

    def _alloc_buffer(self, path: str, node: s.Call) -> Buffer:
        args, keywords = self.arguments(node)
        annotations = keywords.pop("annotations", None)
        scope = {"T.alloc_local": "local", "T.alloc_shared": "shared"}.get(path)
        if scope is not None:
            keywords.setdefault("scope", scope)
        fields = _ALLOC_FIELDS if len(args) > 2 and type(args[2]) is str else FIELDS
        spec = BufferSpec.read(self, path, node, args, keywords, fields)
        name = self.hint or "buffer"
        buffer = spec.make(name, self.reading.span(node))
        if path == "T.alloc_buffer" and self._in_block_body() and annotations is None:
            assert self.block is not None
            self.block.alloc_buffers.append(buffer)
        else:
            noted = None if annotations is None else attribute_value(annotations)
            self.out.append(AllocBuffer(buffer, noted, self.reading.span(node)))
        return buffer

    def _decl_buffer(self, path: str, node: s.Call) -> Buffer:
        args, keywords = self.arguments(node)
        spec = BufferSpec.read(self, path, node, args, keywords, _DECL_FIELDS)
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
                shape = [self.as_integer(item, node) for item in bound["shape"]]
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
            if spec.data is None and isinstance(source.ty, PointerType):
                spec.data = None
            buffer = spec.make(hint or source.name, span)
            self.buffer_map[source] = buffer
            return buffer
        region = self.region(first)
        block = self.open_block(path, node)
        if not args and "shape" not in keywords:
            args = [tuple([part.extent for part in region.region]), region.buffer.dtype]
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
        self.attrs.update(attribute_value(value))

    def _attr(self, path: str, node: s.Call) -> None:
        for wrap in self._attr_wraps(path, node):
            self.wrap_rest(wrap)

    def _attr_wraps(self, path: str, node: s.Call) -> list[Callable[[Stmt], Stmt]]:
        args, keywords = self.arguments(node)
        if len(args) == 1 and isinstance(args[0], dict) and not keywords:
            return [self.attr_wrap(0, self.text(key, node), attribute_value(v), node) for key, v in args[0].items()]
        bound = bind_arguments(self.reading, node, path, ("node", "attr_key", "value"), args, keywords, 3)
        target = attribute_value(bound["node"])
        if isinstance(target, Var):
            target = self.iters.get(target, target)
        return [self.attr_wrap(target, self.text(bound["attr_key"], node), attribute_value(bound["value"]), node)]

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

    def _launch_thread(self, path: str, node: s.Call) -> None:
        self.wrap_rest(self._launch(node, "")[1])

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

    def _float(self, path: str, node: s.Call) -> Any:
        args, _ = self.arguments(node)
        if len(args) == 1 and args[0] in ("inf", "-inf", "nan"):
            return float(args[0])
        return self.call_builtin(path, node)

    # -------------------------------------------------------------------------------------------------------- with frames

    def _with(self, node: s.With) -> None:
        self.out.append(self._frames(node.items, node))

    def _frames(self, items: list[s.WithItem], node: s.With) -> Stmt:
        if not items:
            outer = self.scope
            made = self._suite(node)
            self.scope = outer
            return made
        item, rest = items[0], items[1:]
        call = item.value
        path = self.path(call.func) if type(call) is s.Call else None
        frame = _FRAMES.get(path or "")
        if frame is None or type(call) is not s.Call:
            raise self.error(
                "E113", "`with` takes T.block, T.init, T.attr, T.launch_thread and the like", item.value,
                f"unknown frame {path}" if path else None,
            )  # fmt: skip
        name = item.target.name if type(item.target) is s.Name else ""
        self.hint = name
        return frame(self, path, call, name, lambda: self._frames(rest, node), node)  # type: ignore[no-any-return]

    def _suite(self, node: s.With) -> Stmt:
        fresh = self.block is not None and self.block_scope is None
        if not fresh:
            return self.sequence_of(node.body)
        outer_scope, outer_out, outer_wraps = self.scope, self.out, self.wraps
        self.scope = self.block_scope = type(outer_scope)(outer_scope)
        self.out, self.wraps = [], []
        try:
            self.statements(node.body)
            return self._finish()
        finally:
            self.scope, self.out, self.wraps = outer_scope, outer_out, outer_wraps

    def _named(self, names: dict[str, Any], body: Callable[[], Stmt]) -> Stmt:
        """Read a body with extra names."""
        outer = self.scope
        self.scope = type(outer)(outer, names)
        try:
            return body()
        finally:
            self.scope = outer

    def _frame_block(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        return self._read_block(call, path, body)

    def _frame_init(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        block = self.open_block(path, call)
        if block.init is not None:
            raise self.error("E115", "a block has one T.init()", call)
        outer = self.block_scope
        self.block_scope = self.scope
        try:
            block.init = body()
        finally:
            self.block_scope = outer
        return seq()

    def _frame_attr(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        wraps = [self._hint_wrap(call)] if path == "T.hint" else self._attr_wraps(path, call)
        made = body()
        for wrap in reversed(wraps):
            made = wrap(made)
        return made

    def _frame_launch(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        var, wrap = self._launch(call, name)
        return wrap(self._named({name: var} if name else {}, body))

    def _frame_bind(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        args, keywords = self.arguments(call)
        if not args or keywords or len(args) > 2:
            raise self.error("E112", f"{path} takes a value", call)
        outer = self.out
        self.out = []
        try:
            var = self.bind(name or "v", self.expr(args[-1], call), call)
            bind = self.out[0]
        finally:
            self.out = outer
        return seq(bind, self._named({name: var} if name else {}, body))

    def _frame_buffer(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        outer = self.out
        self.out = []
        try:
            buffer = self.call_path(path, call)
            made = self.out
        finally:
            self.out = outer
        return seq(*made, self._named({name: buffer} if name else {}, body))

    def _frame_assert(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        bound = self.bound(path, call, ("condition", "message"), 2)
        condition = b.as_bool(self.operand(bound["condition"], call))
        check = AssertStmt(condition, self.text(bound["message"], call), span=self.reading.span(call))
        return seq(check, body())

    def _frame_while(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        condition = b.as_bool(self.operand(self.bound(path, call, ("condition",), 1)["condition"], call))
        return While(condition, body(), self.reading.span(call))

    def _frame_if(self, path: str, call: s.Call, name: str, body: Callable[[], Stmt], node: s.With) -> Stmt:
        condition = b.as_bool(self.operand(self.bound(path, call, ("condition",), 1)["condition"], call))
        branches: dict[str, Stmt] = {}
        for stmt in node.body:
            frame = stmt.items[0].value if type(stmt) is s.With and len(stmt.items) == 1 else None
            part = self.path(frame.func) if type(frame) is s.Call else None
            if part not in ("T.Then", "T.Else") or part in branches:
                raise self.error("E116", "with T.If(...) holds one `with T.Then()` and perhaps one `with T.Else()`", stmt)
            assert isinstance(stmt, s.With)
            branches[part] = self.sequence_of(stmt.body)
        if "T.Then" not in branches:
            raise self.error("E116", "with T.If(...) needs `with T.Then()`", call)
        return IfThenElse(condition, branches["T.Then"], branches.get("T.Else"), self.reading.span(call))


def constant_data(reader: Any, value: Any, dtype: Any, node: s.Syntax) -> Tensor:
    """A tensor from numbers, nested lists, arrays. Texts "nan", "inf" stand for floats."""
    if type(value) is Tensor or isinstance(value, np.ndarray):
        found = value if type(value) is Tensor else tensor(value)
        return found if dtype is None else tensor(found, reader.dtype(dtype, node))
    wanted = None if dtype is None else reader.dtype(dtype, node)
    plain = _plain_numbers(reader, value, node)
    try:
        if wanted is not None and wanted.is_uint:  # mixed with small ones, numbers of 64 bits would pass through float64
            return Tensor(np.array(plain, wanted.numpy))
        return tensor(plain, wanted)
    except (ValueError, TypeError, OverflowError) as problem:
        raise reader.error("E113", f"cannot make a constant of this: {problem}", node) from None


def _plain_numbers(reader: Any, value: Any, node: s.Syntax) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain_numbers(reader, item, node) for item in value]
    if is_number(value):
        return value
    if type(value) is str and value.lstrip("+-") in ("nan", "inf"):
        return float(value)
    if type(value) is IntImm:
        return value.value
    if hasattr(value, "ty") and b.is_const(value):
        return value.value
    raise reader.error("E113", "a constant is made of numbers", node)


def constant_bytes(reader: Any, bound: dict[str, Any], node: s.Syntax) -> Tensor:
    """A tensor from base64 text, shape and dtype."""
    text, dtype = reader.text(bound["data"], node), reader.dtype(bound["dtype"], node)
    shape = tuple([reader.as_integer(item, node) for item in bound["shape"]])
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, UnicodeEncodeError):
        raise reader.error("E106", "this is not base64", node) from None
    count = 1
    for extent in shape:
        count *= extent
    if min(shape, default=1) < 0 or len(raw) != count * dtype.numpy.itemsize:
        raise reader.error("E113", f"{len(raw)} bytes do not fill the shape {shape} of {dtype.name}", node)
    return Tensor(np.frombuffer(bytearray(raw), dtype.numpy).reshape(shape))


_FORMS: dict[str, Callable[[Any, str, s.Call], Any]] = {
    "T.axis.remap": PrimFuncReader._remap,
    "T.where": PrimFuncReader._where,
    "T.reads": PrimFuncReader._regions,
    "T.writes": PrimFuncReader._regions,
    "T.block_attr": PrimFuncReader._block_attr,
    "T.alloc_buffer": PrimFuncReader._alloc_buffer,
    "T.allocate_buffer": PrimFuncReader._alloc_buffer,
    "T.alloc_local": PrimFuncReader._alloc_buffer,
    "T.alloc_shared": PrimFuncReader._alloc_buffer,
    "T.decl_buffer": PrimFuncReader._decl_buffer,
    "T.allocate": PrimFuncReader._allocate,
    "T.allocate_const": PrimFuncReader._alloc_const,
    "T.alloc_const": PrimFuncReader._alloc_const,
    "T.alloc_const_bytes": PrimFuncReader._alloc_const,
    "T.match_buffer": PrimFuncReader._match_buffer,
    "T.buffer_store": PrimFuncReader._buffer_store,
    "T.func_attr": PrimFuncReader._func_attr,
    "T.attr": PrimFuncReader._attr,
    "T.env_thread": PrimFuncReader._env_thread,
    "T.launch_thread": PrimFuncReader._launch_thread,
    "T.evaluate": PrimFuncReader._evaluate,
    "T.ret": PrimFuncReader._ret,
    "T.bind": PrimFuncReader._bind_call,
    "I.GlobalVar": PrimFuncReader._global_var,
    "float": PrimFuncReader._float,
}

_FRAMES: dict[str, Callable[..., Stmt]] = {
    "T.block": PrimFuncReader._frame_block,
    "T.init": PrimFuncReader._frame_init,
    "T.attr": PrimFuncReader._frame_attr,
    "T.hint": PrimFuncReader._frame_attr,
    "T.launch_thread": PrimFuncReader._frame_launch,
    "T.LetStmt": PrimFuncReader._frame_bind,
    "T.Let": PrimFuncReader._frame_bind,
    "T.allocate": PrimFuncReader._frame_buffer,
    "T.allocate_const": PrimFuncReader._frame_buffer,
    "T.decl_buffer": PrimFuncReader._frame_buffer,
    "T.alloc_buffer": PrimFuncReader._frame_buffer,
    "T.Assert": PrimFuncReader._frame_assert,
    "T.While": PrimFuncReader._frame_while,
    "T.If": PrimFuncReader._frame_if,
}

_REFUSED: dict[str, str] = {
    "T.realize": "realization regions belong to the tensor-expression era; allocate with T.alloc_buffer",
    "T.prefetch": "prefetch statements are not part of this language",
    "T.store": "a raw store through a pointer; declare a buffer with T.decl_buffer and assign to it",
    "T.load": "a raw load through a pointer; declare a buffer with T.decl_buffer and read it",
    "T.index_map": "an index map is an argument of a schedule, not a statement",
}

FORM_NAMES = tuple(dict.fromkeys([*_FORMS, *_FRAMES, "T.Then", "T.Else"]))
"""Spellings of statements and frames."""

__all__ = ["FORM_NAMES", "Dotted", "PrimFuncReader", "constant_bytes", "constant_data"]
