"""Statements to closures: ``closure(env)`` runs the lanes of an environment and gives those that go on, None when there are none.

Lanes leave by break, continue and return; loops and conditions run while any lane needs them, the others wait. A condition that
is not an array holds for all lanes or for none: so a program of one thread runs, and what all threads agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, GlobalVar, IntImm, Op, Var
from ...stmt import (
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
)  # fmt: skip
from .arrays import Value, holder, limits
from .blocks import Effect, Run, allocate, constant, declaration, realize
from .expressions import Closure, Env, ExprCompiler, split, union_lanes

Both = Callable[[Run, Env, Run, Env], tuple[Env, Env]]
"""Runs the two cases of a condition, each for its lanes."""


class Loop:
    """Lanes that left the body of a running loop early."""

    __slots__ = ("broken", "continued", "stmt")

    def __init__(self, stmt: For | While) -> None:
        self.stmt = stmt
        self.broken: Env = None
        self.continued: Env = None

    def continuing(self, live: Env) -> Env:
        """The lanes at the end of an iteration, with those that continued."""
        if self.continued is not None:
            live, self.continued = union_lanes(live, self.continued), None
        return live

    def exited(self, live: Env) -> Env:
        """The lanes after the loop, with those that broke off."""
        if self.broken is not None:
            live, self.broken = union_lanes(live, self.broken), None
        return live


class StmtCompiler:
    """Compiles the statements of one function; memory and threads are left to its subclasses."""

    pointer: ClassVar[type]
    """An address: ``pointer.view(dtype, shape, strides, base, name)`` is the buffer there."""

    def __init__(self, expr: ExprCompiler, tick: Callable[[Any], None] | None) -> None:
        self.expr = expr
        self.bound: list[Var] = []
        """Variables that have a value at the place being compiled."""
        self.tick = tick
        """Told of every iteration of a loop."""
        self.loops: list[Loop] = []
        self.handlers: dict[type, Callable[[Any], Run]] = {
            SeqStmt: self._seq, For: self.loop, While: self._while, IfThenElse: self._if, Bind: self._bind,
            BufferStore: self.store, Evaluate: self._evaluate, AttrStmt: self.attribute, AssertStmt: self._assert,
            Break: self._break, Continue: self._continue, Return: self._return,
            AllocBuffer: partial(allocate, self), AllocConst: partial(constant, self),
            DeclBuffer: partial(declaration, self), BlockRealize: partial(realize, self),
        }  # fmt: skip

    def visit(self, stmt: Stmt) -> Run:
        handler = self.handlers.get(type(stmt))
        if handler is None:
            raise self.expr.undefined(f"{type(stmt).__name__} has no meaning inside {self.expr.location}", stmt)
        return handler(stmt)

    # ---- what subclasses say

    def leave(self, env: Env, value: Any) -> None:
        """The lanes leave the function."""
        raise NotImplementedError

    def store(self, stmt: BufferStore) -> Run:
        """A store into a buffer."""
        raise NotImplementedError

    def allocation(self, buffer: Buffer) -> Effect:
        """Closure giving a buffer memory in which nothing is written."""
        raise NotImplementedError

    def address_of(self, data: np.ndarray, name: str) -> Any:
        """The address of constant data."""
        raise NotImplementedError

    def guard(self, block: Block) -> tuple[Any, Callable[[Env], Any]] | None:
        """Key and maker of what watches over the accesses of a running block."""
        return None

    def unguard(self) -> None:
        """The innermost guarded block ends here."""

    def attribute(self, stmt: AttrStmt) -> Run:
        """An attribute."""
        return self.visit(stmt.body)

    def call_statement(self, call: Call) -> Closure:
        """A call of a function of the module whose value nobody wants."""
        return self.expr.visit(call)

    def branches(self, stmt: IfThenElse) -> Both:
        """Lanes that part at a condition run its two cases one after the other."""
        return lambda then_case, first, else_case, other: (then_case(first), else_case(other))

    def divergent_loop(self, loop: Loop, body: Run, first: Value, count: Value, stride: Value, env: Env) -> Env:
        """A loop whose lanes have different numbers of iterations."""
        raise NotImplementedError

    # ---- control

    def _iterations(self, var: Var, span: Any) -> Callable[[Value, Value, Value], Iterable[Value]]:
        """Values of a loop variable from first, number and step, where all lanes share them. Raises InterpreterError E324."""
        dtype = dtype_of(var)
        (least, most), kind = limits(dtype), holder(dtype).type
        batched = self.expr.batched

        def values(first: Value, count: Value, stride: Value) -> Iterable[Value]:
            low, step = int(first), int(stride)
            last = low + int(count)
            if step < 1:
                raise InterpreterError("E324", f"loop over {var.name} has step {step}", span)
            if last > low and not least <= last - 1 <= most:
                raise InterpreterError("E324", f"loop over {var.name} leaves the range of its type", span)
            return map(kind, range(low, last, step)) if batched else range(low, last, step)

        return values

    def _seq(self, stmt: SeqStmt) -> Run:
        depth = len(self.bound)
        parts = tuple([self.visit(s) for s in stmt.stmts])
        del self.bound[depth:]

        def run(env: Env) -> Env:
            for part in parts:
                env = part(env)
                if env is None:
                    return None
            return env

        return run

    def loop(self, stmt: For) -> Run:
        """A loop over a range."""
        loop, var, span, tick = Loop(stmt), stmt.loop_var, stmt.span, self.tick
        low, extent = self.expr.visit(stmt.min), self.expr.visit(stmt.extent)
        step = self.expr.visit(stmt.step) if stmt.step is not None else None
        self.loops.append(loop)
        self.bound.append(var)
        body = self.visit(stmt.body)
        self.bound.pop()
        self.loops.pop()
        values = self._iterations(var, span)

        def run(env: Env) -> Env:
            first, count = low(env), extent(env)
            stride = step(env) if step is not None else 1
            if np.ndarray in (type(first), type(count), type(stride)):
                return self.divergent_loop(loop, body, first, count, stride, env)
            live = env
            for value in values(first, count, stride):
                if tick is not None:
                    tick(span)
                live[var] = value
                live = body(live)
                if loop.continued is not None:
                    live = loop.continuing(live)
                if live is None:
                    break
            return loop.exited(live)

        return run

    def _while(self, stmt: While) -> Run:
        loop, cond, tick = Loop(stmt), self.expr.visit(stmt.cond), self.tick
        self.loops.append(loop)
        body = self.visit(stmt.body)
        self.loops.pop()

        def run(env: Env) -> Env:
            live, done = env, None
            while live is not None:
                live, rest = split(live, cond(live))
                done = union_lanes(done, rest)
                if live is not None:
                    if tick is not None:
                        tick(stmt.span)
                    live = loop.continuing(body(live))
            return loop.exited(done)

        return run

    def _break(self, stmt: Break | None) -> Run:
        loop = self.loops[-1]

        def run(env: Env) -> None:
            loop.broken = union_lanes(loop.broken, env)

        return run

    def _continue(self, stmt: Continue | None) -> Run:
        loop = self.loops[-1]

        def run(env: Env) -> None:
            loop.continued = union_lanes(loop.continued, env)

        return run

    def _return(self, stmt: Return) -> Run:
        return self._returning(self.expr.visit(stmt.value) if stmt.value is not None else None)

    def _returning(self, value: Closure | None) -> Run:
        return lambda env: self.leave(env, value(env) if value is not None else None)

    def _if(self, stmt: IfThenElse) -> Run:
        cond, then_case = self.expr.visit(stmt.cond), self.visit(stmt.then_case)
        else_case = self.visit(stmt.else_case) if stmt.else_case is not None else lambda env: env
        both = self.branches(stmt)

        def run(env: Env) -> Env:
            first, other = split(env, cond(env))
            if other is None:
                return then_case(first)
            if first is None:
                return else_case(other)
            after, rest = both(then_case, first, else_case, other)
            return env if after is first and rest is other else union_lanes(after, rest)

        return run

    # ---- simple statements

    def _bind(self, stmt: Bind) -> Run:
        var, value = stmt.var, self.expr.visit(stmt.value)
        self.bound.append(var)

        def run(env: Env) -> Env:
            env[var] = value(env)
            return env

        return run

    def _evaluate(self, stmt: Evaluate) -> Run:
        value = stmt.value
        if type(value) is Call and type(value.op) is Op:
            if value.op.name == "T.ret":
                return self._returning(self.expr.visit(value.args[0]))
            if value.op.name == "T.thread_return":
                return self._returning(None)
            if value.op.name == "T.break_loop":
                return self._break(None)
            if value.op.name == "T.continue_loop":
                return self._continue(None)
        if isinstance(value, (Var, IntImm)):
            return lambda env: env
        effect = (
            self.call_statement(value)
            if type(value) is Call and type(value.op) is GlobalVar
            else self.expr.visit(value)
        )

        def run(env: Env) -> Env:
            effect(env)
            return env

        return run

    def _assert(self, stmt: AssertStmt) -> Run:
        cond, text = self.expr.visit(stmt.cond), f"{stmt.kind}: {stmt.message}"

        def run(env: Env) -> Env:
            self.expr.refuse(np.logical_not(cond(env)), env, "E314", text, stmt.span)
            return env

        return run
