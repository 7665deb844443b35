"""inject_software_pipeline: statements of a loop run some iterations ahead of others.

A statement of stage ``s`` of iteration ``k`` runs in turn ``k + s``. The turns before all stages are busy are the prologue,
those after the last iteration has begun are the epilogue. Both are unrolled, with guards if the loop may be shorter than the
pipeline. If only asynchronous copies run ahead, there is no epilogue: the last iterations belong to the loop and begin no copies.
Buffers that pass values between stages have several versions, and iteration ``k`` uses version ``k`` modulo their number.

Rewrite, stages 0 and 1: ``for k in range(n): { S <- A[k]; use S }`` -> ``S: alloc (2, ..); if 0 < n: S[0] <- A[0]; for k in
range(max(n - 1, 0)): { S[(k + 1) % 2] <- A[k + 1]; use S[k % 2] }; if 0 < n: use S[(n - 1) % 2]``.

Statements of asynchronous stages are put under the attribute "async_scope", for ``inject_ptx_async_copy``. Each turn commits
one group of copies for each such stage, and before it uses the data it waits for their group and for the other threads. Behind the
pipeline all groups have arrived: other buffers may take the memory.

``inject_double_buffer`` makes the pipeline of two stages that ``double_buffer_scope`` asks for, an annotation of a block or an
attribute on a buffer's pointer: what fills the buffer for an iteration runs while the one before uses it.

Raises PassError E376 where the stages break a dependence. Source: TVM's InjectSoftwarePipeline; this pass reads the marks of
``mark_pipeline_stages`` and runs after ``unify_thread_binding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.buffer import Buffer
from ....ir.build import add, const, dtype_of, floormod, int_imm, int_value, intrinsic, lt, maximum, sub
from ....ir.expr import Call, StringImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import (
    NOTHING,
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
    statements_of,
)
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import StatementRewriter, collect, fresh_copy, rewrite, substitute, used_vars
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.touched_regions import AccessWalk, written_before_read
from ..blocks.lower_opaque_block import DOUBLE_BUFFER, leaves_loop
from ..blocks.mark_pipeline_stages import MARK
from ..buffers.versions import Fragments, Versions, fragments_in, has_other_uses, with_versions

_LATER = "let a statement that uses what another one writes have the same stage after it, or a later one"
_OWN = "allocate a buffer for this loop alone, from which each iteration hands values on to later stages"
ASYNC_SCOPE = "async_scope"
"""Attribute of statements whose copies to shared memory may be asynchronous."""


@dataclass(slots=True)
class _Part:
    """A statement of the loop: its stage, its position in an iteration, whether it copies to shared memory asynchronously, memory
    it reads and writes."""

    stmt: Stmt
    stage: int
    order: int
    is_async: bool
    reads: set[Var]
    writes: set[Var]

    @property
    def touched(self) -> set[Var]:
        return self.reads | self.writes


def _part(mark: AttrStmt, stmt: Stmt) -> _Part:
    stage, order, *rest = str(mark.value.value if type(mark.value) is StringImm else mark.value).split()
    writes = {store.buffer.data for store in collect(stmt, BufferStore)}
    reads = {load.buffer.data for load in collect(stmt, BufferLoad)}
    for call in collect(stmt, Call):  # behind a pointer anything may happen, unless the call says that it only reads
        pointers = {a for a in call.args if isinstance(a, Var) and isinstance(a.ty, PointerType)}
        if call.op_name == "T.address_of":
            pointers |= {load.buffer.data for load in collect(call, BufferLoad)}
        reads |= pointers
        if not (call.op_name == "T.tvm_access_ptr" and getattr(call.args[4], "value", 3) == 1):
            writes |= pointers
    copies = all([_scope(v).startswith("shared") for v in writes]) and all([_scope(v) == "global" for v in reads])
    return _Part(stmt, int(stage), int(order), bool(rest) and bool(writes) and copies, reads, writes)


def _scope(pointer: Var) -> str:
    return pointer.ty.scope if isinstance(pointer.ty, PointerType) else "global"


class _Pipeline:
    """The pipeline of one loop; ``outside``: pointers that are used outside of it, ``allocated``: buffers by pointer."""

    def __init__(
        self, loop: For, parts: Sequence[_Part], outside: set[Var], allocated: dict[Var, Buffer], fragments: Fragments
    ) -> None:
        self.loop, self.parts, self.fragments = loop, parts, fragments
        self.depth = max([part.stage for part in parts])
        self._check_order()
        self.versions = self._versions(outside, allocated)
        self.made = {buffer: with_versions(buffer, const(n, "int64")) for buffer, n in self.versions.items()}
        self.ordered = sorted(parts, key=lambda part: part.order)
        stages = dict.fromkeys([part.stage for part in self.ordered if part.is_async])
        self.groups = sorted(stages, key=lambda stage: max([p.order for p in parts if p.is_async and p.stage == stage]))
        """Asynchronous stages in the order in which an iteration commits their groups of copies."""
        self.closed = all([part.is_async for part in parts if part.stage < self.depth])
        """True if there is no epilogue: only copies run ahead, and the last iterations begin none."""

    def _refuse(self, text: str, part: _Part, help: str = _LATER) -> PassError:
        where = f"the software pipeline of loop {self.loop.loop_var.name}"
        return PassError("E376", f"{where}: {text}", getattr(part.stmt, "span", None) or self.loop.span, help=help)

    def _check_order(self) -> None:
        for position, first in enumerate(self.parts):
            for second in self.parts[position + 1 :]:
                met = (first.writes & second.touched) | (first.reads & second.writes)
                late = first.stage > second.stage or (first.stage == second.stage and first.order > second.order)
                if met and late:
                    name = next(iter(met)).name
                    raise self._refuse(f"a statement that uses {name} would run before one that it follows", second)

    def _versions(self, outside: set[Var], allocated: dict[Var, Buffer]) -> dict[Buffer, int]:
        """Buffers that pass values from one stage to another, and how many versions of each are needed."""
        found: dict[Buffer, int] = {}
        for pointer in dict.fromkeys([v for part in self.parts for v in part.writes]):
            users = [part for part in self.parts if pointer in part.touched]
            first, last = min([p.stage for p in users]), max([p.stage for p in users])
            if first == last:
                continue
            buffer = allocated.get(pointer)
            if buffer is None or pointer in outside or not self._private(buffer, users):
                text = f"{pointer.name} is more than what an iteration writes and reads itself"
                raise self._refuse(text, users[0], _OWN if pointer in outside else _LATER)
            if any([has_other_uses(part.stmt, pointer, self.fragments) for part in users]):
                raise self._refuse(f"{pointer.name} is given to an instruction as a whole", users[0])
            ends = max([p.order for p in users if p.stage == last])
            begins = min([p.order for p in users if p.stage == first])
            found[buffer] = last - first + (1 if begins < ends else 0)
        return {buffer: count for buffer, count in found.items() if count > 1}

    def _private(self, buffer: Buffer, users: Sequence[_Part]) -> bool:
        """True if each iteration fills the buffer again. The annotation promises that it fills all that it reads."""
        pointer = buffer.data
        return pointer in users[0].writes and pointer not in {l.buffer.data for l in collect(users[0].stmt, BufferLoad)}

    # ---- iterations

    def statements(self) -> Stmt:
        """The prologue, the loop and the epilogue."""
        loop, depth = self.loop, self.depth
        count, dtype = loop.extent, dtype_of(loop.loop_var)
        known = int_value(count)
        versions = Versions(
            self.made,
            lambda buffer: floormod(loop.loop_var, int_imm(self.versions[buffer], prim_type(dtype))),
            self.fragments,
        )
        for part in self.parts:
            part.stmt = versions(part.stmt)
        made: list[Stmt] = []
        for k in range(depth):
            made += self._iteration(const(k, dtype), lambda stage, k=k: stage <= k, known is None or known < depth)
        var = Var(loop.loop_var.name, loop.loop_var.ty, loop.loop_var.span)
        body = seq(*self._iteration(add(var, depth), lambda stage: True, self.closed))
        arrived = [Evaluate(intrinsic("ptx_wait_group", const(0)))] if self.groups else []
        if self.closed:
            return seq(*made, replace(loop, loop_var=var, body=body), *arrived)
        ahead = maximum(sub(count, depth), const(0, dtype)) if known is None else const(max(known - depth, 0), dtype)
        made.append(replace(loop, loop_var=var, extent=ahead, body=body))
        start = maximum(count, const(depth, dtype)) if known is None else const(max(known, depth), dtype)
        for k in range(depth):
            made += self._iteration(add(start, k), lambda stage, k=k: stage > k, known is None or known < depth)
        return seq(*made, *arrived)

    def _iteration(self, iteration: Expr, runs: Any, guarded: bool) -> list[Stmt]:
        """The statements of one iteration whose stages run; ``guarded``: the loop may have fewer iterations."""
        active = [part for part in self.ordered if runs(part.stage)]
        made = self._wait([self._behind(part, 0, False) for part in active])
        closed = 0
        for part in self.ordered:
            if part in active:
                behind = self._behind(part, closed, True)
                if behind is not None and behind < 0:
                    raise self._refuse(
                        "a statement uses what its own stage copies, before the stage has copied all", part
                    )
                made += self._wait([behind])
                made.append(self._copy(part, iteration, guarded))
            if self._closes(part):
                closed += 1
                made.append(Evaluate(intrinsic("ptx_commit_group")))
        return made

    def _closes(self, part: _Part) -> bool:
        own = [other for other in self.ordered if other.is_async and other.stage == part.stage]
        return part.is_async and own[-1] is part

    def _behind(self, part: _Part, closed: int, same: bool) -> int | None:
        """The number of groups committed after the one that a statement needs, once its turn has committed ``closed`` groups. None
        if it needs no group, or waits elsewhere. ``same``: it needs copies of its own iteration."""
        found: list[int] = []
        for index, stage in enumerate(self.groups):
            given = {v for other in self.parts if other.is_async and other.stage == stage for v in other.writes}
            if not (given & part.reads) or (part.stage == stage) is not same:
                continue
            found.append((part.stage - stage) * len(self.groups) + closed - index - 1)
        return min(found, default=None)

    def _wait(self, needs: Sequence[int | None]) -> list[Stmt]:
        groups = [n for n in needs if n is not None]
        if not groups:
            return []
        wait = intrinsic("ptx_wait_group", const(min(groups)))
        return [Evaluate(wait), Evaluate(intrinsic("tvm_storage_sync", StringImm("shared")))]

    def _copy(self, part: _Part, iteration: Expr, guarded: bool) -> Stmt:
        own = sub(iteration, part.stage)
        stmt = fresh_copy(part.stmt, {self.loop.loop_var: own})
        if guarded and not (self.closed and part.stage == self.depth):
            stmt = IfThenElse(lt(own, self.loop.extent), stmt)
        return AttrStmt(const(0), ASYNC_SCOPE, 1, stmt) if part.is_async else stmt


def _is_mark(stmt: Any) -> bool:
    return type(stmt) is AttrStmt and stmt.key == MARK


class _Inject(StatementRewriter):
    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self.body = body
        self.allocated = {alloc.buffer.data: alloc.buffer for alloc in collect(body, AllocBuffer)}
        self.made: dict[Buffer, Buffer] = {}

    def leave(self, node: Any) -> Any:
        parts = node.body.stmts if type(node) is For and type(node.body) is SeqStmt else ()
        return self._pipeline(node, parts) if any([_is_mark(part) for part in parts]) else node

    def _pipeline(self, loop: For, stmts: Sequence[Stmt]) -> Stmt:
        if leaves_loop(loop.body):
            raise PassError("E376", f"the pipelined loop {loop.loop_var.name} is left in the middle", loop.span)
        values: dict[Var, Expr] = {}
        memory: list[Stmt] = []
        parts: list[_Part] = []
        for stmt in stmts:
            if type(stmt) is Bind and not collect(stmt.value, (BufferLoad, Call)):
                values[stmt.var] = substitute(stmt.value, values)
            elif isinstance(stmt, (AllocBuffer, DeclBuffer)):
                memory.append(stmt)
            elif type(stmt) is AttrStmt and _is_mark(stmt):
                parts.append(_part(stmt, substitute(stmt.body, values)))
            else:
                raise PassError(
                    "E376", f"a statement of the pipelined loop {loop.loop_var.name} has no stage", loop.span
                )
        pipeline = _Pipeline(loop, parts, _used_around(self.body, loop), self.allocated, fragments_in(loop))
        self.made.update(pipeline.made)
        return seq(*memory, pipeline.statements())


def _used_around(body: Stmt, loop: For) -> set[Var]:
    """Variables used outside of a loop."""
    marks = {id(stmt) for stmt in collect(loop, (For, AttrStmt))}

    class Rest(StatementRewriter):
        def enter(self, node: Any) -> Any | None:
            inside = node is loop or id(node) in marks or (type(node) is For and node.loop_var is loop.loop_var)
            return NOTHING if inside or isinstance(node, AllocBuffer) else None

    return set(used_vars(Rest()(body)))


@prim_func_pass()
def inject_software_pipeline(func: PrimFunc) -> PrimFunc:
    """Turn loops whose statements have stages into software pipelines."""
    if not any([_is_mark(attr) for attr in collect(func.body, AttrStmt)]):
        return func
    inject = _Inject(func.body)
    body = inject(func.body)

    def alloc(stmt: AllocBuffer) -> AllocBuffer:
        made = inject.made.get(stmt.buffer)
        return stmt if made is None else replace(stmt, buffer=made)

    def mark(stmt: AttrStmt) -> Stmt:
        return stmt.body if _is_mark(stmt) else stmt

    return replace(func, body=rewrite(body, {AllocBuffer: alloc, AttrStmt: mark}))


def _two_stages(loop: For) -> For:
    """A loop that fills double buffers, marked as a pipeline: what fills them a step ahead of the rest. Raises PassError E532."""
    parts = statements_of(loop.body)
    buffers = {id(part): part.node for part in parts if type(part) is AttrStmt and part.key == DOUBLE_BUFFER}
    if not buffers:
        return loop
    bare = {id(part): part.body if type(part) is AttrStmt and id(part) in buffers else part for part in parts}
    walk = AccessWalk(seq(*bare.values()))
    for pointer in buffers.values():
        found = [walk.accesses(buffer) for buffer in walk.found if buffer.data is pointer]
        if loop.kind != "serial" or not all([uses and written_before_read(uses, Analyzer()) for uses in found]):
            text = f"{getattr(pointer, 'name', '?')} cannot have a double buffer in loop {loop.loop_var.name}"
            raise PassError("E532", f"{text}: an iteration may read what it has not filled", loop.span, help=_HELP)
    staged = [part for part in parts if not isinstance(part, (Bind, AllocBuffer, DeclBuffer))]
    ordered = sorted([id(part) for part in staged], key=lambda part: part not in buffers)
    marks = {part: f"{int(part not in buffers)} {order}" for order, part in enumerate(ordered)}
    marked = [AttrStmt(const(0), MARK, marks[part], bare[part]) if part in marks else bare[part] for part in bare]
    return replace(loop, body=seq(*marked))


_HELP = "leave double_buffer_scope out, or let the loop fill all of a buffer of its own before it reads it"


def _producers(func: PrimFunc) -> list[AttrStmt]:
    return [attr for attr in collect(func.body, AttrStmt) if attr.key == DOUBLE_BUFFER]


@prim_func_pass()
def inject_double_buffer(func: PrimFunc) -> PrimFunc:
    """Allocate annotated buffers twice and fill them one step ahead.

    Requires the annotation ``double_buffer_scope``. Raises PassError E376, E532 where earlier writes could change a result.
    """
    if not _producers(func):
        return func
    marked: PrimFunc = rewrite(func, {For: _two_stages})
    for left in _producers(marked):
        raise PassError("E532", "a double buffer must be filled in the body of a serial loop", left.span, help=_HELP)
    made: PrimFunc = inject_software_pipeline.on(marked)
    return made
