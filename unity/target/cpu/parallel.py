"""Parallel loops: the body becomes a function over a range of iterations, which the pool's threads share.

What the body uses of its surroundings travels in a context structure on the caller's stack. The pool hands back the status
of a chunk that failed. Inside a parallel body further parallel loops are serial.
"""

from __future__ import annotations

from ...ffi.pool import PARALLEL_FOR
from ...ir.build import add, dtype_of, floordiv, floormod, is_int, mul
from ...ir.expr import Call, IntImm, Var
from ...ir.node import replace
from ...ir.scalar import Add, BufferLoad, Min
from ...ir.stmt import AllocBuffer, Bind, BufferStore, For, SeqStmt, Stmt, seq
from ...ir.types import Expr, PointerType
from ...ir.walk import children, collect, used_vars
from ...transform.tir.analysis.parallel_cost import SHARED_WORK, is_few, store_work
from .casts import convert
from .lltypes import value_type
from .writer import I64, FunctionWriter, LoopScope

CHUNKS = 64
"""Most chunks a loop is cut into."""

FEW_CHUNKS = 8
"""Chunks that loops with little work are cut into; enough for the threads to finish together."""

CHUNK_WORK = 1 << 15
"""Work that a chunk should have: taking it costs little beside that."""

UNKNOWN_EXTENT = 16
"""The count of an inner loop whose extent depends on the iteration."""


def _captured(w: FunctionWriter, stmt: For) -> list[tuple[Var, str, str]]:
    """(variable, type, operand) of the local values the body needs; constants and globals need no travel."""
    found = []
    for var in used_vars(stmt.body):
        text = w.env.get(var)
        if text is not None and text.startswith("%"):
            found.append((var, "ptr" if type(var.ty) is PointerType else value_type(dtype_of(var)), text))
    return found


def _collapsed(stmt: For) -> For:
    """A parallel loop that holds nothing but another one: one loop over both, where the outer one alone has few iterations."""
    inner = stmt.body
    if type(inner) is not For or inner.kind != "parallel" or not is_few(stmt.extent):
        return stmt
    plain = all([is_int(loop.min, 0) and loop.step is None for loop in (stmt, inner)])
    if not plain or stmt.loop_var in used_vars(inner.extent) or dtype_of(inner.loop_var) is not dtype_of(stmt.loop_var):
        return stmt
    both = Var(f"{stmt.loop_var.name}_{inner.loop_var.name}", stmt.loop_var.ty)
    body = seq(
        Bind(stmt.loop_var, floordiv(both, inner.extent)),
        Bind(inner.loop_var, floormod(both, inner.extent)),
        inner.body,
    )
    return replace(stmt, loop_var=both, extent=mul(stmt.extent, inner.extent), body=body)


def parallel_loop(w: FunctionWriter, stmt: For, backwards: str | None = None) -> None:
    """Write a parallel loop; with ``backwards`` (an ``i1``) true, each chunk runs from its end to its begin."""
    stmt = _collapsed(stmt)
    dtype = dtype_of(stmt.loop_var)
    first, extent = w.value(stmt.min), w.value(stmt.extent)
    captured = _captured(w, stmt)
    passed = [(ty, text) for _, ty, text in captured] + [(value_type(dtype), first)]
    if backwards is not None:
        passed.append(("i1", backwards))
    struct = "{ " + ", ".join([ty for ty, _ in passed]) + " }"
    context = w.slot(struct, 16)
    for position, (ty, text) in enumerate(passed):
        place = w.emit(f"getelementptr inbounds {struct}, ptr {context}, i32 0, i32 {position}")
        w.do(f"store {ty} {text}, ptr {place}")
    symbol = w.module.unique(f"{w.module.symbols[w.kernel.name]}.parallel")
    _write_body(w, stmt, symbol, struct, captured, backwards is not None)
    count = convert(w, extent, dtype, I64)
    chunk = _chunk(w, stmt, count)
    w.module.declare(f"@{PARALLEL_FOR}", f"declare i32 @{PARALLEL_FOR}(ptr, ptr, i64, i64)\n")
    w.module.externs[PARALLEL_FOR] = None
    status = w.emit(f"call i32 @{PARALLEL_FOR}(ptr @{symbol}, ptr {context}, i64 {count}, i64 {chunk})")
    good, bad = w.label("ok"), w.label("fail")
    w.branch(w.emit(f"icmp eq i32 {status}, 0"), good, bad)
    w.start(bad)
    w.leave(status)
    w.start(good)


def _chunk(w: FunctionWriter, stmt: For, count: str) -> str:
    """Iterations of a chunk: all where they turn out to be too little work to share, which only loops with symbolic extents ask
    (the others are as the passes decided)."""
    constant, extents = _work(w, stmt.body)
    if type(stmt.extent) is IntImm and not extents:
        total = stmt.extent.value
        chunks = max(FEW_CHUNKS, min(CHUNKS, total * constant // CHUNK_WORK))
        return str(max(1, -(-total // chunks)))
    chunk = w.emit(f"sdiv i64 {w.emit(f'add i64 {count}, {CHUNKS - 1}')}, {CHUNKS}")
    chunk = w.emit(f"call i64 @llvm.smax.i64(i64 {chunk}, i64 1)")
    work = w.emit(f"sitofp i64 {count} to double")
    for extent in extents:
        factor = w.emit(f"sitofp i64 {convert(w, w.value(extent), dtype_of(extent), I64)} to double")
        work = w.emit(f"fmul double {work}, {factor}")
    little = w.emit(f"fcmp olt double {work}, {SHARED_WORK / constant:.1f}")
    return w.emit(f"select i1 {little}, i64 {count}, i64 {chunk}")


def _work(w: FunctionWriter, body: object) -> tuple[int, tuple[Expr, ...]]:
    """Work of a statement: a number, and extents that are known outside of it; of parts, those count that have most of these."""
    kind = type(body)
    if kind is For:
        assert isinstance(body, For)
        number, extents = _work(w, body.body)
        known = [part for part in _parts(body.extent) if type(part) is IntImm]
        if known:
            return number * max(1, min([part.value for part in known])), extents
        outside = all([var in w.env for var in used_vars(body.extent)]) and not collect(body.extent, (BufferLoad, Call))
        return (number, (*extents, body.extent)) if outside else (number * UNKNOWN_EXTENT, extents)
    if kind is BufferStore:
        assert isinstance(body, BufferStore)
        return max(1, dtype_of(body.value).lanes) * store_work(body), ()
    inside = [_work(w, child) for child in children(body) if isinstance(child, Stmt)] if isinstance(body, Stmt) else []
    deepest = max(inside, key=lambda found: len(found[1]), default=(1, ()))[1]
    return max(1, sum([number for number, extents in inside if len(extents) == len(deepest)])), deepest


def _parts(extent: Expr) -> list[Expr]:
    """The upper bounds of an extent: itself, or the operands of a minimum, and what is added to them."""
    if type(extent) is Add and type(extent.b) is IntImm:
        return [add(part, extent.b) for part in _parts(extent.a)]
    return _parts(extent.a) + _parts(extent.b) if type(extent) is Min else [extent]


def _own_memory(body: Stmt) -> tuple[list[AllocBuffer], Stmt]:
    """Buffers of constant size that the body begins with, and the rest of it: allocated once, they serve all iterations that a
    thread runs."""
    parts = body.stmts if type(body) is SeqStmt else (body,)
    own: list[AllocBuffer] = []
    for part in parts:
        if type(part) is not AllocBuffer or not all([type(extent) is IntImm for extent in part.buffer.shape]):
            break
        own.append(part)
    return own, seq(*parts[len(own) :])


def turned_place(w: FunctionWriter, ty: str, place: str, ends: str, backwards: str) -> str:
    """``place``, or where ``backwards`` holds, the place as far from the other end; ``ends`` is the sum of begin and end."""
    other = w.emit(f"sub {ty} {w.emit(f'sub {ty} {ends}, 1')}, {place}")
    return w.emit(f"select i1 {backwards}, {ty} {other}, {ty} {place}")


def _write_body(
    w: FunctionWriter, stmt: For, symbol: str, struct: str, captured: list[tuple[Var, str, str]], turned: bool
) -> None:
    """Two functions: a work function with the captured values as parameters (pointers keep ``noalias``), and the entry
    the pool calls, which reads the context."""
    dtype = dtype_of(stmt.loop_var)
    ty = value_type(dtype)
    inner = FunctionWriter(w.module, w.kernel, inside_parallel=True, fast=w.fast, buffers=dict(w.buffers))
    inner.env.update([(var, text) for var, text in w.env.items() if not text.startswith("%")])
    parameters = ["i64 %begin", "i64 %end"]
    no_alias = w.kernel.func.attrs.get("tir.noalias", True)
    for number, (var, kind, _) in enumerate(captured):
        parameters.append(f"{kind}{' noalias' if kind == 'ptr' and no_alias else ''} %c{number}")
        inner.env[var] = f"%c{number}"
    parameters.append(f"{ty} %first")
    if turned:
        parameters.append("i1 %backwards")
    own, each = _own_memory(stmt.body)
    for alloc in own:
        inner.statement(alloc)
    held, before = len(inner.heap), inner.jump("head")
    inner.start("head")
    inner.lines.append(f"  %at = phi i64 [ %begin, %{before} ], [ %after, %next ]")
    inner.branch(inner.emit("icmp slt i64 %at, %end"), "body", "done")
    inner.start("body")
    place = turned_place(inner, "i64", "%at", inner.emit("add i64 %begin, %end"), "%backwards") if turned else "%at"
    offset = convert(inner, place, I64, dtype)
    inner.env[stmt.loop_var] = inner.emit(f"add {ty} {offset}, %first")
    inner.loops.append(LoopScope("", "next", held))
    inner.statement(each)
    inner.free_down_to(held)
    inner.jump("next")
    inner.start("next")
    inner.lines.append("  %after = add nsw i64 %at, 1")
    inner.jump("head")
    inner.start("done")
    inner.leave("0")
    body = "\n".join(["entry:", *inner.entry, *inner.lines])
    w.module.bodies.append(f"define internal i32 @{symbol}.work({', '.join(parameters)}) #0 {{\n{body}\n}}")
    lines, arguments = ["entry:"], ["i64 %begin", "i64 %end"]
    for number, kind in enumerate([kind for _, kind, _ in captured] + [ty] + ["i1"] * turned):
        lines.append(f"  %p{number} = getelementptr inbounds {struct}, ptr %context, i32 0, i32 {number}")
        lines.append(f"  %v{number} = load {kind}, ptr %p{number}")
        arguments.append(f"{kind} %v{number}")
    lines += [f"  %status = call i32 @{symbol}.work({', '.join(arguments)})", "  ret i32 %status"]
    text = "\n".join(lines)
    w.module.bodies.append(f"define internal i32 @{symbol}(ptr %context, i64 %begin, i64 %end) #0 {{\n{text}\n}}")
