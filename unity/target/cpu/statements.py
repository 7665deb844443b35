"""Statements as processors run them: parallel loops, buffers on the stack and the heap."""

from __future__ import annotations

from functools import partial

from ...ir.buffer import Buffer
from ...ir.build import dtype_of
from ...ir.scalar import Mul
from ...ir.stmt import BACKWARDS, AllocBuffer, AttrStmt, For, Stmt
from ...ir.types import Expr
from ...support.errors import CodegenError
from ...transform.tir.analysis.parallel_cost import PARALLEL_CHUNK
from ...transform.tir.vectors.configure_tiles import TILE_REGISTERS
from ..llvm.indices import index
from ..llvm.lltypes import memory_type
from ..llvm.statements import attribute, constant_count, scoped, serial_loop
from ..llvm.writer import STATEMENTS, FunctionWriter, Statements
from .parallel import configure_tiles, mirrored_index, parallel_loop, release_tiles

STACK_LIMIT = 128 * 1024
"""Bytes of stack that the buffers of one kernel may take; the rest goes to the heap."""
_BLOCK_LIMIT = 32 * 1024
_GPU_HELP = "programs for GPUs run, with all their threads, under unity.check_gpu(program, *arguments)"


def _for(w: FunctionWriter, stmt: For, backwards: str | None = None, chunk: str = "1") -> None:
    if stmt.kind == "thread_binding":
        raise CodegenError(
            "E520", f"loop {stmt.loop_var.name} is bound to {stmt.thread}: no such thing on a processor", stmt.span,
            help=_GPU_HELP,
        )  # fmt: skip
    if stmt.kind == "parallel" and not w.inside_parallel and stmt.step is None:
        parallel_loop(w, stmt, chunk, backwards)
        return
    serial_loop(w, stmt, None if backwards is None else partial(mirrored_index, w, backwards))


def _alloc(w: FunctionWriter, stmt: AllocBuffer) -> None:
    buffer = stmt.buffer
    w.buffers[buffer.data] = buffer
    item = memory_type(buffer.dtype, stmt.span)
    align = max(16, min(buffer.align if buffer.align > 0 else 64, 4096))
    align = 1 << (align - 1).bit_length()
    count = constant_count(buffer, stmt.span)
    if count is not None:
        size = count * buffer.dtype.itemsize
        if size <= _BLOCK_LIMIT and w.kernel.stack_bytes + size <= STACK_LIMIT:
            w.kernel.stack_bytes += size
            w.env[buffer.data] = w.slot(item, align, max(1, count))
            return
        total = str(size)
    else:
        total = symbolic_size(w, buffer)
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


def symbolic_size(w: FunctionWriter, buffer: Buffer) -> str:
    """Bytes of a buffer, checked: no negative extent, product below 2**47."""
    total, good = product_in_range(w, buffer.dtype.itemsize, buffer.shape)
    w.fail_unless(good, f"buffer {buffer.name} has a negative or huge size")
    return total


def product_in_range(w: FunctionWriter, itemsize: int, shape: tuple[Expr, ...]) -> tuple[str, str]:
    """Bytes of elements, and an i1: no extent is negative, and they are fewer than 2**47."""
    total = str(itemsize)
    good = "true"
    for factor in [f for extent in shape for f in _factors(extent)]:
        size = index(w, factor)
        inside = w.emit(f"icmp ult i64 {size}, {1 << 47}")
        pair = w.emit(f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {total}, i64 {size})")
        total = w.emit(f"extractvalue {{ i64, i1 }} {pair}, 0")
        fits = w.emit(f"xor i1 {w.emit(f'extractvalue {{ i64, i1 }} {pair}, 1')}, true")
        good = w.emit(f"and i1 {good}, {w.emit(f'and i1 {inside}, {fits}')}")
    return total, w.emit(f"and i1 {good}, {w.emit(f'icmp ult i64 {total}, {1 << 47}')}")


def _attr(w: FunctionWriter, stmt: AttrStmt) -> None:
    if stmt.key in (BACKWARDS, PARALLEL_CHUNK):
        _marked_for(w, stmt)
        return
    if stmt.key == TILE_REGISTERS:
        if "amx-tile" not in w.module.features:  # LLVM would end the process
            raise CodegenError("E520", f"attribute {stmt.key}: the target has no tile registers (amx-tile)", stmt.span,
                               help='name a processor that has them: `llvm -mcpu=sapphirerapids`')  # fmt: skip
        configure_tiles(w)
        scoped(w, stmt.body)
        release_tiles(w)
        return
    if stmt.key in ("thread_extent", "virtual_thread"):
        raise CodegenError("E520", f"attribute {stmt.key} means nothing on a processor", stmt.span, help=_GPU_HELP)
    attribute(w, stmt)


def _marked_for(w: FunctionWriter, stmt: AttrStmt) -> None:
    """A loop in attributes that say how it runs; a statement that is no such loop runs as it stands."""
    inner: Stmt = stmt
    marks: dict[str, str] = {}
    while type(inner) is AttrStmt and inner.key in (BACKWARDS, PARALLEL_CHUNK):
        wanted = "bool" if inner.key == BACKWARDS else "int64"
        given = dtype_of(inner.value).name if isinstance(inner.value, Expr) else repr(inner.value)
        if given != wanted:
            raise CodegenError("E523", f"attribute {inner.key} is a {wanted}, got {given}", inner.span)
        marks[inner.key] = w.value(inner.value)
        inner = inner.body
    if type(inner) is not For or inner.step is not None:
        scoped(w, inner)
        return
    chunk = marks.get(PARALLEL_CHUNK, "1")
    _for(
        w,
        inner,
        marks.get(BACKWARDS),
        chunk if chunk.isdecimal() else w.emit(f"call i64 @llvm.smax.i64(i64 {chunk}, i64 1)"),
    )


CPU_STATEMENTS: Statements = {**STATEMENTS, For: _for, AllocBuffer: _alloc, AttrStmt: _attr}
"""The emitters of statements of processors."""
