"""Dependences between the iterations of a loop: those of a vectorized loop run as lanes of one instruction.

Indices are compared as sums of variables with integer factors; what is no such sum is a name of its own. Two accesses are DISJOINT
(proved: no two iterations reach one cell), meet at a distance that is certain, or it is not known. Works before and
after blocks are lowered: iterators and bound values are replaced by what they stand for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ..build import dtype_of, int_value, is_int
from ..expr import Call, IntImm, Var
from ..node import Node
from ..scalar import Add, BufferLoad, Cast, FloorDiv, FloorMod, Let, Max, Min, Mul, Sub
from ..stmt import (
    AllocBuffer,
    AllocConst,
    AssertStmt,
    AttrStmt,
    Bind,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)
from ..types import Expr, PointerType
from ..walk import collect
from .use import declared_buffers

Key = Any
"""A variable, or an operation on sums: ``("FloorDiv", sum, sum)``."""
Sum = tuple[frozenset[tuple[Key, int]], int]
"""Factors by name, and a constant."""

_BITS = ("T.bitwise_and", "T.bitwise_or", "T.bitwise_xor", "T.bitwise_not", "T.shift_left", "T.shift_right")
DISJOINT, UNKNOWN = "apart", "unknown"
ANY = "any"
"""All iterations reach the cell."""


@dataclass(slots=True, frozen=True)
class Access:
    """A load or store: where in the body (statements in order), whether every iteration makes it once, its indices as sums."""

    node: BufferLoad | BufferStore
    position: int
    unconditional: bool
    indices: tuple[Sum, ...]

    @property
    def stores(self) -> bool:
        """A store."""
        return isinstance(self.node, BufferStore)


@dataclass(slots=True)
class LoopAccesses:
    """The accesses of the iterations of a loop. ``inner``: bounds of the variables that change inside an iteration, None where
    not known; ``opaque``: something else stands in the body that may touch memory."""

    loop: For
    accesses: list[Access] = field(default_factory=list)
    inner: dict[Key, tuple[int, int] | None] = field(default_factory=dict)
    opaque: bool = False
    known: dict[Key, bool] = field(default_factory=dict)

    def moves(self, key: Key) -> bool:
        """True if a name changes while the loop runs."""
        answer = self.known.get(key)
        if answer is None:
            answer = self.known[key] = _uses(key, {self.loop.loop_var, *self.inner})
        return answer


class _Reader:
    """Walks the body of a loop in order."""

    def __init__(self, loop: For) -> None:
        self.found = LoopAccesses(loop)
        self.values: dict[Var, Sum] = {}
        self.position = 0
        self.unconditional = True
        self.written = {s.buffer.data for s in collect(loop.body, BufferStore)}

    def stmt(self, stmt: Stmt) -> None:
        self.position += 1
        kind = type(stmt)
        if isinstance(stmt, SeqStmt):
            for part in stmt.stmts:
                self.stmt(part)
        elif isinstance(stmt, BufferStore):
            self.loads(stmt.value)
            for index in stmt.indices:
                self.loads(index)
            plain = stmt.predicate is None and all([dtype_of(i).lanes == 1 for i in stmt.indices])
            self.found.opaque |= not plain
            self.access(stmt)
        elif isinstance(stmt, For):
            self.inside(stmt)
        elif isinstance(stmt, IfThenElse):
            self.loads(stmt.cond)
            self.conditionally(stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case]))
        elif isinstance(stmt, BlockRealize):
            self.block(stmt)
        elif isinstance(stmt, Bind):
            self.loads(stmt.value)
            self.values[stmt.var] = self.sum(stmt.value)
        elif isinstance(stmt, AttrStmt):
            self.stmt(stmt.body)
        elif isinstance(stmt, While):
            self.loads(stmt.cond)
            self.conditionally(stmt.body)
        elif kind not in (AllocBuffer, AllocConst, DeclBuffer, AssertStmt):
            self.found.opaque = True
        self.found.opaque |= kind is DeclBuffer or kind is AssertStmt

    def conditionally(self, *stmts: Stmt) -> None:
        before, self.unconditional = self.unconditional, False
        for stmt in stmts:
            self.stmt(stmt)
        self.unconditional = before

    def inside(self, loop: For) -> None:
        self.loads(loop.min)
        self.loads(loop.extent)
        low, count = self.sum(loop.min), self.sum(loop.extent)
        known = not low[0] and not count[0] and loop.step is None
        self.found.inner[loop.loop_var] = (low[1], low[1] + count[1] - 1) if known else None
        if known and count[1] > 0:
            self.stmt(loop.body)
        else:
            self.conditionally(loop.body)

    def block(self, stmt: BlockRealize) -> None:
        self.loads(stmt.predicate)
        for axis, value in stmt.bindings:
            self.loads(value)
            self.values[axis.var] = self.sum(value)
        self.found.opaque |= bool(stmt.block.match_buffers)
        if stmt.block.init is not None:
            self.conditionally(stmt.block.init)
        if is_int(stmt.predicate, 1):
            self.stmt(stmt.block.body)
        else:
            self.conditionally(stmt.block.body)

    def access(self, node: BufferLoad | BufferStore) -> None:
        indices = tuple([self.sum(i) for i in node.indices])
        self.found.accesses.append(Access(node, self.position, self.unconditional, indices))

    def loads(self, expr: Expr) -> None:
        """Record the loads of an expression; names bound in it are replaced."""
        if isinstance(expr, (IntImm, Var)):
            return
        found = collect(expr, (Let, BufferLoad, Call))
        for node in found:
            if type(node) is Let:
                self.values[node.var] = self.sum(node.value)
        for node in found:
            if type(node) is Let:
                continue
            if type(node) is BufferLoad:
                self.access(node)
            elif any([type(a) is Var and type(a.ty) is PointerType for a in node.args]) or _addresses(node):
                self.found.opaque = True

    # ---- indices

    def sum(self, expr: Expr) -> Sum:
        """An integer expression as a sum."""
        if type(expr) is IntImm:
            return frozenset(), expr.value
        if isinstance(expr, Var):
            return self.values.get(expr) or (frozenset([(expr, 1)]), 0)
        if isinstance(expr, (Add, Sub)):
            return _plus(self.sum(expr.a), self.sum(expr.b), 1 if isinstance(expr, Add) else -1)
        if isinstance(expr, Mul):
            a, b = self.sum(expr.a), self.sum(expr.b)
            if not a[0] or not b[0]:
                return _scaled(b, a[1]) if not a[0] else _scaled(a, b[1])
            return _named(("Mul", *sorted((a, b), key=hash)))
        if isinstance(expr, Cast) and dtype_of(expr).bits >= dtype_of(expr.value).bits and dtype_of(expr.value).is_int:
            return self.sum(expr.value)
        if isinstance(expr, (FloorDiv, FloorMod, Min, Max)):
            return _named((type(expr).__name__, self.sum(expr.a), self.sum(expr.b)))
        if isinstance(expr, Let):
            return self.sum(expr.body)
        if isinstance(expr, BufferLoad) and expr.buffer.data not in self.written:
            return _named(("load", expr.buffer, *[self.sum(i) for i in expr.indices]))
        if isinstance(expr, Call) and expr.op_name in _BITS:
            return _named((expr.op_name, *[self.sum(arg) for arg in expr.args]))
        self.found.inner[expr] = None  # a value that is known at this place alone
        return _named(expr)


def _addresses(call: Call) -> bool:
    return call.op_name in ("T.address_of", "T.tvm_access_ptr", "T.call_extern", "T.call_packed")


def _named(key: Key) -> Sum:
    return frozenset([(key, 1)]), 0


def _plus(a: Sum, b: Sum, scale: int = 1) -> Sum:
    terms = dict(a[0])
    for key, factor in b[0]:
        terms[key] = terms.get(key, 0) + scale * factor
    return frozenset([(k, f) for k, f in terms.items() if f]), a[1] + scale * b[1]


def _scaled(a: Sum, factor: int) -> Sum:
    return (frozenset([(k, f * factor) for k, f in a[0]]) if factor else frozenset()), a[1] * factor


def _uses(key: Key, names: Any) -> bool:
    """True if a name contains one of some variables."""
    if isinstance(key, tuple):
        return any([_uses(part, names) for part in key])
    if isinstance(key, frozenset):
        return any([_uses(part, names) for part, _ in key])
    return isinstance(key, Node) and key in names


def accesses_of(loop: For) -> LoopAccesses:
    """The accesses in the body of a loop."""
    reader = _Reader(loop)
    reader.stmt(loop.body)
    return reader.found


def distance(found: LoopAccesses, first: Access, second: Access) -> int | str:
    """The number of iterations after ``first`` at which the access ``second`` reaches the same cell: a number not zero that is
    certain, ANY for all of them, DISJOINT where none does, else UNKNOWN."""
    if first.node.buffer is not second.node.buffer:
        return UNKNOWN if first.node.buffer.data is second.node.buffer.data else DISJOINT
    loop = found.loop
    count = int_value(loop.extent)
    steps: set[int] = set()
    certain = True
    for a, b in zip(first.indices, second.indices):
        step = _step(found, a, b, count)
        if step == DISJOINT:
            return DISJOINT
        if step == UNKNOWN:
            certain = False
        elif isinstance(step, int):
            steps.add(step)
    if len(steps) > 1 or 0 in steps or _injective(found, first.indices, second.indices):
        return DISJOINT
    if not certain:
        return UNKNOWN
    return steps.pop() if steps else ANY


def _step(found: LoopAccesses, a: Sum, b: Sum, count: int | None) -> int | str:
    """The one distance of iterations at which two indices may be equal: as ``distance``, of one dimension."""
    lane = found.loop.loop_var
    one, two = dict(a[0]), dict(b[0])
    ca, cb = one.pop(lane, 0), two.pop(lane, 0)
    low = high = a[1] - b[1]
    common = 0
    for key in {**one, **two}:
        fa, fb = one.get(key, 0), two.get(key, 0)
        if not found.moves(key):
            if fa != fb:
                return UNKNOWN
            continue
        bounds = found.inner.get(key) if isinstance(key, Node) else None
        if bounds is None:
            bounds = _bounds_of(key)
        for factor in (fa, -fb):
            if factor and bounds is None:
                return UNKNOWN
            if factor and bounds is not None:
                ends = (factor * bounds[0], factor * bounds[1])
                low, high, common = low + min(ends), high + max(ends), gcd(common, factor)
    if ca != cb:
        reach = (count - 1) if count is not None else None
        if reach is None:
            return UNKNOWN
        for factor in (ca, -cb):
            low, high, common = low + min(0, factor * reach), high + max(0, factor * reach), gcd(common, factor)
        return UNKNOWN if low <= 0 <= high and (a[1] - b[1]) % (common or 1) == 0 else DISJOINT
    if common == 0:  # nothing else changes: low is high
        if ca == 0:
            return ANY if low == 0 else DISJOINT
        if low % ca:
            return DISJOINT
        step = low // ca
        return DISJOINT if count is not None and abs(step) >= count else step
    if ca == 0:
        return UNKNOWN if low <= 0 <= high and (a[1] - b[1]) % common == 0 else DISJOINT
    if abs(ca) > max(abs(low), abs(high)):
        return 0
    whole = range(1, count) if count is not None and count <= 1024 else None
    if whole is None:
        return UNKNOWN
    rest = (a[1] - b[1]) % common
    for step in (s for n in whole for s in (n, -n)):
        if low <= ca * step <= high and (ca * step - rest) % common == 0:
            return UNKNOWN
    return 0


def _bounds_of(key: Key) -> tuple[int, int] | None:
    """Bounds of a remainder by a constant."""
    if isinstance(key, tuple) and key[0] == "FloorMod" and not key[2][0] and key[2][1] > 0:
        return 0, key[2][1] - 1
    return None


def _injective(found: LoopAccesses, a: Sequence[Sum], b: Sequence[Sum]) -> bool:
    """True if two accesses have the same indices, among them quotient and remainder of one number that grows with the loop."""
    if tuple(a) != tuple(b):
        return False
    lane = found.loop.loop_var
    parts: dict[tuple[Sum, Sum], set[str]] = {}
    for index in a:
        moving = [(k, f) for k, f in index[0] if found.moves(k)]
        if len(moving) == 1 and isinstance(moving[0][0], tuple) and moving[0][0][0] in ("FloorDiv", "FloorMod"):
            name, number, by = moving[0][0]
            moves = [k for k, _ in number[0] if found.moves(k)]
            if moves == [lane] and not any([found.moves(k) for k, _ in by[0]]):
                parts.setdefault((number, by), set()).add(name)
    return any([len(names) == 2 for names in parts.values()])


def independent(loop: For, private: Collection[Var] = ()) -> bool:
    """True if it is proved that no iteration of a loop touches a cell that another one writes. ``private``: pointers to memory that
    each iteration has for itself."""
    found = accesses_of(loop)
    if found.opaque:
        return False
    stores = [a for a in found.accesses if a.stores and a.node.buffer.data not in private]
    for index, store in enumerate(stores):
        others = [
            *stores[index:],
            *[a for a in found.accesses if not a.stores and a.node.buffer.data is store.node.buffer.data],
        ]
        if any([distance(found, store, other) != DISJOINT for other in others]):
            return False
    return True


def certain_dependence(loop: For, both_directions: bool) -> Access | None:
    """A load that certainly reads what an earlier iteration stored (``both_directions``: or what a later one will), None where
    none is known; an update of one cell by all iterations does not count."""
    if type(loop.extent) is not IntImm or loop.extent.value < 2 or loop.step is not None:
        return None
    found = accesses_of(loop)
    stores = [a for a in found.accesses if a.stores]
    for store in stores:
        if not store.unconditional or len([s for s in stores if s.node.buffer.data is store.node.buffer.data]) > 1:
            continue
        for load in found.accesses:
            if load.stores or not load.unconditional or load.node.buffer is not store.node.buffer:
                continue
            step = distance(found, store, load)
            if step == ANY and load.position < store.position:
                return load
            if isinstance(step, int) and (both_directions or step > 0):
                return load
    return None


def stores_of_all(loop: For) -> list[BufferStore]:
    """Stores that every iteration of a loop certainly makes to the same cells of memory that it does not declare itself."""
    if type(loop.extent) is not IntImm or loop.extent.value < 2:
        return []
    found, local = accesses_of(loop), declared_buffers(loop.body)
    changing = {loop.loop_var, *[key for key, bounds in found.inner.items() if bounds is None]}
    return [
        access.node for access in found.accesses
        if isinstance(access.node, BufferStore) and access.unconditional and access.node.predicate is None
        and access.node.buffer not in local and not any([_uses(key, changing) for index in access.indices for key, _ in index[0]])
    ]  # fmt: skip
