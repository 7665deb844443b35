"""Expression objects that stand in several places of one expression: how large it is when written out, and binding them.

A tree of nodes may be a graph of objects: ``x = x + x`` thirty times over makes thirty objects and a billion places. Every
walk sees places. Invariant: ``bind_shared`` keeps the meaning: what a condition guards is never moved out from behind it, and
an expression with an effect stays as it is.
"""

from __future__ import annotations

from typing import Any

from ..support.errors import VerifyError
from ..support.recursion import deep_recursion
from .expr import Call, FloatImm, IntImm, StringImm, Var
from .function import PrimFunc
from .intrinsic import INTRINSICS
from .names import NameSupply
from .node import Node
from .scalar import And, Let, Or, Reduce
from .types import Expr, PrimType
from .walk import Rewriter, children, collect, rebuild, used_vars

WORTHWHILE = 4
"""Shared objects are bound where writing them out makes the expression this many times larger, and large."""
LARGE = 256
"""Places from which an expression counts as large."""
MOST = 1_000_000
"""Places from which a graph of few objects is refused instead of being written out."""

_PLACES = frozenset(("T.address_of", "T.tvm_access_ptr", "T.undef"))
"""Calls whose arguments are places in memory, not values."""
_LEAVES = frozenset((Var, IntImm, FloatImm, StringImm))


def sizes(root: Node) -> dict[int, int]:
    """Number of places of every object below ``root`` (and of ``root``), by id."""
    found: dict[int, int] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if id(node) in found:
            continue
        inner = () if node.is_reference else children(node)
        if done or not inner:
            found[id(node)] = 1 + sum([found.get(id(child), 1) for child in inner])
            continue
        stack.append((node, True))
        stack += [(child, False) for child in inner if id(child) not in found]
    return found


def _shares_little(root: Node) -> bool:
    """True if binding gains little, as where a program was read from script; seen in a walk over places, which ends where they
    become too many."""
    places, most = 0, LARGE
    met: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        places += 1
        met.add(id(node))
        if places >= most:
            most = WORTHWHILE * len(met)
            if places >= most:
                return False
        if node._push_children is not None and not node.is_reference:
            node._push_children(node, stack)
    return True


def check_size(root: Node) -> None:
    """Raise VerifyError E348 for what cannot be written out: more places than anyone can visit."""
    if _shares_little(root):
        return
    counted = sizes(root)
    size = counted[id(root)]
    if size > MOST and size > WORTHWHILE * len(counted):
        count = f"{size}" if size < 10**15 else f"10 to the power of {len(str(size)) - 1}"
        raise VerifyError(
            "E348", f"written out, this has {count} nodes: the same expression objects are used in many places",
            getattr(root, "span", None), help="bind what is used twice: T.Let, T.bind, or a variable of the graph function",
        )  # fmt: skip


def bind_shared(expr: Expr, names: NameSupply | None = None) -> Expr:
    """The expression with objects that stand in many places bound by ``Let``; the same object where that gains little."""
    counted = sizes(expr)
    if counted[id(expr)] < LARGE or counted[id(expr)] < WORTHWHILE * len(counted):
        return expr
    if not all([_repeatable(call) for call in collect(expr, Call)]):
        return expr
    with deep_recursion():
        made: Expr = _Binder(counted, names or NameSupply([v.name for v in used_vars(expr)])).region(expr, {})
    return made


def bind_shared_values(func: PrimFunc) -> PrimFunc:
    """The tensor program with shared objects bound in each of its expressions."""
    if _shares_little(func):
        return func
    counted = sizes(func)
    if counted[id(func)] < WORTHWHILE * len(counted):
        return func
    names = NameSupply([v.name for v in used_vars(func)])
    made: PrimFunc = _Statements(names)(func)
    return made


class _Statements(Rewriter):
    def __init__(self, names: NameSupply) -> None:
        super().__init__()
        self.names = names

    def enter(self, node: Any) -> Any | None:
        return bind_shared(node, self.names) if isinstance(node, Expr) else None


def _guarded(node: Node) -> list[Node]:
    """Children evaluated under a condition, or in the scope of a variable the node binds."""
    if type(node) is Call and node.op_name == "T.if_then_else":
        return list(node.args[1:])
    if isinstance(node, (And, Or)):
        return [node.b]
    if type(node) is Let:
        return [node.body]
    return children(node) if type(node) is Reduce else []


def _repeatable(call: Call) -> bool:
    """True if a call gives the same whether it is computed once or twice, sooner or later."""
    row = INTRINSICS.get(call.op_name)
    return row is not None and row.effect != "effect" and row.name not in _PLACES


def _movable(node: Node) -> bool:
    """Scalars, the small ones aside."""
    return isinstance(node, Expr) and type(node) not in _LEAVES and isinstance(node.ty, PrimType)


class _Binder:
    def __init__(self, counted: dict[int, int], names: NameSupply) -> None:
        self.counted = counted
        self.names = names

    def region(self, root: Any, outer: dict[int, Expr]) -> Any:
        """The expressions that are evaluated together below ``root``; ``outer`` holds those the regions around have bound."""
        order, uses, guarded = self._survey(root)
        made: dict[int, Any] = dict(outer)
        lets: list[tuple[Var, Expr]] = []
        for node in order:
            if id(node) in made:
                continue
            lazy = guarded.get(id(node), frozenset())

            def visit(child: Any, lazy: frozenset[int] = lazy) -> Any:
                if id(child) in lazy and id(child) not in made:
                    return self.region(child, made) if isinstance(child, Expr) else child
                return made.get(id(child), child)

            new = rebuild(node, visit, _same)
            if uses.get(id(node), 0) > 1 and _movable(node):
                var = Var(self.names.fresh("cse"), new.ty)
                lets.append((var, new))
                made[id(node)] = var
            else:
                made[id(node)] = new
        result = made[id(root)]
        for var, value in reversed(lets):
            result = Let(var, value, result)
        return result

    def _survey(self, root: Node) -> tuple[list[Node], dict[int, int], dict[int, frozenset[int]]]:
        """Nodes of the region, children first; how often each is used there; which children are guarded."""
        order: list[Node] = []
        uses: dict[int, int] = {}
        guarded: dict[int, frozenset[int]] = {}
        seen: set[int] = set()
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
                continue
            if id(node) in seen or node.is_reference or not isinstance(node, Expr):
                continue
            seen.add(id(node))
            stack.append((node, True))
            lazy = frozenset([id(child) for child in _guarded(node)])
            guarded[id(node)] = lazy
            for child in children(node):
                uses[id(child)] = uses.get(id(child), 0) + 1
                if id(child) not in lazy:
                    stack.append((child, False))
        return order, uses, guarded


def _same(node: Any) -> Any:
    return node
