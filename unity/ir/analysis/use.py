"""Definitions and uses of variables in graph functions and tensor programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..binders import bound_symbols
from ..buffer import Buffer
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    IntImm,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import Function, PrimFunc
from ..node import BINDING, DEF, OWN, Node, same_items
from ..scalar import BufferLoad, FloorDiv, Mul
from ..stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer
from ..types import Expr, PrimType
from ..walk import children, collect, free_vars, nodes_in


def bindings(fn: Node) -> list[Binding]:
    """All bindings of a function, branches and local functions included, in order."""
    return [b for block in collect(fn, BindingBlock) for b in block.bindings]


def var_to_value(fn: Function) -> dict[Var, Expr]:
    """The value bound to each variable."""
    return {b.var: b.value for b in bindings(fn)}


def name_to_binding(fn: Function) -> dict[str, list[Binding]]:
    """Bindings by the name hint of their variable."""
    found: dict[str, list[Binding]] = {}
    for binding in bindings(fn):
        found.setdefault(binding.var.name, []).append(binding)
    return found


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


def bound_vars(root: Node) -> list[Var]:
    """Variables that are bound somewhere inside."""
    return [v for v in definitions(root) if isinstance(v, Var)]


def undefined_vars(root: Node, defined: Iterable[Var] = ()) -> list[Var]:
    """Variables used inside and bound neither there nor in ``defined``."""
    known = set(defined)
    return [v for v in free_vars(root) if v not in known]


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
            held = _nodes(getattr(node, name))
            if role is OWN:  # sizes are used, and so is the pointer of a view
                for buffer in [b for b in held if type(b) is Buffer]:
                    stack.extend([n for n in children(buffer) if n is not buffer.data or type(node) is DeclBuffer])
            stack.extend(held if role not in BINDING else [n for n in held if not n.is_reference])
    return counts


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if type(value) is tuple:
        return [n for item in value for n in _nodes(item)]
    if isinstance(value, dict):
        return [n for item in value.values() for n in _nodes(item)]
    return []


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


def computable_at_compile_time(fn: Function, known: Iterable[Var] = ()) -> list[Var]:
    """Variables whose values depend on constants (and ``known`` variables) only and have no effect."""
    ready = set(known)
    found: list[Var] = []
    for binding in bindings(fn):
        if not isinstance(binding, VarBinding) or isinstance(binding.value, (SeqExpr, Function)):
            continue
        value = binding.value
        if isinstance(value, (Call, Tuple, TupleGetItem, Constant, ShapeExpr, Var)):
            impure = isinstance(value, Call) and value.op_name in (
                "R.call_packed",
                "R.print",
                "R.assert_op",
            )
            if not impure and all([v in ready for v in free_vars(value)]):
                ready.add(binding.var)
                found.append(binding.var)
    return found


def find_reshape(fn: PrimFunc) -> bool:
    """True for a tensor program that copies one buffer to another in row-major order without changing a value.

    Recognised by shape: two buffers, one store of a plain load, equal element counts with the same linear index in the
    innermost block or loop (indices of one side are the loop variables themselves).
    """
    if len(fn.buffer_map) != 2:
        return False
    source, target = list(fn.buffer_map.values())
    stores = collect(fn.body, BufferStore)
    allocations = collect(fn.body, (AllocBuffer, AllocConst, DeclBuffer))
    if len(stores) != 1 or allocations or any([b.alloc_buffers for b in collect(fn.body, Block)]):
        return False
    store = stores[0]
    if store.buffer is not target or type(store.value) is not BufferLoad or store.value.buffer is not source:
        return False
    if source.dtype is not target.dtype:
        return False
    if len(source.shape) == len(target.shape):
        return same_items(store.indices, store.value.indices)
    return False
