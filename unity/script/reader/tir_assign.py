"""Assignments of tensor programs: immutable scalars, mutable cells, elements of buffers.

Not here: other statements. Invariant: which names are cells is decided by ``mutable.py`` before the statements are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...arith.index_map import IndexMap
from ...ffi.dtype import DataType
from ...ir import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Expr,
    For,
    GlobalVar,
    IterVar,
    PointerType,
    PrimType,
    Stmt,
    Type,
    Var,
    build as b,
    prim_type,
)  # fmt: skip
from ..parser import syntax as s
from .base import Reading
from .buffers import BufferSpec
from .plain import is_number
from .scope import Scope
from .tir_access import Cell
from .tir_expr import TensorExprReader

_INT64 = prim_type("int64")
_HANDLE = prim_type("handle")
Wrap = Callable[[Stmt], Stmt]


class BlockContext:
    """The facts about a block that its statements give."""

    def __init__(self) -> None:
        self.late = False  # written T.sblock: the era in which T.alloc_buffer is a statement
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[Expr] = []
        self.predicate: Expr | None = None
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.annotations: dict[str, Any] = {}
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[Any] = []
        self.init: Stmt | None = None


class AssignReader(TensorExprReader):
    """Holds what is built, and reads assignments into it."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self.block: BlockContext | None = None
        self.block_scope: Scope | None = None
        self.wraps: list[tuple[int, Wrap]] = []
        self.out: list[Stmt] = []
        self.blocks = 0
        """Levels of indentation that what is read now has in print."""
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.mutable: set[int] = set()
        self.loops: dict[Var, For] = {}
        self.iters: dict[Var, IterVar] = {}
        self.ended: set[str] = set()
        self.params: list[Var] = []
        self.top: Scope | None = None

    # ------------------------------------------------------------------------------------------------------ assignments

    def _assign(self, node: s.Assign) -> None:
        self.declared.clear()
        if len(node.targets) != 1:
            raise self.error("E107", "script does not have chained assignment", node, "write one assignment per line")
        target = node.targets[0]
        pairs = isinstance(target, (s.TupleLit, s.ListLit)) and isinstance(node.value, (s.TupleLit, s.ListLit))
        if pairs and len(target.items) == len(node.value.items):  # type: ignore[attr-defined]
            values = []
            for part, value in zip(target.items, node.value.items):  # type: ignore[attr-defined]
                self.hint, self.naming = (part.name if type(part) is s.Name else ""), value
                values.append(self.evaluate(value))
            for part, value in zip(target.items, values):  # type: ignore[attr-defined]
                self.assign_value(part, value, node)
            return
        self.hint, self.naming = (target.name if type(target) is s.Name else ""), node.value
        if isinstance(target, s.Subscript):
            self._store(target, self.evaluate(node.value), node)
            return
        if isinstance(target, (s.TupleLit, s.ListLit)):
            hints = [part.name for part in target.items if type(part) is s.Name]
            self.assign_parts(target, self.evaluate_named(node.value, hints), node)
            return
        self.assign_value(target, self.evaluate(node.value), node)

    def evaluate_named(self, node: s.Syntax, names: list[str]) -> Any:
        """A value for several names (``T.axis.remap``)."""
        self.hint = ",".join(names)
        return self.evaluate(node)

    def assign_parts(self, target: s.Syntax, value: Any, node: s.Syntax) -> None:
        """Assign the parts of a value to the parts of a tuple target."""
        for part, item in self.unpack(target, value):
            self.assign_value(part, item, node)

    def assign_value(self, target: s.Syntax, value: Any, node: s.Syntax) -> None:
        """Give one target a value: scalar expressions are bound, everything else is named."""
        if type(target) is s.Subscript:
            self._store(target, value, node)
            return
        if type(target) is not s.Name:
            self.assign_parts(target, value, node)
            return
        name = target.name
        known = self.scope.get(name)
        if type(known) is Cell:
            self._store_cell(known, value, node)
            return
        if type(value) is IndexMap:
            raise self.error("E117", "T.index_map: an index map is a value of an attribute, not a statement", node)
        if isinstance(value, BufferSpec):
            value = self.declare_buffer(value, name, node)
        scalar = is_number(value) or (isinstance(value, Expr) and not self._is_name_only(value))
        if not scalar:
            self.scope.names[name] = value
            return
        if node.start in self.mutable:
            initial = self.expr(value, node)
            cell = self.declare_cell(name, b.dtype_of(initial), node)
            self._store_cell(cell, initial, node)
            return
        self.bind(name, self.expr(value, node), node)

    def _is_name_only(self, value: Expr) -> bool:
        """True for a variable just declared (``T.int64()``, an axis): the name stands for it, nothing is bound."""
        if type(value) is Var and value in self.declared:
            self.declared.discard(value)
            return True
        return isinstance(value, GlobalVar)

    def bind(self, name: str, value: Expr, node: s.Syntax, ty: Type | None = None) -> Var:
        """``name = value`` as an immutable scalar."""
        var = Var(name, ty or value.ty, self.reading.span(node))
        self.out.append(Bind(var, value, self.reading.span(node)))
        self.scope.names[name] = var
        return var

    def pointer(self, value: Expr, dtype: DataType, scope: str | None, node: s.Syntax) -> Var:
        """``data=T.address_of(A[0])``: the address under a name of its own."""
        of = value.args[0] if type(value) is Call and value.args else None
        if scope is None:
            ty = of.buffer.data.ty if isinstance(of, BufferLoad) else None
            scope = ty.scope if isinstance(ty, PointerType) else "global"
        var = Var(f"{self.hint or 'buffer'}_ptr", PointerType(prim_type(dtype), scope), self.reading.span(node))
        self.out.append(Bind(var, value, self.reading.span(node)))
        return var

    def declare_cell(self, name: str, dtype: Any, node: s.Syntax) -> Cell:
        """A mutable scalar: a local buffer without axes."""
        buffer = BufferSpec((), dtype, scope="local").make(name, self.reading.span(node))
        self.out.append(AllocBuffer(buffer, None, self.reading.span(node)))
        cell = Cell(buffer)
        self.scope.names[name] = cell
        return cell

    def _store_cell(self, cell: Cell, value: Any, node: s.Syntax) -> None:
        stored = (
            b.const(value, cell.buffer.dtype) if is_number(value) else b.cast(self.expr(value, node), cell.buffer.dtype)
        )
        self.out.append(BufferStore(cell.buffer, stored, (), None, self.reading.span(node)))

    def _ann_assign(self, node: s.AnnAssign) -> None:
        target = node.target
        if type(target) is not s.Name:
            raise self.error("E113", "only a plain name can have a type", target)
        self.hint = target.name
        let, ty = self._let_type(node.annotation)
        annotation: Any = None
        if not let:
            annotation = self._declared_type(node.annotation)
            if type(annotation) is BufferSpec:
                if node.value is not None:
                    raise self.error("E113", "an array of scalars is declared without value", node)
                self.scope.names[target.name] = self.declare_buffer(annotation, target.name, node)
                return
            ty = self.as_type(annotation, node.annotation)
        if node.value is None:
            if let or not isinstance(ty, PrimType):
                raise self.error("E113", "this declaration needs a value", node)
            self.declare_cell(target.name, ty.dtype, node)
            return
        value = self.evaluate(node.value)
        if isinstance(ty, PrimType):
            value = b.const(value, ty.dtype) if is_number(value) else b.cast(self.expr(value, node.value), ty.dtype)
        scalar = self.expr(value, node.value)
        if node.start in self.mutable and not let:
            self._store_cell(self.declare_cell(target.name, b.dtype_of(scalar), node), scalar, node)
            return
        self.bind(target.name, scalar, node, ty if isinstance(ty, PointerType) else None)

    def _declared_type(self, node: s.Syntax) -> Any:
        """An annotation; ``T.handle("float32")``, which declares a pointer elsewhere in a body, counts as its type."""
        found = self.annotation(node)
        return found.ty if isinstance(found, Var) else found

    def _let_type(self, node: s.Syntax) -> tuple[bool, Type | None]:
        """``T.let`` and ``T.let[T.float32]`` annotations."""
        base = node.value if type(node) is s.Subscript else node
        if type(base) is s.Attribute and self.path(base) == "T.Let":
            if type(node) is not s.Subscript:
                return True, None
            item = node.items[0]
            plain = type(item) is s.Call and not item.args and not item.keywords  # T.let[T.int32()]
            return True, self.as_type(self._declared_type(item.func if plain else item), item)  # type: ignore[attr-defined]
        return False, None

    def _aug_assign(self, node: s.AugAssign) -> None:
        current = self.evaluate(node.target)
        value = self.binary(node.op, current, self.evaluate(node.value), node)
        if type(node.target) is s.Subscript:
            self._store(node.target, value, node)
            return
        if type(node.target) is not s.Name:
            raise self.error("E113", "cannot assign to this", node.target)
        self.hint = ""
        known = self.scope.get(node.target.name)
        if type(known) is Cell:
            self._store_cell(known, value, node)
        else:
            raise self.error("E113", f"{node.target.name!r} is not a mutable scalar", node.target)

    def _store(self, target: s.Subscript, value: Any, node: s.Syntax) -> None:
        buffer = self.evaluate(target.value)
        if type(buffer) is not Buffer:
            raise self.error("E113", "only an element of a buffer can be assigned", target)
        self.store(buffer, self.indices(buffer, target), value, None, node)

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Any, mask: Expr | None, node: s.Syntax) -> None:
        """A write to a buffer; the value is cast to the buffer's type."""
        lanes = b.dtype_of(indices[-1]) if indices else None
        dtype = buffer.dtype
        if lanes is not None and (lanes.lanes != 1 or lanes.scalable):
            dtype = dtype.with_lanes(lanes.lanes * dtype.lanes, lanes.scalable)
        span = self.reading.span(node)
        if is_number(value):
            stored = b.const(value, dtype.element if dtype.scalable else dtype, span)
            if dtype.scalable:
                stored = b.broadcast(stored, dtype.lanes)
        else:
            stored = self.expr(value, node)
            found = b.dtype_of(stored)
            if found.lanes not in (1, dtype.lanes):
                raise self.error("E113", f"{found.lanes} lanes stored into {dtype.lanes}", node)
            if not dtype.scalable:
                stored = b.cast(stored, dtype)
        self.out.append(BufferStore(buffer, stored, indices, mask, span))

    def vstore(
        self, buffer: Buffer, indices: list[Expr], bound: dict[str, Any], mask: Expr | None, node: s.Call
    ) -> Any:
        value = self.expr(bound["value"], node)
        lanes = b.dtype_of(value).lanes // buffer.dtype.lanes
        if lanes > 1 and indices and b.dtype_of(indices[-1]).lanes == 1:
            indices[-1] = b.ramp(indices[-1], 1, lanes)
        self.store(buffer, tuple(indices), value, mask, node)
        return None

    def declare_buffer(self, spec: BufferSpec, name: str, node: s.Syntax) -> Buffer:
        """A buffer described by ``T.Buffer`` in the body: a view of existing memory."""
        raise NotImplementedError
