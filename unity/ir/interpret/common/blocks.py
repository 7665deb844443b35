"""Blocks and declarations of buffers: iterators and their domains, initialisation of reductions, buffer views (match_buffer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer, MatchBufferRegion
from ...expr import IntImm, Var
from ...stmt import AllocBuffer, AllocConst, BlockRealize, DeclBuffer
from .expressions import Env, ExprCompiler, split, union_lanes

if TYPE_CHECKING:
    from .statements import StmtCompiler

Run = Callable[[Env], Env]
Effect = Callable[[Env], None]


def view_maker(expr: ExprCompiler, buffer: Buffer) -> Callable[[Env, Any], Any]:
    """Closure making the view of a buffer over an address, with shape, strides and offset evaluated now."""
    shape = [expr.index(e) for e in buffer.shape]
    strides = [expr.index(e) for e in buffer.strides]
    base = expr.index(buffer.elem_offset) if buffer.elem_offset is not None else None

    def make(env: Env, pointer: Any) -> Any:
        sizes, steps = tuple([e(env) for e in shape]), tuple([e(env) for e in strides])
        return pointer.view(buffer.dtype, sizes, steps, base(env) if base is not None else 0, buffer.name)

    return make


def allocate(c: StmtCompiler, stmt: AllocBuffer) -> Run:
    """An allocation."""
    return _then(c.allocation(stmt.buffer))


def constant(c: StmtCompiler, stmt: AllocConst) -> Run:
    """Constant data."""
    buffer, make = stmt.buffer, view_maker(c.expr, stmt.buffer)
    c.expr.declare(buffer)
    data = stmt.data.numpy().copy()
    data.flags.writeable = False

    def effect(env: Env) -> None:
        env[buffer.data] = c.address_of(data, buffer.name)
        env[buffer] = make(env, env[buffer.data])

    return _then(effect)


def declaration(c: StmtCompiler, stmt: DeclBuffer) -> Run:
    """A view of memory behind a pointer."""
    buffer, make = stmt.buffer, view_maker(c.expr, stmt.buffer)
    c.expr.declare(buffer)

    def effect(env: Env) -> None:
        pointer = env.get(buffer.data)
        if not isinstance(pointer, c.pointer):
            text = f"buffer {buffer.name} is declared over a pointer that has no value"
            raise InterpreterError("E323", text, stmt.span)
        env[buffer] = make(env, pointer)

    return _then(effect)


def _match(expr: ExprCompiler, match: MatchBufferRegion, span: Any) -> Effect:
    source, target = match.source, match.buffer
    region = [(expr.index(r.min), expr.index(r.extent)) for r in source.region]
    shape = [expr.index(e) for e in target.shape]
    known = [expr.index(s) if not isinstance(s, Var) else None for s in target.strides]

    def refuse(wrong: Any, env: Env, text: str, value: Any = None) -> None:
        expr.refuse(wrong, env, "E310", f"match_buffer: {text}", span, value)

    def run(env: Env) -> None:
        view = env.get(source.buffer)
        if view is None:
            raise InterpreterError("E323", f"buffer {source.buffer.name} is not declared here", span)
        lows, extents = [low(env) for low, _ in region], [extent(env) for _, extent in region]
        for low, extent, size in zip(lows, extents, view.shape):
            refuse((low < 0) | (low + extent > size), env, f"region of {view.name} is outside, it begins at ", low)
        sizes = tuple([e(env) for e in shape])
        dropped = len(extents) - len(sizes)
        wanted = [1] * dropped + list(sizes)
        wrong = dropped < 0 or np.any([np.any(e != w) for e, w in zip(extents, wanted)])
        shown = [", ".join([str(n) for n in part]) for part in (sizes, extents)]
        refuse(wrong, env, f"{target.name} has shape ({shown[0]}), its region ({shown[1]})")
        base = view.base
        for low, stride in zip(lows, view.strides):
            base = base + low * stride
        strides = view.strides[dropped:]
        for given, evaluate, stride in zip(target.strides, known, strides):
            if isinstance(given, Var):
                env[given] = env.get(given, stride)
            found = evaluate(env) if evaluate is not None else env[given]
            refuse(found != stride, env, f"{target.name} needs another stride than ", stride)
        if isinstance(target.elem_offset, Var):
            env[target.elem_offset] = base
        env[target.data] = view.pointer
        env[target] = view.pointer.view(target.dtype, sizes, strides, base, target.name)

    return run


def realize(c: StmtCompiler, stmt: BlockRealize) -> Run:
    """A block with values for its iterators."""
    block, visit = stmt.block, c.expr.visit
    depth = len(c.bound)
    values = [(iv.var, visit(v)) for iv, v in zip(block.iter_vars, stmt.iter_values)]
    domains = [(iv.var, visit(iv.dom.min), visit(iv.dom.extent)) for iv in block.iter_vars if iv.dom is not None]
    reductions = [(iv.var, visit(iv.dom.min)) for iv in block.iter_vars if iv.kind == "R" and iv.dom is not None]
    c.bound.extend([iv.var for iv in block.iter_vars])
    predicate, always = visit(stmt.predicate), type(stmt.predicate) is IntImm and stmt.predicate.value != 0
    guard = c.guard(block)
    before = [_match(c.expr, m, block.span) for m in block.match_buffers]
    for match in block.match_buffers:
        c.expr.declare(match.buffer)
    before += [c.allocation(b) for b in block.alloc_buffers]
    init = c.visit(block.init) if block.init is not None else None
    body = c.visit(block.body)
    if guard is not None:
        c.unguard()
    del c.bound[depth:]

    def run(env: Env) -> Env:
        found = [value(env) for _, value in values]
        for (var, _), value in zip(values, found):
            env[var] = value
        inner, rest = (env, None) if always else split(env, predicate(env))
        if inner is None:
            return env
        for var, least, extent in domains:
            value, low = inner[var], least(inner)
            wrong = (value < low) | (value >= low + extent(inner))
            if wrong is not False:
                text = f"iterator {var.name} of block {block.name} outside its domain: "
                c.expr.refuse(wrong, inner, "E315", text, block.span, value)
        outer = None
        if guard is not None:
            outer = inner.get(guard[0])
            watch = guard[1](inner)
            inner[guard[0]] = watch
        for effect in before:
            effect(inner)
        if init is not None:
            starting = inner
            for var, least in reductions:
                starting = split(starting, inner[var] == least(inner))[0]
                if starting is None:
                    break
            else:
                init(starting)
        after = body(inner)
        if guard is not None:
            inner[guard[0]] = outer
        return env if after is inner and rest is None else union_lanes(after, rest)

    return run


def _then(effect: Effect) -> Run:
    def run(env: Env) -> Env:
        effect(env)
        return env

    return run
