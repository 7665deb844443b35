"""Statements: loops, conditions, allocation, stores, checks."""

from __future__ import annotations

import math

from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm
from ...ir.scalar import Add, BufferLoad, Cast, Let, Mul, Sub
from ...ir.stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
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
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ...transform.tir.analysis.parallel_cost import BACKWARDS, PARALLEL_CHUNK
from .casts import convert, to_memory
from .lltypes import memory_type, value_type
from .memory import index, store
from .parallel import parallel_loop, turned_place
from .writer import STATEMENTS, FunctionWriter, LoopScope

STACK_LIMIT = 128 * 1024
"""Bytes of stack that the buffers of one kernel may take; the rest goes to the heap."""
_BLOCK_LIMIT = 32 * 1024
INTERLEAVED = 4
"""Vectors of a loop that LLVM computes side by side: one after the other, formulas of many steps wait for themselves."""
VECTOR_BYTES = 64


def _sequence(w: FunctionWriter, stmt: SeqStmt) -> None:
    depth = len(w.heap)
    for part in stmt.stmts:
        w.statement(part)
    w.free_down_to(depth)
    del w.heap[depth:]


def _scoped(w: FunctionWriter, stmt: object) -> None:
    """A statement whose allocations end with it."""
    depth = len(w.heap)
    w.statement(stmt)
    w.free_down_to(depth)
    del w.heap[depth:]


_GPU_HELP = "programs for GPUs run, with all their threads, under unity.check_gpu(program, *arguments)"


def _for(w: FunctionWriter, stmt: For, backwards: str | None = None, chunk: str = "1") -> None:
    if stmt.kind == "thread_binding":
        raise CodegenError(
            "E520", f"loop {stmt.loop_var.name} is bound to {stmt.thread}: no such thing on a processor", stmt.span,
            help=_GPU_HELP,
        )  # fmt: skip
    if stmt.kind == "vectorized":
        raise CodegenError("E520", "vectorized loops must be lowered before code generation", stmt.span)
    dtype = dtype_of(stmt.loop_var)
    if (
        not dtype.is_integral
        or dtype.lanes != 1
        or dtype_of(stmt.extent) is not dtype
        or dtype_of(stmt.min) is not dtype
    ):
        raise CodegenError(
            "E523", f"loop {stmt.loop_var.name}: variable and bounds must have one integer type", stmt.span
        )
    if stmt.kind == "parallel" and not w.inside_parallel and stmt.step is None:
        parallel_loop(w, stmt, chunk, backwards)
        return
    ty = value_type(dtype)
    first, extent = w.value(stmt.min), w.value(stmt.extent)
    step = "1" if stmt.step is None else w.value(stmt.step)
    if stmt.step is not None and not (type(stmt.step) is IntImm and stmt.step.value > 0):
        w.fail_unless(w.emit(f"icmp sgt {ty} {step}, 0"), f"loop {stmt.loop_var.name}: the step must be positive")
    head, body, following, done = w.label("for"), w.label("body"), w.label("next"), w.label("done")
    before = w.jump(head)
    w.start(head)
    count = w.name()
    advanced = w.name()
    w.lines.append(f"  {count} = phi {ty} [ 0, %{before} ], [ {advanced}, %{following} ]")
    signed = "slt" if dtype.is_int else "ult"
    w.branch(w.emit(f"icmp {signed} {ty} {count}, {extent}"), body, done)
    w.start(body)
    place = count if backwards is None else turned_place(w, ty, count, extent, backwards)
    w.env[stmt.loop_var] = (
        place if first == "0" else w.emit(f"add {'nsw ' if dtype.is_int else ''}{ty} {place}, {first}")
    )
    w.loops.append(LoopScope(done, following, len(w.heap)))
    _scoped(w, stmt.body)
    w.loops.pop()
    w.jump(following)
    w.start(following)
    flag = "nsw " if dtype.is_int else "nuw "
    w.lines.append(f"  {advanced} = add {flag}{ty} {count}, {step}")
    w.lines.append(f"  br label %{head}{_loop_hints(w, stmt)}")
    w.start(done)


def _loop_hints(w: FunctionWriter, stmt: For) -> str:
    hints = []
    notes = stmt.annotations or {}
    unroll = notes.get("unroll")
    if isinstance(unroll, int) and unroll > 1:
        hints.append(f'!"llvm.loop.unroll.count", i32 {unroll}')
    if "vectorize" in notes and _is_long(stmt):
        hints.append(f'!"llvm.loop.interleave.count", i32 {INTERLEAVED}')
    return f", !llvm.loop {w.module.loop_metadata(*hints)}" if hints else ""


def _is_long(stmt: For) -> bool:
    """A constant number of iterations that fills `INTERLEAVED` vectors of the widest element."""
    if type(stmt.extent) is not IntImm:
        return False
    sizes = [access.buffer.dtype.itemsize for access in collect(stmt.body, (BufferLoad, BufferStore))]
    return stmt.extent.value * max(sizes, default=0) >= INTERLEAVED * VECTOR_BYTES


def _while(w: FunctionWriter, stmt: While) -> None:
    head, body, done = w.label("while"), w.label("body"), w.label("done")
    w.jump(head)
    w.start(head)
    w.branch(w.value(stmt.cond), body, done)
    w.start(body)
    w.loops.append(LoopScope(done, head, len(w.heap)))
    _scoped(w, stmt.body)
    w.loops.pop()
    w.jump(head)
    w.start(done)


def leave_loop(w: FunctionWriter, forward: bool, span: object = None) -> None:
    """``continue`` (forward) or ``break``."""
    if not w.loops:
        raise CodegenError("E520", f"{'continue' if forward else 'break'} outside a loop that can be left", span)  # type: ignore[arg-type]
    scope = w.loops[-1]
    if not forward and not scope.exit:
        raise CodegenError("E520", "break out of a parallel loop", span)  # type: ignore[arg-type]
    w.free_down_to(scope.heap)
    w.jump(scope.next if forward else scope.exit)
    w.start(w.label("after"))


def _if(w: FunctionWriter, stmt: IfThenElse) -> None:
    if not dtype_of(stmt.cond).is_bool or dtype_of(stmt.cond).lanes != 1:
        raise CodegenError("E523", f"a condition must be a scalar bool, got {dtype_of(stmt.cond).name}", stmt.span)
    yes, no, join = w.label("if"), w.label("else"), w.label("end")
    w.branch(w.value(stmt.cond), yes, no if stmt.else_case is not None else join)
    w.start(yes)
    _scoped(w, stmt.then_case)
    w.jump(join)
    if stmt.else_case is not None:
        w.start(no)
        _scoped(w, stmt.else_case)
        w.jump(join)
    w.start(join)


def _bind(w: FunctionWriter, stmt: Bind) -> None:
    if w.fast:
        w.accumulations = _accumulations(stmt.value)
    w.env[stmt.var] = w.value(stmt.value)


def _declare(w: FunctionWriter, stmt: DeclBuffer) -> None:
    if stmt.buffer.data not in w.env:
        raise CodegenError("E524", f"buffer {stmt.buffer.name} is declared over a pointer without value", stmt.span)
    if stmt.buffer.data not in w.buffers:  # a pointer from outside
        given = w.emit(f"icmp ne ptr {w.env[stmt.buffer.data]}, null")
        w.fail_unless(given, f"buffer {stmt.buffer.name} is declared over a null pointer")
    w.buffers.setdefault(stmt.buffer.data, stmt.buffer)


def _alloc(w: FunctionWriter, stmt: AllocBuffer) -> None:
    buffer = stmt.buffer
    w.buffers[buffer.data] = buffer
    item = memory_type(buffer.dtype, stmt.span)
    align = max(16, min(buffer.align if buffer.align > 0 else 64, 4096))
    align = 1 << (align - 1).bit_length()
    if all([type(extent) is IntImm for extent in buffer.shape]):
        extents: list[int] = [extent.value for extent in buffer.shape]  # type: ignore[attr-defined]
        if any([extent < 0 for extent in extents]):
            raise CodegenError("E525", f"buffer {buffer.name} has a negative extent", stmt.span)
        count = math.prod(extents)
        size = count * buffer.dtype.itemsize
        if size >= 1 << 47:
            raise CodegenError("E525", f"buffer {buffer.name} needs {size} bytes", stmt.span)
        if size <= _BLOCK_LIMIT and w.kernel.stack_bytes + size <= STACK_LIMIT:
            w.kernel.stack_bytes += size
            w.env[buffer.data] = w.slot(item, align, max(1, count))
            return
        total = str(size)
    else:
        total = _symbolic_size(w, buffer)
    align = max(align, 64)
    padded = w.emit(f"add i64 {total}, {2 * align - 1}")
    rounded = w.emit(f"and i64 {padded}, {-align}")
    w.module.declare("@aligned_alloc", "declare noalias ptr @aligned_alloc(i64, i64)\n")
    pointer = w.emit(f"call ptr @aligned_alloc(i64 {align}, i64 {rounded})")
    w.fail_unless(w.emit(f"icmp ne ptr {pointer}, null"), f"out of memory: buffer {buffer.name}")
    w.heap.append(pointer)
    w.env[buffer.data] = pointer


def _factors(extent: Expr) -> list[Expr]:
    """The factors of a product."""
    return _factors(extent.a) + _factors(extent.b) if type(extent) is Mul else [extent]


def _symbolic_size(w: FunctionWriter, buffer: Buffer) -> str:
    """Bytes of a buffer, checked: no negative extent, product below 2**47."""
    total = str(buffer.dtype.itemsize)
    good = "true"
    for factor in [f for extent in buffer.shape for f in _factors(extent)]:
        size = index(w, factor)
        inside = w.emit(f"icmp ult i64 {size}, {1 << 47}")
        pair = w.emit(f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {total}, i64 {size})")
        total = w.emit(f"extractvalue {{ i64, i1 }} {pair}, 0")
        fits = w.emit(f"xor i1 {w.emit(f'extractvalue {{ i64, i1 }} {pair}, 1')}, true")
        good = w.emit(f"and i1 {good}, {w.emit(f'and i1 {inside}, {fits}')}")
    good = w.emit(f"and i1 {good}, {w.emit(f'icmp ult i64 {total}, {1 << 47}')}")
    w.fail_unless(good, f"buffer {buffer.name} has a negative or huge size")
    return total


def _alloc_const(w: FunctionWriter, stmt: AllocConst) -> None:
    array = stmt.data.numpy()
    if DataType(str(array.dtype)) is not stmt.buffer.dtype:
        raise CodegenError(
            "E523", f"constant {stmt.buffer.name} ({stmt.buffer.dtype.name}) holds {array.dtype} data", stmt.span
        )
    extents = [e.value for e in stmt.buffer.shape if isinstance(e, IntImm)]
    if len(extents) != len(stmt.buffer.shape) or math.prod(extents) != array.size:
        raise CodegenError(
            "E523", f"constant {stmt.buffer.name} holds {array.size} elements, its shape says otherwise", stmt.span
        )
    data = array.tobytes()
    symbol = "@" + w.module.unique("const")
    text = data.hex("\\").upper()
    body = f'c"\\{text}"' if data else "zeroinitializer"
    w.module.definitions[symbol] = f"{symbol} = private unnamed_addr constant [{len(data)} x i8] {body}, align 64\n"
    w.env[stmt.buffer.data] = symbol
    w.buffers[stmt.buffer.data] = stmt.buffer


def _attr(w: FunctionWriter, stmt: AttrStmt) -> None:
    if stmt.key == "reduction":
        saved, w.fast = w.fast, "contract reassoc "
        _scoped(w, stmt.body)
        w.fast = saved
        return
    if stmt.key in (BACKWARDS, PARALLEL_CHUNK):
        _marked_for(w, stmt)
        return
    if stmt.key in ("thread_extent", "virtual_thread"):
        raise CodegenError("E520", f"attribute {stmt.key} means nothing on a processor", stmt.span, help=_GPU_HELP)
    _scoped(w, stmt.body)


def _marked_for(w: FunctionWriter, stmt: AttrStmt) -> None:
    """A loop in attributes that say how it runs; a statement that is no such loop runs as it stands."""
    inner: Stmt = stmt
    marks: dict[str, str] = {}
    while type(inner) is AttrStmt and inner.key in (BACKWARDS, PARALLEL_CHUNK):
        dtype, wanted = dtype_of(inner.value), "bool" if inner.key == BACKWARDS else "int64"
        if dtype.name != wanted:
            raise CodegenError("E523", f"attribute {inner.key} is a {wanted}, got {dtype}", inner.span)
        marks[inner.key] = w.value(inner.value)
        inner = inner.body
    if type(inner) is not For or inner.step is not None:
        _scoped(w, inner)
        return
    chunk = marks.get(PARALLEL_CHUNK, "1")
    _for(
        w,
        inner,
        marks.get(BACKWARDS),
        chunk if chunk.isdecimal() else w.emit(f"call i64 @llvm.smax.i64(i64 {chunk}, i64 1)"),
    )


def _assert(w: FunctionWriter, stmt: AssertStmt) -> None:
    w.fail_unless(w.value(stmt.cond), f"{stmt.kind}: {stmt.message}" if stmt.kind != "RuntimeError" else stmt.message)


def _accumulations(value: Expr) -> set[Expr]:
    """The addition a value is, under conversions and local bindings, and its products."""
    while isinstance(value, (Cast, Let)):
        value = value.value if isinstance(value, Cast) else value.body
    if not isinstance(value, (Add, Sub)):
        return set()
    return {value, *[part for part in (_unbound(value.a), _unbound(value.b)) if type(part) is Mul]}


def _unbound(value: Expr) -> Expr:
    """The value under local bindings."""
    while type(value) is Let:
        value = value.body
    return value


def _store(w: FunctionWriter, stmt: BufferStore) -> None:
    if w.fast:
        w.accumulations = _accumulations(stmt.value)
    store(w, stmt.buffer, stmt.value, stmt.indices, stmt.predicate, stmt.span)


def _evaluate(w: FunctionWriter, stmt: Evaluate) -> None:
    value = stmt.value
    name = value.op_name if type(value) is Call else ""
    if name == "T.ret":
        give_back(w, value.args[0] if value.args else None, stmt.span)  # type: ignore[attr-defined]
    elif name in ("T.break_loop", "T.continue_loop"):
        leave_loop(w, name == "T.continue_loop", stmt.span)
    elif name == "T.thread_return":
        give_back(w, None, stmt.span)
    elif type(value) is not IntImm:
        w.value(value)


def give_back(w: FunctionWriter, value: object, span: object) -> None:
    """``return``: store the result if the function has one, free, leave."""
    if w.inside_parallel:
        raise CodegenError("E520", "return inside a parallel loop", span)  # type: ignore[arg-type]
    if value is not None:
        if w.kernel.result is None:
            raise CodegenError("E523", f"{w.kernel.name} declares no result but returns a value", span)  # type: ignore[arg-type]
        text = convert(w, w.value(value), dtype_of(value), w.kernel.result)  # type: ignore[arg-type]
        text = to_memory(w, text, w.kernel.result)
        w.do(f"store {memory_type(w.kernel.result)} {text}, ptr %result")
    w.leave("0")
    w.start(w.label("after"))


STATEMENTS.update({
    SeqStmt: _sequence, For: _for, While: _while, IfThenElse: _if, Bind: _bind, DeclBuffer: _declare, AllocBuffer: _alloc,
    AllocConst: _alloc_const, AttrStmt: _attr, AssertStmt: _assert, BufferStore: _store, Evaluate: _evaluate,
    Break: lambda w, stmt: leave_loop(w, False, stmt.span),
    Continue: lambda w, stmt: leave_loop(w, True, stmt.span),
    Return: lambda w, stmt: give_back(w, stmt.value, stmt.span),
})  # fmt: skip
