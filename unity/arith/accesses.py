"""The buffer accesses of a tensor program, each with the conditions under which it happens, judged as the walk meets it.

`judge(fn)` gives the verdicts of all accesses that are not certainly inside. Here: scopes and guards. Not here: what follows from
them (`access_proof.py`). A condition that reads memory the program writes is forgotten, since it need not hold any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.buffer import Buffer
from ..ir.build import add, const, dtype_of, eq, logical_not, mul
from ..ir.expr import Call, IntImm, Var
from ..ir.function import PrimFunc, may_alias
from ..ir.node import replace
from ..ir.scalar import (  # fmt: skip
    Add,
    And,
    Broadcast,
    BufferLoad,
    Compare,
    FloorDiv,
    FloorMod,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Or,
    Ramp,
    Select,
    Sub,
)
from ..ir.stmt import (  # fmt: skip
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    BlockRealize,
    Break,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Return,
    SeqStmt,
    Stmt,
    While,
)
from ..ir.types import Expr, PointerType, prim_type
from ..ir.walk import children, collect, nodes_in
from ..support.recursion import deep_recursion
from .access_proof import Access, AccessVerdict, Judge, Loop, Scope
from .views import byte_range, owners, viewed_buffer

_LEAVE = frozenset(("T.ret", "T.thread_return", "T.break_loop", "T.continue_loop"))
_ADDRESSES = frozenset(("T.address_of", "T.prefetch"))


def judge(fn: PrimFunc) -> tuple[list[AccessVerdict], int]:
    """The verdicts of the accesses that are not proved to be inside, and how many accesses there are."""
    with deep_recursion():
        walk = _Walk(fn)
        walk.stmt(fn.body)
    return walk.found, walk.count


def _is_pointer(arg: Any) -> bool:
    return isinstance(arg, Var) and (type(arg.ty) is PointerType or dtype_of(arg).code == "handle")


def _lane_of(expr: Expr, lane: Var) -> Expr | None:
    """The value of one lane of a vector; None where it is not seen."""
    dtype = dtype_of(expr)
    if dtype.lanes == 1 and not dtype.scalable:
        return expr
    if type(expr) is Ramp:
        return add(expr.base, mul(expr.stride, lane))
    if type(expr) is Broadcast:
        return expr.value if dtype_of(expr.value).lanes == 1 else None
    if isinstance(expr, (Compare, Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, And, Or)):
        a, b = _lane_of(expr.a, lane), _lane_of(expr.b, lane)
        if a is None or b is None:
            return None
        return replace(expr, a=a, b=b, ty=prim_type(dtype.element))
    return None


def _leaves(stmt: Stmt) -> bool:
    """True if control never continues after the statement."""
    if type(stmt) is SeqStmt:
        return bool(stmt.stmts) and _leaves(stmt.stmts[-1])
    return isinstance(stmt, (Break, Continue, Return)) or (type(stmt) is Evaluate and stmt.value.op_name in _LEAVE)


class _Walk:
    """One walk over a program. ``scope`` is what holds where the walk is."""

    def __init__(self, fn: PrimFunc) -> None:
        nodes = collect(fn.body, (BufferStore, Call, Break, Continue, Return))
        written = {node.buffer.data for node in nodes if type(node) is BufferStore}
        opaque = may_alias(fn)
        leaves = False
        for node in nodes:
            if type(node) is Call and any([_is_pointer(arg) for arg in node.args]):
                opaque = True
            leaves = (
                leaves or isinstance(node, (Break, Continue, Return)) or (type(node) is Call and node.op_name in _LEAVE)
            )
        self.written = None if opaque else written
        self.scope = Scope(uncertain=leaves)
        self.judge = Judge(fn)
        self.owners = owners(fn)
        self.found: list[AccessVerdict] = []
        self.count = 0
        self.invariant: dict[Any, bool] = {}
        self.walked: set[int] = set()
        """Ids of the nodes of ``invariant``, which keeps them alive."""

    # ---- scope

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Forget at the end which guards and loops were met inside."""
        scope = self.scope
        guards, loops, uncertain = len(scope.guards), len(scope.loops), scope.uncertain
        try:
            yield
        finally:
            del scope.guards[guards:], scope.loops[loops:]
            scope.uncertain = uncertain

    def is_invariant(self, expr: Expr) -> bool:
        """True for a value that no store of the program changes."""
        for node in nodes_in(expr, self.walked):  # children first; each condition of a chain holds those before it
            varies = type(node) is BufferLoad and (self.written is None or node.buffer.data in self.written)
            self.invariant[node] = not varies and all([self.invariant.get(child, True) for child in children(node)])
        return self.invariant[expr]

    def guard(self, cond: Expr) -> None:
        """From here on the condition held when it was evaluated."""
        if type(cond) is IntImm and cond.value:
            return
        if self.is_invariant(cond) and dtype_of(cond).lanes == 1:
            self.scope.guards.append(cond)
        else:
            self.scope.uncertain = True

    def bind(self, var: Var, value: Expr) -> None:
        """A variable that equals a value."""
        if self.is_invariant(value):
            self.scope.values[var] = value

    def loop(self, var: Var, low: Expr, extent: Expr, step: Expr | None) -> None:
        """A variable that runs over a range."""
        loop = Loop(var, low, extent, step)
        self.scope.loops.append(loop)
        self.scope.ranges[var] = loop

    # ---- statements

    def stmt(self, stmt: Any) -> None:
        kind = type(stmt)
        if kind is SeqStmt:
            for part in stmt.stmts:
                self.stmt(part)
                if type(part) is IfThenElse and part.else_case is None and _leaves(part.then_case):
                    self.guard(logical_not(part.cond))
        elif kind is BufferStore:
            self.store(stmt)
        elif kind is For:
            self.expr(stmt.min)
            self.expr(stmt.extent)
            with self.inside():
                self.loop(stmt.loop_var, stmt.min, stmt.extent, stmt.step)
                self.stmt(stmt.body)
        elif kind is IfThenElse:
            self.expr(stmt.cond)
            with self.inside():
                self.guard(stmt.cond)
                self.stmt(stmt.then_case)
            if stmt.else_case is not None:
                with self.inside():
                    self.guard(logical_not(stmt.cond))
                    self.stmt(stmt.else_case)
        elif kind is BlockRealize:
            self.block(stmt)
        elif kind is Bind:
            self.expr(stmt.value)
            self.bind(stmt.var, stmt.value)
        elif kind is AssertStmt:
            self.expr(stmt.cond)
            self.guard(stmt.cond)
        elif kind is Evaluate:
            if stmt.value.op_name == "T.assume":
                self.guard(stmt.value.args[0])
            else:
                self.expr(stmt.value)
        elif kind is While:
            with self.inside():
                self.scope.uncertain = True
                self.expr(stmt.cond)
                self.guard(stmt.cond)
                self.stmt(stmt.body)
        elif kind is AttrStmt:
            with self.inside():
                if stmt.key in ("thread_extent", "virtual_thread") and type(stmt.node) is IterVar:
                    if stmt.node.var not in self.scope.ranges:
                        self.loop(stmt.node.var, const(0, dtype_of(stmt.node.var)), stmt.value, None)
                self.stmt(stmt.body)
        elif kind is AllocBuffer:
            for extent in stmt.buffer.shape:
                self.expr(extent)
        elif kind is DeclBuffer:
            self.view(stmt.buffer)
        elif kind is Return and stmt.value is not None:
            self.expr(stmt.value)

    def view(self, buffer: Buffer) -> None:
        """A view through a pointer that was bound to a name shows what the pointer shows."""
        data: Expr = buffer.data
        while isinstance(data, Var) and data in self.scope.values:
            data = self.scope.values[data]
        if isinstance(data, Var) and data in self.owners:
            self.owners[buffer.data] = self.owners[data]

    def store(self, stmt: BufferStore) -> None:
        self.expr(stmt.value)
        for index in stmt.indices:
            self.expr(index)
        self.access(stmt, "writes", stmt.predicate)

    def block(self, stmt: BlockRealize) -> None:
        block = stmt.block
        with self.inside():
            for iter_var, value in stmt.bindings:
                self.expr(value)
                self.bind(iter_var.var, value)
            self.expr(stmt.predicate)
            self.guard(stmt.predicate)
            for match in block.match_buffers:
                self.count += 1
                for axis, (bounds, extent) in enumerate(zip(match.source.region, match.source.buffer.shape)):
                    past = add(bounds.min, bounds.extent)
                    self.judged(Access(match, match.source.buffer, axis, bounds.min, past, extent, "views"))
                dropped = len(match.source.region) - len(match.buffer.shape)
                for given, bounds in zip(match.buffer.shape, match.source.region[max(dropped, 0) :]):
                    if isinstance(given, Var):
                        self.bind(given, bounds.extent)
            if block.init is not None:
                with self.inside():
                    for iter_var in block.iter_vars:
                        if iter_var.kind == "R" and iter_var.dom is not None:
                            self.guard(eq(iter_var.var, iter_var.dom.min))
                    self.stmt(block.init)
            self.stmt(block.body)

    # ---- expressions

    def under(self, cond: Expr, expr: Expr) -> None:
        """An expression that is evaluated where a condition holds."""
        with self.inside():
            self.guard(cond)
            self.expr(expr)

    def expr(self, expr: Any) -> None:
        """Judge the accesses of an expression."""
        kind = type(expr)
        if kind is Var or kind is IntImm or Expr not in kind.__mro__:
            return
        name = expr.op_name
        if kind is BufferLoad:
            for index in expr.indices:
                self.expr(index)
            self.access(expr, "reads", expr.predicate)
        elif kind is And or kind is Or:
            self.expr(expr.a)
            self.under(expr.a if kind is And else logical_not(expr.a), expr.b)
        elif kind is Select or name == "T.if_then_else":
            cond, yes, no = expr.args if kind is Call else (expr.cond, expr.true_value, expr.false_value)
            self.expr(cond)
            self.under(cond, yes)
            self.under(logical_not(cond), no)
        elif kind is Let:
            self.expr(expr.value)
            self.bind(expr.var, expr.value)
            self.expr(expr.body)
        elif name in _ADDRESSES:  # an address after the end is none that is read
            for arg in expr.args:
                for part in getattr(arg, "indices", (arg,)):
                    self.expr(part)
        else:
            for child in children(expr):
                self.expr(child)

    def access(self, node: Any, verb: str, predicate: Expr | None) -> None:
        """Judge one load or store, axis by axis."""
        buffer: Buffer = node.buffer
        self.count += 1
        if len(node.indices) != len(buffer.shape):
            return
        vectors = [index for index in node.indices if dtype_of(index).lanes > 1 or dtype_of(index).scalable]
        if not vectors and predicate is None:
            self.element(node, verb, list(node.indices))
            return
        lane = Var(
            "lane", prim_type((vectors or node.indices)[0].ty.dtype.element if vectors or node.indices else "int64")
        )
        with self.inside():
            lanes = dtype_of(vectors[0]).lanes if vectors and not dtype_of(vectors[0]).scalable else 0
            self.loop(lane, const(0, dtype_of(lane)), const(lanes, dtype_of(lane)), None)
            if predicate is not None:
                mask = _lane_of(predicate, lane)
                if mask is None:
                    self.scope.uncertain = True
                else:
                    self.guard(mask)
            single = [_lane_of(index, lane) if dtype_of(index).lanes > 1 else index for index in node.indices]
            self.element(node, verb, single if lanes else [None for _ in single])

    def element(self, node: Any, verb: str, indices: list[Expr | None]) -> None:
        """Judge the access to one element: each axis, and for a view its bytes in the memory that it shows."""
        buffer: Buffer = node.buffer
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape)):
            self.judged(Access(node, buffer, axis, index, None, extent, verb))
        owner = viewed_buffer(buffer, self.owners)
        known = [index for index in indices if index is not None]
        found = None if owner is None or len(known) < len(indices) else byte_range(buffer, known, owner)
        if found is not None:
            self.judged(Access(node, found.owner, None, found.first, found.end, found.size, verb))

    def judged(self, access: Access) -> None:
        """Record an access that is not certainly inside."""
        verdict = self.judge(access, self.scope)
        if verdict is not None:
            self.found.append(verdict)
