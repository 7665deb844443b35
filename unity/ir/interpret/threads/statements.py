"""Statements of a kernel: thread axes, loops of divergent lanes, and its memory.

Memory of a kernel is static: an allocation inside a loop is one memory for all iterations, so that races between them are seen,
but nothing in it counts as written when one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, Var
from ...scalar import CommReducer, IterVar
from ...stmt import AttrStmt, BufferStore, For, IfThenElse, Stmt
from ...walk import collect
from ..common.arrays import Value, limits
from ..common.blocks import Run, view_maker
from ..common.expressions import Closure, Env, union_lanes
from ..common.statements import Both, Loop, StmtCompiler as SharedCompiler
from ..scalar.memory import Memory
from .barriers import deadlock
from .expressions import ExprCompiler
from .fibers import Fibers
from .lanes import Mask
from .memory import Address, Storage, rank_of
from .wave import Wave

LARGEST = 1 << 32
"""Bytes that the copies of one buffer may take together."""


class StmtCompiler(SharedCompiler):
    """Compiles the statements of one kernel. ``granule`` is the size of its memory cells, ``axes`` gives tag and key of thread
    variables; ``track`` is told of new memory."""

    expr: ExprCompiler
    pointer = Address

    def __init__(
        self,
        wave: Wave,
        granule: int,
        axes: dict[Var, tuple[str, tuple[str, int]]],
        track: Callable[[Storage], None],
        waits: bool = False,
    ) -> None:
        super().__init__(ExprCompiler(wave), wave.machine.step)
        self.wave, self.granule, self.axes, self.track, self.waits = wave, granule, axes, track, waits
        self.open_virtual: tuple[tuple[str, int], ...] = ()
        self.statics: dict[Buffer, Storage] = {}
        """Memory of the running batch by buffer."""

    def leave(self, env: Mask, value: Any) -> None:
        """The lanes return."""
        self.wave.batch.alive &= ~env.lanes

    def store(self, stmt: BufferStore) -> Run:
        """A store into a buffer."""
        value = self.expr.visit(stmt.value)
        where = self.expr.locator(stmt.buffer, stmt.indices, stmt.predicate, "store", stmt.span)
        defined = not (type(stmt.value) is Call and getattr(stmt.value.op, "name", "") == "T.undef")

        def run(mask: Mask) -> Mask:
            where.store(mask, value(mask), defined)
            return mask

        return run

    # ---- memory

    def address_of(self, data: np.ndarray, name: str) -> Address:
        """The address of constant data, one copy for all threads."""
        return Address(Storage.of_memory(Memory.of_array(data, name), self.granule), np.int64(0))

    def allocation(self, buffer: Buffer) -> Callable[[Mask], None]:
        """Closure giving a buffer memory in which nothing is written."""
        rank = rank_of(buffer.scope)
        if rank is None or rank == "grid":
            raise InterpreterError(
                "E368", f"{buffer.name} is allocated inside a kernel in scope {buffer.scope!r}", buffer.span,
                help="inside a kernel there is shared, shared.dyn, warp, local and wmma memory",
            )  # fmt: skip
        shape, make = [self.expr.index(e) for e in buffer.shape], view_maker(self.expr, buffer)
        open_virtual, statics = self.open_virtual, self.statics

        def run(mask: Mask) -> None:
            storage = statics.get(buffer)
            sizes = [e(mask) for e in shape]
            if any([np.ndim(s) for s in sizes]):
                raise InterpreterError("E368", f"{buffer.name} has another size in each thread", buffer.span)
            count = int(np.prod([int(s) for s in sizes], dtype=np.float64)) * buffer.dtype.itemsize
            if storage is not None and storage.limit == count:
                storage.forget(mask)
            else:
                storage = statics[buffer] = self._fresh(buffer, rank, count, open_virtual)
            address = Address(storage, np.int64(0))
            mask[buffer.data] = address
            mask[buffer] = make(mask, address)

        return run

    def _fresh(self, buffer: Buffer, rank: str, count: int, open_virtual: tuple[tuple[str, int], ...]) -> Storage:
        owner, copies = self.wave.batch.owners(rank, open_virtual)
        if count < 0 or copies * count > LARGEST:
            raise InterpreterError(
                "E368", f"{buffer.name} needs {count} bytes for each of {copies} owners ({buffer.scope})", buffer.span,
                help="allocate it inside the thread loops and compact it to the part each owner uses",
            )  # fmt: skip
        storage = Storage.fresh(count, owner, copies, self.granule, buffer.name, buffer.scope)
        self.track(storage)
        return storage

    # ---- loops

    def loop(self, stmt: For) -> Run:
        """A loop, or the threads along an axis; the accesses of a vectorized loop are counted as one."""
        if stmt.kind == "thread_binding":
            return self._thread_axis(stmt.loop_var, stmt.body, self.expr.index(stmt.min))
        serial, wave = super().loop(stmt), self.wave
        if stmt.kind != "vectorized":
            return serial

        def run(mask: Mask) -> Env:
            if wave.together is not None:
                return serial(mask)
            wave.together = {}
            left = serial(mask)
            wave.count_together()
            return left

        return run

    def divergent_loop(
        self, loop: Loop, body: Run, first: Value, count: Value, stride: Value, env: Mask
    ) -> Mask | None:
        """A loop whose lanes have different numbers of iterations."""
        var, span = loop.stmt.loop_var, loop.stmt.span  # type: ignore[union-attr]
        dtype = dtype_of(var).numpy.type
        if np.any(np.asarray(stride) < 1):
            raise InterpreterError("E324", f"loop over {var.name} has a step below 1", span)
        past = np.asarray(first, np.float64) + count > float(limits(dtype_of(var))[1]) + 1
        self.expr.refuse((count > 0) & past, env, "E324", f"loop over {var.name} leaves the range of its type", span)
        longest, least = int(np.max(np.where(env.lanes, count, 0), initial=0)), int(np.min(stride))
        live: Mask | None = env
        done, number = None, 0
        while live is not None and number * least < longest:
            offset = dtype(number) * stride
            live, rest = live.split(np.broadcast_to(offset < count, env.lanes.shape))
            done = union_lanes(done, rest)
            if live is not None:
                self.wave.machine.step(span)
                live[var] = first + offset
                live = loop.continuing(body(live))
            number += 1
        return loop.exited(union_lanes(live, done))  # type: ignore[no-any-return]

    def branches(self, stmt: IfThenElse) -> Both:
        """Lanes that part run their cases beside each other where they may wait for one another."""
        waits = [call for call in collect(stmt, Call) if call.op_name == "T.ptx_wait_barrier"] if self.waits else []
        if not waits or stmt.else_case is None:
            return super().branches(stmt)
        wave = self.wave

        def run(then_case: Run, first: Mask, else_case: Run, other: Mask) -> tuple[Env, Env]:
            return wave.record(Fibers).run_both(
                lambda: then_case(first),
                lambda: else_case(other),
                lambda: deadlock(wave, waits[0], int(first.index[0])),
            )

        return run

    # ---- thread axes

    def _thread_axis(self, var: Var, body_stmt: Stmt, low: Closure | None) -> Run:
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
            mask[var] = (value if low is None else value + low(mask)).astype(dtype)

        def run(mask: Mask) -> Mask | None:
            bind(mask)
            return body(mask)  # type: ignore[no-any-return]

        def run_virtual(mask: Mask) -> Mask | None:
            batch = wave.batch
            for known in carried:
                value = mask.get(known)
                if isinstance(value, np.ndarray) and len(value) == batch.size:
                    mask[known] = batch.broadcast(value, key)
            bind(mask)
            body(Mask(batch.broadcast(mask.lanes, key), mask.env))
            return mask.split(batch.alive)[0]

        return run_virtual if virtual else run

    def attribute(self, stmt: AttrStmt) -> Run:
        """A thread axis, the scope of a reduction across threads, or something else that has no meaning here."""
        if stmt.key in ("thread_extent", "virtual_thread") and type(stmt.node) is IterVar:
            return self._thread_axis(stmt.node.var, stmt.body, None)
        reducer = [stmt.node] if stmt.key == "reduce_scope" and type(stmt.node) is CommReducer else []
        self.expr.reducers.extend(reducer)
        body = self.visit(stmt.body)
        del self.expr.reducers[len(self.expr.reducers) - len(reducer) :]
        return body
