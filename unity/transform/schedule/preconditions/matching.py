"""Comparison of a block with the description of an intrinsic: both are walked side by side.

Not here: what is put in its place (``transform/schedule/primitives/tensorize.py``). Invariant: a match binds every buffer of
the description to a box of a buffer of the program, at one base, so that every access of the block is the description's access
moved by that base. Loops and iterators of one iteration do not count; both sides of ``+``, ``*``, ``min`` and ``max`` may be
exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ....arith import Analyzer
from ....ir.buffer import Buffer, Range
from ....ir.build import add, const, dtype_of, is_int, sub
from ....ir.expr import IntImm, Var
from ....ir.node import ASIDE, Node, replace as with_fields
from ....ir.scalar import Add, BufferLoad, IterVar, Max, Min, Mul
from ....ir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from ....ir.structural import data_equal, shown
from ....ir.types import Expr, PrimType
from ....ir.walk import Rewriter, substitute
from ..core.refuse import plain, refuse
from ..core.sref import Sref

_EITHER_ORDER = (Add, Mul, Min, Max)


Access = BufferLoad | BufferStore
Known = TypeVar("Known")
"""The facts about the description's buffers so far."""


class Mismatch(Exception):
    """The first difference: what the description has and what the program has."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ValueMatcher(Generic[Known]):
    """Compares values; each method gives the ways to go on from what is ``known``. ``reason``: the first difference of a way that
    ended."""

    def __init__(self) -> None:
        self.reason = ""

    def access(self, d: Access, t: Access, known: Known) -> Iterator[Known]:
        """Two accesses."""
        raise NotImplementedError

    def is_bound(self, var: Var, to: Any) -> bool:
        """True if a variable of the description is this part of the program."""
        return False

    def differs(self, reason: str) -> Iterator[Known]:
        """No way."""
        self.reason = self.reason or reason
        return iter(())

    def value(self, d: Any, t: Any, known: Known) -> Iterator[Known]:
        """Two values; operands of commutative operators in either order."""
        before = self.reason
        if type(d) is BufferLoad and type(t) is BufferLoad:
            yield from self.access(d, t, known)
        elif isinstance(d, Var) and self.is_bound(d, t):
            yield known
        elif type(d) is not type(t) or isinstance(d, Var):
            yield from self.differs(f"the description has {shown(d)} where the program has {shown(t)}")
        else:
            for order in (t, with_fields(t, a=t.b, b=t.a)) if isinstance(t, _EITHER_ORDER) else (t,):
                for found in self._items(_fields(d, order), known):
                    self.reason = before  # differences on the way to this one do not count
                    yield found

    def _items(self, items: Sequence[tuple[Any, Any]], known: Known) -> Iterator[Known]:
        if not items:
            yield known
            return
        for found in self._item(*items[0], known):
            yield from self._items(items[1:], found)

    def _item(self, x: Any, y: Any, known: Known) -> Iterator[Known]:
        if isinstance(x, PrimType) and isinstance(y, PrimType):
            if x.dtype is not y.dtype:
                return self.differs(f"the description computes in {x.dtype.name}, the program in {y.dtype.name}")
        elif isinstance(x, Node) and isinstance(y, Node):
            return self.value(x, y, known)
        elif type(x) is tuple and type(y) is tuple and len(x) == len(y):
            return self._items(list(zip(x, y)), known)
        elif not data_equal(x, y):
            return self.differs(f"the description has {shown(x)} where the program has {shown(y)}")
        return iter([known])


def _fields(d: Node, t: Node) -> list[tuple[Any, Any]]:
    return [(getattr(d, name), getattr(t, name)) for name, role in d.plan if role is not ASIDE]


@dataclass(slots=True, frozen=True)
class MatchedBuffer:
    """The place of a buffer of the description: a box of ``buffer`` that starts at ``base`` (of the program's indices)."""

    buffer: Buffer
    base: tuple[Expr, ...]


class _WithoutUnits(Rewriter):
    """Loops and iterators of one iteration are replaced by their value."""

    def enter(self, node: Any) -> Any | None:
        if type(node) is For and is_int(node.extent, 1):
            self.mapping[node.loop_var] = self.visit(node.min)
            return self.visit(node.body)
        if type(node) is BlockRealize:
            kept = []
            for axis, value in node.bindings:
                if is_int(axis.domain.extent, 1):
                    self.mapping[axis.var] = self.visit(axis.domain.min)
                else:
                    kept.append((axis, self.visit(value)))
            block = with_fields(node.block, iter_vars=tuple([axis for axis, _ in kept]))
            return BlockRealize(tuple([v for _, v in kept]), self.visit(node.predicate), self.visit(block), node.span)
        return None


Matches = dict[Buffer, MatchedBuffer]


class Matcher(ValueMatcher[Matches]):
    """Compares statements of a description (left) with those of the program (right)."""

    def __init__(self, buffers: Sequence[Buffer], ana: Analyzer) -> None:
        super().__init__()
        self.formal = set(buffers)
        self.ana = ana
        self.vars: dict[Var, Expr] = {}
        self.zeros: dict[Var, Expr] = {}
        self.matches: Matches = {}
        self.allocated: dict[Buffer, Buffer] = {}

    def match(self, desc: Block, target: Block) -> None:
        """Compare what two blocks hold. Raises Mismatch."""
        self._contents(_WithoutUnits()(desc), _WithoutUnits()(target))

    # ---- statements

    def stmt(self, d: Any, t: Any) -> None:
        if type(d) is not type(t):
            raise Mismatch(f"the description has {_words(d)} where the program has {_words(t)}")
        if type(d) is For:
            self._loop(d, t)
        elif type(d) is BlockRealize:
            self._block(d, t)
        elif type(d) is SeqStmt:
            if len(d.stmts) != len(t.stmts):
                raise Mismatch(f"the description has {len(d.stmts)} statements, the program {len(t.stmts)}")
            for x, y in zip(d.stmts, t.stmts):
                self.stmt(x, y)
        elif type(d) is BufferStore:
            self._take(w for k in self.access(d, t, self.matches) for w in self.value(d.value, t.value, k))
        else:
            for x, y in _fields(d, t):
                if isinstance(x, Stmt) and isinstance(y, Stmt):
                    self.stmt(x, y)
                else:
                    self._take(self._item(x, y, self.matches))

    def _take(self, ways: Iterator[Matches]) -> None:
        """Go on with the first of these ways."""
        found = next(ways, None)
        if found is None:
            raise Mismatch(self.reason)
        self.reason, self.matches = "", found

    def _loop(self, d: For, t: For) -> None:
        if not self.ana.can_prove_equal(self.image(d.extent), t.extent):
            raise Mismatch(
                f"loop {d.loop_var.name} of the description runs {d.extent} times, {t.loop_var.name} {t.extent} times"
            )
        if (
            not (is_int(d.min, 0) and is_int(t.min, 0))
            or d.thread != t.thread
            or d.step is not None
            or t.step is not None
        ):
            raise Mismatch(f"loop {t.loop_var.name} does not run from zero in steps of one, or runs over threads")
        if dtype_of(d.loop_var) is not dtype_of(t.loop_var):
            kinds = dtype_of(d.loop_var).name, dtype_of(t.loop_var).name
            raise Mismatch(f"loop {t.loop_var.name} is {kinds[1]}, the description's loop {kinds[0]}")
        self.vars[d.loop_var] = t.loop_var
        self.zeros[t.loop_var] = const(0, dtype_of(t.loop_var))
        with self.ana.scope():
            self.ana.bind(t.loop_var, Range(t.min, t.extent))
            self.stmt(d.body, t.body)

    def _block(self, d: BlockRealize, t: BlockRealize) -> None:
        left = t.bindings
        for axis, value in d.bindings:
            wanted = self.image(value)
            found = [
                p for p in left if p[0].kind == axis.kind and self.same(p[1], wanted) and self._same_domain(axis, p[0])
            ]
            if not found:
                raise Mismatch(
                    f"no iterator of block {t.block.name} is {axis.kind} {axis.var.name} = {wanted} as in the description"
                )
            left.remove(found[0])
            self.vars[axis.var] = found[0][0].var
            self.ana.bind_iterators([found[0][0]])
            self.zeros[found[0][0].var] = const(0, dtype_of(found[0][0].var))
        if left:
            raise Mismatch(f"iterator {left[0][0].var.name} of block {t.block.name} is not in the description")
        if not is_int(d.predicate, 1) or not is_int(t.predicate, 1):
            raise Mismatch(f"block {t.block.name} runs under a condition: {t.predicate}")
        if len(d.block.alloc_buffers) != len(t.block.alloc_buffers) or d.block.match_buffers or t.block.match_buffers:
            raise Mismatch(f"block {t.block.name} declares other buffers than the description")
        for x, y in zip(d.block.alloc_buffers, t.block.alloc_buffers):
            self.allocated[x] = y
        self._contents(d.block, t.block)

    def _contents(self, d: Block, t: Block) -> None:
        if (d.init is None) != (t.init is None):
            have, want = ("no", "has one") if t.init is None else ("an", "has none")
            raise Mismatch(f"block {t.name} has {have} initialisation, the description {want}")
        if d.init is not None:
            self.stmt(d.init, t.init)
        self.stmt(d.body, t.body)

    def _same_domain(self, a: IterVar, b: IterVar) -> bool:
        x, y = a.domain, b.domain
        return self.same(y.min, self.image(x.min)) and self.same(y.extent, self.image(x.extent))

    # ---- expressions

    def image(self, expr: Expr) -> Expr:
        """An expression of the description in the program's variables."""
        made: Expr = substitute(expr, self.vars)
        return made

    def same(self, a: Expr, b: Expr) -> bool:
        """Equal integers."""
        return self.ana.can_prove_equal(a, b)

    def is_bound(self, var: Var, to: Any) -> bool:
        """True if a loop or an iterator of the description is this expression of the program."""
        known = self.vars.get(var) if isinstance(var.ty, PrimType) and isinstance(to, Expr) else None
        return known is not None and self.same(known, to)

    def access(self, d: Access, t: Access, known: Matches) -> Iterator[Matches]:
        """Two accesses."""
        try:
            return iter([self._placed(d, t, known)])
        except Mismatch as difference:
            return self.differs(difference.reason)

    def _placed(self, d: Access, t: Access, matches: Matches) -> Matches:
        """The matches and that of an access. Raises Mismatch."""
        formal, actual = d.buffer, t.buffer
        if d.predicate is not None or t.predicate is not None:
            raise Mismatch(f"the access of {actual.name} is under a mask")
        if formal in self.allocated:
            if self.allocated[formal] is not actual or not all(
                [self.same(self.image(x), y) for x, y in zip(d.indices, t.indices)]
            ):
                raise Mismatch(f"the description has {formal.name} where the program has {actual.name}")
            return matches
        if formal not in self.formal:
            raise Mismatch(f"{formal.name} is not a buffer of the description")
        if formal.dtype is not actual.dtype:
            raise Mismatch(
                f"{actual.name} holds {actual.dtype.name}, {formal.name} of the description {formal.dtype.name}"
            )
        if formal.scope != actual.scope:
            raise Mismatch(
                f"{actual.name} lies in scope {actual.scope!r}, {formal.name} of the description in {formal.scope!r}"
            )
        drop = actual.ndim - formal.ndim
        if drop < 0:
            raise Mismatch(f"{actual.name} has {actual.ndim} axes, {formal.name} of the description {formal.ndim}")
        moved = [const(0, dtype_of(i)) for i in t.indices[:drop]] + [self.image(i) for i in d.indices]
        known = matches.get(formal)
        if known is None:
            base = [
                self.ana.simplify(substitute(sub(y, as_width(x, y)), self.zeros)) for x, y in zip(moved, t.indices)
            ]  # the inner iterators at zero
            known = MatchedBuffer(actual, tuple(base))
        if known.buffer is not actual:
            raise Mismatch(f"{formal.name} of the description is {known.buffer.name}, here {actual.name}")
        for axis, (low, x, y) in enumerate(zip(known.base, moved, t.indices)):
            if not self.same(add(low, as_width(x, y)), y):
                text = f"axis {axis} of {actual.name} is at {y}, where {formal.name} of the description is at {x}"
                raise Mismatch(text + (f" from {low}" if not is_int(low, 0) else ""))
        return {**matches, formal: known}


def as_width(expr: Expr, like: Expr) -> Expr:
    """A constant index of the description in the width of the program's."""
    return const(expr.value, dtype_of(like)) if type(expr) is IntImm else expr


def _words(stmt: Any) -> str:
    names = {For: "a loop", BlockRealize: "a block", SeqStmt: "several statements", BufferStore: "a store"}
    if type(stmt) is For:
        return f"a loop over {stmt.extent}"
    return names.get(type(stmt), type(stmt).__name__)


def match_block(desc: Block, buffers: Sequence[Buffer], block: Sref, ana: Analyzer, name: str, at: Sref) -> Matches:
    """The places of the description's buffers in the program, if the block computes what it says. Refuses E441 with the first
    difference."""
    matcher = Matcher(buffers, ana)
    try:
        matcher.match(desc, block.block)
        missing = [b.name for b in buffers if b not in matcher.matches]
        if missing:
            raise Mismatch(f"{missing[0]} of the description is not accessed")
    except Mismatch as difference:
        init = block.block.init is not None and desc.init is None
        refuse(
            "E441",
            f"block {block.name} is not what {name} computes: {plain(difference.reason)}",
            "the description's structure",
            at,
            "decompose_reduction moves the initialisation out" if init else None,
        )
    return matcher.matches
