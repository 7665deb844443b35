"""Definitions and uses of variables in graph functions and tensor programs; calls between the functions of a module, recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...support.graph import strongly_connected
from ..binders import bound_symbols
from ..buffer import Buffer
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    GlobalVar,
    IntImm,
    MatchCast,
    Var,
)
from ..function import Function, PrimFunc
from ..module import IRModule
from ..node import BINDING, DEF, OWN, Node, collect_held
from ..scalar import FloorDiv, Mul
from ..stmt import AllocBuffer, AllocConst, Block, DeclBuffer, Stmt
from ..types import Expr, PrimType
from ..walk import children, collect, free_vars, nodes_in


def bindings(fn: Node) -> list[Binding]:
    """All bindings of a function, branches and local functions included, in order."""
    return [b for block in collect(fn, BindingBlock) for b in block.bindings]


def var_to_value(fn: Function) -> dict[Var, Expr]:
    """The value bound to each variable."""
    return {b.var: b.value for b in bindings(fn)}


def definitions(root: Node) -> dict[Var | Buffer, Node]:
    """Variables and buffers with the node that binds them (parameter lists, bindings, loops, blocks, ...)."""
    found: dict[Var | Buffer, Node] = {}

    def add(value: Any, owner: Node) -> None:
        if isinstance(value, (Var, Buffer)):
            found.setdefault(value, owner)
            if isinstance(value, Buffer) and type(owner) is not DeclBuffer:
                found.setdefault(value.data, owner)
        elif type(value) is tuple:
            for item in value:
                add(item, owner)
        elif isinstance(value, dict):
            for item in value.values():
                add(item, owner)

    for node in nodes_in(root):
        for name, role in node.walked:
            if role in BINDING:
                add(getattr(node, name), node)
            if role is DEF:
                add(tuple(bound_symbols(getattr(node, name))), node)

    return found


def declared_buffers(stmt: Stmt) -> set[Buffer]:
    """Buffers declared inside a statement."""
    found: set[Buffer] = set()
    for node in collect(stmt, (AllocBuffer, AllocConst, DeclBuffer, Block)):
        if type(node) is Block:
            found.update(node.alloc_buffers, [match.buffer for match in node.match_buffers])
        else:
            found.add(node.buffer)
    return found


def use_counts(root: Node) -> dict[Var | Buffer, int]:
    """The number of uses of each variable and buffer (definitions do not count)."""
    counts: dict[Var | Buffer, int] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node.is_reference:
            counts[node] = counts.get(node, 0) + 1
            continue
        for name, role in node.walked:
            held: list[Any] = []
            collect_held(getattr(node, name), held)
            if role is OWN:  # sizes are used, and so is the pointer of a view
                for buffer in [b for b in held if type(b) is Buffer]:
                    stack.extend([n for n in children(buffer) if n is not buffer.data or type(node) is DeclBuffer])
            stack.extend(held if role not in BINDING else [n for n in held if not n.is_reference])
    return counts


def users(fn: Function | BindingBlock) -> dict[Var, list[Var]]:
    """For each variable of a graph function, or of one block, the variables whose values use it, in order; parameters included.

    A variable used by the result of a sequence has that use under the function's own parameters' order last: ``users`` lists
    only bindings, ask ``free_vars(fn.body.body)`` for the result.
    """
    given = fn.params if isinstance(fn, Function) else free_vars(fn, in_types=False)
    found: dict[Var, list[Var]] = {p: [] for p in given}
    for binding in bindings(fn):
        found.setdefault(binding.var, [])
        for var in free_vars(binding.value):
            if var in found and binding.var not in found[var]:
                found[var].append(binding.var)
    return found


def defined_symbols(fn: Function | PrimFunc) -> list[Var]:
    """Symbols a function binds: in the types of its parameters and match_casts, or in the shapes of its buffers."""
    found: dict[Var, None] = {}
    if isinstance(fn, Function):
        for param in fn.params:
            found.update(dict.fromkeys(bound_symbols(param.ty)))
        for binding in bindings(fn):
            if isinstance(binding, MatchCast):
                found.update(dict.fromkeys(bound_symbols(binding.target)))
    else:
        for buffer in fn.buffer_map.values():
            for value in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if type(value) is Var and value not in fn.params:
                    found[value] = None
    return list(found)


def shape_symbols(fn: PrimFunc) -> list[Var]:
    """Integer variables in the shapes of a program's parameters, those that are parameters themselves among them: they count
    elements, so that arithmetic on them does not overflow."""
    dims = {dim for buffer in fn.buffer_map.values() for dim in buffer.shape}
    found = dict.fromkeys([v for dim in dims for v in collect(dim, Var)])
    return [v for v in found if isinstance(v.ty, PrimType) and v.ty.dtype.is_integral]


def size_symbols(fn: PrimFunc) -> list[Var]:
    """Those of ``shape_symbols`` that are at least zero, because a dimension is: it is the variable, times or by numbers."""
    found: dict[Var, None] = {}
    for dim in [dim for buffer in fn.buffer_map.values() for dim in buffer.shape]:
        while isinstance(dim, (Mul, FloorDiv)):
            number, dim = (dim.b, dim.a) if type(dim) is FloorDiv or type(dim.b) is IntImm else (dim.a, dim.b)
            if type(number) is not IntImm or number.value <= 0:
                break
        if type(dim) is Var:
            found[dim] = None
    return list(found)


def used_symbols(root: Node) -> list[Var]:
    """Scalar variables that occur in shapes and scalar expressions, in order of first sight."""
    return [v for v in collect(root, Var) if isinstance(v.ty, PrimType)]


def free_symbols(fn: Function | PrimFunc) -> list[Var]:
    """Scalar variables that occur free."""
    return [v for v in free_vars(fn) if isinstance(v.ty, PrimType)]


def called_functions(fn: Any) -> list[str]:
    """Names of the module's functions that a function refers to, in order of first sight."""
    return list(dict.fromkeys([g.name for g in collect(fn, GlobalVar)]))


def call_graph(mod: IRModule) -> dict[str, list[str]]:
    """For each function the functions of the module it refers to."""
    return {name: [n for n in called_functions(fn) if n in mod] for name, fn in mod.functions.items()}


def reachable_functions(mod: IRModule, roots: Iterable[str]) -> set[str]:
    """The functions that can be reached from some."""
    found: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name in mod and name not in found:
            found.add(name)
            stack += called_functions(mod[name])
    return found


def used_otherwise(mod: IRModule, callee: Callable[[Call], Any]) -> set[str]:
    """Names of functions that stand elsewhere than as what ``callee`` gives for a call."""
    found: set[str] = set()
    for member in mod.functions.values():
        for node in nodes_in(member):
            called = callee(node) if type(node) is Call else None
            found.update([child.name for child in children(node) if type(child) is GlobalVar and child is not called])
    return found


def detect_recursion(mod: IRModule) -> list[list[str]]:
    """Groups of functions that call each other in a circle (a function calling itself is a group of one); module order."""
    graph = call_graph(mod)
    order = list(graph)
    groups = [sorted(group, key=order.index) for group in strongly_connected(graph, graph.__getitem__)]
    circles = [group for group in groups if len(group) > 1 or group[0] in graph[group[0]]]
    return sorted(circles, key=lambda group: order.index(group[0]))
