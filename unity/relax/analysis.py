"""``unity.relax.analysis``: what can be asked of graph functions, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..ir import walk
from ..ir.analysis import (
    defined_symbols as defined_symbolic_vars,
    detect_recursion,
    free_symbols as free_symbolic_vars,
    used_symbols as tir_vars_in_type,
    users as udchain,
    var_to_value as get_var2val,
)
from ..ir.analysis.use import bindings, definitions
from ..ir.binders import bound_symbols as definable_tir_vars_in_type
from ..ir.expr import Binding, Call, Constant, GlobalVar, SeqExpr, ShapeExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir.function import Function, PrimFunc
from ..ir.infer import find_impure_call
from ..ir.node import Node, same_items
from ..ir.scalar import BufferLoad
from ..ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer
from ..ir.types import Expr, PrimType
from ..ir.verifier.verifier import is_well_formed as well_formed
from ..ir.walk import collect, nodes_in
from ..support.arguments import make_public
from ..transform.relax.normalize.dead_code import clean_function as remove_all_unused


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """Bindings by the name hint of their variable."""
    found: dict[str, list[Binding]] = {}
    for binding in bindings(func):
        found.setdefault(binding.var.name, []).append(binding)
    return found


def all_global_vars(expr: Any) -> list[GlobalVar]:
    """References to functions of the module inside a function, one of each name, in order of first sight."""
    return list({g.name: g for g in reversed(collect(expr, GlobalVar))}.values())[::-1]


def contains_impure_call(expr: Expr) -> bool:
    """True where a graph function or a normalised expression has a call with an effect."""
    return find_impure_call(expr.body if isinstance(expr, Function) else expr) is not None


def computable_at_compile_time(func: Function, known: Iterable[Var] = ()) -> list[Var]:
    """Variables whose values depend on constants (and ``known`` variables) only and have no effect."""
    ready = set(known)
    found: list[Var] = []
    for binding in bindings(func):
        if not isinstance(binding, VarBinding) or isinstance(binding.value, (SeqExpr, Function)):
            continue
        value = binding.value
        if isinstance(value, (Call, Tuple, TupleGetItem, Constant, ShapeExpr, Var)):
            impure = isinstance(value, Call) and value.op_name in ("R.call_packed", "R.print", "R.assert_op")
            if not impure and all([v in ready for v in walk.free_vars(value)]):
                ready.add(binding.var)
                found.append(binding.var)
    return found


def has_reshape_pattern(func: PrimFunc) -> bool:
    """True for a tensor program that copies one buffer to another in row-major order without changing a value.

    Recognised by shape: two buffers, one store of a plain load, equal element counts with the same linear index in the
    innermost block or loop (indices of one side are the loop variables themselves).
    """
    if len(func.buffer_map) != 2:
        return False
    source, target = list(func.buffer_map.values())
    stores = collect(func.body, BufferStore)
    allocations = collect(func.body, (AllocBuffer, AllocConst, DeclBuffer))
    if len(stores) != 1 or allocations or any([b.alloc_buffers for b in collect(func.body, Block)]):
        return False
    store = stores[0]
    if store.buffer is not target or type(store.value) is not BufferLoad or store.value.buffer is not source:
        return False
    if source.dtype is not target.dtype:
        return False
    if len(source.shape) == len(target.shape):
        return same_items(store.indices, store.value.indices)
    return False


def post_order_visit(expr: Node, fvisit: Callable[[Any], None]) -> None:
    """Call ``fvisit`` on every node, children first, each shared node once."""
    for node in nodes_in(expr):
        fvisit(node)


def _of_the_graph(name: str, find: Callable[[Node], list[Var]]) -> Callable[[Node], list[Var]]:
    def found(expr: Node) -> list[Var]:
        return [var for var in find(expr) if not isinstance(var.ty, PrimType)]

    found.__name__ = found.__qualname__ = name
    found.__doc__ = f"{find.__doc__} Symbols and other scalars are none of them."
    return found


def _bound(root: Node) -> list[Var]:
    """Variables that are bound somewhere inside."""
    return [v for v in definitions(root) if isinstance(v, Var)]


all_vars = _of_the_graph("all_vars", walk.used_vars)
free_vars = _of_the_graph("free_vars", walk.free_vars)
bound_vars = _of_the_graph("bound_vars", _bound)
check_well_formed, used_vars = well_formed, all_vars
__all__ = [
    "all_global_vars", "all_vars", "bound_vars", "check_well_formed", "computable_at_compile_time", "contains_impure_call",
    "definable_tir_vars_in_type", "defined_symbolic_vars", "detect_recursion", "find_impure_call", "free_symbolic_vars",
    "free_vars", "get_var2val", "has_reshape_pattern", "name_to_binding", "post_order_visit", "remove_all_unused",
    "tir_vars_in_type", "udchain", "used_vars", "well_formed",
]  # fmt: skip

make_public(globals(), __all__)
