"""A kernel: the part of a tensor program under its outermost thread axis. Finds its extents, runs its blocks batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...analysis.threads import ThreadAxis, thread_axes
from ...analysis.use import declared_buffers
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, Op, StringImm, Var
from ...scalar import BufferLoad
from ...stmt import Block, BufferStore, DeclBuffer, For, Stmt
from ...types import Expr, PrimType
from ...walk import collect, free_vars
from ..common.arrays import typed
from ..scalar.machine import Machine
from ..scalar.memory import Pointer, View
from .barriers import end_stores
from .findings import Log
from .lanes import AXES, MAX_THREADS, Batch, Geometry
from .memory import Address, Array, Storage, array, rank_of
from .shadow import NOBODY, Shadow
from .statements import StmtCompiler
from .wave import Wave

MAX_BLOCKS = 1 << 31
MAX_VIRTUAL = 1 << 22
"""Lanes of one block, virtual threads included."""
HostValue = Callable[[dict[Any, Any]], Any]


def _checked_tag(axis: ThreadAxis) -> str:
    kind, _, letter = axis.tag.partition(".")
    if (kind in ("blockIdx", "threadIdx") and letter in AXES) or kind in ("vthread", "cthread"):
        return kind
    raise InterpreterError("E367", f"unknown thread axis {axis.tag!r}", axis.span)


class Kernel:
    """A compiled kernel. ``host`` compiles expressions of the code around it, where ``around`` is declared for kernels."""

    def __init__(
        self,
        stmt: Stmt,
        machine: Machine,
        log: Log,
        host: Callable[[Expr], HostValue],
        granule: int,
        max_lanes: int,
        around: Sequence[Buffer] = (),
    ) -> None:
        self.stmt, self.log, self.granule, self.max_lanes = stmt, log, granule, max_lanes
        self.axes = thread_axes(stmt)
        self.extents = [host(a.extent) for a in self.axes]
        inner = {a.var for a in self.axes} | {v for f in collect(stmt, For) for v in (f.loop_var,)}
        for axis in self.axes:
            _checked_tag(axis)
            if any([v in inner for v in free_vars(axis.extent)]):
                text = f"the extent of {axis.tag} depends on a value computed inside the kernel"
                raise InterpreterError("E367", text, axis.span)
        self.wave = Wave(log, machine)
        self.wave.tags = {a.var: a.tag for a in self.axes}
        axes = {a.var: (a.tag, a.key) for a in self.axes}
        called = {call.op_name for call in collect(stmt, Call)}
        self.proxies = bool(called & {"T.ptx_wgmma", "T.ptx_cp_async_bulk_tensor_store"})
        self.statements = StmtCompiler(self.wave, granule, axes, self._track_static, "T.ptx_wait_barrier" in called)
        self.body = self.statements.visit(stmt)
        syncs = [_sync_scope(c) for c in collect(stmt, Call)]
        self.warp_syncs, self.grid_sync = "warp" in syncs, "global" in syncs
        used = dict.fromkeys(free_vars(stmt))
        buffers, declared = collect(stmt, Buffer), declared_buffers(stmt)
        for buffer in buffers:  # declarations show their shapes
            for expr in (
                *buffer.shape,
                *buffer.strides,
                *((buffer.elem_offset,) if buffer.elem_offset is not None else ()),
            ):
                used.update(dict.fromkeys(free_vars(expr)))
        self.outside = [v for v in used if v not in inner]
        self.written = written_pointers(stmt)
        self.buffers = [b for b in buffers if b not in declared]
        self.buffers += [
            b for b in around if b.data in used and b not in self.buffers
        ]  # an instruction takes the pointer
        self.atomics = any([s.atomic for s in log.sites])
        self.makers = {b: self.statements.allocation(b) for b in self.buffers if rank_of(b.scope) not in (None, "grid")}

    def launch(self, env: dict[Any, Any]) -> None:
        """Run all blocks with the values of the code around the kernel."""
        geometry = self._geometry(env)
        self.log.launches += 1
        if not geometry.block_count or not geometry.thread_count or not geometry.virtual_count:
            return
        storages: dict[int, Storage] = {}
        outer = self._outer_values(env, storages)
        per_block = geometry.padded * geometry.virtual_count
        together = geometry.block_count if self.grid_sync else max(1, self.max_lanes // per_block)
        clock = 1
        for first in range(0, geometry.block_count, together):
            self.wave.machine.step(self.axes[0].span)
            batch = Batch(geometry, first, min(together, geometry.block_count - first), clock)
            self.statements.statics.clear()
            self.wave.proxied.clear()
            self.wave.start(batch, dict(outer))
            for make in self.makers.values():
                make(batch.start)
            self.body(batch.start)
            end_stores(self.wave)
            clock = batch.clock + 1
        for storage in storages.values():
            storage.write_back()

    def _geometry(self, env: dict[Any, Any]) -> Geometry:
        extents: dict[tuple[str, int], int] = {}
        for axis, value in zip(self.axes, self.extents):
            extent = int(value(env))
            key = axis.key if _checked_tag(axis) in ("vthread", "cthread") else (axis.tag, 0)
            if extents.setdefault(key, extent) != extent:
                text = f"{axis.tag} has extent {extent} here and {extents[key]} elsewhere in the kernel"
                raise InterpreterError("E367", text, axis.span)
        blocks, threads = [
            tuple([extents.get((f"{kind}.{a}", 0), 1) for a in AXES]) for kind in ("blockIdx", "threadIdx")
        ]
        virtual = tuple([(k, n) for k, n in extents.items() if not k[0].startswith(("blockIdx", "threadIdx"))])
        if min([*blocks, *threads, *[n for _, n in virtual]]) < 0:
            raise InterpreterError("E367", f"a launch of {blocks} blocks of {threads} threads", self.axes[0].span)
        geometry = Geometry(blocks, threads, virtual)  # type: ignore[arg-type]
        if geometry.block_count >= MAX_BLOCKS or geometry.virtual_count * geometry.padded > MAX_VIRTUAL:
            text = f"{geometry.block_count} blocks, {geometry.virtual_count} virtual threads of each thread: too many"
            raise InterpreterError("E367", text, self.axes[0].span)
        if geometry.thread_count > MAX_THREADS:
            raise InterpreterError(
                "E367", f"{geometry.thread_count} threads in a block, at most {MAX_THREADS} can run", self.axes[0].span
            )
        return geometry

    def _outer_values(self, env: dict[Any, Any], storages: dict[int, Storage]) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for var in self.outside:
            found = env.get(var)
            if isinstance(found, Pointer):
                storage = self._global(found, storages)
                values[var] = Address(storage, np.int64(found.offset))
                if var in self.written:
                    storage.track(self.warp_syncs, self.atomics)
            elif found is not None and isinstance(var.ty, PrimType) and var.ty.dtype.code != "handle":
                values[var] = typed(found, dtype_of(var))
        for buffer in self.buffers:
            view = env.get(buffer)
            if not isinstance(view, View) or rank_of(buffer.scope) != "grid":
                continue
            pointer = Pointer(view.memory, view.start)
            storage = self._global(pointer, storages)
            if buffer.data in self.written:
                storage.track(self.warp_syncs, self.atomics)
            values[buffer] = _array_of(view, storage)
            values.setdefault(buffer.data, Address(storage, np.int64(view.start)))
        return values

    def _global(self, pointer: Pointer, storages: dict[int, Storage]) -> Storage:
        memory = pointer.memory
        found = storages.get(id(memory))
        if found is None:
            found = storages[id(memory)] = Storage.of_memory(memory, self.granule)
        return found

    def _track_static(self, storage: Storage) -> None:
        """Race detection in memory several threads see (shared and warp)."""
        if storage.scope.startswith("shared") or storage.scope == "warp":
            cells = storage.raw.size // storage.granule
            storage.shadow = Shadow(cells, False, self.warp_syncs, self.atomics)
            if self.proxies:
                storage.stored = np.full(cells, NOBODY)
                self.wave.proxied.append(storage)


def _array_of(view: View, storage: Storage) -> Array:
    shape = tuple([np.int64(n) for n in view.shape])
    strides = tuple([np.int64(n) for n in view.strides])
    return array(storage, np.int64(view.start), view.dtype, shape, strides, np.int64(view.base), view.name)


def _sync_scope(call: Call) -> str:
    if type(call.op) is Op and call.op.name == "T.tvm_storage_sync" and type(call.args[0]) is StringImm:
        return call.args[0].value
    return ""


def written_pointers(stmt: Stmt) -> set[Any]:
    """Pointers of memory that may be written: stored into, or with the address handed on (unless that is marked as read only)."""
    pointers: set[Any] = set()
    for node in collect(stmt, (BufferStore, Call, Block, DeclBuffer)):
        match node:
            case BufferStore():
                pointers.add(node.buffer.data)
            case Block():
                pointers.update([m.source.buffer.data for m in node.match_buffers])
            case Call() if type(node.op) is Op:
                if node.op.name == "T.tvm_access_ptr":
                    if getattr(node.args[4], "value", 3) != 1:
                        pointers.add(node.args[1])
                else:
                    pointers.update([a for a in node.args if isinstance(a, Var)])
                    pointers.update([a.buffer.data for a in node.args if type(a) is BufferLoad])
    return pointers
