"""Printing of tensor programs: functions, statements, buffers; blocks stand in ``show_block``.

Invariant: statements write whole lines; what a statement binds is named when it is written.
"""

from __future__ import annotations

from typing import Any

from ...arith.cost import Cost, cost_of
from ...ir import stmt as st
from ...ir.buffer import Buffer
from ...ir.build import dtype_of
from ...ir.expr import Call, IntImm, Op, Var
from ...ir.function import PrimFunc
from ...ir.intrinsic import INTRINSICS
from ...ir.scalar import IterVar
from ...ir.types import Expr, PointerType, PrimType, TupleType, Type, prim_type
from ...ir.walk import children, collect, used_vars
from ..spelling.ranges import stop_of
from ..spelling.spelling import LOOP_CANONICAL
from .attr import attr, attr_dict, tensor_text
from .comments import comments
from .core import INDEX, RAW, STMTS, Printer, closing, quote
from .intrinsic import pointer_text
from .scalar import indices

_HANDLE = prim_type("handle")


# ----------------------------------------------------------------------------------------------------------- buffers


def buffer_arguments(p: Printer, buffer: Buffer, scope: bool = True) -> None:
    """``(n, 4), "float32", strides=..., scope=...`` without what is the default."""
    p.put("(", (buffer.shape, INDEX), f'{closing(buffer.shape)}, "{buffer.dtype.name}"')
    if buffer.strides:
        p.put(", strides=(", (buffer.strides, INDEX), closing(buffer.strides))
    if buffer.elem_offset is not None:
        p.put(", elem_offset=", (buffer.elem_offset, INDEX))
    if scope and buffer.scope != "global":
        p.put(f", scope={quote(buffer.scope)}")
    if buffer.align != 64:
        p.put(f", align={buffer.align}")
    if buffer.offset_factor != 1:
        p.put(f", offset_factor={buffer.offset_factor}")
    if buffer.axis_separators:
        p.put(f", axis_separators={list(buffer.axis_separators)}")


def declare_buffer(p: Printer, buffer: Buffer) -> str:
    """Name a buffer that is declared here together with its pointer."""
    name = p.names.of(buffer, buffer.name)
    p.data_of.setdefault(buffer.data, buffer)
    p.bound.add(buffer.data)
    return name


def _has_symbols(buffer: Buffer) -> bool:
    parts: list[Expr] = [*buffer.shape, *buffer.strides]
    if buffer.elem_offset is not None:
        parts.append(buffer.elem_offset)
    return any([type(e) is not IntImm for e in parts])


# --------------------------------------------------------------------------------------------------------- functions


def param_type(p: Printer, ty: Type) -> str:
    """Annotation of a scalar or pointer parameter or of a bound scalar."""
    if type(ty) is PrimType:
        return f"T.{ty.dtype.name}"
    if type(ty) is PointerType:
        return pointer_text(ty)
    return p.text_of(lambda: p.type(ty))


def open_body(p: Printer, fn: Any, name: str) -> int:
    """The colon after a function's head, and its attributes; the place in the output where declarations go."""
    p.put(":")
    p.indent += 1
    slot = len(p.out)
    p.put("")
    attrs = {k: v for k, v in fn.attrs.items() if not (k == "global_symbol" and v == name)}
    if attrs:
        p.line(f"{p.level}.func_attr(")
        attr_dict(p, attrs)
        p.put(")")
    return slot


def prim_func(p: Printer, fn: PrimFunc, name: str) -> None:
    """A tensor program with its decorator."""
    before, p.level = p.level, "T"
    symbol = fn.attrs.get("global_symbol")
    options = [] if symbol is not None else ["private=True"]
    if not fn.checked:
        options.append("check_well_formed=False")
    if p.dialect.tvm:
        options.append("s_tir=True")
    comments(p, fn)
    p.line(f"@T.prim_func({', '.join(options)})" if options else "@T.prim_func")
    p.line(f"def {name}(")
    matched: list[tuple[str, Buffer]] = []
    for number, param in enumerate(fn.params):
        p.put(", " if number else "")
        p.bound.add(param)
        buffer = fn.buffer_map.get(param)
        if buffer is not None and param.ty is _HANDLE and not _has_symbols(buffer):
            p.put(f"{declare_buffer(p, buffer)}: T.Buffer(")
            buffer_arguments(p, buffer)
            p.put(")")
            continue
        p.put(f"{p.name_of(param)}: {param_type(p, param.ty)}")
        if buffer is not None:
            matched.append((p.name_of(param), buffer))
    p.put(")")
    ret = fn.ret_ty
    if not (type(ret) is TupleType and not ret.fields) and ret is not prim_type("void"):
        p.put(f" -> {param_type(p, ret)}")
    slot = open_body(p, fn, name)
    outer_free, p.free = p.free, {}
    for parameter, buffer in matched:
        comments(p, buffer)
        p.line(f"{declare_buffer(p, buffer)} = T.match_buffer({parameter}, ")
        buffer_arguments(p, buffer)
        p.put(")")
    _env_threads(p, fn.body)
    if p.costs:
        costs(p, cost_of(fn))
    _body(p, fn.body)
    p.out[slot] = declarations(p)
    p.free = outer_free
    p.dedent()
    p.level = before


def _body(p: Printer, body: st.Stmt) -> None:
    """The body of a function. In TVM, memory of a function with blocks is that of its root block."""
    if not p.dialect.tvm or type(body) is not st.SeqStmt or not collect(body, st.BlockRealize):
        p.stmt(body)
        return
    for stmt in body.stmts:
        if type(stmt) is st.AllocBuffer and not stmt.annotations:
            comments(p, stmt)
            alloc_statement(p, stmt, "T.sblock_alloc_buffer")
        else:
            p.stmt(stmt)


def _env_threads(p: Printer, body: st.Stmt) -> None:
    """``tx = T.env_thread("threadIdx.x")`` for the axes that more than one statement names."""
    named: dict[IterVar, int] = {}
    pending: list[Any] = [body]
    while pending:
        at = pending.pop()
        axis = at.node if type(at) is st.AttrStmt else None
        if type(axis) is IterVar and axis.dom is None:
            named[axis] = named.get(axis, 0) + (1 if at.key == _thread_key(axis) else 2)
        pending += [child for child in reversed(children(at)) if isinstance(child, st.Stmt)]
    for axis, count in named.items():
        if count > 1:
            dtype = dtype_of(axis.var).name
            usual = dtype == ("int32" if p.dialect.tvm else "int64")
            p.bound.add(axis.var)
            p.line(f"{p.name_of(axis.var)} = T.env_thread({quote(axis.thread_tag)}", ")" if usual else f', "{dtype}")')


def costs(p: Printer, work: Cost) -> None:
    """Comments with an amount of work, in terms of its symbols."""
    for what, amount in (("operations", work.flops), ("bytes read", work.read), ("bytes written", work.written)):
        p.line(f"# {what}: ", (amount, INDEX))


def declarations(p: Printer) -> str:
    """Lines that declare the symbols used: ``n, m = T.int64(), T.int64()``."""
    names: list[str] = []
    types: list[str] = []
    for var in p.free:
        if var in p.bound or not isinstance(var, Var):
            continue
        if type(var.ty) is PrimType:
            names.append(p.name_of(var))
            types.append(f"T.{var.ty.dtype.name}()")
        elif type(var.ty) is PointerType:
            names.append(p.name_of(var))
            types.append(pointer_text(var.ty))
        p.bound.add(var)
    if not names:
        return ""
    return "\n" + "    " * p.indent + f"{', '.join(names)} = {', '.join(types)}"


# -------------------------------------------------------------------------------------------------------- statements


def indented(p: Printer, body: st.Stmt) -> None:
    """A statement one level deeper."""
    p.indent += 1
    p.stmt(body)
    p.dedent()


def _seq(p: Printer, node: st.SeqStmt) -> None:
    if not node.stmts:
        p.line("pass")
    for item in node.stmts:
        p.stmt(item)


def _is_plain(loop: st.For) -> bool:
    return (
        loop.kind == "serial" and type(loop.min) is IntImm and loop.min.value == 0 and not loop.annotations
        and loop.step is None and loop.thread is None and loop.min.ty is loop.extent.ty and loop.loop_var.ty is loop.min.ty
    )  # fmt: skip


def _bind_loop(p: Printer, loop: st.For) -> str:
    p.bound.add(loop.loop_var)
    p.loops[loop.loop_var] = loop
    return p.name_of(loop.loop_var)


def _for(p: Printer, node: st.For) -> None:
    nest = [node]
    if _is_plain(node):
        bound = {node.loop_var}
        inner = node.body
        while type(inner) is st.For and _is_plain(inner) and id(inner) not in p.underline:
            if type(inner.extent) is not IntImm and any([v in bound for v in used_vars(inner.extent)]):
                break
            nest.append(inner)
            bound.add(inner.loop_var)
            inner = inner.body
        if len(nest) > 1:
            for loop in nest:
                comments(p, loop)
            p.line(
                f"for {', '.join([_bind_loop(p, loop) for loop in nest])} in T.grid(",
                ([loop.extent for loop in nest], INDEX),
                "):",
            )
            indented(p, nest[-1].body)
            return
    _single_loop(p, node)


def _single_loop(p: Printer, node: st.For) -> None:
    plain_range = node.kind == "serial" and not node.annotations and node.thread is None
    stop = stop_of(node.min, node.extent)
    function = "range" if plain_range and stop is not None else LOOP_CANONICAL[node.kind]
    p.line(f"for {_bind_loop(p, node)} in {function}(")
    from_zero = type(node.min) is IntImm and node.min.value == 0 and node.min.ty is node.extent.ty
    if not from_zero or node.step is not None:
        p.put((node.min, INDEX), ", ")
    if stop is None:
        p.put("extent=", (node.extent, INDEX))
    else:
        p.expr(stop, INDEX)
    if node.step is not None:
        p.put(", " if plain_range and stop is not None else ", step=", (node.step, INDEX))
    if node.thread is not None:
        p.put(f", thread={quote(node.thread)}")
    if node.annotations:
        p.put(", annotations=")
        attr_dict(p, node.annotations)
    p.put("):")
    indented(p, node.body)


def _while(p: Printer, node: st.While) -> None:
    p.line("while ", (node.cond, RAW), ":")
    indented(p, node.body)


def _if(p: Printer, node: st.IfThenElse) -> None:
    p.line("if ", (node.cond, RAW), ":")
    indented(p, node.then_case)
    other = node.else_case
    while type(other) is st.IfThenElse and id(other) not in p.underline:
        p.line("elif ", (other.cond, RAW), ":")
        indented(p, other.then_case)
        other = other.else_case
    if other is not None:
        p.line("else:")
        indented(p, other)


def _return(p: Printer, node: st.Return) -> None:
    p.line("return")
    if node.value is not None:
        p.put(" ", node.value)


def _bind(p: Printer, node: st.Bind) -> None:
    p.bound.add(node.var)
    ty = param_type(p, node.var.ty)
    p.line(f"{p.name_of(node.var)}: {f'T.let[{ty}]' if p.dialect.tvm else ty} = ", (node.value, RAW))


def alloc_statement(p: Printer, node: st.AllocBuffer, word: str) -> None:
    """An allocation as a statement, spelled ``word``."""
    p.line(f"{declare_buffer(p, node.buffer)} = {word}(")
    buffer_arguments(p, node.buffer)
    if node.annotations:
        p.put(", annotations=")
        attr_dict(p, node.annotations)
    p.put(")")


def _decl(p: Printer, node: st.DeclBuffer) -> None:
    buffer = node.buffer
    outer = p.data_of.get(buffer.data)
    known = outer is not None or buffer.data in p.bound
    name = p.names.of(buffer, buffer.name) if known else declare_buffer(p, buffer)
    p.line(f"{name} = T.decl_buffer(")
    buffer_arguments(p, buffer, scope=not known)
    if known:
        p.put(", data=", (buffer.data, RAW))
    p.put(")")


def _thread_key(axis: IterVar) -> str:
    return "virtual_thread" if axis.thread_tag.startswith("vthread") else "thread_extent"


def _attr(p: Printer, node: st.AttrStmt) -> None:
    target = node.node
    if type(target) is IterVar and target.dom is None and node.key == _thread_key(target):
        known = target.var in p.bound
        p.bound.add(target.var)
        name = p.name_of(target.var)
        tag = name if known else quote(target.thread_tag)
        p.line(f"with T.launch_thread({tag}, ")
        attr(p, node.value)
        p.put("):" if known else f") as {name}:")
    else:
        p.line("with T.attr(")
        attr(p, target)
        p.put(f", {quote(node.key)}, ")
        attr(p, node.value)
        p.put("):")
    indented(p, node.body)


def _assert(p: Printer, node: st.AssertStmt) -> None:
    p.line("assert ", (node.cond, RAW))
    if node.kind == "RuntimeError":
        p.put(f", {quote(node.message)}")
    else:
        p.put(f", ({quote(node.kind)}, [{quote(node.message)}])")


def _store(p: Printer, node: st.BufferStore) -> None:
    if node.predicate is None:
        p.line(p.name_of(node.buffer))
        indices(p, node.indices)
        p.put(" = ", node.value)
        return
    p.line(
        f"{p.name_of(node.buffer)}.vstore([",
        (node.indices, INDEX),
        "], ",
        (node.value, RAW),
        ", predicate=",
        (node.predicate, RAW),
        ")",
    )


def _evaluate(p: Printer, node: st.Evaluate) -> None:
    value = node.value
    row = INTRINSICS.get(value.op.name) if type(value) is Call and type(value.op) is Op else None
    if row is not None and row.effect == "effect":
        p.line("", value)
        return
    p.line("T.evaluate(", value, ")")


STMTS.update({
    st.SeqStmt: _seq, st.For: _for, st.While: _while, st.IfThenElse: _if, st.Return: _return, st.Bind: _bind,
    st.DeclBuffer: _decl, st.AttrStmt: _attr, st.AssertStmt: _assert, st.BufferStore: _store, st.Evaluate: _evaluate,
    st.AllocBuffer: lambda p, node: alloc_statement(p, node, "T.alloc_buffer"),
    st.AllocConst: lambda p, node: p.line(
        f"{declare_buffer(p, node.buffer)} = {tensor_text(p, node.data, 'T.alloc_const')}"
    ),
    st.Break: lambda p, _: p.line("break"), st.Continue: lambda p, _: p.line("continue"),
})  # fmt: skip
