"""Statements of a program that runs one thread at a time: its memory, parallel loops and thread axes in sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer, BufferRegion
from ...build import dtype_of
from ...expr import Call
from ...scalar import IterVar
from ...stmt import AttrStmt, Block, Break, BufferStore, For, Stmt, turned_loop
from ..common.blocks import Run, view_maker
from ..common.expressions import Closure, Env, lanes_of
from ..common.statements import StmtCompiler as SharedCompiler
from .expressions import ExprCompiler, GuardKey
from .machine import WRITE, Machine, ParallelFrame, RegionGuard, allocate, outside_memory
from .memory import Memory, Pointer, View, compact_strides

RESULT = "result"
"""Key of the environment under which a program that returned leaves its value."""


class StmtCompiler(SharedCompiler):
    """Compiles the statements of one function."""

    expr: ExprCompiler
    pointer = Pointer

    def __init__(self, machine: Machine) -> None:
        super().__init__(ExprCompiler(machine), machine.step if machine.steps_left is not None else None)
        self.machine = machine
        self.turned: set[Stmt] = set()
        """Loops that may run backwards: a promise as that of parallel ones."""

    def leave(self, env: Env, value: Any) -> None:
        """The program returns."""
        env[RESULT] = value

    def call_statement(self, call: Call) -> Closure:
        """A call of a function of the module whose value nobody wants."""
        return self.expr.function_call(call)

    # ---- loops

    def loop(self, stmt: For) -> Run:
        """A loop; a parallel one is watched for races between its iterations."""
        serial, machine = super().loop(stmt), self.machine
        if not self._independent(stmt):
            return serial

        def run(env: Env) -> Env:
            machine.frames.append(ParallelFrame(stmt.loop_var, stmt.span, env, Memory.fresh(0, "mark").serial))
            try:
                return serial(env) or self._early(env)
            finally:
                machine.frames.pop()

        return run

    def _break(self, stmt: Break | None) -> Run:
        if self._independent(self.loops[-1].stmt):
            return self._early
        return super()._break(stmt)

    def _independent(self, stmt: Stmt) -> bool:
        """True for a loop that promises independent iterations."""
        return stmt in self.turned or (type(stmt) is For and stmt.kind == "parallel")

    def _early(self, env: Env) -> Env:
        raise InterpreterError("E324", "a parallel loop cannot be left early")

    def attribute(self, stmt: AttrStmt) -> Run:
        """A launch runs its threads one after the other."""
        loop = turned_loop(stmt)
        self.turned |= set() if loop is None else {loop}
        body = self.visit(stmt.body)
        if stmt.key not in ("thread_extent", "virtual_thread") or type(stmt.node) is not IterVar:
            return body
        var, extent = stmt.node.var, self.expr.visit(stmt.value)

        def run(env: Env) -> Env:
            if var in env:  # an enclosing launch binds it already
                return body(env)
            for value in range(extent(env)):
                env[var] = value
                if body(env) is None:
                    if env.get(RESULT, env) is not None:
                        return None
                    del env[RESULT]
            env.pop(var, None)
            return env

        return run

    # ---- memory

    def guard(self, block: Block) -> tuple[Any, Callable[[Env], Any]] | None:
        """Key and maker of the guard of a block's declared regions."""
        make = region_guard(self.expr, block)
        if make is None:
            return None
        self.expr.guards.append(GuardKey())
        return self.expr.guards[-1], make

    def unguard(self) -> None:
        """The innermost guarded block ends here."""
        self.expr.guards.pop()

    def address_of(self, data: np.ndarray, name: str) -> Pointer:
        """The address of constant data."""
        return Pointer(Memory.of_array(data, name))

    def allocation(self, buffer: Buffer) -> Callable[[Env], None]:
        """Closure giving a buffer fresh memory."""
        self.expr.declare(buffer)
        make = view_maker(self.expr, buffer)
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

    def store(self, stmt: BufferStore) -> Run:
        """A store into a buffer."""
        buffer, span, machine = stmt.buffer, stmt.span, self.machine
        lanes = lanes_of(dtype_of(stmt.value))
        undefined = type(stmt.value) is Call and getattr(stmt.value.op, "name", "") == "T.undef"
        state = (b"\x00" if undefined else b"\x01") * buffer.dtype.element.itemsize
        if lanes == 1 and self.expr.is_single(buffer, stmt.indices, stmt.predicate):
            single, value = self.expr.offset(buffer, stmt.indices, WRITE, span), self.expr.visit(stmt.value)

            def run(env: Env) -> Env:
                new = value(env)
                view, offset = single(env)
                checked_store(machine, view, offset, new, state, span)
                return env

            return run
        many, rows = self.expr.offsets(buffer, stmt.indices, stmt.predicate, WRITE, span), self.expr.rows(stmt.value)

        def run_lanes(env: Env) -> Env:
            new = rows(env)[0]
            view, found = many(env)
            if len(found) != lanes:
                raise InterpreterError("E310", f"{lanes} lanes stored into {len(found)} of {view.name}", span)
            if type(found) is range and (cells := machine.row(view, found, WRITE)) is not None:
                np.asarray(cells)[:] = new
                written = view.memory.written
                if written is not None:
                    written[view.byte(found.start) : view.byte(found.stop)] = state * lanes
                return env
            for offset, lane in zip(found, new):
                if offset is not None:
                    checked_store(machine, view, offset, lane, state, span)
            return env

        return run_lanes


def checked_store(machine: Machine, view: View, offset: int, value: Any, state: bytes, span: Any) -> None:
    """Checked store of one number."""
    if not 0 <= offset < view.count:
        raise outside_memory(view, offset, span)
    if machine.frames:
        machine.touch(view, offset, WRITE, span)
    if view.cells.readonly:
        raise InterpreterError("E319", f"{view.name} is read-only memory", span)
    if isinstance(value, Pointer):
        raise InterpreterError("E318", f"an address has no number that {view.name} could hold", span)
    if view.plain:
        view.cells[offset] = value
    else:
        view.set(offset, value)
    written = view.memory.written
    if written is not None:
        at = view.start + offset * view.size
        written[at : at + view.size] = state


def region_guard(expr: ExprCompiler, block: Block) -> Callable[[Env], RegionGuard] | None:
    """Maker of the guard of a block; a root block declares nothing."""
    if block.reads is None or block.writes is None or not (block.iter_vars or block.reads or block.writes):
        return None
    reads, writes = _boxes(expr, block.reads), _boxes(expr, block.writes)
    return lambda env: RegionGuard(block.name, reads(env), writes(env))


def _boxes(expr: ExprCompiler, regions: tuple[BufferRegion, ...]) -> Callable[[Env], dict[Any, list[Any]]]:
    compiled = [(r.buffer, [(expr.visit(x.min), expr.visit(x.extent)) for x in r.region]) for r in regions]

    def run(env: Env) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for buffer, ranges in compiled:
            box = []
            for low, extent in ranges:
                first = low(env)
                box.append((first, first + extent(env)))
            found.setdefault(buffer, []).append(box)
        return found

    return run
