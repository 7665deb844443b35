"""Tensor programs: Python's own statements, loops.

Not here: assignments (``tir_assign.py``), macros (``tir_macro.py``), blocks and the other forms written as calls
(``tir_blocks.py``, ``tir_forms.py``). Invariant: a statement that binds for the rest of its sequence (flat ``T.attr``,
``T.launch_thread``) is kept in ``wraps`` and put around the rest when the sequence ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import (
    AssertStmt,
    AttrStmt,
    Break,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    IfThenElse,
    IntImm,
    Return,
    Stmt,
    Var,
    While,
    build as b,
    prim_type,
    seq,
)  # fmt: skip
from ...support.errors import UnityError
from ..parser import syntax as s
from ..parser.layout import MAX_INDENTS
from ..spelling.ranges import extent_of
from ..spelling.spelling import LOOPS
from .base import Reading, Silent, suggest
from .constants import attribute_value
from .decorators import macro_of
from .plain import is_number
from .scope import POISON, Macro, Scope
from .tir_macro import MacroReader

_INT64 = prim_type("int64")
_HANDLE = prim_type("handle")
Wrap = Callable[[Stmt], Stmt]


class StatementReader(MacroReader):
    """Reads the statements of one tensor program; the forms written as calls follow."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        super().__init__(reading, scope)
        self._statements: dict[type, Callable[[Any], None]] = {
            s.Assign: self._assign, s.AnnAssign: self._ann_assign, s.AugAssign: self._aug_assign,
            s.ExprStmt: self._expr_stmt, s.For: self._for, s.While: self._while, s.If: self._if, s.With: self._with,
            s.Return: self._return, s.Assert: self._assert, s.Pass: self._nothing, s.Skipped: self._nothing,
            s.Break: self._break, s.Continue: self._continue, s.FunctionDef: self._nested, s.Refused: self._refused,
            s.Import: self._import, s.ClassDef: self._class,
        }  # fmt: skip

    # -------------------------------------------------------------------------------------------------------- sequences

    def sequence_of(self, body: list[s.Syntax], names: dict[str, Any] | None = None) -> Stmt:
        """The statements of a suite as one statement, in a scope of their own."""
        outer_scope, outer_out, outer_wraps, outer_blocks = self.scope, self.out, self.wraps, self.blocks
        self.scope, self.out, self.wraps = Scope(outer_scope, names), [], []
        try:
            self.deeper(1, body[0])
            self.statements(body)
            return self._finish()
        finally:
            self.ended.update(self.scope.names)
            self.scope, self.out, self.wraps, self.blocks = outer_scope, outer_out, outer_wraps, outer_blocks

    def deeper(self, levels: int, place: s.Syntax) -> None:
        """More statements around what follows. Raises E105 where they need more levels in print than a text may have."""
        self.blocks += levels
        if self.blocks >= MAX_INDENTS:  # one is for the class around the function
            raise self.error("E105", f"{MAX_INDENTS} or more statements inside each other", place)

    def unknown_name(self, node: s.Name) -> Any:
        if node.name in self.ended and node.name not in self.symbols:
            raise self.error(
                "E110", f"unknown name {node.name!r}", node,
                f"it ended with its block: declare it before the block, `{node.name}: T.float32`",
            )  # fmt: skip
        return super().unknown_name(node)

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
        raise self.error(
            "E107",
            "script does not have `import` inside a function",
            node,
            "use the T functions, or pass values by scope=",
        )

    def _break(self, node: s.Break) -> None:
        self.out.append(Break(self.reading.span(node)))

    def _continue(self, node: s.Continue) -> None:
        self.out.append(Continue(self.reading.span(node)))

    def _return(self, node: s.Return) -> None:
        if self.expansion_depth:
            raise self.error(
                "E107",
                "a macro returns inside a loop or block",
                node,
                "return at its end; T.ret(value) returns from the function",
            )
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
        macro = macro_of(self, node)
        if macro is None:
            raise self.error(
                "E107",
                "a function inside a tensor program",
                node,
                "define it beside this one and call it, or make it a @T.macro",
            )
        self.scope.names[node.name] = macro

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
            outer = self.blocks
            if not all([type(lo) is IntImm and lo.value == 0 for lo, _ in bounds]):
                self.deeper(len(bounds) - 1, node.source)  # such loops are not printed as one grid
            body = self.sequence_of(node.body, names)
            self.blocks = outer
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
            stop = keywords.pop(name, None)
            if stop is not None:
                args.append(stop)
        keywords.pop("dtype", None)
        if keywords:
            wrong = next(iter(keywords))
            known = ("start", "stop", "step", "annotations", "thread", "extent")
            raise self.error("E112", f"{path} has no argument {wrong!r}", node.source, suggest(wrong, known))
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
        written, wraps = len(self.out), len(self.wraps)
        value = self.evaluate(value_node)
        if value is None or len(self.wraps) != wraps or (len(self.out) != written and not isinstance(value, Expr)):
            return
        if isinstance(value, Call) and type(value) is Call:
            if getattr(value.op, "name", "") == "T.ret":
                self.out.append(Return(value.args[0], self.reading.span(node)))
                return
            self.out.append(Evaluate(value, self.reading.span(node)))
            return
        raise self.error("E113", "this line has no effect", node, "write T.evaluate(...) to evaluate and drop a value")

    def _with(self, node: s.With) -> None:
        raise NotImplementedError

    def wrap_rest(self, wrap: Wrap, place: s.Syntax) -> None:
        """Put ``wrap`` around everything that follows in this sequence."""
        self.deeper(1, place)
        self.wraps.append((len(self.out), wrap))

    def attr_wrap(self, node: Any, key: str, value: Any, place: s.Syntax) -> Wrap:
        """A function that puts an AttrStmt around a statement."""
        span = self.reading.span(place)
        return lambda body: AttrStmt(node, key, value, body, span)


def rename(variables: list[Var], index: int, name: str) -> Var:
    """Give a variable not yet used anywhere its name."""
    variables[index] = Var(name, variables[index].ty, variables[index].span)
    return variables[index]
