"""Blocks and declarations of buffers in a kernel.

Memory of a kernel is static: an allocation inside a loop is one memory for all turns, so that races between turns are seen,
but nothing in it counts as written when a turn begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer, MatchBufferRegion
from ...expr import Var
from ...stmt import AllocBuffer, AllocConst, BlockRealize, DeclBuffer, Stmt
from ..scalar.memory import Memory
from .expressions import ExprCompiler
from .lanes import Mask
from .memory import Address, Array, Storage, array, rank_of
from .wave import Wave

Run = Callable[[Mask], Mask]
LARGEST = 1 << 32
"""Bytes that the copies of one buffer may take together."""


class Statements(Protocol):
    """The part of the statement compiler that blocks need."""

    wave: Wave
    expr: ExprCompiler
    granule: int
    open_virtual: tuple[tuple[str, int], ...]
    bound: list[Var]

    def visit(self, stmt: Stmt) -> Run: ...


class MemoryCompiler:
    """Compiles declarations and blocks for a statement compiler."""

    def __init__(self, stmt: Statements) -> None:
        self.stmt = stmt
        self.statics: dict[Buffer, Storage] = {}
        """Memory of the running batch by buffer."""
        self.track: Callable[[Storage], None] = lambda storage: None
        """Told of new memory."""

    @property
    def expr(self) -> ExprCompiler:
        """The expression compiler of the kernel."""
        return self.stmt.expr

    def view_maker(self, buffer: Buffer) -> Callable[[Address, Mask], Array]:
        """Closure making the array of a buffer over an address."""
        shape = [self.expr.index(e) for e in buffer.shape]
        strides = [self.expr.index(e) for e in buffer.strides]
        base = self.expr.index(buffer.elem_offset) if buffer.elem_offset is not None else None

        def make(address: Address, mask: Mask) -> Array:
            return array(
                address.storage, address.offset, buffer.dtype, tuple([e(mask) for e in shape]),
                tuple([e(mask) for e in strides]), base(mask) if base is not None else np.int64(0), buffer.name,
            )  # fmt: skip

        return make

    def allocation(self, buffer: Buffer) -> Callable[[Mask], None]:
        """Closure giving a buffer memory in which nothing is written."""
        rank = rank_of(buffer.scope)
        if rank is None or rank == "grid":
            raise InterpreterError(
                "E368", f"{buffer.name} is allocated inside a kernel in scope {buffer.scope!r}", buffer.span,
                help="inside a kernel there is shared, shared.dyn, warp, local and wmma memory",
            )  # fmt: skip
        shape, make, wave = [self.expr.index(e) for e in buffer.shape], self.view_maker(buffer), self.stmt.wave
        open_virtual, statics = self.stmt.open_virtual, self.statics

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
            wave.env[buffer.data] = address
            wave.env[buffer] = make(address, mask)

        return run

    def _fresh(self, buffer: Buffer, rank: str, count: int, open_virtual: tuple[tuple[str, int], ...]) -> Storage:
        owner, copies = self.stmt.wave.batch.owners(rank, open_virtual)
        if count < 0 or copies * count > LARGEST:
            raise InterpreterError(
                "E368", f"{buffer.name} needs {count} bytes for each of {copies} owners ({buffer.scope})", buffer.span,
                help="allocate it inside the thread loops and compact it to the part each owner uses",
            )  # fmt: skip
        storage = Storage.fresh(count, owner, copies, self.stmt.granule, buffer.name, buffer.scope)
        self.track(storage)
        return storage

    def alloc(self, stmt: AllocBuffer) -> Run:
        """An allocation."""
        return self._effect(self.allocation(stmt.buffer))

    def constant(self, stmt: AllocConst) -> Run:
        """Constant data, one copy for all threads."""
        buffer, make, wave = stmt.buffer, self.view_maker(stmt.buffer), self.stmt.wave
        data = stmt.data.numpy().copy()
        data.flags.writeable = False
        memory = Memory.of_array(data, buffer.name)

        def run(mask: Mask) -> Mask:
            address = Address(Storage.of_memory(memory, self.stmt.granule), np.int64(0))
            wave.env[buffer.data] = address
            wave.env[buffer] = make(address, mask)
            return mask

        return run

    @staticmethod
    def _effect(effect: Callable[[Mask], None]) -> Run:
        def run(mask: Mask) -> Mask:
            effect(mask)
            return mask

        return run

    def declare(self, stmt: DeclBuffer) -> Run:
        """A view of memory behind a pointer."""
        buffer, make, wave = stmt.buffer, self.view_maker(stmt.buffer), self.stmt.wave

        def run(mask: Mask) -> Mask:
            address = wave.env.get(buffer.data)
            if not isinstance(address, Address):
                text = f"buffer {buffer.name} is declared over a pointer that has no value"
                raise InterpreterError("E323", text, stmt.span)
            wave.env[buffer] = make(address, mask)
            return mask

        return run

    # ---- blocks

    def realize(self, stmt: BlockRealize) -> Run:
        """A block with values for its iterators."""
        block, wave = stmt.block, self.stmt.wave
        depth = len(self.stmt.bound)
        values = [(iv.var, self.expr.visit(v)) for iv, v in zip(block.iter_vars, stmt.iter_values)]
        self.stmt.bound.extend([iv.var for iv in block.iter_vars])
        reductions = [
            (iv.var, self.expr.visit(iv.dom.min)) for iv in block.iter_vars if iv.kind == "R" and iv.dom is not None
        ]
        predicate = self.expr.visit(stmt.predicate)
        before = [self.allocation(b) for b in block.alloc_buffers]
        before += [self._match(m) for m in block.match_buffers]
        init = self.stmt.visit(block.init) if block.init is not None else None
        body = self.stmt.visit(block.body)
        del self.stmt.bound[depth:]

        def run(mask: Mask) -> Mask:
            for var, found in [(var, value(mask)) for var, value in values]:
                wave.env[var] = found
            inner = mask.where(predicate(mask))
            if not inner.count:
                return mask
            for effect in before:
                effect(inner)
            if init is not None:
                starting = inner
                for var, low in reductions:
                    starting = starting.where(wave.env[var] == low(inner))
                if starting.count:
                    init(starting)
            after = body(inner)
            return mask if after is inner else mask.without(inner).union(after)

        return run

    def _match(self, match: MatchBufferRegion) -> Callable[[Mask], None]:
        source, target, wave = match.source, match.buffer, self.stmt.wave
        region = [(self.expr.index(r.min), self.expr.index(r.extent)) for r in source.region]
        shape = [self.expr.index(e) for e in target.shape]

        def run(mask: Mask) -> None:
            view: Array = wave.env[source.buffer]
            sizes = tuple([e(mask) for e in shape])
            lows = [low(mask) for low, _ in region]
            base = view.base
            for low, stride in zip(lows, view.strides):
                base = base + low * stride
            strides = view.strides[len(view.strides) - len(sizes) :]
            for given, value in (*zip(target.strides, strides), (target.elem_offset, base)):
                if type(given) is Var:
                    wave.env[given] = value
            wave.env[target.data] = Address(view.storage, view.start)
            wave.env[target] = array(view.storage, view.start, target.dtype, sizes, strides, base, target.name)

        return run
