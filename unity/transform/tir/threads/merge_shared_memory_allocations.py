"""merge_shared_memory_allocations: the dynamic shared memory of a kernel becomes one buffer, in which buffers that are never live
at the same time overlap.

A launch has one block of dynamic shared memory (scope "shared.dyn"). Buffers become views of it at offsets in bytes. A buffer is
live from the first to the last statement of a sequence that uses it: the sequence of the kernel, or that of the one loop that holds
all uses, if all threads run it equally often. It lives on until instructions that run beside the threads are done with it, and all
through a loop if an iteration may leave values in it to the next: if it is allocated outside, or such an instruction is not waited
for. If a buffer reuses the place of a dead one, a barrier is put between the two, and in a loop another one at its beginning.
Buffers of symbolic size do not overlap with others and lie behind them. The same holds for all buffers of a kernel with its own
barriers (``T.create_barriers``), whose statements do not run in order. Static shared memory (scope "shared") stays as it is.

Rewrite: ``A: alloc (256,) float32 shared.dyn; B: alloc (64,) float16 shared.dyn; ..`` -> ``m: alloc (1152,) uint8 shared.dyn;
a = m.data + 0; A: view of a; b = m.data + 1024; B: view of b; ..``. Run it after ``thread_sync`` and ``flatten_buffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.analysis.asynchronous import STORE
from ....ir.analysis.threads import is_thread_axis
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import add, cast, ceildiv, const, intrinsic, is_int, mul
from ....ir.expr import Call, IntImm, StringImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import NOTHING, AllocBuffer, Bind, DeclBuffer, Evaluate, For, SeqStmt, Stmt, seq, statements_of
from ....ir.types import Expr, PointerType
from ....ir.walk import StatementRewriter, collect, free_vars, used_vars
from ...infra.passes import prim_func_pass
from ..blocks.lower_opaque_block import leaves_loop
from .thread_accesses import has_barriers
from .unify_thread_binding import launch_of, with_launch

SCOPE = "shared.dyn"
ALIGN = 128
"""Alignment of the offsets in bytes: the largest that copies and matrix instructions need."""


@dataclass(slots=True)
class _LiveRange:
    """A buffer of constant size, the statements that use it, and its place."""

    buffer: Buffer
    size: int
    first: int
    last: int
    offset: int = 0

    def overlaps(self, other: _LiveRange) -> bool:
        """True if both are live at some time."""
        return self.first <= other.last and other.first <= self.last

    def shares_bytes(self, other: _LiveRange) -> bool:
        """True if both places have a byte in common."""
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def _parts(body: Stmt) -> tuple[Stmt, ...]:
    return statements_of(body)


def _size(buffer: Buffer) -> Expr:
    size: Expr = const(buffer.dtype.itemsize, "int64")
    for extent in buffer.shape:
        size = mul(size, cast(extent, "int64"))
    return size


def _bytes(buffer: Buffer) -> int:
    size = _size(buffer)
    assert type(size) is IntImm
    return size.value


def _rounded(size: int, align: int = ALIGN) -> int:
    return -(-size // align) * align


def _assign_offsets(lives: Sequence[_LiveRange]) -> int:
    """Place each buffer, the largest first, at the lowest offset that is free while it is live. Returns the bytes used."""
    done: list[_LiveRange] = []
    for life in sorted(lives, key=lambda one: -one.size):
        others = sorted([one for one in done if one.overlaps(life)], key=lambda one: one.offset)
        for other in others:
            if life.shares_bytes(other):
                life.offset = _rounded(other.offset + other.size, max(ALIGN, life.buffer.align))
        done.append(life)
    return max([_rounded(life.offset + life.size) for life in lives], default=0)


_BESIDE = {
    "T.ptx_cp_async": ((0,), "T.ptx_commit_group", "T.ptx_wait_group"),
    STORE: ((0,), "T.ptx_cp_async_bulk_commit_group", "T.ptx_cp_async_bulk_wait_group"),
    "T.ptx_wgmma": ((6, 8), "T.ptx_wgmma_commit_group", "T.ptx_wgmma_wait_group"),
}
"""Instructions that use shared memory beside the threads: their pointers to it, what commits a group of them, and what waits."""


def _waits(stmt: Stmt, name: str) -> bool:
    """True if a statement waits, under no condition, for all groups of a kind."""
    call = stmt.value if type(stmt) is Evaluate else None
    return type(call) is Call and call.op_name == name and is_int(call.args[0], 0)


def _is_barrier(stmt: Stmt) -> bool:
    value = stmt.value if type(stmt) is Evaluate else None
    scope = value.args[0] if type(value) is Call and value.op_name == "T.tvm_storage_sync" else None
    return type(scope) is StringImm and scope.value.startswith("shared")


class _Merge:
    """Merges the buffers of one kernel."""

    def __init__(self, allocs: Sequence[AllocBuffer], uniform: set[Var]) -> None:
        self.uniform = uniform
        """Variables that have the same value in all threads of a block."""
        self.fixed = [a.buffer for a in allocs if type(_size(a.buffer)) is IntImm]
        self.free = [a.buffer for a in allocs if a.buffer not in self.fixed]
        self.roots: dict[Var, set[Var]] = {a.buffer.data: {a.buffer.data} for a in allocs}
        """The allocations that a pointer may point into."""
        self.lives: list[_LiveRange] = []

    def kernel(self, body: Stmt) -> Stmt:
        """The body of a kernel with one buffer of dynamic shared memory."""
        for bind in collect(body, Bind):
            if isinstance(bind.var.ty, PointerType) and (roots := self._used(bind.value)):
                self.roots[bind.var] = roots
        if has_barriers(body):
            self.lives = [_LiveRange(buffer, max(1, _bytes(buffer)), 0, 0) for buffer in self.fixed]
        else:
            body = self._within(body, looped=False)
        total: Expr = const(_assign_offsets(self.lives), "int64")
        offsets: dict[Buffer, Expr] = {life.buffer: const(life.offset, "int64") for life in self.lives}
        for buffer in self.free:
            offsets[buffer] = total
            total = add(total, mul(ceildiv(_size(buffer), ALIGN), ALIGN))
        align = max([ALIGN, *[buffer.align for buffer in offsets]])
        memory = replace(make_buffer("shared_dyn", "uint8", (total,), SCOPE), align=align)
        views: list[Stmt] = [AllocBuffer(memory)]
        for buffer, offset in offsets.items():
            address = intrinsic("handle_add_byte_offset", memory.data, offset)
            views += [Bind(buffer.data, address), DeclBuffer(buffer)]
        return seq(*views, _without(body, {*offsets}))

    def _used(self, node: Stmt | Expr) -> set[Var]:
        """The allocations that a node uses."""
        return {root for var in used_vars(node) for root in self.roots.get(var, ())}

    def _within(self, body: Stmt, looped: bool) -> Stmt:
        """Find the lives of buffers in the sequence that holds their uses, and put barriers between buffers that overlap."""
        parts = _parts(body)
        uses = [set() if type(part) is AllocBuffer else self._used(part) for part in parts]
        users = [position for position, used in enumerate(uses) if used]
        inner = parts[users[0]] if len(users) == 1 else None
        if type(inner) is For and type(inner.body) is SeqStmt and self._is_uniform(inner):
            self.uniform.add(inner.loop_var)
            made = replace(inner, body=self._within(inner.body, looped=True))
            return seq(*parts[: users[0]], made, *parts[users[0] + 1 :])
        calls = [collect(part, Call) for part in parts]
        inside = {alloc.buffer for alloc in collect(body, AllocBuffer)}
        for buffer in self.fixed:
            at = [position for position, used in enumerate(uses) if buffer.data in used] or [0]
            first, last = at[0], self._done(parts, calls, at[-1], buffer)
            if looped and (last is None or buffer not in inside):
                first, last = 0, None
            self.lives.append(
                _LiveRange(buffer, max(1, _bytes(buffer)), first, len(parts) - 1 if last is None else last)
            )
        _assign_offsets(self.lives)
        reused = [(a, b) for a in self.lives for b in self.lives if a.last < b.first and a.shares_bytes(b)]
        if not reused:
            return body
        barriers = [position for position, part in enumerate(parts) if _is_barrier(part)]
        needed = {b.first for a, b in reused if not any([a.last < position < b.first for position in barriers])}
        if looped:
            needed.add(users[0])
        barrier = Evaluate(intrinsic("tvm_storage_sync", StringImm("shared")))
        return seq(*[part for k, stmt in enumerate(parts) for part in ((barrier, stmt) if k in needed else (stmt,))])

    def _done(self, parts: Sequence[Stmt], calls: Sequence[Sequence[Call]], last: int, buffer: Buffer) -> int | None:
        """The statement from ``last`` on after which nothing that runs beside the threads uses a buffer; None if there is none.
        ``calls``: those of each statement."""
        end = len(parts)
        for name, (places, commits, waits) in _BESIDE.items():
            begun = [
                k
                for k, found in enumerate(calls)
                if any([c.op_name == name and buffer.data in self._used(c.args[p]) for c in found for p in places])
            ]
            if begun:
                after = range(begun[-1], end)
                committed = next((k for k in after if any([c.op_name == commits for c in calls[k]])), end)
                waited = next((k for k in range(committed + 1, end) if _waits(parts[k], waits)), end)
                if waited == end:
                    return None
                last = max(last, waited)
        return last

    def _is_uniform(self, loop: For) -> bool:
        bounds = (loop.min, loop.extent)
        even = all([v in self.uniform for bound in bounds for v in used_vars(bound)])
        return (
            loop.kind == "serial"
            and even
            and not any([collect(b, (BufferLoad, Call)) for b in bounds])
            and not leaves_loop(loop.body)
        )


def _without(body: Stmt, buffers: set[Buffer]) -> Stmt:
    """A kernel without the allocations of some buffers."""

    class Drop(StatementRewriter):
        def enter(self, node: Any) -> Any | None:
            return NOTHING if type(node) is AllocBuffer and node.buffer in buffers else None

    return Drop()(body)


class _Kernels(StatementRewriter):
    def enter(self, node: Any) -> Any | None:
        if not is_thread_axis(node):
            return None
        allocs = [alloc for alloc in collect(node, AllocBuffer) if alloc.buffer.scope == SCOPE]
        if len(allocs) < 2:
            return node
        axes, body = launch_of(node)
        uniform = set(free_vars(node)) | {a.node.var for a in axes if a.node.thread_tag.startswith("blockIdx")}
        return with_launch(axes, _Merge(allocs, uniform).kernel(body))


@prim_func_pass()
def merge_shared_memory_allocations(func: PrimFunc) -> PrimFunc:
    """Merge the dynamic shared memory of each kernel into one buffer."""
    return replace(func, body=_Kernels()(func.body))
