"""Tensor programs: statements and the function around them.

Not here: blocks and allocation forms (``tir_forms.py``), expressions. Invariant: a statement that binds for the rest of
its sequence (flat ``T.attr``, ``T.launch_thread``) is kept in ``wraps`` and put around the rest when the sequence ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ffi.dtype import DataType
from ..ffi.tensor import Tensor
from ..ir import (
    VOID_TYPE, AllocBuffer, AssertStmt, AttrStmt, Bind, Block, Break, Buffer, BufferRegion, BufferStore, Call, Continue, Evaluate,
    Expr, For, GlobalVar, IfThenElse, IntImm, IterVar, Node, PrimFunc, PrimType, Return, Stmt, StringImm, TensorType, Type, Var, While, op,
    prim_type, seq, substitute,
)  # fmt: skip
from ..ir import build as b
from ..support.errors import ScriptError, UnityError
from . import syntax as s
from .buffers import BufferSpec
from .mutable import mutable_names
from .ranges import extent_of
from .read_base import Reading, Silent
from .read_expr import is_number
from .scope import MISSING, POISON, Dotted, Macro, ModuleRef, Scope
from .spelling import LOOPS
from .tir_expr import Cell, TensorExprReader

_INT64 = prim_type("int64")
_HANDLE = prim_type("handle")
_MAX_EXPANSION = 60
Wrap = Callable[[Stmt], Stmt]


class BlockContext:
    """What the statements of a block say about it."""

    def __init__(self) -> None:
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[Expr] = []
        self.predicate: Expr | None = None
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.annotations: dict[str, Any] = {}
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[Any] = []
        self.init: Stmt | None = None


class StatementReader(TensorExprReader):
    """Reads the statements of one tensor program; ``PrimFuncReader`` adds the forms."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self.block: BlockContext | None = None
        self.block_scope: Scope | None = None
        self.wraps: list[tuple[int, Wrap]] = []
        self.out: list[Stmt] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.mutable: set[int] = set()
        self.loops: dict[Var, For] = {}
        self.iters: dict[Var, IterVar] = {}
        self.params: list[Var] = []
        self.top: Scope | None = None
        self.expansions = 0
        self.expansion_depth = 0
        self._statements: dict[type, Callable[[Any], None]] = {
            s.Assign: self._assign, s.AnnAssign: self._ann_assign, s.AugAssign: self._aug_assign,
            s.ExprStmt: self._expr_stmt, s.For: self._for, s.While: self._while, s.If: self._if, s.With: self._with,
            s.Return: self._return, s.Assert: self._assert, s.Pass: self._nothing, s.Skipped: self._nothing,
            s.Break: self._break, s.Continue: self._continue, s.FunctionDef: self._nested, s.Refused: self._refused,
            s.Import: self._import, s.ClassDef: self._class,
        }  # fmt: skip

    # -------------------------------------------------------------------------------------------------------- function

    def function(self, node: s.FunctionDef) -> PrimFunc | None:
        """Read the whole function; None when an error leaves nothing to build."""
        before = len(self.reading.errors)
        self.scope = self.top = Scope(self.scope)
        for param in node.type_params:
            self.symbols[param.name] = Var(param.name, self._symbol_type(param))
        pending: list[tuple[Var, BufferSpec, str]] = []
        self.defining = True
        declared = {p.name for p in node.params if p.annotation is not None}
        for param in node.params:
            try:
                self._parameter(param, pending, declared)
            except Silent:
                continue
            except UnityError as problem:
                self.reading.record(problem, param)
                self.scope.names[param.name] = POISON
        ret_ty = self._return_type(node)
        self.defining = False
        self.symbols = {name: value for name, value in self.symbols.items() if value not in self.params}
        for var, spec, name in pending:
            buffer = spec.make(name, self.reading.span(node))
            self.buffer_map[var] = buffer
            self.scope.names[name] = buffer
        self.mutable = mutable_names(node.body, list(self.scope.names))
        body = self.sequence_of(node.body)
        if len(self.reading.errors) > before:
            return None
        ordered = {param: self.buffer_map[param] for param in self.params if param in self.buffer_map}
        return PrimFunc(tuple(self.params), ordered, body, ret_ty, self.attrs, self.reading.span(node))

    def _symbol_type(self, param: s.TypeParameter) -> Type:
        return _INT64 if param.bound is None else self.type_of(param.bound)

    def _return_type(self, node: s.FunctionDef) -> Type:
        if node.returns is None:
            return VOID_TYPE
        try:
            return self.type_of(node.returns)
        except Silent:
            return VOID_TYPE
        except UnityError as problem:
            self.reading.record(problem, node.returns)
            return VOID_TYPE

    def _parameter(self, param: s.Parameter, pending: list[tuple[Var, BufferSpec, str]], declared: set[str]) -> None:
        if param.star == "*" and param.name == "":
            return
        if param.star:
            raise self.error("E114", f"a parameter `{param.star}{param.name}` is not possible", param)
        if param.default is not None:
            raise self.error("E114", f"parameter {param.name!r} cannot have a default value", param)
        if param.annotation is None:
            raise self.error(
                "E114", f"parameter {param.name!r} needs a type", param, 'write for example T.Buffer((16,), "float32") or T.handle'
            )
        if param.name in [p.name for p in self.params] or param.name in [name for _, _, name in pending]:
            raise self.error("E115", f"two parameters are called {param.name!r}", param)
        span = self.reading.span(param)
        value = self.annotation(param.annotation)
        if type(value) is Dotted and value.text == "T.Buffer":
            raise self.error("E112", "T.Buffer needs a shape", param.annotation)
        if type(value) is BufferSpec:
            var = Var(f"{param.name}_handle", _HANDLE, span)
            pending.append((var, value, param.name))
            self.scope.names[param.name] = POISON
        else:
            ty = self.as_type(value, param.annotation)
            if isinstance(ty, TensorType):
                raise self.error(
                    "E114", "a tensor program takes buffers, not tensors", param.annotation, 'write T.Buffer((16,), "float32")'
                )
            known = self.symbols.get(param.name)
            var = known if isinstance(known, Var) and known.ty is ty else Var(param.name, ty, span)
            if isinstance(known, Var) and known is not var:
                self._retype(known, var, pending)
            self.symbols[param.name] = var
            self.scope.names[param.name] = var
        self.params.append(var)

    def _retype(self, old: Var, new: Var, pending: list[tuple[Var, BufferSpec, str]]) -> None:
        """A symbol seen before its parameter takes the parameter's type."""
        from_old = {old: new}
        for _, spec, _ in pending:
            spec.shape = replace_vars(spec.shape, from_old)
            spec.strides = replace_vars(spec.strides, from_old)
            if spec.elem_offset is not None:
                spec.elem_offset = replace_vars((spec.elem_offset,), from_old)[0]

    # -------------------------------------------------------------------------------------------------------- sequences

    def sequence_of(self, body: list[s.Syntax], names: dict[str, Any] | None = None) -> Stmt:
        """The statements of a suite as one statement, in a scope of their own."""
        outer_scope, outer_out, outer_wraps = self.scope, self.out, self.wraps
        self.scope, self.out, self.wraps = Scope(outer_scope, names), [], []
        try:
            self.statements(body)
            return self._finish()
        finally:
            self.scope, self.out, self.wraps = outer_scope, outer_out, outer_wraps

    def _finish(self) -> Stmt:
        for at, wrap in reversed(self.wraps):
            self.out[at:] = [wrap(seq(*self.out[at:]))]
        return seq(*self.out)

    def statements(self, body: list[s.Syntax]) -> None:
        """Read statements into the open sequence; an error ends its own statement only."""
        for stmt in body:
            try:
                self._statements[type(stmt)](stmt)
            except Silent:
                self._poison(stmt)
            except UnityError as problem:
                self.reading.record(problem, stmt)
                self._poison(stmt)

    def _poison(self, stmt: s.Syntax) -> None:
        targets: list[s.Syntax] = []
        if isinstance(stmt, s.Assign):
            targets = list(stmt.targets)
        elif isinstance(stmt, s.AnnAssign):
            targets = [stmt.target]
        while targets:
            target = targets.pop()
            if type(target) is s.Name:
                self.scope.names[target.name] = POISON
            elif isinstance(target, (s.TupleLit, s.ListLit)):
                targets += target.items
            elif type(target) is s.Starred:
                targets.append(target.value)

    # -------------------------------------------------------------------------------------------------- small statements

    def _nothing(self, node: s.Syntax) -> None:
        return

    def _class(self, node: s.ClassDef) -> None:
        raise self.error("E107", "a class stands only at the top of a text", node)

    def _import(self, node: s.Import) -> None:
        raise self.error("E107", "script does not have `import` inside a function", node, "use the T functions, or pass values by scope=")

    def _break(self, node: s.Break) -> None:
        self.out.append(Break(self.reading.span(node)))

    def _continue(self, node: s.Continue) -> None:
        self.out.append(Continue(self.reading.span(node)))

    def _return(self, node: s.Return) -> None:
        value = None
        if node.value is not None:
            found = self.evaluate(node.value)
            value = None if found is None else self.expr(found, node.value)
        self.out.append(Return(value, self.reading.span(node)))

    def _assert(self, node: s.Assert) -> None:
        condition = b.as_bool(self.operand(self.evaluate(node.condition), node.condition))
        message, kind = "assertion failed", "RuntimeError"
        if node.message is not None:
            value = self.evaluate(node.message)
            if isinstance(value, tuple) and len(value) == 2:
                kind, value = self.text(value[0], node.message), value[1]
            parts = value if isinstance(value, (tuple, list)) else [value]
            message = "".join([self.text(part, node.message) for part in parts])
        self.out.append(AssertStmt(condition, message, kind, self.reading.span(node)))

    def _nested(self, node: s.FunctionDef) -> None:
        macro = self.macro_of(node)
        if macro is None:
            raise self.error(
                "E107", "a function inside a tensor program", node, "define it beside this one and call it, or make it a @T.macro"
            )
        self.scope.names[node.name] = macro

    def macro_of(self, node: s.FunctionDef) -> Macro | None:
        """The macro a definition makes, None when it is no macro."""
        for decorator in node.decorators:
            call = decorator if type(decorator) is s.Call else None
            path = self.path(call.func if call is not None else decorator)
            if path in ("T.macro", "T.inline", "R.macro"):
                hygienic = True
                for keyword in call.keywords if call is not None else []:
                    if keyword.name != "hygienic":
                        raise self.error("E112", f"{path} has no argument {keyword.name!r}", keyword)
                    hygienic = bool(self.evaluate(keyword.value))
                return Macro(node, self.scope, hygienic and path != "T.inline", path[0])
        return None

    def _while(self, node: s.While) -> None:
        condition = b.as_bool(self.operand(self.evaluate(node.condition), node.condition))
        self.out.append(While(condition, self.sequence_of(node.body), self.reading.span(node)))

    def _if(self, node: s.If) -> None:
        done: list[tuple[Expr, Stmt, s.Syntax]] = []
        last: Stmt | None = None
        for condition_node, body in node.clauses:
            value = self.evaluate(condition_node)
            if is_number(value):  # known while reading: one branch is left
                if not value:
                    continue
                last = self.sequence_of(body)
                break
            done.append((b.as_bool(self.expr(value, condition_node)), self.sequence_of(body), condition_node))
        else:
            last = self.sequence_of(node.otherwise) if node.otherwise is not None else None
        for condition, branch, place in reversed(done):
            last = IfThenElse(condition, branch, last, self.reading.span(place))
        if last is not None:
            self.out.append(last)

    # ------------------------------------------------------------------------------------------------------------ loops

    def _for(self, node: s.For) -> None:
        if type(node.source) is not s.Call:
            raise self.error("E113", "a loop runs over range, T.serial, T.grid, T.parallel, ...", node.source)
        path = self.path(node.source.func)
        args, keywords = self.arguments(node.source)
        span = self.reading.span(node)
        if path == "T.grid":
            dtype = keywords.pop("dtype", None)
            if keywords or not args:
                raise self.error("E112", "T.grid takes the extents of the loops", node.source)
            bounds = [self._bounds(arg if isinstance(arg, (tuple, list)) else (0, arg), node.source) for arg in args]
            if dtype is not None:
                want = self.dtype(dtype, node.source)
                bounds = [(b.cast(lo, want), b.cast(ext, want)) for lo, ext in bounds]
            variables = [Var("i", lo.ty, span) for lo, _ in bounds]
            names = self._loop_names(node.target, variables)
            for var, (lo, extent) in zip(variables, bounds):
                self.loops[var] = For(var, lo, extent, "serial", seq())
            body = self.sequence_of(node.body, names)
            for var, (lo, extent) in zip(reversed(variables), reversed(bounds)):
                body = For(var, lo, extent, "serial", body, span=span)
            self.out.append(body)
            return
        kind = LOOPS.get(path or "")
        if kind is None:
            raise self.error("E113", "a loop runs over range, T.serial, T.grid, T.parallel, ...", node.source)
        self._single_loop(node, kind, path or "", args, keywords)

    def _single_loop(self, node: s.For, kind: str, path: str, args: list[Any], keywords: dict[str, Any]) -> None:
        span = self.reading.span(node)
        thread = keywords.pop("thread", None)
        annotations = keywords.pop("annotations", None)
        step = keywords.pop("step", None)
        if "start" in keywords:
            args.insert(0, keywords.pop("start"))
        length = keywords.pop("extent", None)
        for name in ("stop", "end"):
            if name in keywords:
                args.append(keywords.pop(name))
        keywords.pop("dtype", None)
        if keywords:
            raise self.error("E112", f"{path} has no argument {next(iter(keywords))!r}", node.source)
        if kind == "thread_binding" and args and type(args[-1]) is str:
            thread = args.pop()
        if len(args) == 3 and step is None and path in ("range", "T.serial"):
            step = args.pop()
        if length is not None and not args:
            args, length = [length], None
        if not 1 <= len(args) <= (2 if length is None else 1):
            raise self.error("E112", f"{path} takes an extent, or start and stop", node.source)
        if kind == "thread_binding" and thread is None:
            raise self.error("E112", 'T.thread_binding needs thread="threadIdx.x"', node.source)
        if annotations is not None and not isinstance(annotations, dict):
            raise self.error("E113", "annotations must be a dict", node.source)
        if length is not None:
            low, extent = self.index(args[0], node.source), self.index(length, node.source)
        else:
            low, extent = self._bounds((0, *args) if len(args) == 1 else args, node.source)
        by = None
        if step is not None:
            if type(step) is int and step <= 0:
                raise self.error("E113", "a loop's step must be positive", node.source)
            by = b.cast(self.index(step, node.source), b.dtype_of(low))
        var = Var("i", low.ty, span)
        named = [var]
        names = self._loop_names(node.target, named)
        var = named[0]
        self.loops[var] = For(var, low, extent, kind, seq())
        body = self.sequence_of(node.body, names)
        noted = None if annotations is None else attribute_value(annotations)
        if type(by) is IntImm and by.value == 1:
            by = None
        tag = None if thread is None else self.text(thread, node.source)
        self.out.append(For(var, low, extent, kind, body, tag, noted, by, span))

    def _bounds(self, args: Any, node: s.Syntax) -> tuple[Expr, Expr]:
        """Minimum and extent from start and stop."""
        if len(args) != 2:
            raise self.error("E112", "a loop goes over an extent, or from start to stop", node)
        low_value, high_value = args
        if type(low_value) is int and not is_number(high_value):
            high = self.expr(high_value, node)
            low: Expr = b.const(low_value, b.dtype_of(high), self.reading.span(node))
        elif type(high_value) is int and not is_number(low_value):
            low = self.expr(low_value, node)
            high = b.const(high_value, b.dtype_of(low), self.reading.span(node))
        else:
            low, high = self.index(low_value, node), self.index(high_value, node)
        if not b.dtype_of(low).is_integral or not b.dtype_of(high).is_integral:
            raise self.error("E113", "loop bounds must be integers", node)
        low, high = b.unify(low, high)
        return low, extent_of(low, high)

    def _loop_names(self, target: s.Syntax, variables: list[Var]) -> dict[str, Any]:
        """Names of the loop target; the variables get their names."""
        if type(target) is s.Name:
            if len(variables) == 1:
                return {target.name: rename(variables, 0, target.name)}
            return {target.name: tuple([rename(variables, k, f"{target.name}{k}") for k in range(len(variables))])}
        names: dict[str, Any] = {}
        places: list[Any] = list(range(len(variables)))
        for part, item in self.unpack(target, places):
            if type(part) is not s.Name:
                raise self.error("E113", "a loop target is a name", part)
            if isinstance(item, list):
                names[part.name] = [rename(variables, k, f"{part.name}{k}") for k in item]
            else:
                names[part.name] = rename(variables, item, part.name)
        return names

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
                self.hint = part.name if type(part) is s.Name else ""
                values.append(self.evaluate(value))
            for part, value in zip(target.items, values):  # type: ignore[attr-defined]
                self.assign_value(part, value, node)
            return
        self.hint = target.name if type(target) is s.Name else ""
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

    def bind(self, name: str, value: Expr, node: s.Syntax) -> Var:
        """``name = value`` as an immutable scalar."""
        var = Var(name, value.ty, self.reading.span(node))
        self.out.append(Bind(var, value, self.reading.span(node)))
        self.scope.names[name] = var
        return var

    def declare_cell(self, name: str, dtype: Any, node: s.Syntax) -> Cell:
        """A mutable scalar: a local buffer without axes."""
        buffer = BufferSpec((), dtype, scope="local").make(name, self.reading.span(node))
        self.out.append(AllocBuffer(buffer, None, self.reading.span(node)))
        cell = Cell(buffer)
        self.scope.names[name] = cell
        return cell

    def _store_cell(self, cell: Cell, value: Any, node: s.Syntax) -> None:
        stored = b.const(value, cell.buffer.dtype) if is_number(value) else b.cast(self.expr(value, node), cell.buffer.dtype)
        self.out.append(BufferStore(cell.buffer, stored, (), None, self.reading.span(node)))

    def _ann_assign(self, node: s.AnnAssign) -> None:
        target = node.target
        if type(target) is not s.Name:
            raise self.error("E113", "only a plain name can have a type", target)
        self.hint = target.name
        let, ty = self._let_type(node.annotation)
        annotation: Any = None
        if not let:
            annotation = self.annotation(node.annotation)
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
        self.bind(target.name, scalar, node)

    def _let_type(self, node: s.Syntax) -> tuple[bool, Type | None]:
        """``T.let`` and ``T.let[T.float32]`` annotations."""
        base = node.value if type(node) is s.Subscript else node
        if type(base) is s.Attribute and self.path(base) == "T.Let":
            return True, self.type_of(node.items[0]) if type(node) is s.Subscript else None
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

    def vstore(self, buffer: Buffer, indices: list[Expr], bound: dict[str, Any], mask: Expr | None, node: s.Call) -> Any:
        value = self.expr(bound["value"], node)
        lanes = b.dtype_of(value).lanes // buffer.dtype.lanes
        if lanes > 1 and indices and b.dtype_of(indices[-1]).lanes == 1:
            indices[-1] = b.ramp(indices[-1], 1, lanes)
        self.store(buffer, tuple(indices), value, mask, node)
        return None

    def declare_buffer(self, spec: BufferSpec, name: str, node: s.Syntax) -> Buffer:
        """A buffer described by ``T.Buffer`` in the body: a view of existing memory."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------- expression lines

    def _expr_stmt(self, node: s.ExprStmt) -> None:
        value_node = node.value
        if type(value_node) in (s.String, s.Literal):
            return  # a docstring, or ...
        self.hint = ""
        if type(value_node) is s.Call and type(value_node.func) is s.Name:
            callee = self.lookup(value_node.func.name)
            if type(callee) is Macro:
                self.expand(callee, value_node)
                return
        before = len(self.out) + len(self.wraps)
        value = self.evaluate(value_node)
        if value is None or len(self.out) + len(self.wraps) != before and not isinstance(value, Expr):
            return
        if isinstance(value, Call) and type(value) is Call:
            if getattr(value.op, "name", "") == "T.ret":
                self.out.append(Return(value.args[0], self.reading.span(node)))
                return
            self.out.append(Evaluate(value, self.reading.span(node)))
            return
        raise self.error("E113", "this line has no effect", node, "write T.evaluate(...) to evaluate and drop a value")

    def expand(self, macro: Macro, node: s.Call) -> None:
        """Read a macro's body in place of its call."""
        if macro.level != "T":
            raise self.error("E113", "this macro is for graph functions", node)
        args, keywords = self.arguments(node)
        self.expansions += 1
        if self.expansion_depth >= _MAX_EXPANSION or self.expansions > 10_000:
            raise self.error("E105", "macros expand without end", node)
        names = macro_names(self, macro, node, args, keywords)
        outer = self.scope
        self.scope = macro.scope if macro.hygienic else outer
        self.expansion_depth += 1
        mutable = self.mutable
        self.mutable = mutable_names(macro.definition.body, list(names))
        try:
            inner = Scope(self.scope, names)
            self.scope = inner
            self.statements(macro.definition.body)
        finally:
            self.scope, self.mutable = outer, mutable
            self.expansion_depth -= 1

    def _with(self, node: s.With) -> None:
        raise NotImplementedError

    def wrap_rest(self, wrap: Wrap) -> None:
        """Put ``wrap`` around everything that follows in this sequence."""
        self.wraps.append((len(self.out), wrap))

    def attr_wrap(self, node: Any, key: str, value: Any, place: s.Syntax) -> Wrap:
        """A function that puts an AttrStmt around a statement."""
        span = self.reading.span(place)
        return lambda body: AttrStmt(node, key, value, body, span)


def macro_names(
    reader: TensorExprReader | Any, macro: Macro, node: s.Call, args: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Arguments of a macro by parameter name."""
    params = macro.definition.params
    names: dict[str, Any] = {}
    for index, param in enumerate(params):
        if param.star:
            raise reader.error("E114", "a macro has plain parameters only", node)
        if index < len(args):
            names[param.name] = args[index]
        elif param.name in keywords:
            names[param.name] = keywords.pop(param.name)
        elif param.default is not None:
            names[param.name] = reader.evaluate(param.default)
        else:
            raise reader.error("E112", f"macro {macro.definition.name} needs the argument {param.name!r}", node)
    if len(args) > len(params) or keywords:
        raise reader.error("E112", f"macro {macro.definition.name} takes {len(params)} arguments", node)
    return names


def rename(variables: list[Var], index: int, name: str) -> Var:
    """Give a variable not yet used anywhere its name."""
    variables[index] = Var(name, variables[index].ty, variables[index].span)
    return variables[index]


def replace_vars(values: tuple[Expr, ...], mapping: dict[Var, Var]) -> tuple[Expr, ...]:
    """Dimensions with variables replaced."""
    return tuple([substitute(value, mapping) for value in values])


def attribute_value(value: Any) -> Any:
    """A compile-time value as attributes keep it: lists become tuples, script names their text. Raises E113 for others."""
    if isinstance(value, (list, tuple)):
        return tuple([attribute_value(item) for item in value])
    if isinstance(value, dict):
        return {key: attribute_value(item) for key, item in value.items()}
    if type(value) is Dotted:
        return value.text
    if isinstance(value, np.ndarray):
        return Tensor(np.ascontiguousarray(value))
    if value is None or isinstance(value, (bool, int, float, str, DataType, Node, Tensor)):
        return value
    raise ScriptError("E113", "this value cannot stand in an attribute")


__all__ = [
    "BlockContext", "Block", "MISSING", "ModuleRef", "StatementReader", "StringImm", "attribute_value", "macro_names", "op",
]  # fmt: skip
