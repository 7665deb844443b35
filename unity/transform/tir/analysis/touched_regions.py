"""The accesses of a statement to one buffer: each with the loops and conditions around it, the box of cells it reaches, and
whether every cell that is read was written before in the same run of the statement. Shared by passes.

Statements hold no blocks any more (after `lower_opaque_block`). Not here: any rewriting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....arith.analyzer import Analyzer
from ....arith.intset import IntSet, eval_set
from ....arith.itermap import detect_iter_map
from ....ir.analysis.threads import as_loop, is_thread_axis
from ....ir.buffer import Buffer, Range
from ....ir.build import add, conjuncts, const, dtype_of, int_imm, is_int, logical_not, lt, ramp, sub
from ....ir.expr import Call, IntImm, Var
from ....ir.node import replace
from ....ir.scalar import LT, BufferLoad, FloorDiv, FloorMod, Ramp
from ....ir.stmt import AllocBuffer, Break, BufferStore, Continue, For, IfThenElse, SeqStmt, Stmt, While
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import Rewriter, children, collect, used_vars
from .loop_nests import is_choice, slope
from .vector_index import index_add


@dataclass(slots=True, frozen=True)
class Access:
    """One load or store with the loops around it (outermost first) and the conditions under which it happens."""

    node: BufferLoad | BufferStore
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]

    @property
    def is_store(self) -> bool:
        """A write."""
        return type(self.node) is BufferStore


def accesses_of(stmt: Stmt, buffer: Buffer) -> list[Access] | None:
    """Accesses of a buffer in the order they happen; None where that cannot be seen: its pointer is
    used, or a loop is left in the middle."""
    return AccessWalk(stmt).accesses(buffer)


@dataclass(slots=True, frozen=True)
class Scope:
    """Where a buffer is allocated: the loops and conditions around, and the statement that holds all its uses."""

    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    stmt: Stmt


LEAVING = ("T.break_loop", "T.continue_loop")
"""Calls that leave an iteration of a loop."""


class AccessWalk:
    """The accesses of all buffers in a statement, and the scopes of those that are allocated there, from inside out."""

    def __init__(self, stmt: Stmt) -> None:
        self.scopes: dict[Buffer, Scope] = {}
        self.open: dict[Buffer, Scope] = {}
        """Scopes that the walk is in."""
        self.found: dict[Buffer, list[Access]] = {}
        self.escaped: set[Var] = set()
        self.is_left = False
        """Something leaves a loop in the middle."""
        self._addressing: set[Buffer] | None = None
        self.visit(stmt, (), ())

    def accesses(self, buffer: Buffer) -> list[Access] | None:
        """The accesses of a buffer as seen from within its scope, in the order they happen; None where they cannot be seen."""
        if buffer.data in self.escaped or any([b.data is buffer.data and b is not buffer for b in self.found]):
            return None
        found, scope = self.found.get(buffer, []), self.scopes.get(buffer)
        if scope is None:
            return None if self.is_left else found
        loops, conditions = len(scope.loops), len(scope.conditions)
        return [Access(a.node, a.loops[loops:], a.conditions[conditions:]) for a in found]

    def addressing(self) -> set[Buffer]:
        """The buffers that indices of accesses and bounds of loops read."""
        if self._addressing is None:
            loops = {loop for accesses in self.found.values() for access in accesses for loop in access.loops}
            parts = [part for loop in loops for part in (loop.min, loop.extent)]
            parts += [index for accesses in self.found.values() for access in accesses for index in access.node.indices]
            self._addressing = {load.buffer for part in parts for load in collect(part, BufferLoad)}
        return self._addressing

    def visit(self, node: Any, loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> None:
        """Walk over a statement or expression inside loops and conditions."""
        kind = type(node)
        if kind is For:
            self.visit(node.min, loops, conditions)
            self.visit(node.extent, loops, conditions)
            self.visit(node.body, (*loops, node), conditions)
        elif kind is SeqStmt:
            self._sequence(node, loops, conditions)
        elif is_thread_axis(node):
            self.visit(as_loop(node), loops, conditions)
        elif kind is IfThenElse:
            self.visit(node.cond, loops, conditions)
            self.visit(node.then_case, loops, (*conditions, *conjuncts(node.cond)))
            if node.else_case is not None:
                self.visit(node.else_case, loops, (*conditions, logical_not(node.cond)))
        elif is_choice(node):
            cond, yes, no = node.args
            self.visit(cond, loops, conditions)
            self.visit(yes, loops, (*conditions, *conjuncts(cond)))
            self.visit(no, loops, (*conditions, logical_not(cond)))
        elif (kind is Call and node.op_name == "T.address_of") or kind is While:  # a loop runs nobody knows how often
            self.escaped.update(used_vars(node))
        elif kind in (Break, Continue) or (kind is Call and node.op_name in LEAVING):
            self.is_left = True  # what stands before an access may be left out
            self.escaped.update([buffer.data for buffer in self.open])
        elif kind is Var:
            self.escaped.add(node)
        elif kind is BufferLoad or kind is BufferStore:
            self._access(node, loops, conditions)
        elif not node.is_reference:
            for child in children(node):
                self.visit(child, loops, conditions)

    def _sequence(self, node: SeqStmt, loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> None:
        outer = self.open
        for part in node.stmts:
            if type(part) is AllocBuffer:
                self.open = {**self.open, part.buffer: Scope(loops, conditions, node)}
            self.visit(part, loops, conditions)
        self.scopes |= {buffer: scope for buffer, scope in self.open.items() if buffer not in outer}
        self.open = outer

    def _access(self, node: BufferLoad | BufferStore, loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> None:
        parts = [*node.indices] + ([node.value] if type(node) is BufferStore else [])
        for part in parts + ([node.predicate] if node.predicate is not None else []):
            self.visit(part, loops, conditions)
        lanes = () if node.predicate is None else (node.predicate,)
        self.found.setdefault(node.buffer, []).append(Access(node, loops, (*conditions, *lanes)))


def domains_of(loops: Sequence[For], ana: Analyzer) -> dict[Var, IntSet]:
    """The values of each loop variable, in terms of what stands outside all the loops."""
    domains: dict[Var, IntSet] = {}
    for loop in loops:
        low, extent = eval_set(loop.min, domains, ana), eval_set(loop.extent, domains, ana)
        high = None
        if low.high is not None and extent.high is not None:
            one = const(1, dtype_of(extent.high))
            high = ana.simplify(sub(add(low.high, extent.high), one))
        domains[loop.loop_var] = IntSet(low.low, high)
    return domains


def box(access: Access, ana: Analyzer, conditions: Sequence[Expr] = ()) -> list[IntSet]:
    """Cells an access reaches while all its loops run, one interval per axis; under ``conditions``, those that end a loop early."""
    domains = domains_of(access.loops, ana)
    for condition in conditions:
        if type(condition) is LT and type(condition.a) is Var and condition.a in domains:
            old, bound = domains[condition.a], eval_set(condition.b, domains, ana).high
            last = None if bound is None else sub(bound, const(1, dtype_of(bound)))
            if last is not None and (old.high is None or ana.can_prove(lt(last, old.high))):
                domains[condition.a] = IntSet(old.low, last)
    return [eval_set(index, domains, ana) for index in access.node.indices]


def within(path: Sequence[Stmt], accesses: Sequence[Access]) -> list[Access]:
    """Accesses as they are seen from within nested statements that hold them all."""
    loops = len([stmt for stmt in path if type(stmt) is For or is_thread_axis(stmt)])
    conditions = sum([len(conjuncts(stmt.cond)) for stmt in path if type(stmt) is IfThenElse])
    return [Access(a.node, a.loops[loops:], a.conditions[conditions:]) for a in accesses]


def _inside(access: Access, shared: int) -> Access:
    """The access as seen from within its ``shared`` outermost loops."""
    return Access(access.node, access.loops[shared:], access.conditions)


def _is_onto(access: Access) -> bool:
    """True when the indices are digits of the loops put together, so that every combination of them is met."""
    if any(
        [loop.step is not None or dtype_of(index).lanes != 1 for loop in access.loops for index in access.node.indices]
    ):
        return False
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for loop in access.loops}
    used = {v for index in access.node.indices for v in used_vars(index)}
    return bool(
        detect_iter_map(access.node.indices, {v: r for v, r in ranges.items() if v in used}, check="surjective")
    )


def _fills_box(access: Access) -> bool:
    """True when an access under no condition reaches every cell of its box: each loop moves one axis, and the steps of the
    loops along an axis leave no gap."""
    variables = {loop.loop_var for loop in access.loops}
    if any([collect(index, (FloorDiv, FloorMod)) for index in access.node.indices]):
        return _is_onto(access)
    extents: dict[Var, int] = {}
    for loop in access.loops:
        if (
            any([v in variables for v in used_vars(loop.min)])
            or type(loop.extent) is not IntImm
            or loop.step is not None
        ):
            return False
        extents[loop.loop_var] = loop.extent.value
    taken: set[Var] = set()
    for index in access.node.indices:
        if dtype_of(index).lanes != 1:
            return False
        steps: list[tuple[int, int]] = []
        for var in [v for v in used_vars(index) if v in variables]:
            step = slope(index, var)
            if step is None or step <= 0 or var in taken:
                return False
            taken.add(var)
            steps.append((step, extents[var]))
        reach = 1
        for step, extent in sorted(steps):
            if step > reach:
                return False
            reach += step * (extent - 1)
    return True


def _clip(access: Access, region: list[IntSet], conditions: Sequence[Expr], ana: Analyzer) -> list[IntSet] | None:
    """The region cut by conditions ``index < bound``; None where a condition has another form."""
    variables = {loop.loop_var for loop in access.loops}
    result = list(region)
    for condition in conditions:
        if type(condition) is not LT or any([v in variables for v in used_vars(condition.b)]):
            return None
        axis = [i for i, index in enumerate(access.node.indices) if ana.can_prove_equal(index, condition.a)]
        if not axis:
            return None
        last = sub(condition.b, const(1, dtype_of(condition.b)))
        old = result[axis[0]]
        high = last if old.high is None or ana.can_prove(lt(last, old.high)) else old.high
        result[axis[0]] = IntSet(old.low, high)
    return result


def _covers(write: Access, read: Access, ana: Analyzer) -> bool:
    """True if ``write``, which precedes it, wrote every cell the read reaches."""
    shared = 0
    for a, b in zip(write.loops, read.loops):
        if a is not b:
            break
        shared += 1
    own, seen = _inside(write, shared), _inside(read, shared)
    if not _fills_box(own):
        return False
    fixed = [c for c in read.conditions if not _uses(c, seen.loops) and not collect(c, (BufferLoad, Call))]
    open_ = [c for c in write.conditions if not any([structural_equal(c, f) for f in fixed])]
    region = _clip(own, box(own, ana), open_, ana)
    if region is None:
        return False
    wanted = box(seen, ana, read.conditions)
    for condition in read.conditions:
        wanted = _clip(seen, wanted, [condition], ana) or wanted
    for have, want in zip(region, wanted):
        if have.low is None or have.high is None or want.low is None or want.high is None:
            return False
        if not (_not_above(have.low, want.low, ana) and _not_above(want.high, have.high, ana)):
            return False
    return True


def _uses(expr: Expr, loops: tuple[For, ...]) -> bool:
    variables = {loop.loop_var for loop in loops}
    return any([v in variables for v in used_vars(expr)])


def _not_above(low: Expr, high: Expr, ana: Analyzer) -> bool:
    return low is high or ana.can_prove_greater_equal(sub(high, low), 0)


def written_before_read(accesses: Sequence[Access], ana: Analyzer) -> bool:
    """True when each read sees only what a write before it, in the same run of the statement, has left."""
    writes: list[Access] = []
    for access in accesses:
        if access.is_store:
            writes.append(access)
        elif not any([_covers(write, access, ana) for write in writes]):
            return False
    return True


class MoveAccesses(Rewriter):
    """Accesses of buffers become accesses of others, relative to a corner of each."""

    def __init__(self, moves: Mapping[Buffer, tuple[Buffer, Sequence[Expr]]], analyzer: Analyzer) -> None:
        mapping: dict[Any, Any] = {}
        for old, (new, _) in moves.items():
            mapping |= {old: new, old.data: new.data}
        super().__init__({BufferLoad: self.access, BufferStore: self.access}, mapping)
        self.corners = dict(moves.values())
        self.analyzer = analyzer

    def access(self, node: Any) -> Any:
        """A load or store with its indices moved."""
        corner = self.corners.get(node.buffer)
        if corner is None:
            return node
        return replace(node, indices=tuple([self._index(i, self.visit(low)) for i, low in zip(node.indices, corner)]))

    def _index(self, index: Expr, low: Expr) -> Expr:
        if is_int(low, 0):
            return index
        if dtype_of(index).lanes != 1:
            moved = index_add(index, sub(const(0, dtype_of(low)), low))
            return ramp(self.analyzer.simplify(moved.base), moved.stride, moved.lanes) if type(moved) is Ramp else moved
        return self.analyzer.simplify(sub(index, low))


def touched_range(cells: IntSet, extent: Expr, analyzer: Analyzer, moving: bool = False) -> tuple[Expr, Expr]:
    """(first cell, number of cells) that an axis needs where ``cells`` are touched: all of it unless their number is known and
    smaller; with ``moving`` also where the first cell varies, and they are not many more."""
    ty = prim_type(dtype_of(extent))
    if cells.low is not None and cells.high is not None:
        count = analyzer.const_int_bound(sub(cells.high, cells.low)).high
        size = max(0, count) + 1 if isinstance(count, int) else None  # accesses in loops that never run have no cells
        most = None
        if type(extent) is IntImm:
            most = 2 * extent.value if moving and type(cells.low) is not IntImm else extent.value - 1
        if size is not None and (most is None or size <= most):
            return cells.low, int_imm(size, ty)
    return int_imm(0, ty), extent
