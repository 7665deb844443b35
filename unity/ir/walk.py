"""Generic walks derived from the field markers: children, rebuild, post-order, rewrite, substitute, free variables."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from ..support.recursion import deep_recursion
from .binders import bound_symbols
from .buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from .expr import Binding, BindingBlock, IntImm, MatchCast, Var, VarBinding
from .function import Function, PrimFunc
from .module import IRModule
from .node import BINDING, DEF, OWN, Node
from .scalar import OPERATOR_NAMES
from .stmt import Block, DeclBuffer, SeqStmt, Stmt, flat_statements
from .types import Expr, Type

Visit = Callable[[Any], Any]
Tree = TypeVar(
    "Tree",
    Expr,
    Stmt,
    Block,
    Type,
    Function,
    PrimFunc,
    Function | PrimFunc,
    IRModule,
    Binding,
    BindingBlock,
    BufferRegion,
    Range,
)
"""A kind of tree, which a rewrite keeps: an expression stays an expression, a statement a statement."""
_R = TypeVar("_R")
_DONE = object()
"""On a stack of nodes: the children of the one below are done."""


def children(node: Node) -> list[Node]:
    """Nodes held by the fields (definitions included, dict values too), in order; references are listed, not entered."""
    found: list[Node] = []
    if node._push_children is not None:
        node._push_children(node, found)
        found.reverse()
    return found


def rebuild(node: Any, visit: Visit, define: Visit | None = None) -> Any:
    """The node with each child replaced by ``visit(child)`` (``define(child)`` in binding fields); the same object if none changed.

    Binding fields come first, so that what a node binds is known before its other children are visited.
    """
    return _flat(node, node._map_children(visit, define or visit))


def _flat(node: Any, made: Any) -> Any:
    """A rebuilt node; a sequence with the statements of sequences in it in place of these."""
    if type(made) is SeqStmt and made is not node:
        return SeqStmt(flat_statements(made.stmts), made.span)
    return made


class Rewriter:
    """Bottom-up rewriting with scope: ``rules`` by exact node type run on rebuilt nodes; definitions are remapped.

    ``mapping`` replaces variables and buffers. A definition whose type or shape changes is defined anew and its uses follow;
    with ``fresh=True`` every definition is (for duplicating code). Subclass and override ``enter`` to stop or to handle a
    node before its children.
    """

    def __init__(
        self,
        rules: Mapping[type, Visit] | None = None,
        mapping: Mapping[Any, Any] | None = None,
        fresh: bool = False,
    ) -> None:
        self.rules: dict[type, Visit] = dict(rules or {})
        self.mapping: dict[Any, Any] = dict(mapping or {})
        self.fresh = fresh

    def __call__(self, node: Tree) -> Tree:
        result: Tree = self.visit(node)
        return result

    def visit(self, node: Any) -> Any:
        """Rewrite a node."""
        if node.is_reference:
            return self.mapping.get(node, node)
        entered = self.enter(node)
        if entered is not None:
            return entered
        if node._push_children is None:
            return self.leave(node)
        if self.fresh and node.binds:
            for var in _given(node):
                self.mapping.setdefault(var, var)
            for name, role in node.walked:
                if role is DEF:
                    self.define_symbols(getattr(node, name))
        made = node._map_children(self.visit, self.define)
        return self.leave(made if type(made) is not SeqStmt else _flat(node, made))

    def enter(self, node: Any) -> Any | None:
        """Called before the children: a result that is not None replaces the node."""
        return None

    def leave(self, node: Any) -> Any:
        """Apply the rule of the node's type."""
        rule = self.rules.get(type(node))
        return node if rule is None else rule(node)

    def define(self, node: Any) -> Any:
        """Return a child ``node`` in a binding field: variables and buffers are redefined if needed, other nodes visited."""
        kind = type(node)
        if kind is Var:
            if node in self.mapping:
                return self.mapping[node]
            ty = self.visit(node.ty) if node.ty.walked else node.ty
            if ty is node.ty and not self.fresh:
                return node
            var = self.mapping[node] = Var(node.name, ty, node.span, node.dataflow)
            return var
        if kind is Buffer:
            if node in self.mapping:
                return self.mapping[node]
            if self.fresh:
                self.define(node.data)
            new = rebuild(node, self.visit)
            if new is node and self.fresh:
                new = Buffer(*[getattr(node, name) for name, _ in node.plan])
            if new is not node:
                self.mapping[node] = new
            return new
        if node.is_reference:
            return self.mapping.get(node, node)
        if isinstance(node, Type):
            return self.visit(node)
        return self.leave(rebuild(node, self.visit, self.define)) if node.walked else node

    def define_symbols(self, binding: Any) -> None:
        """Redefine the symbols that a type or a buffer in a binding position shows."""
        for symbol in bound_symbols(binding):
            self.define(symbol)


def _given(node: Any) -> list[Var]:
    """Variables that come from outside a node although it looks as if it bound them: the pointer of a view; the sizes that what
    is matched has already."""
    kind = type(node)
    if kind is DeclBuffer:
        return [node.buffer.data]
    if kind is MatchBufferRegion:
        return used_vars(node.source)
    return used_vars(node.value) if kind is MatchCast else []


class StatementRewriter(Rewriter):
    """A Rewriter of statements alone, without ``mapping``: expressions stay and are not looked into, which is most of a program."""

    def visit(self, node: Any) -> Any:
        """Rewrite a node; an expression as it is."""
        if isinstance(node, Expr):
            return node
        entered = self.enter(node)
        if entered is not None:
            return entered
        made = node._map_statements(self.visit)
        return self.leave(made if type(made) is not SeqStmt else _flat(node, made))


class _Outermost(StatementRewriter):
    def __init__(self, rule: Visit) -> None:
        super().__init__()
        self.rule = rule

    def enter(self, node: Any) -> Any | None:
        return self.rule(node)


def rewrite_outermost(node: Tree, rule: Visit) -> Tree:
    """Rewrite the statements of ``node`` from the outside in: ``rule`` gives what takes the place of one, which is not looked into,
    or None."""
    return _Outermost(rule)(node)


def rewrite(node: Tree, rules: Mapping[type, Visit]) -> Tree:
    """Rewrite ``node`` bottom-up: rebuild children, then apply the rule of ``rules`` for the node's exact type. Unchanged parts
    keep their identity.
    """
    of_statements = all([issubclass(kind, Stmt) for kind in rules])
    with deep_recursion():
        return (StatementRewriter if of_statements else Rewriter)(rules)(node)


def substitute(node: Tree, mapping: Mapping[Var, Expr] | Mapping[Any, Any]) -> Tree:
    """Replace variables and buffers of ``node`` by ``mapping`` everywhere, types and shapes included."""
    if not mapping or type(node) is IntImm:
        return node
    if node.is_reference:
        replaced: Tree = mapping.get(node, node)  # type: ignore[call-overload]
        return replaced
    return _with_deep_stack(lambda: Rewriter(mapping=mapping)(node))


def _with_deep_stack(walk: Callable[[], _R]) -> _R:
    """The result of a walk, begun again with room for deep trees where it did not reach the bottom."""
    try:
        return walk()
    except RecursionError:
        with deep_recursion():
            return walk()


def fresh_copy(node: Tree, mapping: Mapping[Any, Any] | None = None) -> Tree:
    """Return a copy of ``node`` in which every bound variable and buffer is new; ``mapping`` replaces free ones."""
    return _with_deep_stack(lambda: Rewriter(mapping=mapping, fresh=True)(node))


def nodes_in(root: Node, seen: set[int] | None = None) -> list[Any]:
    """Every node, children first, each shared node once; iterative, any depth.

    Variables and buffers stand at uses and definitions; the type of a variable and the shape of a buffer are entered once, with
    the first. ``seen`` holds the ids of nodes that are passed over, and receives those met: walks over parts of
    one living tree can share it.
    """
    found: list[Any] = []
    seen = set() if seen is None else seen
    stack: list[Any] = [root]
    while stack:  # where passes spend their time
        node = stack.pop()
        if node is _DONE:
            found.append(stack.pop())
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        push = node._push_children
        if push is None:
            found.append(node)
        else:
            stack += (node, _DONE)
            push(node, stack)
    return found


def collect(root: Node, kinds: type | tuple[type, ...]) -> list[Any]:
    """Return all nodes of the classes ``kinds`` in ``root``, children first, each once."""
    if not isinstance(root, Stmt):
        nodes = nodes_in(root)
    else:
        nodes = statements_in(root) if _are_statements(kinds) else walked_statement(root)
    return [node for node in nodes if isinstance(node, kinds)]


@cache
def _are_statements(kinds: type | tuple[type, ...]) -> bool:
    return all([issubclass(kind, (Stmt, Block)) for kind in (kinds if isinstance(kinds, tuple) else (kinds,))])


def statements_in(root: Stmt) -> list[Any]:
    """The statements of a statement and their blocks, in the order of ``nodes_in``. Expressions hold none and are not entered."""
    found: list[Any] = []
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        found.append(node)
        if node._push_statements is not None:
            node._push_statements(node, stack)
    found.reverse()
    return list({id(node): node for node in found}.values())


@lru_cache(64)
def walked_statement(root: Stmt) -> list[Any]:
    """The nodes of a statement: passes ask for one kind after the other. A build clears the cache when it is done."""
    return nodes_in(root)


def used_vars(root: Node) -> list[Var]:
    """Variables that occur anywhere, in order of first sight."""
    found = _arithmetic_vars(root)
    return found if found is not None else collect(root, Var)


def free_vars(root: Node, in_types: bool = True) -> list[Var]:
    """Variables that occur and are not bound inside ``root``, in order of first sight. Without ``in_types`` the types of
    variables are not looked into.

    Types of bound variables bind the symbols they show first when they stand in parameters, match_cast targets and buffer
    declarations.
    """
    if type(root) is IntImm:
        return []
    found = _arithmetic_vars(root)
    return found if found is not None else _with_deep_stack(lambda: _free_vars(root, in_types))


def uses_any(root: Node, variables: Container[Var]) -> bool:
    """True if one of the variables occurs free."""
    if type(root) is Var and not root.ty.walked:
        return root in variables
    return any([v in variables for v in free_vars(root)])


def _arithmetic_vars(root: Node) -> list[Var] | None:
    """The variables of arithmetic over scalars, which binds nothing; None where anything else stands in it."""
    found: dict[Var, None] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if type(node) is Var and not node.ty.walked:
            found[node] = None
        elif type(node) in OPERATOR_NAMES:
            stack += (node.b, node.a)
        elif type(node) is not IntImm:
            return None
    return list(found)


def _free_vars(root: Node, in_types: bool) -> list[Var]:
    finder = _FreeVars(in_types)
    finder.visit(root)
    return list(finder.free)


class _FreeVars:
    def __init__(self, in_types: bool) -> None:
        self.in_types = in_types
        self.free: dict[Var, None] = {}
        self.bound: set[Node] = set()

    def visit(self, node: Any) -> None:
        if node.is_reference:
            if node in self.bound or node in self.free:
                return
            if isinstance(node, Var):
                self.free[node] = None
                if self.in_types and node.ty.walked:
                    self.visit(node.ty)
            else:
                for child in children(node):
                    self.visit(child)
            return
        if type(node) is VarBinding:  # binds its variable alone: the symbols of its type come from outside
            if type(node.value) is Function:  # may call itself
                self.bound.add(node.var)
            self.visit(node.value)
            self.bound.add(node.var)
            if self.in_types and node.var.ty.walked:
                self.visit(node.var.ty)
            return
        for var in _given(node):
            self.visit(var)
        for name, role in node.walked:
            value = getattr(node, name)
            if role is DEF:
                self.bound.update(bound_symbols(value))
                self.define(value)
            elif role is OWN:
                self.define(value)
        for name, role in node.walked:
            if role not in BINDING:
                self.value(getattr(node, name))

    def value(self, value: Any) -> None:
        if isinstance(value, Node):
            self.visit(value)
        elif type(value) is tuple:
            for item in value:
                self.value(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.value(item)

    def define(self, value: Any) -> None:
        """Bind the variables and buffers of a binding field, whose symbols are bound already; visit what stands in it beside."""
        if isinstance(value, Var):
            self.bound.add(value)
            self.visit(value.ty)
        elif type(value) is Buffer:
            self.bound |= {value, value.data}
            for child in children(value):
                self.visit(child)
        elif isinstance(value, Node):
            self.visit(value)
        elif type(value) is tuple:
            for item in value:
                self.define(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.define(key)
                self.define(item)
