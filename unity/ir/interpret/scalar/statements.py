"""Statements to Python closures: ``closure(env)`` gives None to go on, or a signal (BREAK, CONTINUE, a Returned)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, GlobalVar, IntImm, Op, Var
from ...scalar import IterVar
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
from .blocks import BlockCompiler
from .checks import WRITE, ParallelFrame
from .expressions import Env, ExprCompiler
from .machine import Machine, allocate, lanes_of, outside_memory
from .memory import Memory, Pointer, View, compact_strides
from .numbers import wrapper


class Returned:
    """Signal: leave the function with a value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


BREAK, CONTINUE = object(), object()
Run = Callable[[Env], Any]


class StmtCompiler:
    """Compiles the statements of one function."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.expr = ExprCompiler(machine)
        self.handlers: dict[type, Callable[[Any], Run]] = {
            SeqStmt: self._seq, For: self._for, While: self._while, IfThenElse: self._if, Bind: self._bind,
            BufferStore: self._store, Evaluate: self._evaluate, AllocBuffer: self._alloc, AllocConst: self._alloc_const,
            DeclBuffer: self._decl, AttrStmt: self._attr, AssertStmt: self._assert, BlockRealize: BlockCompiler(self).realize,
            Break: self._break, Continue: self._continue, Return: self._return,
        }  # fmt: skip

    def visit(self, stmt: Stmt) -> Run:
        handler = self.handlers.get(type(stmt))
        if handler is None:
            raise InterpreterError("E318", f"{type(stmt).__name__} cannot be run", getattr(stmt, "span", None))
        return handler(stmt)

    def _seq(self, stmt: SeqStmt) -> Run:
        parts = tuple([self.visit(s) for s in stmt.stmts])

        def run(env: Env) -> Any:
            for part in parts:
                signal = part(env)
                if signal is not None:
                    return signal
            return None

        return run

    # ---- loops

    def _for(self, stmt: For) -> Run:
        var, span = stmt.loop_var, stmt.span
        low, extent = self.expr.visit(stmt.min), self.expr.visit(stmt.extent)
        step = self.expr.visit(stmt.step) if stmt.step is not None else None
        body = self.visit(stmt.body)
        machine = self.machine
        tick = machine.step if machine.steps_left is not None else None
        fit = wrapper(dtype_of(var))

        def values(env: Env) -> range:
            first, count = low(env), extent(env)
            stride = step(env) if step is not None else 1
            if stride < 1:
                raise InterpreterError("E324", f"loop over {var.name} has step {stride}", span)
            last = first + count
            if count > 0 and fit(last - 1) != last - 1:
                raise InterpreterError("E324", f"loop over {var.name} leaves the range of its type", span)
            return range(first, last, stride)

        def run(env: Env) -> Any:
            for value in values(env):
                if tick is not None:
                    tick(span)
                env[var] = value
                signal = body(env)
                if signal is not None:
                    if signal is BREAK:
                        break
                    if signal is not CONTINUE:
                        return signal
            return None

        if stmt.kind != "parallel":
            return run

        def run_parallel(env: Env) -> Any:
            frame = ParallelFrame(var, span)
            machine.frames.append(frame)
            try:
                for value in values(env):
                    if tick is not None:
                        tick(span)
                    frame.iteration = value
                    frame.first_serial = Memory.fresh(0, "mark").serial
                    env[var] = value
                    signal = body(env)
                    if signal is not None and signal is not CONTINUE:
                        raise InterpreterError("E324", "a parallel loop cannot be left early", span)
            finally:
                machine.frames.pop()
            return None

        return run_parallel

    def _while(self, stmt: While) -> Run:
        cond, body = self.expr.visit(stmt.cond), self.visit(stmt.body)
        machine, span = self.machine, stmt.span

        def run(env: Env) -> Any:
            while cond(env):
                machine.step(span)
                signal = body(env)
                if signal is not None:
                    if signal is BREAK:
                        break
                    if signal is not CONTINUE:
                        return signal
            return None

        return run

    def _break(self, stmt: Break) -> Run:
        return lambda env: BREAK

    def _continue(self, stmt: Continue) -> Run:
        return lambda env: CONTINUE

    def _return(self, stmt: Return) -> Run:
        if stmt.value is None:
            return lambda env: Returned(None)
        value = self.expr.visit(stmt.value)
        return lambda env: Returned(value(env))

    def _if(self, stmt: IfThenElse) -> Run:
        cond, then_case = self.expr.visit(stmt.cond), self.visit(stmt.then_case)
        if stmt.else_case is None:
            return lambda env: then_case(env) if cond(env) else None
        else_case = self.visit(stmt.else_case)
        return lambda env: then_case(env) if cond(env) else else_case(env)

    # ---- simple statements

    def _bind(self, stmt: Bind) -> Run:
        var, value = stmt.var, self.expr.visit(stmt.value)

        def run(env: Env) -> None:
            env[var] = value(env)

        return run

    def _evaluate(self, stmt: Evaluate) -> Run:
        value = stmt.value
        if type(value) is Call and type(value.op) is Op:
            name = value.op.name
            if name == "T.ret":
                result = self.expr.visit(value.args[0])
                return lambda env: Returned(result(env))
            if name == "T.thread_return":
                return lambda env: Returned(None)
            if name == "T.break_loop":
                return lambda env: BREAK
            if name == "T.continue_loop":
                return lambda env: CONTINUE
        if type(value) is Var or type(value) is IntImm:
            return lambda env: None
        alone = type(value) is Call and type(value.op) is GlobalVar
        effect = self.expr.function_call(value) if alone else self.expr.visit(value)  # type: ignore[arg-type]

        def run(env: Env) -> None:
            effect(env)

        return run

    def _assert(self, stmt: AssertStmt) -> Run:
        cond, message, span = self.expr.visit(stmt.cond), stmt.message, stmt.span

        def run(env: Env) -> None:
            if not cond(env):
                raise InterpreterError("E314", f"{stmt.kind}: {message}", span)

        return run

    def _attr(self, stmt: AttrStmt) -> Run:
        body = self.visit(stmt.body)
        if stmt.key not in ("thread_extent", "virtual_thread") or type(stmt.node) is not IterVar:
            return body
        var, extent = stmt.node.var, self.expr.visit(stmt.value)

        def run(env: Env) -> Any:
            if var in env:  # an enclosing launch binds it already
                return body(env)
            for value in range(extent(env)):
                env[var] = value
                signal = body(env)
                if signal is not None and not (isinstance(signal, Returned) and signal.value is None):
                    return signal
            del env[var]
            return None

        return run

    def _store(self, stmt: BufferStore) -> Run:
        buffer, span, machine = stmt.buffer, stmt.span, self.machine
        value = self.expr.visit(stmt.value)
        size = buffer.dtype.element.itemsize
        undefined = type(stmt.value) is Call and getattr(stmt.value.op, "name", "") == "T.undef"
        state = bytes(size) if undefined else b"\x01" * size
        lanes = lanes_of(dtype_of(stmt.value))
        if stmt.predicate is not None:
            return self._masked_store(stmt, state)
        located = self.expr.offsets(buffer, stmt.indices, WRITE, span)
        if lanes == 1:

            def run(env: Env) -> None:
                new = value(env)
                view, found = located(env)
                if len(found) != 1:
                    raise InterpreterError("E310", f"one number stored into {len(found)} lanes of {view.name}", span)
                put(machine, view, found[0], new, state, span)

            return run

        def run_lanes(env: Env) -> None:
            new = value(env)
            view, found = located(env)
            if len(found) != lanes:
                raise InterpreterError("E310", f"{lanes} lanes stored into {len(found)} of {view.name}", span)
            for offset, lane in zip(found, new):
                put(machine, view, offset, lane, state, span)

        return run_lanes

    def _masked_store(self, stmt: BufferStore, state: bytes) -> Run:
        assert stmt.predicate is not None
        predicate, value, span, machine = (
            self.expr.visit(stmt.predicate),
            self.expr.visit(stmt.value),
            stmt.span,
            self.machine,
        )
        lane_offset = self.expr.lane_offsets(stmt.buffer, stmt.indices, WRITE, span)

        def run(env: Env) -> None:
            mask, new = predicate(env), value(env)
            view, offset_of = lane_offset(env)
            for k, active in enumerate(mask):
                if active:
                    put(machine, view, offset_of(k), new[k], state, span)

        return run

    # ---- memory

    def view_maker(self, buffer: Buffer) -> Callable[[Env, Pointer], View]:
        """Closure making the view of a buffer over a pointer, with shape, strides and offset evaluated now."""
        shape = [self.expr.visit(e) for e in buffer.shape]
        strides = [self.expr.visit(e) for e in buffer.strides]
        base = self.expr.visit(buffer.elem_offset) if buffer.elem_offset is not None else None
        dtype, name = buffer.dtype, buffer.name

        def make(env: Env, pointer: Pointer) -> View:
            sizes = tuple([e(env) for e in shape])
            return View(
                pointer, dtype, sizes, tuple([e(env) for e in strides]), base(env) if base is not None else 0, name
            )

        return make

    def allocation(self, buffer: Buffer) -> Callable[[Env], None]:
        """Closure giving a buffer fresh memory."""
        self.expr.declare(buffer)
        make = self.view_maker(buffer)
        shape = [self.expr.visit(e) for e in buffer.shape]
        strides = [self.expr.visit(e) for e in buffer.strides]
        base = self.expr.visit(buffer.elem_offset) if buffer.elem_offset is not None else None

        def run(env: Env) -> None:
            sizes = tuple([e(env) for e in shape])
            steps = tuple([e(env) for e in strides]) or compact_strides(sizes)
            count = 0 if 0 in sizes else 1 + sum([(n - 1) * s for n, s in zip(sizes, steps)])
            count += base(env) if base is not None else 0
            pointer = Pointer(allocate(count * buffer.dtype.itemsize, buffer.name))
            env[buffer.data] = pointer
            env[buffer] = make(env, pointer)

        return run

    def _alloc(self, stmt: AllocBuffer) -> Run:
        return self.allocation(stmt.buffer)

    def _alloc_const(self, stmt: AllocConst) -> Run:
        buffer = stmt.buffer
        self.expr.declare(buffer)
        make = self.view_maker(buffer)
        data = stmt.data.numpy().copy()
        data.flags.writeable = False

        def run(env: Env) -> None:
            pointer = Pointer(Memory.of_array(data, buffer.name))
            env[buffer.data] = pointer
            env[buffer] = make(env, pointer)

        return run

    def _decl(self, stmt: DeclBuffer) -> Run:
        buffer, span = stmt.buffer, stmt.span
        self.expr.declare(buffer)
        make = self.view_maker(buffer)

        def run(env: Env) -> None:
            pointer = env.get(buffer.data)
            if not isinstance(pointer, Pointer):
                raise InterpreterError(
                    "E323", f"buffer {buffer.name} is declared over a pointer that has no value", span
                )
            env[buffer] = make(env, pointer)

        return run


def put(machine: Machine, view: View, offset: int, value: Any, state: bytes, span: Any) -> None:
    """Checked store of one number."""
    if not 0 <= offset < view.count:
        raise outside_memory(view, offset, span)
    if machine.frames:
        machine.touch(view, offset, WRITE, span)
    if view.memory.raw.flags.writeable is False:
        raise InterpreterError("E319", f"{view.name} is read-only memory", span)
    view.put(offset, value)
    view.mark(offset, state)
