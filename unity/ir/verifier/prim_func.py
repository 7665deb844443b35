"""Level 1 of the verifier for tensor programs: definitions before uses, loops, blocks, statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..analysis.lanes import certain_dependence
from ..buffer import Buffer, BufferRegion, MatchBufferRegion
from ..expr import Var
from ..function import PrimFunc
from ..module import IRModule
from ..scalar import IterVar
from ..stmt import (
    LOOP_KINDS,
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
    Block,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Return,
    SeqStmt,
    Stmt,
    While,
    turned_loop,
)  # fmt: skip
from ..types import PointerType, PrimType, TupleType
from .report import Report
from .scalar import ScalarVerifier, element_type

ITER_KINDS = ("S", "R", "scan", "opaque", "thread")


class PrimVerifier:
    """Walks one tensor program with its scope: what a statement defines ends with its sequence."""

    def __init__(self, report: Report, mod: IRModule | None) -> None:
        self.report = report
        self.expr = ScalarVerifier(report, mod)
        self.bound: set[Any] = set()
        self.loops: list[str] = []
        self.turned: set[Stmt] = set()
        """Loops that may run backwards: a promise as that of parallel ones."""
        self.ret_ty: Any = None
        self.handlers: dict[type, Callable[[Any], None]] = {
            SeqStmt: self._seq, For: self._for, While: self._while, IfThenElse: self._if, Bind: self._bind,
            BufferStore: self._store, AllocBuffer: self._alloc, AllocConst: self._alloc, DeclBuffer: self._decl,
            AttrStmt: self._attr, BlockRealize: self._realize, Break: self._jump, Continue: self._jump, Return: self._return,
            Evaluate: lambda stmt: self.expr.statement(stmt.value),
            AssertStmt: lambda stmt: self.expr.condition(stmt.cond, "an assertion"),
        }  # fmt: skip

    def function(self, fn: PrimFunc) -> None:
        """Check a tensor program."""
        self.ret_ty = fn.ret_ty
        for param in fn.params:
            self._define_var(param)
        for param, buffer in fn.buffer_map.items():
            if param not in fn.params:
                self.report.add("E340", f"buffer {buffer.name} belongs to {param.name}, which is not a parameter", fn)
            dtype = element_type(param.ty)
            if dtype is None or dtype.code != "handle":
                self.report.add(
                    "E341", f"parameter {param.name} of buffer {buffer.name} must be a handle, is {dtype}", fn
                )
            if buffer.data not in self.expr.vars:
                self._define_var(buffer.data)
            for value in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if type(value) is Var and value not in self.expr.vars:
                    self._define_var(value)
            self._define_buffer(buffer)
        for buffer in fn.buffer_map.values():
            self._buffer_fields(buffer)
        self.visit(fn.body)

    def visit(self, stmt: Stmt) -> None:
        """Check a statement."""
        handler = self.handlers.get(type(stmt))
        if handler is None:
            code = "E344" if type(stmt) is Block else "E330"
            help = "a Block stands in a BlockRealize, with a value for each iterator" if code == "E344" else None
            self.report.add(code, f"{type(stmt).__name__} cannot stand here", stmt, help)
        else:
            handler(stmt)

    __call__ = visit  # recursion goes through the name: a call of an object goes through C, whose depth is bounded

    # ---- definitions

    def _define_var(self, var: Var) -> None:
        if var.dataflow:
            self.report.add("E334", f"{var.name} is a dataflow variable, and no value of a graph function", var)
        if var in self.bound:
            self.report.add("E333", f"variable {var.name} is bound twice", var)
        self.bound.add(var)
        self.expr.vars.add(var)

    def _define_buffer(self, buffer: Buffer) -> None:
        if buffer in self.bound:
            self.report.add("E333", f"buffer {buffer.name} is declared twice", buffer)
        self.bound.add(buffer)
        self.expr.buffers.add(buffer)

    def _buffer_fields(self, buffer: Buffer) -> None:
        for index, value in enumerate(buffer.shape):
            self.expr.integer(value, f"dimension {index} of {buffer.name}")
        for index, value in enumerate(buffer.strides):
            self.expr.integer(value, f"stride {index} of {buffer.name}")
        if buffer.elem_offset is not None:
            self.expr.integer(buffer.elem_offset, f"the offset of {buffer.name}")
        if buffer.strides and len(buffer.strides) != len(buffer.shape):
            self.report.add(
                "E342", f"{buffer.name} has {len(buffer.shape)} axes and {len(buffer.strides)} strides", buffer
            )
        if not isinstance(buffer.data.ty, (PointerType, PrimType)):
            self.report.add("E341", f"the data of {buffer.name} must be a pointer", buffer)

    def _scoped(self, stmt: Stmt) -> None:
        """Check a statement; what it defines ends with it."""
        variables, buffers = self.expr.vars, self.expr.buffers
        self.expr.vars, self.expr.buffers = set(variables), set(buffers)
        self.visit(stmt)
        self.expr.vars, self.expr.buffers = variables, buffers

    # ---- statements

    def _seq(self, stmt: SeqStmt) -> None:
        for part in stmt.stmts:
            if type(part) is SeqStmt:
                self.report.add("E330", "a sequence stands directly inside a sequence", part)
            self.visit(part)

    def _for(self, stmt: For) -> None:
        name = stmt.loop_var.name
        dtype = element_type(stmt.loop_var.ty)
        if dtype is None or not dtype.is_integral or dtype.lanes != 1:
            self.report.add("E343", f"loop variable {name} must be an integer, is {dtype}", stmt)
            dtype = None
        self.expr.integer(stmt.min, f"the start of loop {name}", dtype)
        self.expr.integer(stmt.extent, f"the extent of loop {name}", dtype)
        if stmt.step is not None:
            self.expr.integer(stmt.step, f"the step of loop {name}", dtype)
        if stmt.kind not in LOOP_KINDS:
            self.report.add(
                "E343", f"loop {name} has the unknown kind {stmt.kind!r}", stmt, f"use one of {', '.join(LOOP_KINDS)}"
            )
        if (stmt.kind == "thread_binding") != (stmt.thread is not None):
            self.report.add("E343", f"loop {name} of kind {stmt.kind} is bound to thread {stmt.thread}", stmt)
        kind = "parallel" if stmt in self.turned else stmt.kind
        if kind in ("vectorized", "parallel"):
            load = certain_dependence(stmt, both_directions=kind == "parallel")
            if load is not None:
                loop = (
                    f"the loop {name}, which may run backwards," if stmt in self.turned else f"the {kind} loop {name}"
                )
                text = f"iterations of {loop} read elements of {load.node.buffer.name} that others write"
                self.report.add("E351", text, load.node.span or stmt, "make the loop serial")
        variables = self.expr.vars
        self.expr.vars = set(variables)
        self._define_var(stmt.loop_var)
        self.loops.append(kind)
        with self.report.at(name):
            self._scoped(stmt.body)
        self.loops.pop()
        self.expr.vars = variables

    def _while(self, stmt: While) -> None:
        self.expr.condition(stmt.cond, "the condition of while")
        self.loops.append("while")
        self._scoped(stmt.body)
        self.loops.pop()

    def _jump(self, stmt: Break | Continue) -> None:
        word = type(stmt).__name__.lower()
        if not self.loops:
            self.report.add("E345", f"{word} stands outside every loop", stmt)
        elif word == "break" and self.loops[-1] in ("parallel", "thread_binding", "vectorized"):
            self.report.add("E345", f"break cannot leave a {self.loops[-1]} loop", stmt)

    def _return(self, stmt: Return) -> None:
        if any([kind in ("parallel", "vectorized") for kind in self.loops]):
            self.report.add("E345", "return cannot leave a parallel or vectorized loop", stmt)
        void = self.ret_ty is None or (isinstance(self.ret_ty, TupleType) and not self.ret_ty.fields)
        if stmt.value is None:
            if not void:
                self.report.add("E341", "a value must be returned", stmt)
            return
        self.expr(stmt.value)
        if not void and element_type(stmt.value.ty) is not element_type(self.ret_ty):
            self.report.add(
                "E341", f"the function returns {element_type(self.ret_ty)}, got {element_type(stmt.value.ty)}", stmt
            )

    def _if(self, stmt: IfThenElse) -> None:
        self.expr.condition(stmt.cond, "the condition of if")
        self._scoped(stmt.then_case)
        if stmt.else_case is not None:
            self._scoped(stmt.else_case)

    def _bind(self, stmt: Bind) -> None:
        self.expr(stmt.value)
        declared, given = element_type(stmt.var.ty), element_type(stmt.value.ty)
        if declared is not given:
            self.report.add("E341", f"{stmt.var.name} is {declared}, its value {given}", stmt)
        self._define_var(stmt.var)

    def _store(self, stmt: BufferStore) -> None:
        self.expr(stmt.value)
        lanes = self.expr.access(stmt, stmt.buffer, stmt.indices, stmt.predicate)
        dtype = element_type(stmt.value.ty)
        if (
            dtype is None
            or dtype.element is not stmt.buffer.dtype.element
            or dtype.lanes != lanes * stmt.buffer.dtype.lanes
        ):
            self.report.add(
                "E341",
                f"{dtype} is stored into {lanes} elements of {stmt.buffer.name} ({stmt.buffer.dtype.name})",
                stmt,
            )

    def _alloc(self, stmt: AllocBuffer | AllocConst) -> None:
        self._buffer_fields(stmt.buffer)
        self._define_var(stmt.buffer.data)
        self._define_buffer(stmt.buffer)
        if not isinstance(stmt, AllocConst):
            return
        if stmt.data.data_type is not stmt.buffer.dtype.element:
            self.report.add("E341", f"{stmt.buffer.name} is {stmt.buffer.dtype.name}, its data {stmt.data.dtype}", stmt)
        if stmt.data.shape != tuple([getattr(extent, "value", extent) for extent in stmt.buffer.shape]):
            self.report.add("E341", f"{stmt.buffer.name} has another shape than its data, {stmt.data.shape}", stmt)

    def _decl(self, stmt: DeclBuffer) -> None:
        if stmt.buffer.data not in self.expr.vars:
            self.report.add(
                "E340",
                f"buffer {stmt.buffer.name} is declared over the undefined pointer {stmt.buffer.data.name}",
                stmt,
            )
        self._buffer_fields(stmt.buffer)
        self._define_buffer(stmt.buffer)

    def _attr(self, stmt: AttrStmt) -> None:
        variables = self.expr.vars
        loop = turned_loop(stmt)
        self.turned |= set() if loop is None else {loop}
        if type(stmt.node) is IterVar:
            self.expr.vars = {*variables, stmt.node.var}
            self.bound.add(stmt.node.var)
        self._scoped(stmt.body)
        self.expr.vars = variables

    # ---- blocks

    def _realize(self, stmt: BlockRealize) -> None:
        block = stmt.block
        with self.report.at(f"block {block.name}"):
            if len(stmt.iter_values) != len(block.iter_vars):
                text = f"block {block.name} has {len(block.iter_vars)} iterators, {len(stmt.iter_values)} values"
                self.report.add("E344", text, stmt)
            for iter_var, value in zip(block.iter_vars, stmt.iter_values):
                self.expr.integer(value, f"the value of {iter_var.var.name}", element_type(iter_var.var.ty))
            variables, buffers = self.expr.vars, self.expr.buffers
            self.expr.vars, self.expr.buffers = set(variables), set(buffers)
            for iter_var in block.iter_vars:
                self._iterator(iter_var, block)
            for iter_var in block.iter_vars:
                self._define_var(iter_var.var)
            self.expr.condition(stmt.predicate, "the predicate of a block")
            for buffer in block.alloc_buffers:
                self._buffer_fields(buffer)
                self._define_var(buffer.data)
                self._define_buffer(buffer)
            for region in (*(block.reads or ()), *(block.writes or ())):
                self._region(region)
            for match in block.match_buffers:
                self._match(match)
            loops, self.loops = self.loops, []
            if block.init is not None:
                self._scoped(block.init)
            self.loops = loops
            self._scoped(block.body)
            self.expr.vars, self.expr.buffers = variables, buffers

    def _iterator(self, iter_var: IterVar, block: Block) -> None:
        name = iter_var.var.name
        if iter_var.kind not in ITER_KINDS:
            self.report.add("E344", f"iterator {name} has the unknown kind {iter_var.kind!r}", iter_var,
                            f"use one of {', '.join(ITER_KINDS)}")  # fmt: skip
        dtype = element_type(iter_var.var.ty)
        if dtype is None or not dtype.is_integral:
            self.report.add(
                "E344", f"iterator {name} must be an integer, is {dtype}", iter_var, 'e.g. Var(name, "int64")'
            )
        elif iter_var.dom is not None:
            self.expr.integer(iter_var.dom.min, f"the domain of {name}", dtype)
            self.expr.integer(iter_var.dom.extent, f"the domain of {name}", dtype)
        else:
            self.report.add("E344", f"iterator {name} of block {block.name} has no domain", iter_var)

    def _region(self, region: BufferRegion) -> None:
        if region.buffer not in self.expr.buffers:
            self.report.add("E340", f"buffer {region.buffer.name} is not declared here", region)
        if len(region.region) != len(region.buffer.shape):
            text = f"{region.buffer.name} has {len(region.buffer.shape)} axes, its region {len(region.region)}"
            self.report.add("E342", text, region)
        for bounds in region.region:
            self.expr.integer(bounds.min, f"a region of {region.buffer.name}")
            self.expr.integer(bounds.extent, f"a region of {region.buffer.name}")

    def _match(self, match: MatchBufferRegion) -> None:
        self._region(match.source)
        buffer = match.buffer
        if buffer.dtype.element is not match.source.buffer.dtype.element:
            self.report.add("E341", f"{buffer.name} ({buffer.dtype.name}) views {match.source.buffer.name}"
                            f" ({match.source.buffer.dtype.name})", match)  # fmt: skip
        self._define_var(buffer.data)
        for value in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if type(value) is Var and value not in self.expr.vars:
                self._define_var(value)
        self._buffer_fields(buffer)
        self._define_buffer(buffer)
