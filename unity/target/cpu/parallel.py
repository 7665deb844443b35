"""Parallel loops: the body becomes a function over a range of iterations, which the pool's threads share.

What the body uses of its surroundings travels in a context structure on the caller's stack. The pool hands back the status
of a chunk that failed. Inside a parallel body further parallel loops are serial.
Not here: how large a chunk is (the pass ``chunk_parallel``).
"""

from __future__ import annotations

from ...ffi.native.pool import PARALLEL_FOR
from ...ir.build import dtype_of
from ...ir.expr import IntImm, Var
from ...ir.function import may_alias
from ...ir.stmt import AllocBuffer, AttrStmt, For, Stmt, seq, statements_of
from ...ir.types import PointerType
from ...ir.walk import used_vars
from ...transform.tir.vectors.configure_tiles import TILE_REGISTERS
from ..llvm.casts import convert
from ..llvm.lltypes import value_type
from ..llvm.writer import I64, FunctionWriter, LoopScope

CONFIG = "unity.tiles"
_PALETTE, _ROWS, _ROW_BYTES, _TILES = 1, 16, 64, 8
"""The layout of LDTILECFG. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2."""


def _captured(w: FunctionWriter, stmt: For) -> list[tuple[Var, str, str]]:
    """(variable, type, operand) of the local values the body needs; constants and globals need no travel."""
    found = []
    for var in used_vars(stmt.body):
        text = w.env.get(var)
        if text is not None and text.startswith("%"):
            found.append((var, "ptr" if type(var.ty) is PointerType else value_type(dtype_of(var)), text))
    return found


def parallel_loop(w: FunctionWriter, stmt: For, chunk: str, backwards: str | None = None) -> None:
    """Write a parallel loop, of which threads take ``chunk`` iterations at a time; with ``backwards`` (an ``i1``) true, each chunk
    runs from its end to its begin."""
    dtype = dtype_of(stmt.loop_var)
    first, extent = w.value(stmt.min), w.value(stmt.extent)
    captured = _captured(w, stmt)
    passed = [(ty, text) for _, ty, text in captured] + [(value_type(dtype), first)]
    if backwards is not None:
        passed.append(("i1", backwards))
    struct = "{ " + ", ".join([ty for ty, _ in passed]) + " }"
    context = w.slot(struct, 16)
    for position, (ty, text) in enumerate(passed):
        field = w.emit(f"getelementptr inbounds {struct}, ptr {context}, i32 0, i32 {position}")
        w.do(f"store {ty} {text}, ptr {field}")
    symbol = w.module.unique(f"{w.module.symbols[w.kernel.name]}.parallel")
    _write_body(w, stmt, symbol, struct, captured, backwards is not None)
    count = convert(w, extent, dtype, I64)
    w.module.declare(f"@{PARALLEL_FOR}", f"declare i32 @{PARALLEL_FOR}(ptr, ptr, i64, i64)\n")
    w.module.externs[PARALLEL_FOR] = None
    status = w.emit(f"call i32 @{PARALLEL_FOR}(ptr @{symbol}, ptr {context}, i64 {count}, i64 {chunk})")
    w.leave_unless(f"icmp eq i32 {status}, 0", lambda: status)


def _private_allocations(body: Stmt) -> tuple[list[AllocBuffer], Stmt]:
    """Buffers of constant size that the body begins with, and the rest of it: allocated once, they serve all iterations that a
    thread runs."""
    parts = statements_of(body)
    private: list[AllocBuffer] = []
    for part in parts:
        if type(part) is not AllocBuffer or not all([type(extent) is IntImm for extent in part.buffer.shape]):
            break
        private.append(part)
    return private, seq(*parts[len(private) :])


def mirrored_index(w: FunctionWriter, backwards: str, ty: str, index: str, ends: str) -> str:
    """``index``, or where ``backwards`` holds, the place as far from the other end; ``ends`` is the sum of begin and end."""
    other = w.emit(f"sub {ty} {w.emit(f'sub {ty} {ends}, 1')}, {index}")
    return w.emit(f"select i1 {backwards}, {ty} {other}, {ty} {index}")


def _write_body(
    w: FunctionWriter, stmt: For, symbol: str, struct: str, captured: list[tuple[Var, str, str]], backwards: bool
) -> None:
    """Two functions: a work function with the captured values as parameters (pointers keep ``noalias``), and the entry
    the pool calls, which reads the context. It calls the other: LLVM would run all its passes again over what it has inlined."""
    dtype = dtype_of(stmt.loop_var)
    ty = value_type(dtype)
    inner = FunctionWriter(
        w.module, w.kernel, inside_parallel=True, fast=w.fast, buffers=dict(w.buffers), unchanging=w.unchanging
    )
    inner.env.update([(var, text) for var, text in w.env.items() if not text.startswith("%")])
    parameters = ["i64 %begin", "i64 %end"]
    no_alias = not may_alias(w.kernel.func)
    for number, (var, kind, _) in enumerate(captured):
        parameters.append(f"{kind}{' noalias' if kind == 'ptr' and no_alias else ''} %c{number}")
        inner.env[var] = f"%c{number}"
    parameters.append(f"{ty} %first")
    if backwards:
        parameters.append("i1 %backwards")
    marked = type(stmt.body) is AttrStmt and stmt.body.key == TILE_REGISTERS
    private, each = _private_allocations(stmt.body.body if type(stmt.body) is AttrStmt and marked else stmt.body)
    for alloc in private:
        inner.statement(alloc)
    if marked:
        configure_tiles(inner)
    heap, before = len(inner.heap), inner.jump("head")
    inner.start("head")
    inner.lines.append(f"  %at = phi i64 [ %begin, %{before} ], [ %after, %next ]")
    inner.branch(inner.emit("icmp slt i64 %at, %end"), "body", "done")
    inner.start("body")
    index = (
        mirrored_index(inner, "%backwards", "i64", "%at", inner.emit("add i64 %begin, %end")) if backwards else "%at"
    )
    offset = convert(inner, index, I64, dtype)
    inner.env[stmt.loop_var] = inner.emit(f"add {ty} {offset}, %first")
    inner.loops.append(LoopScope("", "next", heap))
    inner.statement(each)
    inner.free_down_to(heap)
    inner.jump("next")
    inner.start("next")
    inner.lines.append("  %after = add nsw i64 %at, 1")
    inner.jump("head")
    inner.start("done")
    if marked:
        release_tiles(inner)
    inner.leave("0")
    body = inner.body()
    w.module.bodies.append(f"define internal i32 @{symbol}.work({', '.join(parameters)}) noinline #0 {{\n{body}\n}}")
    lines, arguments = ["entry:"], ["i64 %begin", "i64 %end"]
    for number, kind in enumerate([kind for _, kind, _ in captured] + [ty] + ["i1"] * backwards):
        lines.append(f"  %p{number} = getelementptr inbounds {struct}, ptr %context, i32 0, i32 {number}")
        lines.append(f"  %v{number} = load {kind}, ptr %p{number}")
        arguments.append(f"{kind} %v{number}")
    lines += [f"  %status = call i32 @{symbol}.work({', '.join(arguments)})", "  ret i32 %status"]
    text = "\n".join(lines)
    w.module.bodies.append(f"define internal i32 @{symbol}(ptr %context, i64 %begin, i64 %end) #0 {{\n{text}\n}}")


def configure_tiles(w: FunctionWriter) -> None:
    """Load the configuration of the tile registers of AMX, eight full ones; all tiles are zero after it."""
    widths = [part for k in range(16) for part in (_ROW_BYTES if k < _TILES else 0, 0)]
    content = bytes([_PALETTE, *[0] * 15, *widths, *[_ROWS] * _TILES, *[0] * 8])
    text = "".join([f"\\{byte:02X}" for byte in content])
    w.module.declare(f"@{CONFIG}", f'@{CONFIG} = private unnamed_addr constant [64 x i8] c"{text}", align 64\n')
    w.module.declare("@llvm.x86.ldtilecfg", "declare void @llvm.x86.ldtilecfg(ptr)\n")
    w.do(f"call void @llvm.x86.ldtilecfg(ptr @{CONFIG})")


def release_tiles(w: FunctionWriter) -> None:
    """Release the tiles, so that switching threads does not save them."""
    w.module.declare("@llvm.x86.tilerelease", "declare void @llvm.x86.tilerelease()\n")
    w.do("call void @llvm.x86.tilerelease()")
