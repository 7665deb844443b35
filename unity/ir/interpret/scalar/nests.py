"""Nests of loops: which loops run side by side, and the try, which leaves it to the loops in order where it does not work out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import IntImm, Var
from ...scalar import BufferLoad, Let
from ...stmt import AllocBuffer, AttrStmt, Bind, Block, BlockRealize, BufferStore, For, Stmt
from ...structural import structural_equal
from ...types import Expr, PrimType
from ...walk import collect, free_vars, substitute
from ..common import arrays
from ..common.blocks import Run
from ..common.expressions import Closure, Env
from ..common.mask import Mask
from .lanes import Apart, LaneCompiler, Trial
from .statements import StmtCompiler

FEWEST, MOST = 24, 1 << 16
"""Lanes that are worth the numpy calls, and that fit into memory."""
BYTES_OF_LANE = 1 << 12
"""A nest is tried where the memory that it stores into has at most so many bytes for each lane: it is copied."""


class NestCompiler(StmtCompiler):
    """Compiles the statements of one function; nests of loops are tried side by side first."""

    def loop(self, stmt: For) -> Run:
        """A loop, side by side where that is found to mean the same, or else in order."""
        guards = list(self.expr.guards)
        serial = super().loop(stmt)
        if _most(stmt) < FEWEST:
            return serial
        nest = Nest(stmt, self, guards)

        def run(env: Env) -> Env:
            if nest.failed or not nest.run(env):
                return serial(env)
            return env

        return run


class Nest:
    """A loop and the loops directly inside it."""

    def __init__(self, top: For, compiler: StmtCompiler, guards: list[Any]) -> None:
        self.top, self.compiler, self.guards = top, compiler, guards
        self.failed = False
        self.loops: list[For] = []
        self.ranges: list[tuple[Closure, Closure]] = []
        self.program: LaneCompiler | None = None
        self.stored: list[Buffer] = []
        self.body: Run

    def run(self, env: dict[Any, Any]) -> bool:
        """Run all iterations side by side; False, and nothing has happened, where they have to run in order."""
        if not self.loops:
            self.loops, visit = _chain(self.top), self.compiler.expr.visit
            self.ranges = [(visit(s.min), visit(s.extent)) for s in self.loops]
        ranges = [(low(env), extent(env)) for low, extent in self.ranges]
        if math.prod([extent for _, extent in ranges]) < FEWEST:
            self.failed = not self.loops
            return False
        try:
            return self._try(self.program or self._prepared(), env, ranges)
        except (Apart, InterpreterError):
            self.failed = True
            return False

    def _prepared(self) -> LaneCompiler:
        stores = collect(self.top, BufferStore)
        own = {s.buffer for s in collect(self.top, AllocBuffer)}
        own.update([b for block in collect(self.top, Block) for b in block.alloc_buffers])
        self.stored = [b for b in dict.fromkeys([s.buffer for s in stores]) if b not in own]
        lanes = _lanes(self.top, self.loops, self.stored)
        program = LaneCompiler(self.compiler.machine, lanes)
        program.expr.guards = self.guards
        if lanes:
            self.body = program.visit(self.top)
        self.program = program
        return program

    def _try(self, program: LaneCompiler, env: dict[Any, Any], ranges: list[tuple[int, int]]) -> bool:
        chosen = [(s, *r) for s, r in zip(self.loops, ranges) if s in program.lanes]
        extents = [extent for _, _, extent in chosen]
        views = [env[b] for b in self.stored if b in env]
        count, size = math.prod(extents), sum([m.size for m in {v.memory for v in views}])
        if not FEWEST <= count <= MOST or size > BYTES_OF_LANE * count or len(views) < len(self.stored):
            self.failed = not program.lanes
            return False
        trial = program.expr.trial = Trial(self.compiler.machine, extents, views)
        mask = Mask(np.ones(count, bool), {k: _shared(k, v) for k, v in env.items()})
        rest = trial.lane
        for loop, low, extent in reversed(chosen):
            dtype = dtype_of(loop.loop_var)
            least, most = arrays.limits(dtype)
            if not least <= low <= low + extent - 1 <= most:
                return False
            mask[loop.loop_var] = (rest % extent + low).astype(arrays.holder(dtype))
            rest = rest // extent
        try:
            self.body(mask)
        except BaseException:
            trial.undo()
            raise
        return True


def _shared(key: Any, value: Any) -> Any:
    """A value that all lanes have in common."""
    return arrays.typed(value, key.ty.dtype) if type(key) is Var and isinstance(key.ty, PrimType) else value


def _most(top: For) -> int:
    """A bound of the number of lanes, as far as it is known."""
    total = 1
    stmt: Stmt | None = top
    while stmt is not None:
        if type(stmt) is For:
            total *= stmt.extent.value if type(stmt.extent) is IntImm else FEWEST
        stmt = _inner(stmt)
    return total


def _inner(stmt: Stmt) -> Stmt | None:
    """The only statement inside a loop or a block that does nothing else."""
    if type(stmt) is BlockRealize:
        block = stmt.block
        return None if block.init is not None or block.alloc_buffers or block.match_buffers else block.body
    return stmt.body if isinstance(stmt, (For, AttrStmt)) else None


def _chain(top: For) -> list[For]:
    """The loop and those directly inside it whose ranges are known at the first."""
    found: list[For] = []
    inside: set[Var] = set()
    stmt: Stmt | None = top
    while stmt is not None:
        if type(stmt) is For:
            span = [stmt.min, stmt.extent]
            inner = [v for e in span for v in free_vars(e) if v in inside]
            if not inner and stmt.step is None and not [x for e in span for x in collect(e, BufferLoad)]:
                found.append(stmt)
            inside.add(stmt.loop_var)
        elif type(stmt) is BlockRealize:
            inside.update([iv.var for iv in stmt.block.iter_vars])
        stmt = _inner(stmt)
    return found


def _lanes(top: For, loops: list[For], stored: list[Buffer]) -> list[For]:
    """The loops of which each iteration seems to have its own numbers: those that every store's indices, and where the buffer is
    read as well, the same index of all accesses, depend on. A wrong guess is found out by ``Trial.claim``."""
    meaning: dict[Any, Expr] = {}
    for node in collect(top, (BlockRealize, Bind, Let)):
        pairs = zip(node.block.iter_vars, node.iter_values) if type(node) is BlockRealize else [(node, node.value)]
        meaning.update({holder.var: value for holder, value in pairs})
    loads = [load for load in collect(top, BufferLoad) if load.buffer in stored]
    points: dict[Buffer, list[list[Expr]]] = {}
    for access in (*collect(top, BufferStore), *loads):
        points.setdefault(access.buffer, []).append([_resolved(i, meaning) for i in access.indices])
    kept = {s.loop_var for s in loops}
    for buffer in stored:
        first, *others = points[buffer]
        if any([load.buffer is buffer for load in loads]):
            same = [i for k, i in enumerate(first) if all([structural_equal(p[k], i) for p in others])]
            kept &= _vars(same)
        else:
            for point in points[buffer]:
                kept &= _vars(point)
    return [s for s in loops if s.loop_var in kept]


def _resolved(index: Expr, meaning: dict[Any, Expr]) -> Expr:
    """An index in terms of loop variables."""
    while any([v in meaning for v in free_vars(index)]):
        index = substitute(index, meaning)
    return index


def _vars(exprs: list[Expr]) -> set[Var]:
    return {v for e in exprs for v in free_vars(e)}
