"""Writes to tensors seen through views, made out of place in the exported graph itself.

A write to a view becomes a new tensor scattered into the tensors behind it, one view after the other; who reads any of them
later gets the new one, views made anew. torch does the same by tracing the whole program once more, which costs as much as the
export: it is left what stands here no rule for (``functionalize_writes`` gives None): writes to inputs and weights, through views
without an inverse here, of sizes that are symbols, and operators that change the shape of what they write to.

Two nodes are one tensor in memory where torch's own inference of them shares storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.optional import require
from ..translate.in_place import is_mutable, out_of_place
from .grad_modes import copied, with_graph


class _NoRule(Exception):
    """A write that is left to torch."""


def functionalize_writes(program: Any) -> Any:
    """The program with every write out of place; None where torch has to rewrite it."""
    torch = require("torch")
    if len([m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]) > 1:
        return None
    graph, signature = copied(program)
    try:
        renamed = _Functionalizer(torch, graph).run()
    except _NoRule:
        return None
    for old, new in renamed.items():
        signature.replace_all_uses(old, new)
    return with_graph(program, graph, signature, program.constants)


class _Functionalizer:
    """One run over a graph. A tensor written to is known by its memory; its state is the number of writes to it."""

    def __init__(self, torch: Any, graph: Any) -> None:
        self.torch, self.graph = torch, graph
        self.given = [n.name for n in self.results()]
        for node in list(graph.nodes):
            if _is_nothing(node):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        self.written = {
            storage
            for n in graph.nodes
            if _writes(n) and n.all_input_nodes
            for storage in self.storages(n.all_input_nodes[0])
        }
        self.owner: dict[int, Any] = {}
        """The node that made the memory."""
        self.parent: dict[Any, Any] = {}
        """The node that a node is a view of."""
        self.now: dict[Any, tuple[Any, int]] = {}
        """The node that has the elements of a node, and after how many writes."""
        self.writes: dict[int, int] = dict.fromkeys(self.written, 0)
        self.views: list[Any] = []
        """All views, in the order of the graph but for those made anew."""

    def run(self) -> dict[str, str]:
        """Rewrite; the names of results whose node is another one, with the new names."""
        for node in list(self.graph.nodes):
            present = {n: self.read(n, node) for n in node.all_input_nodes if self.storage(n) is not None}
            if _writes(node):
                self.write(node)
                continue
            storage = self.storage(node)
            if storage is not None:
                self.add_alias(node, storage)
            if any([new is not old for old, new in present.items()]):
                for old, new in present.items():
                    node.replace_input_with(old, new)
        for node in reversed(self.views):
            if not node.users:
                self.graph.erase_node(node)
        return dict(zip(self.given, [n.name for n in self.results()]))

    def results(self) -> list[Any]:
        """The nodes that the program gives."""
        leaves = self.torch.utils._pytree.tree_leaves(self.graph.output_node().args)
        return [leaf for leaf in leaves if isinstance(leaf, self.torch.fx.Node)]

    def storages(self, node: Any) -> set[int]:
        """Memory of the tensors of a node."""
        leaves = self.torch.utils._pytree.tree_leaves(node.meta.get("val"))
        dense = [v for v in leaves if isinstance(v, self.torch.Tensor) and v.layout is self.torch.strided]
        return {v.untyped_storage()._cdata for v in dense}

    def storage(self, node: Any) -> int | None:
        """The memory of a node that is written to somewhere; None for others."""
        found = self.storages(node) & self.written if self.written else set()
        if len(found) > 1 or (found and node.op != "call_function"):
            raise _NoRule
        return next(iter(found), None)

    def add_alias(self, node: Any, storage: int) -> None:
        """Take a new name of a tensor down."""
        sources = [n for n in node.all_input_nodes if storage in self.storages(n)]
        if storage in self.owner:
            if sources != [node.args[0]]:
                raise _NoRule
            self.parent[node] = sources[0]
            self.views.append(node)
        elif sources or isinstance(node.meta["val"], (list, tuple)):
            raise _NoRule
        else:
            self.owner[storage] = node
        self.now[node] = (node, self.writes[storage])

    def read(self, node: Any, user: Any) -> Any:
        """The node that has the present elements of ``node``, made before ``user``."""
        storage = self.storage(node)
        assert storage is not None
        known, state = self.now[node]
        if state == self.writes[storage]:
            return known
        fresh = self.read(self.parent[node], user)
        if _gives_operand(node):
            current = fresh
        else:
            with self.graph.inserting_before(user):
                current = self.graph.node_copy(node, lambda n: fresh if n is node.args[0] else n)
            self.views.append(current)
        self.now[node] = (current, self.writes[storage])
        return current

    def write(self, node: Any) -> None:
        """Make one write out of place, and scatter what it gives into the tensors behind the one written to."""
        target = node.args[0] if node.args else None
        storage = self.storage(target) if isinstance(target, self.torch.fx.Node) else None
        if storage is None:
            raise _NoRule
        new = self.out_of_place(node)
        chain = [(target, new)]
        while chain[-1][0] is not self.owner[storage]:
            view, value = chain[-1]
            behind = self.parent[view]
            if not _gives_operand(view):
                value = self.scatter_into(view, self.read(behind, node), value, node)
            chain.append((behind, value))
        self.writes[storage] += 1
        for seen, value in chain:
            self.now[seen] = (value, self.writes[storage])
        node.replace_all_uses_with(target)  # one tensor in torch
        self.graph.erase_node(node)

    def out_of_place(self, node: Any) -> Any:
        """The new elements of what an operator writes to, in its dtype."""
        own, value = node.target, node.args[0].meta["val"]
        target = out_of_place(own)
        if target is own or self.torch.Tag.inplace_view in own.tags:
            raise _NoRule
        given = dict(zip([a.name for a in own._schema.arguments], node.args)) | dict(node.kwargs)
        given = self.torch.fx.map_arg(given, lambda n: n if self.storage(n) is None else self.read(n, node))
        places = [a for a in target._schema.arguments if not a.kwarg_only]
        args = tuple([given.get(a.name, a.default_value) for a in places])
        named = {k: v for k, v in given.items() if k not in [a.name for a in places]}
        others = [n.meta.get("val") for n in node.all_input_nodes[1:]]
        if not any([isinstance(v, self.torch.Tensor) and v.dtype is not value.dtype for v in others]):
            return self.insert(node, target, args, named, value)
        values = self.torch.fx.map_arg((args, named), lambda n: n.meta["val"])
        new = self.insert(node, target, args, named, target(*values[0], **values[1]))
        return self.insert(node, self.torch.ops.aten.to.dtype, (new, value.dtype), {}, value)

    def scatter_into(self, view: Any, base: Any, part: Any, user: Any) -> Any:
        """``base`` with the elements that ``view`` shows replaced by ``part``."""
        rule = _INVERSES.get(str(view.target))
        if rule is None or view.kwargs:
            raise _NoRule
        value = view.args[0].meta["val"]
        name, args = rule(base, part, list(value.shape), list(view.args[1:]))
        packet, overload = name.split(".")
        return self.insert(user, getattr(getattr(self.torch.ops.aten, packet), overload), tuple(args), {}, value)

    def insert(self, user: Any, target: Any, args: Any, kwargs: Any, value: Any) -> Any:
        """A new node before ``user``, from the same line of the model, like ``value``."""
        with self.graph.inserting_before(user):
            new = self.graph.call_function(target, args, kwargs)
        new.meta = {**user.meta, "val": value}
        return new


Rule = Callable[[Any, Any, list[Any], list[Any]], tuple[str, list[Any]]]


def _scatter(name: str) -> Rule:
    return lambda base, part, shape, args: (name, [base, part, *args])


def _reshaped(base: Any, part: Any, shape: list[Any], args: list[Any]) -> tuple[str, list[Any]]:
    if not all([isinstance(size, int) for size in shape]):
        raise _NoRule
    return "reshape.default", [part, shape]


def _swapped(base: Any, part: Any, shape: list[Any], args: list[Any]) -> tuple[str, list[Any]]:
    return "transpose.int", [part, *(args or [0, min(1, len(shape) - 1)])]


def _permuted(base: Any, part: Any, shape: list[Any], args: list[Any]) -> tuple[str, list[Any]]:
    order = [axis % len(shape) for axis in args[0]]
    return "permute.default", [part, [order.index(axis) for axis in range(len(order))]]


def _expanded(base: Any, part: Any, shape: list[Any], args: list[Any]) -> tuple[str, list[Any]]:
    """Of a tensor expanded to its own size: torch writes to no other."""
    if list(part.meta["val"].shape) != shape:
        raise _NoRule
    return _reshaped(base, part, shape, args)


_INVERSES: dict[str, Rule] = {
    "aten.slice.Tensor": _scatter("slice_scatter.default"),
    "aten.select.int": _scatter("select_scatter.default"),
    "aten.diagonal.default": _scatter("diagonal_scatter.default"),
    "aten.transpose.int": _swapped,
    "aten.t.default": _swapped,
    "aten.permute.default": _permuted,
    "aten.expand.default": _expanded,
    "aten.expand_as.default": _expanded,
}
"""By views: the operator and its operands that put the elements of a view back."""
_INVERSES |= dict.fromkeys(
    ["aten.view.default", "aten.reshape.default", "aten.unsqueeze.default", "aten.flatten.using_ints", "aten.unflatten.int",
     "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.view_as.default", "aten._unsafe_view.default"],
    _reshaped,
)  # fmt: skip

_SAME = ("aten.alias.", "aten.detach.", "aten.to.", "aten.contiguous.", "aten.lift_fresh.")
"""Operators that give their operand where they share its memory."""


def _writes(node: Any) -> bool:
    """True if a node writes to its first operand, or to another one, which has no rule."""
    return node.op == "call_function" and is_mutable(node.target)


def _is_nothing(node: Any) -> bool:
    """True if an operator returns its operand unchanged. torch infers a new tensor for dropout outside training."""
    name = str(node.target)
    return name == "aten.detach_.default" or (name.endswith("dropout.default") and node.args[2:] == (False,))


def _gives_operand(node: Any) -> bool:
    """True if a node in the memory of its operand is the operand itself."""
    return str(node.target).startswith(_SAME)
