"""The functions of a text: collected first, then read in order, graph functions when first needed.

Invariant: tensor programs are read first, so that every call of a function sees its type whatever the order in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir import Expr, ExternFunc, Function, FuncType, GlobalVar, PrimFunc, Type, replace
from ...ir.types import VOID_TYPE
from ...support.errors import UnityError, suggest
from ..parser import syntax as s
from .common.reading import Reading, Silent, Text
from .common.scope import Member, Scope
from .relax.function import GRAPH, body, function_type, signature
from .relax.graph import GraphReading
from .tir.function import read_prim_func, returned_type


class ModuleFunctions:
    """The functions of one module, or of a text without a module; ``reading`` is that of the lines around them."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.reading = Reading(text, Scope(text.outside), GRAPH, self)
        self.nodes: dict[str, tuple[str, s.FunctionDef, dict[str, bool]]] = {}
        """Functions of the text: their decorator, syntax and options."""
        self.made: dict[str, Any] = {}
        """Functions that are read, and those that came in from outside."""
        self.adopted: dict[int, str] = {}
        self._started: dict[str, GraphReading] = {}
        self._open: set[str] = set()

    def add(self, kind: str, node: s.FunctionDef, options: dict[str, bool]) -> None:
        """A function of the text, to be read later."""
        if node.name in self.nodes:
            raise self.reading.error("E115", f"two functions are called {node.name!r}", node)
        self.nodes[node.name] = (kind, node, options)

    def read_all(self) -> None:
        """Read all functions collected; errors are recorded per function."""
        names = self.reading.scope.names
        names.update({name: Member(name) for name in self.nodes})
        graphs = [name for name, (kind, _, _) in self.nodes.items() if kind == "R.function"]
        for name, (kind, node, _) in self.nodes.items():
            if kind == "T.prim_func":
                self._keep(name, read_prim_func(self.text, self.reading.scope, self, node))
        for name in graphs:
            self._start(name)
        for name in graphs:
            self._finish(name)
        order = [*[name for name in self.made if name not in self.nodes], *self.nodes]
        self.made = {name: self.made[name] for name in order if name in self.made}

    def _keep(self, name: str, fn: PrimFunc | Function | None) -> None:
        if fn is not None:
            options = self.nodes[name][2]
            attrs = fn.attrs if options.get("private") else {"global_symbol": name, **fn.attrs}
            self.made[name] = replace(fn, attrs=attrs, checked=options.get("check_well_formed", True))

    def _start(self, name: str) -> GraphReading:
        """The reading of a graph function, its signature read."""
        found = self._started.get(name)
        if found is None:
            _, node, options = self.nodes[name]
            found = GraphReading(self.text, Scope(self.reading.scope), GRAPH, self, node, options)
            self._started[name] = found  # its signature may name it
            signature(found)
        return found

    def _finish(self, name: str) -> None:
        """Read the body of a graph function."""
        if name in self.made or name in self._open:
            return
        self._open.add(name)
        r = self._start(name)
        try:
            self._keep(name, body(r))
        except Silent:
            pass
        except UnityError as problem:
            r.record(problem, r.node)

    def returned(self, name: str) -> Type:
        """The type that a tensor program of the module returns; it may stand further down."""
        fn = self.made.get(name)
        if isinstance(fn, PrimFunc):
            return fn.ret_ty
        kind, node, _ = self.nodes.get(name, ("", None, None))
        if node is None or kind != "T.prim_func":
            return VOID_TYPE
        return returned_type(self.text, self.reading.scope, self, node)

    def parameters(self, callee: Expr) -> Sequence[Type | None] | None:
        """The types of a function's parameters, None for a buffer's; None where they are not known."""
        fn = self.made.get(callee.name) if isinstance(callee, GlobalVar) else None
        if isinstance(fn, PrimFunc):
            return [None if param in fn.buffer_map else param.ty for param in fn.params]
        return callee.ty.params if isinstance(callee.ty, FuncType) else None

    def member(self, r: Reading, name: str, node: s.Syntax) -> GlobalVar:
        """A reference to a function of the module, with its type; tensor programs need none."""
        span = r.span(node)
        kind = self.nodes[name][0] if name in self.nodes else ""
        if r.level.letter == "T" or kind == "T.prim_func":
            return GlobalVar(name, span=span)
        if kind and name not in self.made and name not in self._open:
            self._finish(name)
        fn = self.made.get(name)
        if fn is not None:
            return (
                GlobalVar(name, fn.ty, span) if isinstance(fn, (Function, ExternFunc)) else GlobalVar(name, span=span)
            )
        if not kind:
            if name in self.text.lost:
                raise Silent
            hint = suggest(name, [*self.nodes, *self.made])
            raise r.error("E110", f"the module has no function {name!r}", node, hint)
        declared = function_type(self._start(name))
        if declared is not None:
            return GlobalVar(name, declared, span)
        if self.text.errors:
            raise Silent
        message = f"{name!r} calls itself: its result type must be written"
        raise r.error("E114", message, node, "write `-> R.Tensor(...)` in its signature")

    def adopt(self, r: Reading, fn: Any, node: s.Syntax) -> GlobalVar:
        """A function of the enclosing scope becomes part of the module."""
        name = self.adopted.get(id(fn))
        if name is None:
            wish = fn.attrs.get("global_symbol") or "f"
            name, count = wish, 0
            while name in self.nodes or name in self.made:
                count += 1
                name = f"{wish}{count}"
            self.adopted[id(fn)] = name
            self.made[name] = fn
        return GlobalVar(name, fn.ty, r.span(node)) if isinstance(fn, Function) else GlobalVar(name, span=r.span(node))
