"""The rule for programs, or parts of them, that are not nests of blocks: it binds loops and statements as they stand.

Blocks are lowered first. A loop with independent iterations (or one that is written as parallel) is distributed over threads. Other
loops run on the host, around kernels, if they read no element, and otherwise in one thread with all that is inside them.
Small buffers of a thread are in its local memory; others become one buffer with a place for each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.analysis.reductions import REDUCTION
from ....ir.analysis.threads import thread_axes
from ....ir.buffer import Buffer
from ....ir.build import add, ceildiv, const, dtype_of, floordiv, floormod, is_int, lt, mul
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)  # fmt: skip
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import Rewriter, collect, free_vars, rewrite, substitute, used_vars
from ...infra.backend import GpuMachine
from ...tir.analysis.loop_nests import calls_are_pure, is_shareable
from ...tir.blocks.lower_match_buffer import lower_match_buffer
from ...tir.blocks.lower_opaque_block import convert_blocks_to_opaque, lower_init_block, lower_opaque_block
from ...tir.expressions.simplify import simplify
from .common.stages import size_of, threads_for

LOCAL_BYTES = 1024
"""Most bytes of a buffer that a thread keeps in its local memory."""
_BLOCKS = (lower_init_block, lower_match_buffer, convert_blocks_to_opaque, lower_opaque_block, simplify)
_DECLARATIONS = (AllocBuffer, AllocConst, DeclBuffer)


def bind_remaining(func: PrimFunc, gpu: GpuMachine) -> PrimFunc:
    """Bind everything in a program that is not bound yet."""
    body = func.body
    root = body if type(body) is BlockRealize and not body.block.iter_vars else None
    inside = root.block.body if root is not None else body
    parts = inside.stmts if type(inside) is SeqStmt else (inside,)
    made = seq(*_Host(func, gpu).sequence([_without_blocks(func, part) for part in parts]))
    if root is None:
        return replace(func, body=made)
    return replace(func, body=replace(root, block=replace(root.block, body=made, reads=None, writes=None)))


def is_bound(stmt: Stmt) -> bool:
    """True if a statement launches a kernel, does nothing, or checks sizes, as the host does before the kernels."""
    if type(stmt) is AssertStmt:
        return not _reads_elements(stmt.cond)
    return type(stmt) in _DECLARATIONS or bool(thread_axes(stmt))


def _without_blocks(func: PrimFunc, part: Stmt) -> Stmt:
    if is_bound(part):
        return part
    lowered = replace(func, body=part)
    for step in _BLOCKS:
        lowered = step.on(lowered)
    return lowered.body


def _reads_elements(expr: Expr) -> bool:
    return bool(collect(expr, BufferLoad)) or not calls_are_pure(expr)


class _Host:
    """Statements on the host: kernels, what is around them, and allocations."""

    def __init__(self, func: PrimFunc, gpu: GpuMachine) -> None:
        self.func, self.gpu = func, gpu

    def sequence(self, parts: Sequence[Stmt]) -> list[Stmt]:
        """Statements in order as kernels; consecutive ones that one thread runs share a kernel."""
        made: list[Stmt] = []
        pending: list[Stmt] = []

        def flush() -> None:
            if pending:
                made.append(self.serial_kernel(seq(*pending)))
                pending.clear()

        for whole in parts:
            rest = list(whole.stmts if type(whole) is SeqStmt else (whole,))
            while rest:
                part = rest.pop(0)
                if isinstance(part, _DECLARATIONS) or (type(part) is Bind and not _reads_elements(part.value)):
                    made.append(part)
                    continue
                if type(part) is Bind:
                    pending += [part, *rest]
                    break
                kernel = part if is_bound(part) else self.parallel_kernel(part, made)
                if kernel is None:
                    pending.append(part)
                else:
                    flush()
                    made.append(kernel)
        flush()
        return made

    def parallel_kernel(self, stmt: Stmt, before: list[Stmt]) -> Stmt | None:
        """A statement with its loops distributed over threads; None if one thread has to run it. Allocations of ``before`` that are
        used only inside an iteration move into it."""
        if type(stmt) is IfThenElse and not _reads_elements(stmt.cond):
            cases = [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
            found = [seq(*self.sequence([case])) for case in cases]
            return replace(stmt, then_case=found[0], else_case=found[1] if len(found) > 1 else None)
        if type(stmt) is not For or _reads_elements(stmt.extent) or not is_int(stmt.min, 0):
            return None
        private = self.scratch(stmt, before)
        own = [alloc.buffer for alloc in private]
        loops = _independent_chain(stmt, own) or _independent_chain(_turned_inwards(stmt), own)
        if loops:
            before[:] = [part for part in before if part not in private]
            body = seq(*private, loops[-1].body)
            return self.distribute(loops, body)
        if stmt.kind != "serial":
            return None
        inside = self.sequence([stmt.body])
        if any([_has_threads(part) for part in inside]):
            return replace(stmt, body=seq(*inside), annotations=None)
        return None

    def scratch(self, loop: For, before: list[Stmt]) -> list[AllocBuffer]:
        """Allocations before a loop that only its iterations use, where each iteration sets what it reads."""
        found = [part for part in before if type(part) is AllocBuffer and part.buffer.data in used_vars(loop)]
        return [part for part in found if _is_written_first(self.func.body, loop, part.buffer)]

    def distribute(self, loops: list[For], body: Stmt) -> Stmt:
        """Independent loops fused into one, and distributed over blocks of threads."""
        extents = [loop.extent for loop in loops]
        total: Expr = const(1, dtype_of(extents[0]))
        for extent in extents:
            total = mul(total, extent)
        threads = const(threads_for(size_of(extents), self.gpu), dtype_of(total))
        block, thread = [Var(name, loops[0].loop_var.ty) for name in ("block", "thread")]
        index: Expr = add(mul(block, threads), thread)
        values: dict[Var, Expr] = {}
        rest = index
        for number, loop in reversed(list(enumerate(loops))):
            values[loop.loop_var] = rest if number == 0 else floormod(rest, loop.extent)
            rest = floordiv(rest, loop.extent)
        allocations, inner = _private_buffers(substitute(body, dict(values)), index, total)
        if not (type(total) is IntImm and total.value % threads.value == 0):  # type: ignore[attr-defined]
            inner = IfThenElse(lt(index, total), inner)
        kernel = _launch(block, ceildiv(total, threads), _launch(thread, threads, inner, "threadIdx.x"), "blockIdx.x")
        return seq(*allocations, kernel)

    def serial_kernel(self, stmt: Stmt) -> Stmt:
        """A kernel of one thread."""
        one = const(1, "int64")
        block, thread = [Var(name, prim_type("int64")) for name in ("block", "thread")]
        allocations, inner = _private_buffers(stmt, None, one)
        return seq(*allocations, _launch(block, one, _launch(thread, one, inner, "threadIdx.x"), "blockIdx.x"))


def _launch(var: Var, extent: Expr, body: Stmt, axis: str) -> For:
    return For(var, const(0, dtype_of(extent)), extent, "thread_binding", body, thread=axis)


def _has_threads(stmt: Stmt) -> bool:
    """True if a statement contains a kernel of more than one thread."""
    return any([not is_int(axis.extent, 1) for axis in thread_axes(stmt)])


def _independent_chain(stmt: For, private: list[Buffer]) -> list[For]:
    """The perfectly nested loops from a statement inwards whose iterations are independent."""
    loops: list[For] = []
    at: Stmt = stmt
    while type(at) is For and is_int(at.min, 0) and at.step is None and not _reads_elements(at.extent):
        if any([v in {loop.loop_var for loop in loops} for v in free_vars(at.extent)]):
            break
        plain = rewrite(at, {AttrStmt: _without_mark})
        if at.kind != "parallel" and not (
            at.kind in ("serial", "unrolled") and type(plain) is For and is_shareable(plain, private)
        ):
            break
        loops.append(at)
        at = at.body
    return loops


def _turned_inwards(stmt: For) -> For:
    """A loop and those directly in it as one nest, in which the first is the last: one launch, with a loop in each thread, not one
    for each iteration. The loop itself where none stands in it, or it decides how often they run."""
    inner: list[For] = []
    at = stmt.body
    while type(at) is For and at.counts_up and stmt.loop_var not in free_vars(at.extent):
        inner.append(replace(at, kind="serial"))  # parallel ones were so for one iteration
        at = at.body
    if not inner or stmt.kind != "serial":
        return stmt
    nest: Stmt = replace(stmt, body=at)
    for loop in reversed(inner):
        nest = replace(loop, body=nest)
    assert type(nest) is For
    return nest


def _without_mark(stmt: AttrStmt) -> Stmt:
    """The statement, without the mark of a reduction around it."""
    return stmt.body if stmt.key == REDUCTION else stmt


def _is_written_first(program: Stmt, loop: For, buffer: Buffer) -> bool:
    """True if a buffer is used only inside a loop, at constant elements, and each iteration sets all of them before anything
    else."""
    if _uses(program, buffer) != _uses(loop, buffer):
        return False
    body: Stmt = loop.body
    while type(body) is For:
        body = body.body
    cells: set[tuple[int, ...]] = set()
    parts = body.stmts if type(body) is SeqStmt else (body,)
    for part in [one for one in parts if _uses(one, buffer)]:
        cell = _cell(part.indices) if type(part) is BufferStore and part.buffer is buffer else None
        if cell is None or buffer in [load.buffer for load in collect(part, BufferLoad)]:
            break
        cells.add(cell)
    touched = [node for node in collect(loop, (BufferLoad, BufferStore)) if node.buffer.data is buffer.data]
    return bool(cells) and all([node.buffer is buffer and _cell(node.indices) in cells for node in touched])


def _uses(stmt: Stmt, buffer: Buffer) -> int:
    return len([n for n in collect(stmt, (BufferLoad, BufferStore)) if n.buffer.data is buffer.data])


def _cell(indices: tuple[Expr, ...]) -> tuple[int, ...] | None:
    return tuple([i.value for i in indices if type(i) is IntImm]) if all([type(i) is IntImm for i in indices]) else None


def _serial(loop: For) -> For:
    return replace(loop, kind="serial", annotations=None) if loop.kind == "parallel" or loop.annotations else loop


def _private_buffers(body: Stmt, index: Expr | None, count: Expr) -> tuple[list[Stmt], Stmt]:
    """Allocations on the host, and the body of a kernel in which each thread has its own buffers."""
    body = rewrite(body, {For: _serial})
    hoisted: list[Stmt] = []
    inner = {loop.loop_var for loop in collect(body, For)} | {bind.var for bind in collect(body, Bind)}
    for alloc in collect(body, AllocBuffer):
        old = alloc.buffer
        small = all([type(e) is IntImm for e in old.shape]) and size_of(old.shape) * old.dtype.itemsize <= LOCAL_BYTES
        if small or any([v in inner for e in old.shape for v in free_vars(e)]):
            local = _like(old, old.shape, "local")
            mapping: dict[Buffer | Var, Buffer | Var] = {old: local, old.data: local.data}
            body = substitute(body, mapping)
            continue
        new = _like(old, old.shape if index is None else (*old.shape, count), "global")
        body = _Redirect(old, new, index)(_without(body, alloc))
        hoisted.append(replace(alloc, buffer=new))
    return hoisted, body


def _like(old: Buffer, shape: tuple[Expr, ...], scope: str) -> Buffer:
    return replace(old, shape=shape, data=Var(old.data.name, PointerType(prim_type(old.dtype), scope)))


def _without(body: Stmt, alloc: AllocBuffer) -> Stmt:
    return rewrite(body, {SeqStmt: lambda node: seq(*[part for part in node.stmts if part is not alloc])})


class _Redirect(Rewriter):
    """Redirects accesses to a thread's own buffer to its place in a buffer for all threads."""

    def __init__(self, old: Buffer, new: Buffer, index: Expr | None) -> None:
        super().__init__({BufferLoad: self.access, BufferStore: self.access}, {old.data: new.data})
        self.old, self.new, self.index = old, new, index

    def access(self, node: BufferLoad | BufferStore) -> BufferLoad | BufferStore:
        """A load or store at the thread's place."""
        if node.buffer is not self.old:
            return node
        own = () if self.index is None else (self.index,)
        return replace(node, buffer=self.new, indices=(*node.indices, *own))
