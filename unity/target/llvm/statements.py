"""Statements that all targets share: serial loops, conditions, stores, checks."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ffi.dtype import DataType
from ...ir.analysis.reductions import NUMBERS, REDUCTION, is_cell
from ...ir.buffer import Buffer
from ...ir.build import dtype_of, int_values
from ...ir.expr import Call, IntImm
from ...ir.scalar import Add, BufferLoad, Cast, Let, Max, Min, Mul, Sub
from ...ir.stmt import (
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
    While,
)  # fmt: skip
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import CodegenError
from ...support.source import Span
from .casts import convert, to_memory
from .indices import index_parts
from .lltypes import memory_type, value_type
from .memory import store
from .small_indices import INDEX, bind_index, give_range, loop_range, range_of
from .writer import STATEMENTS, FunctionWriter, LoopScope

INTERLEAVED = 4
"""Vectors of a loop that LLVM computes side by side: one after the other, formulas of many steps wait for themselves."""
VECTOR_BYTES = 64


def scoped(w: FunctionWriter, *stmts: object) -> None:
    """Statements whose allocations end with them."""
    depth = len(w.heap)
    for stmt in stmts:
        w.statement(stmt)
    w.free_down_to(depth)
    del w.heap[depth:]


def serial_loop(w: FunctionWriter, stmt: For, index_of: Callable[[str, str, str], str] | None = None) -> None:
    """A loop whose iterations run one after the other, whatever its kind says; ``index_of``: (type, count, extent) -> the iteration
    that runs at a count."""
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
    values = loop_range(w, stmt) if w.ranges else None
    ty = value_type(dtype) if values is None else "i32"
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
    w.levels[count] = len(w.chain) - 1
    signed = "slt" if dtype.is_int else "ult"
    w.branch(w.emit(f"icmp {signed} {ty} {count}, {extent}"), body, done)
    w.start(body)
    w.begin_region()
    index = count if index_of is None else index_of(ty, count, extent)
    if first != "0":
        index = w.emit(f"add {'nsw ' if dtype.is_int else ''}{ty} {index}, {first}")
    if values is not None:
        give_range(w, stmt.loop_var, values)
        index = w.emit(f"sext i32 {index} to i64")
    w.env[stmt.loop_var] = index
    w.loops.append(LoopScope(done, following, len(w.heap)))
    scoped(w, stmt.body)
    w.loops.pop()
    w.jump(following)
    w.start(following)
    flag = "nsw " if dtype.is_int else "nuw "
    w.lines.append(f"  {advanced} = add {flag}{ty} {count}, {step}")
    w.lines.append(f"  br label %{head}{_loop_hints(w, stmt)}")
    w.start(done)
    w.begin_region()


def _loop_hints(w: FunctionWriter, stmt: For) -> str:
    hints = []
    notes = stmt.annotations or {}
    unroll = notes.get("unroll")
    if isinstance(unroll, int) and unroll > 1:
        hints.append(f'!"llvm.loop.unroll.count", i32 {unroll}')
    if unroll == 1:
        hints.append('!"llvm.loop.unroll.disable"')
    if "vectorize" in notes and _fills_vectors(stmt):
        hints.append(f'!"llvm.loop.interleave.count", i32 {INTERLEAVED}')
    return f", !llvm.loop {w.module.loop_metadata(*hints)}" if hints else ""


def _fills_vectors(stmt: For) -> bool:
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
    scoped(w, stmt.body)
    w.loops.pop()
    w.jump(head)
    w.start(done)


def leave_loop(w: FunctionWriter, forward: bool, span: Span | None = None) -> None:
    """``continue`` (forward) or ``break``."""
    if not w.loops:
        raise CodegenError("E520", f"{'continue' if forward else 'break'} outside a loop that can be left", span)
    scope = w.loops[-1]
    if not forward and not scope.exit:
        raise CodegenError("E520", "break out of a parallel loop", span)
    w.free_down_to(scope.heap)
    w.jump(scope.next if forward else scope.exit)
    w.start(w.label("after"))


def _if(w: FunctionWriter, stmt: IfThenElse) -> None:
    if not dtype_of(stmt.cond).is_bool or dtype_of(stmt.cond).lanes != 1:
        raise CodegenError("E523", f"a condition must be a scalar bool, got {dtype_of(stmt.cond).name}", stmt.span)
    condition = w.value(stmt.cond)
    if condition in ("true", "false"):
        scoped(w, *[part for part in (stmt.then_case if condition == "true" else stmt.else_case,) if part is not None])
        return
    yes, no, join = w.label("if"), w.label("else"), w.label("end")
    w.branch(condition, yes, no if stmt.else_case is not None else join)
    w.start(yes)
    scoped(w, stmt.then_case)
    w.jump(join)
    if stmt.else_case is not None:
        w.start(no)
        scoped(w, stmt.else_case)
        w.jump(join)
    w.start(join)


def _bind(w: FunctionWriter, stmt: Bind) -> None:
    if w.fast:
        w.accumulations = _accumulations(stmt.value)
    if w.ranges and stmt.var.ty is INDEX:
        bind_index(w, stmt.var, *index_parts(w, stmt.value, False), range_of(w, stmt.value))
        return
    w.env[stmt.var] = w.value(stmt.value)
    w.computed.clear()
    if dtype_of(stmt.value).is_bool:
        w.masks[stmt.var] = stmt.value


def _declare(w: FunctionWriter, stmt: DeclBuffer) -> None:
    if stmt.buffer.data not in w.env:
        raise CodegenError("E524", f"buffer {stmt.buffer.name} is declared over a pointer without value", stmt.span)
    if stmt.buffer.data not in w.buffers:  # a pointer from outside
        given = w.emit(f"icmp ne ptr {w.env[stmt.buffer.data]}, null")
        w.fail_unless(given, f"buffer {stmt.buffer.name} is declared over a null pointer")
    w.buffers.setdefault(stmt.buffer.data, stmt.buffer)


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


def attribute(w: FunctionWriter, stmt: AttrStmt) -> None:
    """The body of an attribute; sums of a ``reduction`` may be reassociated, extremes of ``NUMBERS`` leave NaN out."""
    saved = w.fast, w.numbers
    if stmt.key == REDUCTION:
        w.fast, w.numbers = "contract reassoc ", stmt.value == NUMBERS
    scoped(w, stmt.body)
    w.fast, w.numbers = saved


def constant_count(buffer: Buffer, span: Span | None) -> int | None:
    """Elements of a buffer of constant shape, None for another. Raises CodegenError E525 for negative extents and huge sizes."""
    extents = int_values(buffer.shape)
    if len(extents) != len(buffer.shape):
        return None
    if any([extent < 0 for extent in extents]):
        raise CodegenError("E525", f"buffer {buffer.name} has a negative extent", span)
    count = math.prod(extents)
    if count * buffer.dtype.itemsize >= 1 << 47:
        raise CodegenError("E525", f"buffer {buffer.name} needs {count * buffer.dtype.itemsize} bytes", span)
    return count


def _assert(w: FunctionWriter, stmt: AssertStmt) -> None:
    message = f"{stmt.kind}: {stmt.message}" if stmt.kind != "RuntimeError" else stmt.message
    w.fail_unless(w.value(stmt.cond), message if stmt.span is None else f"{message}\n{stmt.span.place}")


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
    if w.numbers and isinstance(stmt.value, (Max, Min)) and is_cell(stmt.value.a, stmt):
        w.accumulations.add(stmt.value)
    store(w, stmt.buffer, stmt.value, stmt.indices, stmt.predicate, stmt.span)


def _evaluate(w: FunctionWriter, stmt: Evaluate) -> None:
    value = stmt.value
    args = value.args if type(value) is Call else ()
    name = value.op_name if type(value) is Call else ""
    if name == "T.ret":
        return_value(w, args[0] if args else None, stmt.span)
    elif name in ("T.break_loop", "T.continue_loop"):
        leave_loop(w, name == "T.continue_loop", stmt.span)
    elif name == "T.thread_return":
        return_value(w, None, stmt.span)
    elif type(value) is not IntImm:
        w.value(value)


def return_value(w: FunctionWriter, value: Expr | None, span: Span | None) -> None:
    """``return``: store the result if the function has one, free, leave."""
    if w.inside_parallel:
        raise CodegenError("E520", "return inside a parallel loop", span)
    if value is not None:
        if w.kernel.result is None:
            raise CodegenError("E523", f"{w.kernel.name} declares no result but returns a value", span)
        text = convert(w, w.value(value), dtype_of(value), w.kernel.result)
        text = to_memory(w, text, w.kernel.result)
        w.do(f"store {memory_type(w.kernel.result)} {text}, ptr %result")
    w.leave("0")
    w.start(w.label("after"))


STATEMENTS.update({
    SeqStmt: lambda w, stmt: scoped(w, *stmt.stmts), For: serial_loop, While: _while, IfThenElse: _if, Bind: _bind,
    DeclBuffer: _declare, AllocConst: _alloc_const, AttrStmt: attribute, AssertStmt: _assert, BufferStore: _store,
    Evaluate: _evaluate, Break: lambda w, stmt: leave_loop(w, False, stmt.span),
    Continue: lambda w, stmt: leave_loop(w, True, stmt.span),
    Return: lambda w, stmt: return_value(w, stmt.value, stmt.span),
})  # fmt: skip
