"""Blocks: iterators and their domains, initialisation of reductions, region guards, buffer views (match_buffer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ....support.errors import InterpreterError
from ...buffer import Buffer, BufferRegion
from ...expr import Var
from ...stmt import Block, BlockRealize, Stmt
from .checks import RegionGuard
from .expressions import Env, ExprCompiler, GuardKey
from .memory import Pointer, View

Run = Callable[[Env], Any]


class Statements(Protocol):
    """The part of the statement compiler that blocks need."""

    expr: ExprCompiler

    def visit(self, stmt: Stmt) -> Run: ...

    def allocation(self, buffer: Buffer) -> Callable[[Env], None]: ...


class BlockCompiler:
    """Compiles block realizations for a statement compiler."""

    def __init__(self, stmt: Statements) -> None:
        self.stmt = stmt

    @property
    def expr(self) -> ExprCompiler:
        """The expression compiler of the function."""
        return self.stmt.expr

    def realize(self, stmt: BlockRealize) -> Run:
        block = stmt.block
        guarded = block.reads is not None and block.writes is not None
        if guarded and not block.iter_vars and not block.reads and not block.writes:
            guarded = False  # a root block declares nothing
        values = [(iv.var, self.expr.visit(v)) for iv, v in zip(block.iter_vars, stmt.iter_values)]
        domains = [
            (iv.var.name, self.expr.visit(iv.dom.min), self.expr.visit(iv.dom.extent)) if iv.dom is not None else None
            for iv in block.iter_vars
        ]
        reductions = [
            (iv.var, self.expr.visit(iv.dom.min)) for iv in block.iter_vars if iv.kind == "R" and iv.dom is not None
        ]
        predicate = self.expr.visit(stmt.predicate)
        guard_key = GuardKey() if guarded else None
        guard = self._guard(block) if guarded else None
        matches = [self._match(m.buffer, m.source, block.span) for m in block.match_buffers]
        if guard_key is not None:
            self.expr.guards.append(guard_key)
        for match_buffer in block.match_buffers:
            self.expr.declare(match_buffer.buffer)
        allocations = [self.stmt.allocation(b) for b in block.alloc_buffers]
        init = self.stmt.visit(block.init) if block.init is not None else None
        body = self.stmt.visit(block.body)
        if guard_key is not None:
            self.expr.guards.pop()
        span, name = block.span, block.name

        def run(env: Env) -> Any:
            found = [value(env) for _, value in values]
            for (var, _), value in zip(values, found):
                env[var] = value
            if not predicate(env):
                return None
            for value, domain in zip(found, domains):
                if domain is not None:
                    low = domain[1](env)
                    if not low <= value < low + domain[2](env):
                        raise InterpreterError(
                            "E315", f"iterator {domain[0]} of block {name} is {value}, outside its domain", span
                        )
            for allocation in allocations:
                allocation(env)
            before = env.get(guard_key)
            if guard is not None:
                env[guard_key] = guard(env)
            for match in matches:
                match(env)
            signal = None
            if init is not None and all([env[var] == low(env) for var, low in reductions]):
                signal = init(env)
            if signal is None:
                signal = body(env)
            if guard is not None:
                env[guard_key] = before
            return signal

        return run

    def _guard(self, block: Block) -> Callable[[Env], RegionGuard]:
        reads = self._boxes(block.reads or ())
        writes = self._boxes(block.writes or ())
        name = block.name

        def run(env: Env) -> RegionGuard:
            return RegionGuard(name, reads(env), writes(env))

        return run

    def _boxes(self, regions: tuple[BufferRegion, ...]) -> Callable[[Env], dict[Any, list[Any]]]:
        compiled = [
            (r.buffer, [(self.expr.visit(x.min), self.expr.visit(x.extent)) for x in r.region]) for r in regions
        ]

        def run(env: Env) -> dict[Any, list[Any]]:
            found: dict[Any, list[Any]] = {}
            for buffer, ranges in compiled:
                box = []
                for low, extent in ranges:
                    first = low(env)
                    box.append((first, first + extent(env)))
                found.setdefault(buffer, []).append(box)
            return found

        return run

    def _match(self, target: Buffer, source: BufferRegion, span: Any) -> Callable[[Env], None]:
        region = [(self.expr.visit(r.min), self.expr.visit(r.extent)) for r in source.region]
        shape = [self.expr.visit(e) for e in target.shape]

        def run(env: Env) -> None:
            view = env.get(source.buffer)
            if view is None:
                raise InterpreterError("E323", f"buffer {source.buffer.name} is not declared here", span)
            ranges = [(low(env), extent(env)) for low, extent in region]
            for (low, extent), size in zip(ranges, view.shape):
                if low < 0 or low + extent > size:
                    raise InterpreterError(
                        "E310", f"match_buffer: region [{low}, {low + extent}) of {view.name} is outside", span
                    )
            sizes = tuple([e(env) for e in shape])
            extents = tuple([extent for _, extent in ranges])
            dropped = len(extents) - len(sizes)
            if dropped < 0 or extents[dropped:] != sizes or any([e != 1 for e in extents[:dropped]]):
                raise InterpreterError(
                    "E310", f"match_buffer: {target.name} has shape {sizes}, its region {extents}", span
                )
            base = view.base + sum([low * s for (low, _), s in zip(ranges, view.strides)])
            strides = view.strides[dropped:]
            for given, expected, what in (
                *[(g, s, "stride") for g, s in zip(target.strides, strides)], (target.elem_offset, base, "offset"),
            ):  # fmt: skip
                if type(given) is Var and (what == "offset" or given not in env):
                    env[given] = expected
                elif given is not None and what == "stride" and self.expr.visit(given)(env) != expected:
                    raise InterpreterError(
                        "E310", f"match_buffer: {target.name} needs another {what} than {expected}", span
                    )
            pointer = Pointer(view.memory, view.start)
            env[target.data] = pointer
            env[target] = View(pointer, target.dtype, sizes, strides, base, target.name)

        return run
