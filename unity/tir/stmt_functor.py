"""``unity.tir.stmt_functor``: TVM's walks over tensor programs, on ``unity/ir/walk.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..ir.node import Node
from ..ir.walk import Rewriter, children, nodes_in, substitute as _substitute
from ..support.arguments import make_public
from ..support.recursion import deep_recursion


def post_order_visit(stmt: Node, fvisit: Callable[[Any], None]) -> None:
    """Call ``fvisit`` on every node, children first, each shared node once."""
    for node in nodes_in(stmt):
        fvisit(node)


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], bool]) -> None:
    """Call ``fvisit`` on every node, parents first; where it returns False the node's children are passed over."""
    stack, seen = [stmt], {id(stmt)}
    while stack:
        node = stack.pop()
        if not fvisit(node):
            continue
        inner = [child for child in children(node) if id(child) not in seen]
        seen.update([id(child) for child in inner])
        stack += reversed(inner)


_BLOCKS = {"SBlock": "Block", "SBlockRealize": "BlockRealize"}


class _Transform(Rewriter):
    """Runs a function before and one after the children of the chosen nodes."""

    def __init__(
        self, before: Callable[[Any], Any] | None, after: Callable[[Any], Any] | None, only: Collection[str] | None
    ) -> None:
        super().__init__()
        self.before, self.after = before, after
        kinds = [name.rpartition(".")[2] for name in only or ()]
        self.only = None if only is None else frozenset([_BLOCKS.get(kind, kind) for kind in kinds])

    def _chosen(self, node: Any) -> bool:
        return self.only is None or type(node).__name__ in self.only

    def enter(self, node: Any) -> Any | None:
        return self.before(node) if self.before is not None and self._chosen(node) else None

    def leave(self, node: Any) -> Any:
        made = self.after(node) if self.after is not None and self._chosen(node) else None
        return node if made is None else made


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Collection[str] | None = None,
) -> Any:
    """Rewrite a tree: what ``preorder`` returns stands for a node and its children, what ``postorder`` returns for a node whose
    children are done; None leaves it. ``only_enable`` names the kinds of nodes that are given, ``"tir.For"``."""
    with deep_recursion():
        return _Transform(preorder, postorder, only_enable)(stmt)


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """Replace variables by expressions."""
    return _substitute(node, vmap)


__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "substitute"]
make_public(globals(), __all__)
