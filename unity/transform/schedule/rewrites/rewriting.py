"""Rewriting of loop bodies: substitute loop variables, guard iterations, simplify block bindings, build nests.

Not here: putting the result into the program (``state.replace``). Every function gives the new statement and fills
``blocks``, the record of which block became which, that ``state.replace`` wants.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

from ....arith import Analyzer
from ....arith.itermap import IterMap, IterSum, detect_iter_map
from ....ir.analysis.use import size_symbols
from ....ir.buffer import Buffer, BufferRegion, Range
from ....ir.build import const, dtype_of, is_int, logical_and
from ....ir.expr import Var
from ....ir.node import replace as with_fields
from ....ir.scalar import BufferLoad, FloorDiv, FloorMod, IterVar
from ....ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    flat_statements,
)  # fmt: skip
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, collect, free_vars, substitute
from ....support.recursion import deep_recursion
from ..core.sref import Sref
from ..core.state import ScheduleState, pointers

_DEFINITIONS = (Bind, AllocBuffer, AllocConst, DeclBuffer)


def as_index(value: Expr | int, like: Expr) -> Expr:
    """An integer as an index expression of the type of ``like``."""
    return value if not isinstance(value, int) else const(value, dtype_of(like))


def nest(loops: Sequence[tuple[Var, Expr, str]], body: Stmt) -> Stmt:
    """Loops from zero, outermost first, around a body: (variable, extent, kind)."""
    for var, extent, kind in reversed(loops):
        body = For(var, const(0, dtype_of(var)), extent, kind, body)
    return body


def copied_nest(
    copies: Sequence[tuple[Var, For]], values: Mapping[Var, Expr], body: Stmt, plain: Container[Var] = ()
) -> Stmt:
    """Copies of loops around a body, each with a variable of its own; bounds take the ``values`` of the old ones. Those in
    ``plain`` run in order, whatever the old ones do."""
    for var, loop in reversed(copies):
        kind, thread = ("serial", None) if loop.loop_var in plain else (loop.kind, loop.thread)
        body = For(var, substitute(loop.min, values), substitute(loop.extent, values), kind, body, thread)
    return body


def loop_copies(
    loops: Collection[For], used: Container[Var], suffix: str = ""
) -> tuple[list[tuple[Var, For]], dict[Var, Expr]]:
    """Variables for copies of the loops that are ``used``, and the values of all: those of the others are at their first."""
    copies = [(Var(f"{loop.loop_var.name}{suffix}", loop.loop_var.ty), loop) for loop in loops if loop.loop_var in used]
    values: dict[Var, Expr] = {loop.loop_var: loop.min for loop in loops}
    return copies, {**values, **{loop.loop_var: var for var, loop in copies}}


def axes_over(shape: Sequence[Expr]) -> tuple[IterVar, ...]:
    """Spatial iterators ``v0``, ``v1``, ... over the cells of a shape."""
    sizes = [Range(const(0, dtype_of(n)), n) for n in shape]
    return tuple([IterVar(Var(f"v{k}", prim_type(dtype_of(r.extent))), r, "S") for k, r in enumerate(sizes)])


def loop_range(loop: For) -> Range:
    """Values of the loop variable."""
    return Range(loop.min, loop.extent)


def analyzer_at(state: ScheduleState, at: Sref, inside: bool = True) -> Analyzer:
    """An analyzer with the facts where an sref stands: sizes of the function's shapes, ranges of the enclosing loops and
    iterators (with ``inside`` also of the loop itself)."""
    ana = Analyzer(size_vars(state, at.func))
    chain = [at, *at.above()] if inside else list(at.above())
    for outer in reversed(chain):
        if outer.is_block:
            ana.bind_iterators(outer.block.iter_vars)
        else:
            ana.bind(outer.loop.loop_var, loop_range(outer.loop))
    return ana


def iteration_map(
    values: Sequence[Expr],
    ranges: Mapping[Var, Range],
    predicate: Expr | None = None,
    ana: Analyzer | None = None,
    check: str = "surjective",
) -> IterMap:
    """``detect_iter_map`` where loops of one iteration count as their only value: they are not part of
    the map, whatever their stride."""
    units = {var: r.min for var, r in ranges.items() if is_int(r.extent, 1)}
    if units:
        values = [substitute(v, units) for v in values]
        predicate = substitute(predicate, units) if predicate is not None else None
        ranges = {var: r for var, r in ranges.items() if var not in units}
    return detect_iter_map(values, ranges, predicate, check, ana)


def takes_all(s: IterSum, values: Range, ana: Analyzer) -> bool:
    """True if a normal form takes every value of a range, each once."""
    if len(s.args) > 1 or (s.args and not is_int(s.args[0].scale, 1)):
        return False
    extent = s.args[0].extent if s.args else const(1, dtype_of(values.min))
    return ana.can_prove_equal(s.base, values.min) and ana.can_prove_equal(extent, values.extent)


def size_vars(state: ScheduleState, func: str) -> list[Var]:
    """Symbols of a function that are sizes, at least zero."""
    shell = state.shells[func]
    return state.cached(("sizes", shell), lambda: size_symbols(shell))


def block_uses(state: ScheduleState, block: Block) -> frozenset[Var]:
    """Variables a block takes from outside (loop variables and symbols used inside it)."""
    return state.cached(("uses", block), lambda: frozenset(free_vars(block)))


class LoopBody:
    """Rewrites what stands inside a loop: ``mapping`` replaces variables, ``guard`` is the condition under which an
    iteration is one.

    The guard becomes part of the predicate of the blocks directly inside and an ``if`` around other statements.
    Bindings that change are simplified with ``ana``. ``blocks`` records the blocks that change.
    """

    def __init__(
        self,
        state: ScheduleState,
        mapping: Mapping[Var, Expr],
        ana: Analyzer,
        guard: Expr | None = None,
    ) -> None:
        self.state = state
        self.mapping = dict(mapping)
        self.ana = ana
        self.guard = guard
        self.blocks: dict[Block, Block] = {}

    def __call__(self, stmt: Stmt) -> Stmt:
        return self._visit(stmt, self.guard)

    def value(self, expr: Expr) -> Expr:
        """An expression with the variables replaced, simplified if it changed."""
        made = substitute(expr, self.mapping)
        return expr if made is expr else self.ana.simplify(made)

    def _visit(self, stmt: Stmt, guard: Expr | None) -> Stmt:
        match stmt:
            case For():
                low, extent = self.value(stmt.min), self.value(stmt.extent)
                with self.ana.scope():
                    self.ana.bind(stmt.loop_var, Range(low, extent))
                    body = self._visit(stmt.body, guard)
                return with_fields(stmt, min=low, extent=extent, body=body)
            case BlockRealize():
                return self._realize(stmt, guard)
            case SeqStmt():
                return SeqStmt(flat_statements(tuple([self._visit(s, guard) for s in stmt.stmts])), stmt.span)
            case IfThenElse():
                other = self._visit(stmt.else_case, guard) if stmt.else_case is not None else None
                return IfThenElse(self.value(stmt.cond), self._visit(stmt.then_case, guard), other, stmt.span)
            case AttrStmt():
                return with_fields(stmt, value=self._plain(stmt.value), body=self._visit(stmt.body, guard))
            case While():
                made: Stmt = While(self.value(stmt.cond), self._visit(stmt.body, None), stmt.span)
            case _:
                made = substitute(stmt, self.mapping)
        return made if guard is None or isinstance(stmt, _DEFINITIONS) else IfThenElse(guard, made)

    def _plain(self, value: Any) -> Any:
        return self.value(value) if isinstance(value, Expr) else value

    def _realize(self, stmt: BlockRealize, guard: Expr | None) -> BlockRealize:
        values = self._bindings(stmt.iter_values)
        predicate = self.value(stmt.predicate)
        if guard is not None:
            predicate = _both(predicate, guard)
        block = stmt.block
        if not self.mapping.keys().isdisjoint(block_uses(self.state, block)):
            block = self._block(block)
        return BlockRealize(values, predicate, block, stmt.span)

    def _bindings(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The values of a block's variables. Where one divides a sum of loops, all stay as written: simplified apart from each
        other they no longer show that they are digits of one number (``(i * 64 + j) // 56`` becomes ``i + (i * 8 + j) // 56``)."""
        simple = tuple([self.value(v) for v in values])
        if any([divides_sum(v) for v in simple]):
            return tuple([substitute(v, self.mapping) for v in values])
        return simple

    def _block(self, block: Block) -> Block:
        names = ("iter_vars", "reads", "writes", "match_buffers", "annotations")
        made = {name: _mapped(getattr(block, name), self.mapping) for name in names}
        init = self._visit(block.init, None) if block.init is not None else None
        new = with_fields(block, **made, init=init, body=self._visit(block.body, None))
        self.blocks[block] = new
        return new


def _both(predicate: Expr, guard: Expr) -> Expr:
    """Both conditions; the new one first where the old one reads a buffer, which it then does inside the buffer only."""
    return logical_and(guard, predicate) if collect(predicate, BufferLoad) else logical_and(predicate, guard)


def _mapped(value: Any, mapping: Mapping[Var, Expr]) -> Any:
    if type(value) is tuple:
        return tuple([_mapped(item, mapping) for item in value])
    if type(value) is dict:
        return {key: _mapped(item, mapping) for key, item in value.items()}
    return substitute(value, mapping) if hasattr(value, "walked") else value


def divides_sum(expr: Expr) -> bool:
    """True if a quotient or remainder in an expression has several variables in its dividend."""
    return any([len(set(free_vars(part.a))) > 1 for part in collect(expr, (FloorDiv, FloorMod))])


class BlockTracker(Rewriter):
    """A rewriter that records which block became which in ``blocks``."""

    def __init__(self, rules: Mapping[type, Any] | None = None, mapping: Mapping[Any, Any] | None = None) -> None:
        super().__init__(rules, mapping)
        self.blocks: dict[Block, Block] = {}

    def visit(self, node: Any) -> Any:
        made = super().visit(node)
        if type(node) is Block and made is not node:
            self.blocks[node] = made
        return made


class _BufferUses(BlockTracker):
    """Puts one buffer in the place of another; loops and blocks that do not use it are not looked into."""

    def __init__(self, state: ScheduleState, old: Buffer, new: Buffer, rules: Mapping[type, Any] | None) -> None:
        super().__init__(rules, {old: new, old.data: new.data})
        self.state, self.old = state, old

    def enter(self, node: Any) -> Any | None:
        """A loop or block as it is where it does not use the buffer."""
        item = isinstance(node, (For, BlockRealize))
        return node if item and self.old.data not in pointers(self.state, node)[0] else None


def replace_buffer(
    state: ScheduleState, at: Sref, old: Buffer, new: Buffer, rules: Mapping[type, Any] | None = None
) -> None:
    """Use buffer ``new`` for ``old`` everywhere inside the block ``at`` that allocates it (``rules`` see nodes with
    ``new`` in place)."""
    tracker = _BufferUses(state, old, new, rules)
    with deep_recursion():
        made = tracker(at.realize)
    state.replace(at, made, tracker.blocks)


def allocating_block(block: Sref, buffer: Buffer) -> Sref | None:
    """The enclosing block (or the block itself) that allocates a buffer; None for a parameter."""
    for item in (block, *block.above()):
        if item.is_block and buffer in item.block.alloc_buffers:
            return item
    return None


def point(buffer: Buffer, cell: Sequence[Expr]) -> BufferRegion:
    """The region of one cell."""
    return BufferRegion(buffer, tuple([Range(index, const(1, dtype_of(index))) for index in cell]))
