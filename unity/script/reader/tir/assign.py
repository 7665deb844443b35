"""Assignments: immutable scalars, mutable cells, elements of buffers.

Rule: ``x = e`` binds ``x`` once (an immutable ``Bind``); where the text assigns ``x`` a second time in the same or an inner
block, or declares ``x: T.float32`` without a value, ``x`` is a scalar kept in a local buffer. Two blocks beside each other that
both bind ``x`` have two immutable names. Invariant: which names are cells is decided before the statements are read.
"""

from __future__ import annotations

from typing import Any

from ....arith.index_map import IndexMap
from ....ir import (
    AllocBuffer,
    Bind,
    Buffer,
    BufferStore,
    Expr,
    GlobalVar,
    PointerType,
    PrimType,
    Type,
    Var,
    build as b,
)  # fmt: skip
from ...parser import syntax as s
from ..common.expr import binary
from ..common.names import path_of
from ..common.plain import is_number
from ..common.scope import Cell
from ..common.targets import read_pairs, single_target, unpack
from ..common.types import as_type, read_annotation
from ..common.values import as_expr, as_typed, read_expr
from .access import read_indices, store
from .buffers import BufferSpec, declare_buffer
from .program import ProgramReading


def mutable_names(body: list[s.Syntax], outer: list[str]) -> set[int]:
    """``start`` offsets of the assignments that declare a mutable scalar."""
    found: set[int] = set()
    scope: dict[str, int] = dict.fromkeys(outer, -1)
    _block(body, scope, found)
    return found


def _block(body: list[s.Syntax], outer: dict[str, int], found: set[int]) -> None:
    scope = dict(outer)
    for stmt in body:
        if type(stmt) is s.Assign and not _of_reading(stmt.value):
            for target in stmt.targets:
                if type(target) is s.Name:
                    _assign(target.name, stmt.start, scope, found)
        elif type(stmt) is s.AnnAssign:
            target = stmt.target
            if type(target) is s.Name:
                scope[target.name] = stmt.start
                if stmt.value is None:
                    found.add(stmt.start)
        elif type(stmt) is s.AugAssign:
            target = stmt.target
            if type(target) is s.Name:
                _assign(target.name, stmt.start, scope, found)
        elif isinstance(stmt, (s.For, s.While, s.With)):
            _block(stmt.body, scope, found)
        elif type(stmt) is s.If:
            for _, clause in stmt.clauses:
                _block(clause, scope, found)
            _block(stmt.otherwise or [], scope, found)


def _assign(name: str, start: int, scope: dict[str, int], found: set[int]) -> None:
    known = scope.get(name)
    if known is None:
        scope[name] = start
    elif known >= 0:
        found.add(known)


def _of_reading(node: s.Syntax) -> bool:
    """``T.meta_var(value)``: its name stands for the value while reading, not for a variable of the program."""
    return type(node) is s.Call and isinstance(node.func, s.Attribute) and node.func.name == "meta_var"


def read_assign(r: ProgramReading, node: s.Assign) -> None:
    """``x = e``, ``A[i] = e``, ``a, b = e, f``."""
    target = single_target(r, node)
    pairs = read_pairs(r, target, node.value)
    if pairs:
        for part, value in pairs:
            assign(r, part, value, node)
        return
    if isinstance(target, (s.TupleLit, s.ListLit)):  # T.axis.remap
        r.hint = ",".join([part.name for part in target.items if type(part) is s.Name])
    assign(r, target, read_expr(r, node.value), node, _of_reading(node.value))


def assign(r: ProgramReading, target: s.Syntax, value: Any, node: s.Syntax, named: bool = False) -> None:
    """Give one target a value: scalar expressions are bound, everything else is named, and so are those that shall be."""
    if type(target) is s.Subscript:
        _store_element(r, target, value, node)
        return
    if type(target) is not s.Name:
        for part, item in unpack(r, target, value):
            assign(r, part, item, node, named)
        return
    name = target.name
    known = r.scope.get(name)
    if type(known) is Cell and not named:
        _store_cell(r, known, value, node)
        return
    if type(value) is IndexMap:
        raise r.error("E117", "T.index_map: an index map is a value of an attribute, not a statement", node)
    if isinstance(value, BufferSpec):
        value = declare_buffer(r, value, name, node)
    if named or (not is_number(value) and (not isinstance(value, Expr) or _is_name_only(r, value))):
        r.scope.names[name] = value
    elif node.start in r.mutable:
        _declare_cell(r, name, as_expr(r, value, node), node)
    else:
        bind(r, name, as_expr(r, value, node), node)


def _is_name_only(r: ProgramReading, value: Expr) -> bool:
    """True for a variable just declared (``T.int64()``, an axis): the name stands for it, nothing is bound."""
    if type(value) is Var and value in r.declared:
        r.declared.discard(value)
        return True
    return isinstance(value, GlobalVar)


def bind(r: ProgramReading, name: str, value: Expr, node: s.Syntax, ty: Type | None = None) -> Var:
    """``name = value`` as an immutable scalar."""
    var = Var(name, ty or value.ty, r.span(node))
    r.out.append(Bind(var, value, r.span(node)))
    r.scope.names[name] = var
    return var


def _declare_cell(r: ProgramReading, name: str, initial: Expr | None, node: s.Syntax, dtype: Any = None) -> None:
    """A mutable scalar: a local buffer without axes."""
    dtype = b.dtype_of(initial) if initial is not None else dtype
    cell = Cell(BufferSpec((), dtype, scope="local").make(name, r.span(node)))
    r.out.append(AllocBuffer(cell.buffer, None, r.span(node)))
    r.scope.names[name] = cell
    if initial is not None:
        _store_cell(r, cell, initial, node)


def _store_cell(r: ProgramReading, cell: Cell, value: Any, node: s.Syntax) -> None:
    stored = as_typed(r, value, cell.buffer.dtype, node)
    r.out.append(BufferStore(cell.buffer, stored, (), None, r.span(node)))


def _store_element(r: ProgramReading, target: s.Subscript, value: Any, node: s.Syntax) -> None:
    buffer = read_expr(r, target.value)
    if type(buffer) is not Buffer:
        raise r.error("E113", "only an element of a buffer can be assigned", target)
    store(r, buffer, read_indices(r, buffer, target), value, None, node)


def read_annotated(r: ProgramReading, node: s.AnnAssign) -> None:
    """``x: T.float32 = e``; without a value a mutable scalar, or an array of scalars, is declared."""
    target = node.target
    if type(target) is not s.Name:
        raise r.error("E113", "only a plain name can have a type", target)
    r.hint = target.name
    let, ty = _let_type(r, node.annotation)
    if not let:
        annotation = _declared_type(r, node.annotation)
        if type(annotation) is BufferSpec:
            if node.value is not None:
                raise r.error("E113", "an array of scalars is declared without value", node)
            r.scope.names[target.name] = declare_buffer(r, annotation, target.name, node)
            return
        ty = as_type(r, annotation, node.annotation)
    if node.value is None:
        if let or not isinstance(ty, PrimType):
            raise r.error("E113", "this declaration needs a value", node)
        _declare_cell(r, target.name, None, node, ty.dtype)
        return
    value = read_expr(r, node.value)
    dtype = ty.dtype if isinstance(ty, PrimType) else None
    scalar = as_expr(r, value, node.value) if dtype is None else as_typed(r, value, dtype, node.value)
    if node.start in r.mutable and not let:
        _declare_cell(r, target.name, scalar, node)
    else:
        bind(r, target.name, scalar, node, ty if isinstance(ty, PointerType) else None)


def _declared_type(r: ProgramReading, node: s.Syntax) -> Any:
    """An annotation; ``T.handle("float32")``, which declares a pointer elsewhere in a body, counts as its type."""
    found = read_annotation(r, node)
    return found.ty if isinstance(found, Var) else found


def _let_type(r: ProgramReading, node: s.Syntax) -> tuple[bool, Type | None]:
    """``T.let`` and ``T.let[T.float32]`` annotations."""
    base = node.value if type(node) is s.Subscript else node
    if type(base) is not s.Attribute or path_of(r, base) != "T.Let":
        return False, None
    if type(node) is not s.Subscript:
        return True, None
    item = node.items[0]
    if type(item) is s.Call and not item.args and not item.keywords:  # T.let[T.int32()]
        item = item.func
    return True, as_type(r, _declared_type(r, item), node.items[0])


def read_augmented(r: ProgramReading, node: s.AugAssign) -> None:
    """``x += e``, ``A[i] += e``."""
    target = node.target
    value = binary(r, node.op, read_expr(r, target), read_expr(r, node.value), node)
    if type(target) is s.Subscript:
        _store_element(r, target, value, node)
        return
    if type(target) is not s.Name:
        raise r.error("E113", "cannot assign to this", target)
    r.hint = ""
    known = r.scope.get(target.name)
    if type(known) is not Cell:
        raise r.error("E113", f"{target.name!r} is not a mutable scalar", target)
    _store_cell(r, known, value, node)
