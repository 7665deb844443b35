"""Statements of a kernel to closures: ``closure(mask)`` runs the mask's lanes and gives those that go on to the next statement.

Lanes leave by break, continue and return; loops and conditions run while any lane needs them, the others wait. Blocks and
memory are in ``blocks.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...build import dtype_of
from ...expr import Call, IntImm, Op, Var
from ...scalar import CommReducer, IterVar
from ...stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
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
from .blocks import MemoryCompiler, Run
from .expressions import ExprCompiler
from .lanes import Mask, Value
from .wave import Wave


class Loop:
    """Lanes that left the body of a running loop early."""

    __slots__ = ("broken", "continued")

    def __init__(self) -> None:
        self.broken: Mask | None = None
        self.continued: Mask | None = None


def joined(first: Mask | None, second: Mask) -> Mask:
    """Union with nothing allowed."""
    return second if first is None else first.union(second)


class StmtCompiler:
    """Compiles the statements of one kernel. ``granule`` is the size of its memory cells, ``axes`` gives tag and key of thread
    variables."""

    def __init__(self, wave: Wave, granule: int, axes: dict[Var, tuple[str, tuple[str, int]]]) -> None:
        self.wave, self.granule, self.axes = wave, granule, axes
        self.expr = ExprCompiler(wave)
        self.loops: list[Loop] = []
        self.open_virtual: tuple[tuple[str, int], ...] = ()
        self.bound: list[Var] = []
        self.memory = MemoryCompiler(self)
        self.handlers: dict[type, Callable[[Any], Run]] = {
            SeqStmt: self._seq, For: self._for, While: self._while, IfThenElse: self._if, Bind: self._bind,
            BufferStore: self._store, Evaluate: self._evaluate, AllocBuffer: self.memory.alloc,
            AllocConst: self.memory.constant, DeclBuffer: self.memory.declare, AttrStmt: self._attr,
            AssertStmt: self._assert, BlockRealize: self.memory.realize, Break: self._break,
            Continue: self._continue, Return: self._return,
        }  # fmt: skip

    def visit(self, stmt: Stmt) -> Run:
        handler = self.handlers.get(type(stmt))
        if handler is None:
            raise InterpreterError("E369", f"{type(stmt).__name__} inside a kernel", getattr(stmt, "span", None))
        return handler(stmt)

    def _seq(self, stmt: SeqStmt) -> Run:
        depth = len(self.bound)
        parts = tuple([self.visit(s) for s in stmt.stmts])
        del self.bound[depth:]

        def run(mask: Mask) -> Mask:
            for part in parts:
                mask = part(mask)
                if not mask.count:
                    return mask
            return mask

        return run

    # ---- loops

    def _for(self, stmt: For) -> Run:
        if stmt.kind == "thread_binding":
            return self._thread_axis(stmt.loop_var, stmt.body, self.expr.index(stmt.min))
        loop = Loop()
        low, extent = self.expr.visit(stmt.min), self.expr.visit(stmt.extent)
        step = self.expr.visit(stmt.step) if stmt.step is not None else None
        self.loops.append(loop)
        self.bound.append(stmt.loop_var)
        body = self.visit(stmt.body)
        self.bound.pop()
        self.loops.pop()
        var, wave, span = stmt.loop_var, self.wave, stmt.span
        dtype = dtype_of(var).numpy.type
        together = stmt.kind == "vectorized"

        def turns(mask: Mask) -> Mask:
            first, count = low(mask), extent(mask)
            stride = step(mask) if step is not None else dtype(1)
            if np.any(np.asarray(stride) < 1):
                raise InterpreterError("E324", f"loop over {var.name} has a step below 1", span)
            number, live = 0, mask
            uniform = np.ndim(first) == 0 and np.ndim(count) == 0 and np.ndim(stride) == 0
            longest = int(count) if uniform else int(np.max(np.where(mask.lanes, count, 0), initial=0))
            least = int(stride) if uniform else int(np.min(stride))
            done: Mask | None = None
            while number * least < longest and live.count:
                offset = dtype(number) * stride
                if not uniform:
                    going = live.where(offset < count)
                    if going is not live:
                        done = joined(done, live.without(going))
                        live = going
                        if not live.count:
                            break
                wave.machine.step(span)
                wave.env[var] = first + offset
                loop.continued = None
                live = body(live)
                if loop.continued is not None:
                    live = live.union(loop.continued)
                number += 1
            for part in (loop.broken, done):
                if part is not None:
                    live = live.union(part)
            loop.broken = loop.continued = None
            return live

        if not together:
            return turns

        def run_together(mask: Mask) -> Mask:
            outer = wave.together
            if outer is None:
                wave.together = {}
            left = turns(mask)
            if outer is None:
                wave.count_together()
            return left

        return run_together

    def _while(self, stmt: While) -> Run:
        loop = Loop()
        cond = self.expr.visit(stmt.cond)
        self.loops.append(loop)
        body = self.visit(stmt.body)
        self.loops.pop()
        wave, span = self.wave, stmt.span

        def run(mask: Mask) -> Mask:
            live, done = mask, None
            while live.count:
                going = live.where(cond(live))
                if going is not live:
                    done = joined(done, live.without(going))
                if not going.count:
                    live = going
                    break
                wave.machine.step(span)
                loop.continued = None
                live = body(going)
                if loop.continued is not None:
                    live = live.union(loop.continued)
            for part in (loop.broken, done):
                if part is not None:
                    live = live.union(part)
            loop.broken = loop.continued = None
            return live

        return run

    def _break(self, stmt: Break) -> Run:
        return self._jump("broken")

    def _continue(self, stmt: Continue) -> Run:
        return self._jump("continued")

    def _jump(self, field: str) -> Run:
        loop = self.loops[-1]

        def run(mask: Mask) -> Mask:
            setattr(loop, field, joined(getattr(loop, field), mask))
            return Mask(np.zeros_like(mask.lanes))

        return run

    def _return(self, stmt: Return | None) -> Run:
        wave = self.wave

        def run(mask: Mask) -> Mask:
            wave.batch.alive &= ~mask.lanes
            return Mask(np.zeros_like(mask.lanes))

        return run

    def _if(self, stmt: IfThenElse) -> Run:
        cond, then_case = self.expr.visit(stmt.cond), self.visit(stmt.then_case)
        else_case = self.visit(stmt.else_case) if stmt.else_case is not None else None

        def run(mask: Mask) -> Mask:
            test = cond(mask)
            first = mask.where(test)
            if first is mask:
                return then_case(mask)
            if not first.count:
                return else_case(mask) if else_case is not None else mask
            other = mask.where(~np.asarray(test, np.bool_))
            after_first = then_case(first)
            after_other = else_case(other) if else_case is not None else other
            if after_first is first and after_other is other:
                return mask
            return after_first.union(after_other)

        return run

    # ---- thread axes

    def _thread_axis(self, var: Var, body_stmt: Stmt, low: Callable[[Mask], Value] | None) -> Run:
        tag, key = self.axes[var]
        virtual = not tag.startswith(("blockIdx", "threadIdx"))
        outer = self.open_virtual
        carried = tuple(self.bound)
        if virtual:
            self.open_virtual = (*outer, key)
        self.bound.append(var)
        body = self.visit(body_stmt)
        self.bound.pop()
        self.open_virtual = outer
        wave, dtype = self.wave, dtype_of(var).numpy

        def bind(mask: Mask) -> None:
            value = wave.batch.coordinate(tag, key)
            wave.env[var] = (value if low is None else value + low(mask)).astype(dtype)

        def run(mask: Mask) -> Mask:
            bind(mask)
            return body(mask)

        def run_virtual(mask: Mask) -> Mask:
            batch = wave.batch
            for known in carried:
                value = wave.env.get(known)
                if isinstance(value, np.ndarray) and len(value) == batch.size:
                    wave.env[known] = batch.spread(value, key)
            bind(mask)
            body(Mask(batch.spread(mask.lanes, key)))
            return mask.where(batch.alive)

        return run_virtual if virtual else run

    def _attr(self, stmt: AttrStmt) -> Run:
        if stmt.key in ("thread_extent", "virtual_thread") and type(stmt.node) is IterVar:
            return self._thread_axis(stmt.node.var, stmt.body, None)
        if stmt.key == "reduce_scope" and type(stmt.node) is CommReducer:
            self.expr.reducers.append(stmt.node)
            body = self.visit(stmt.body)
            self.expr.reducers.pop()
            return body
        return self.visit(stmt.body)

    # ---- simple statements

    def _bind(self, stmt: Bind) -> Run:
        var, value, wave = stmt.var, self.expr.visit(stmt.value), self.wave
        self.bound.append(var)

        def run(mask: Mask) -> Mask:
            wave.env[var] = value(mask)
            return mask

        return run

    def _evaluate(self, stmt: Evaluate) -> Run:
        value = stmt.value
        name = value.op.name if type(value) is Call and type(value.op) is Op else ""
        if name in ("T.thread_return", "T.ret"):
            return self._return(None)
        if name in ("T.break_loop", "T.continue_loop"):
            return self._jump("broken" if name == "T.break_loop" else "continued")
        if type(value) is Var or type(value) is IntImm:
            return lambda mask: mask
        effect = self.expr.visit(value)

        def run(mask: Mask) -> Mask:
            effect(mask)
            return mask

        return run

    def _assert(self, stmt: AssertStmt) -> Run:
        cond, wave = self.expr.visit(stmt.cond), self.wave
        message, span = f"{stmt.kind}: {stmt.message}", stmt.span

        def run(mask: Mask) -> Mask:
            wrong = mask.lanes & ~np.asarray(cond(mask), np.bool_)
            if wrong.any():
                raise wave.failure("E314", message, span, int(wrong.argmax()))
            return mask

        return run

    def _store(self, stmt: BufferStore) -> Run:
        value = self.expr.visit(stmt.value)
        where = self.expr.locator(stmt.buffer, stmt.indices, stmt.predicate, "store", stmt.span)
        defined = not (type(stmt.value) is Call and getattr(stmt.value.op, "name", "") == "T.undef")

        def run(mask: Mask) -> Mask:
            where.store(mask, value(mask), defined)
            return mask

        return run
