"""Iterations of a nest of loops side by side, a lane for each: what the scalar machine does one after the other, on arrays.

Nothing is reported from here. Where iterations touch each other's numbers, where anything is wrong in one of them, and where the
program has something that lanes do not know, ``Apart`` (or an InterpreterError) is raised; the memory is then as before, and
the scalar machine, which is the judge, runs the iterations in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, GlobalVar
from ...scalar import BufferLoad
from ...stmt import AttrStmt, Break, BufferStore, Continue, DeclBuffer, For
from ...types import Expr
from ..common import arrays
from ..common.arrays import Value
from ..common.blocks import Effect, Run
from ..common.expressions import Closure, Env, ExprCompiler as SharedExprCompiler, lanes_of
from ..common.intrinsics import SHARED
from ..common.mask import Mask
from ..common.statements import Loop, StmtCompiler as SharedCompiler
from .checks import READ, WRITE, RegionGuard
from .expressions import ExprCompiler, view_of
from .machine import Machine, allocate
from .memory import Memory, Pointer, View
from .statements import StmtCompiler

LARGEST = 1 << 28
"""Bytes that all copies of a buffer inside the loops may take."""


class Apart(Exception):
    """Iterations that do not run side by side."""


class Trial:
    """One run of a nest: who touched which number of the memory that it writes, and what undoes it."""

    def __init__(self, machine: Machine, extents: list[int], stored: list[View]) -> None:
        self.machine, self.steps = machine, machine.steps_left
        self.count = math.prod(extents)
        self.lane = np.arange(self.count)
        self.below = [math.prod(extents[depth:]) for depth in range(len(extents) + 1)]
        """Lanes that share one iteration of a loop, by the number of lane loops around it."""
        self.private: set[Memory] = set()
        self.owners: dict[Memory, np.ndarray] = {}
        self.spans = [(view.memory, *_span(view)) for view in stored]
        self.cells = {view.memory: (view.size, view.start % view.size) for view in stored}
        self.saved: list[tuple[Memory, np.ndarray, bytes]] = []
        for memory in self.cells:
            self.saved.append((memory, memory.raw.copy(), bytes(memory.written or b"")))
            self.owners[memory] = np.full(memory.size, -1, np.int32)
        self.known: dict[View, bool] = {}
        self.frames = [(frame, dict(frame.reads), dict(frame.writes)) for frame in machine.frames]

    def undo(self) -> None:
        """Memory and steps as before the run."""
        self.machine.steps_left = self.steps
        for frame, reads, writes in self.frames:
            frame.reads, frame.writes = reads, writes
        for memory, raw, written in self.saved:
            if memory.raw.flags.writeable:
                memory.raw[:] = raw
            if memory.written is not None:
                memory.written[:] = written

    def count_steps(self, depth: int, span: Any, env: Mask) -> None:
        """Count an iteration of a loop inside so many lane loops."""
        assert self.machine.steps_left is not None
        self.machine.steps_left -= env.count // self.below[depth] - 1
        self.machine.step(span)

    def watches(self, view: View) -> bool:
        """True if a view shares numbers with one that the nest stores into."""
        found = self.known.get(view)
        if found is None:
            low, high = _span(view) if view.memory in self.owners else (0, 0)
            found = any([view.memory is m and low < end and start < high for m, start, end in self.spans])
            self.known[view] = found
        return found

    def touch(self, view: View, at: Value, kind: int, span: Any) -> None:
        """Tell the running parallel loops around the nest about an access."""
        if any([view.memory.serial < frame.first_serial for frame, _, _ in self.frames]):
            for offset in np.unique(at).tolist():
                self.machine.touch(view, offset, kind, span)

    def claim(self, view: View, at: np.ndarray, lanes: np.ndarray) -> None:
        """Each lane touches a number, which no other lane may touch."""
        if self.cells[view.memory] != (view.size, view.start % view.size):
            raise Apart
        owner, where = self.owners[view.memory], view.start + at * view.size
        before = owner[where]
        owner[where] = lanes
        if not (((before < 0) | (before == lanes)) & (owner[where] == lanes)).all():
            raise Apart


def _span(view: View) -> tuple[int, int]:
    """First byte of a view and the one past its last; nothing where a size is 0."""
    ends = [(n - 1) * s for n, s in zip(view.shape, view.strides)]
    if min(view.shape, default=1) < 1:
        return 0, 0
    low, high = [view.base + sum([f(end, 0) for end in ends]) for f in (min, max)]
    item = view.size * view.lanes
    return view.start + low * item, view.start + (high + 1) * item


def _inside(guard: RegionGuard, buffer: Buffer, point: list[np.ndarray], kind: int, mask: Mask) -> bool:
    """True if every lane is inside a declared region of a running block."""
    found: Value = False
    for box in guard.writes.get(buffer, []) + (guard.reads.get(buffer, []) if kind == READ else []):
        held: Value = True
        for index, (low, high) in zip(point, box):
            held = held & (mask.picked(low) <= index) & (index < mask.picked(high))
        found = found | held
    return bool(np.all(found))


class LaneExprCompiler(ExprCompiler):
    """Compiles the expressions of a nest."""

    batched = True
    intrinsics: ClassVar = SHARED
    foreign = SharedExprCompiler.foreign
    trial: Trial

    def refuse(self, wrong: Value, env: Mask, code: str, text: str, span: Any, value: Value = None) -> None:
        """Give up where ``wrong`` holds in a lane."""
        if np.any(wrong & env.lanes):
            raise Apart

    def call(self, expr: Call) -> Closure:
        """A call of an intrinsic."""
        if type(expr.op) is GlobalVar:
            raise Apart
        return SharedExprCompiler.call(self, expr)

    def index(self, expr: Expr) -> Closure:
        """A size, which all lanes have in common."""
        value = self.visit(expr)

        def run(env: Mask) -> int:
            found = value(env)
            if np.ndim(found):
                raise Apart
            return int(found)

        return run

    def place(self, buffer: Buffer, indices: tuple[Expr, ...], kind: int, span: Any) -> Callable[[Mask], Any]:
        """Closure giving the view and the offsets of an access in the lanes, one for all if it is the same."""
        if buffer.dtype.lanes > 1 or any([lanes_of(dtype_of(i)) > 1 for i in indices]):
            raise Apart
        guards, compiled = self.guards_of(buffer), [self.visit(i) for i in indices]

        def run(mask: Mask) -> tuple[View, Value]:
            view = view_of(mask, buffer, span)
            point = [np.asarray(mask.picked(c(mask)), np.int64) for c in compiled]
            offset: Value = mask.picked(view.base)
            wrong: Value = len(point) != len(view.shape)
            for index, extent, stride in zip(point, view.shape, view.strides):
                wrong = wrong | (index < 0) | (index >= extent)
                offset = offset + index * stride
            active = [env for guard in guards if (env := mask.get(guard)) is not None]
            outside = np.any(offset < 0) or np.any(offset >= view.count) or view.start < 0
            if np.any(wrong) or outside or not all([_inside(a, buffer, point, kind, mask) for a in active]):
                raise Apart
            return view, offset

        return run

    def load(self, expr: BufferLoad) -> Closure:
        """A load from a buffer."""
        if expr.predicate is not None:
            raise Apart
        dtype, span, read = expr.buffer.dtype, expr.span, self.machine.read
        place, fit = self.place(expr.buffer, expr.indices, READ, span), arrays.fits(dtype)
        narrow = dtype.is_integral and dtype.bits < 8

        def load(mask: Mask) -> Value:
            view, at = place(mask)
            watched = self.trial.watches(view)
            if np.ndim(at) == 0:
                if not watched:
                    return arrays.typed(read(view, int(at), span), dtype)
                at = np.full(mask.count, at)
            written = view.memory.written
            if written is not None and not np.frombuffer(written, np.uint8)[view.start + at * view.size].all():
                raise Apart
            self.trial.touch(view, at, READ, span)
            if watched:
                self.trial.claim(view, at, mask.index)
            found = _numbers(view)[at]
            found = fit(found) if narrow else found != 0 if dtype.is_bool else found
            if mask.all:
                return found
            rows = np.zeros(mask.lanes.size, found.dtype)
            rows[mask.index] = found
            return rows

        return load


def _numbers(view: View) -> np.ndarray:
    kind = np.dtype(np.uint8) if view.dtype.is_bool else arrays.holder(view.dtype)
    return view.memory.raw[view.start : view.start + view.count * view.size].view(kind)


class LaneCompiler(StmtCompiler):
    """Compiles the statements of a nest; ``lanes`` are the loops whose iterations run side by side."""

    expr: LaneExprCompiler
    expressions = LaneExprCompiler

    def __init__(self, machine: Machine, lanes: list[For]) -> None:
        super().__init__(machine)
        self.lanes, self.entered = lanes, 0

    @property
    def trial(self) -> Trial:
        """The running trial."""
        return self.expr.trial

    def loop(self, stmt: For) -> Run:
        """A loop in order in all lanes, or one of which each lane has an iteration."""
        lane = stmt in self.lanes
        if stmt.kind == "parallel" and not lane:
            raise Apart
        self.entered += lane
        depth, counted = self.entered, self.tick is not None
        if counted:
            self.tick = lambda span, env: self.trial.count_steps(depth, span, env)
        if not lane:
            return SharedCompiler.loop(self, stmt)
        self.loops.append(Loop(stmt))
        body = self.visit(stmt.body)
        self.loops.pop()

        def run(env: Env) -> Env:
            if counted:
                self.trial.count_steps(depth, stmt.span, env)
            return body(env)

        return run

    def _break(self, stmt: Break | None) -> Run:
        if self.loops[-1].stmt in self.lanes:
            raise Apart
        return SharedCompiler._break(self, stmt)

    def _continue(self, stmt: Continue | None) -> Run:
        if self.loops[-1].stmt in self.lanes:
            raise Apart
        return super()._continue(stmt)

    def _returning(self, value: Closure | None) -> Run:
        raise Apart

    def attribute(self, stmt: AttrStmt) -> Run:
        """An attribute; a launch has no lanes here."""
        if stmt.key in ("thread_extent", "virtual_thread"):
            raise Apart
        return self.visit(stmt.body)

    # ---- memory

    def declaration(self, stmt: DeclBuffer) -> Run:
        """A view of memory behind a pointer."""
        raise Apart

    def _match(self, match: Any, span: Any) -> Effect:
        raise Apart

    def memory(self, count: int, buffer: Buffer) -> Pointer:
        """Fresh memory for so many elements of a buffer in each lane."""
        size = count * buffer.dtype.itemsize * self.trial.count
        if size > LARGEST:
            raise Apart
        memory = allocate(size, buffer.name)
        self.trial.private.add(memory)
        return Pointer(memory)

    def placed(self, view: View, count: int) -> View:
        """The view of fresh memory: each lane has its own."""
        view.base = view.base + self.trial.lane * count
        return view

    def store(self, stmt: BufferStore) -> Run:
        """A store into a buffer."""
        if stmt.predicate is not None or lanes_of(dtype_of(stmt.value)) > 1:
            raise Apart
        state = not (type(stmt.value) is Call and getattr(stmt.value.op, "name", "") == "T.undef")
        value, dtype = self.expr.visit(stmt.value), stmt.buffer.dtype
        place, ones = self.expr.place(stmt.buffer, stmt.indices, WRITE, stmt.span), (1 << dtype.bits) - 1

        def run(mask: Mask) -> Mask:
            new = mask.picked(value(mask))
            view, at = place(mask)
            at, memory = np.broadcast_to(at, mask.count), view.memory
            self.trial.touch(view, at, WRITE, stmt.span)
            if memory not in self.trial.private:
                if memory not in self.trial.owners or not memory.raw.flags.writeable:
                    raise Apart
                self.trial.claim(view, at, mask.index)
            _numbers(view)[at] = new & ones if dtype.is_integral and 1 < dtype.bits < 8 else new
            if memory.written is not None:
                cells = (view.start + at * view.size)[:, None] + np.arange(view.size)
                np.frombuffer(memory.written, np.uint8)[cells] = state
            return mask

        return run
