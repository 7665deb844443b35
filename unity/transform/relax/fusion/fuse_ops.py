"""fuse_ops: calls of tensor programs that are best computed together become one call of a primitive function.

Rewrite: ``y = R.call_dps(add, (x, b), ty); z = R.call_dps(relu, (y,), ty)`` -> ``z = fused_add_relu(x, b)`` with

    @R.function(private=True)
    def fused_add_relu(x, b):  # attrs {"Primitive": True}
        with R.dataflow():
            y = R.call_dps(add, (x, b), ty)
            gv = R.call_dps(relu, (y,), ty)
            R.output(gv)
        return gv

Works on dataflow blocks alone, so no call with an effect is ever moved. Symbols that no parameter defines are passed as a shape.
Equal primitive functions are shared. Here: the rewriting; which calls belong together says `fusion_graph.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ....ir.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    GlobalVar,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)  # fmt: skip
from ....ir.function import Function, is_marked
from ....ir.module import IRModule
from ....ir.names import NameSupply
from ....ir.node import replace
from ....ir.relation import shape_type
from ....ir.structural import structural_equal, structural_hash
from ....ir.types import Expr, PrimType
from ....ir.walk import Rewriter, collect, free_vars, fresh_copy
from ...infra.passes import PassContext, module_pass
from ..rewriting.graph_rewriter import OnBlocks
from .fusion_graph import COMM_REDUCE, Item, Partition, Patterns, build_graph, program_of

MAX_NAME = 60
"""Longest name made from the names of fused programs."""


class FunctionTable:
    """Adds graph functions to a module under fresh names, sharing equal ones."""

    def __init__(self, mod: IRModule) -> None:
        self.names = NameSupply(mod.functions)
        self.added: dict[str, Function] = {}
        self._by_hash: dict[int, list[tuple[str, Function]]] = {}

    def add(self, fn: Function, hint: str) -> GlobalVar:
        """Reference to an equal function added before, or to this one."""
        bucket = self._by_hash.setdefault(structural_hash(fn), [])
        for name, known in bucket:
            if structural_equal(known, fn):
                return GlobalVar(name, known.ty)
        name = self.names.fresh(hint)
        self.added[name] = fn
        bucket.append((name, fn))
        return GlobalVar(name, fn.ty)


def fused_name(names: list[str]) -> str:
    """``fused_add_relu`` of the programs' names."""
    text = "fused_" + "_".join(names)
    return text if len(text) <= MAX_NAME else text[:MAX_NAME].rstrip("_")


class _Params:
    """Parameters of a primitive function for the values it takes from outside."""

    def __init__(self, own: set[Var], lift_constants: bool) -> None:
        self.own = own
        self.lift_constants = lift_constants
        self.names = NameSupply()
        self.by_value: dict[Expr, Var] = {}

    def take(self, value: Expr) -> Expr:
        """The value as the function sees it: what comes from outside through a parameter."""
        if isinstance(value, Var) and value not in self.own:
            return self._param(value, value.name)
        if type(value) is Constant and self.lift_constants:
            return self._param(value, "const")
        if type(value) is Tuple:
            return replace(value, fields=tuple([self.take(f) for f in value.fields]))
        return value

    def _param(self, value: Expr, name: str) -> Var:
        found = self.by_value.get(value)
        if found is None:
            found = self.by_value[value] = Var(self.names.fresh(name), value.ty)
        return found


def primitive_function(
    bindings: list[VarBinding], outputs: list[Var], attrs: dict[str, Any], lift_constants: bool = True
) -> tuple[Function, list[Expr]]:
    """A function that computes bindings, and the arguments for it. Several outputs become a tuple; symbols that its parameters do
    not define come first, as one shape. Constants become parameters too, unless they are to stay inside."""
    own = {b.var for b in bindings}
    params = _Params(own, lift_constants)
    mapping: dict[Any, Any] = {}
    made: list[Binding] = []
    for binding in bindings:
        var = binding.var
        kept = Var(var.name, var.ty, var.span, var not in outputs)
        value = _with_args(binding.value, params)
        made.append(VarBinding(kept, Rewriter(mapping=mapping)(value) if mapping else value, binding.span))
        mapping[var] = kept
    results = [mapping[v] for v in outputs]
    result: Expr = results[0] if len(results) == 1 else Tuple(tuple(results))
    formals, arguments = list(params.by_value.values()), list(params.by_value)
    body = SeqExpr((DataflowBlock(tuple(made)),), result)
    fn = Function(tuple(formals), body, result.ty, True, attrs)
    symbols = [v for v in free_vars(fn) if isinstance(v.ty, PrimType)]
    if symbols:
        formals.insert(0, Var(params.names.fresh("symbols"), shape_type(symbols)))  # defined before types use them
        arguments.insert(0, ShapeExpr(tuple(symbols)))
        fn = replace(fn, params=tuple(formals))
    return fresh_copy(fn), arguments


def _with_args(value: Expr, params: _Params) -> Expr:
    if type(value) is Call:
        return replace(value, args=tuple([params.take(a) for a in value.args]))
    parts = {name: getattr(value, name) for name, _ in value.walked}
    return replace(value, **{name: params.take(part) for name, part in parts.items() if isinstance(part, Expr)})


Group = tuple[list[VarBinding], list[Var], Callable[[Function], GlobalVar], dict[str, Any]]
"""Bindings, those of their variables that are used elsewhere, what makes their function known, and its attributes."""


def replace_groups(block: DataflowBlock, groups: Sequence[Group], lift_constants: bool = True) -> DataflowBlock:
    """A block with each group computed by a call of a function of its own, where its last binding stood."""
    replaced: dict[Var, list[Binding]] = {}
    inner: set[Var] = set()
    for bindings, outputs, add, attrs in groups:
        last = bindings[-1]
        fn, arguments = primitive_function(bindings, outputs, attrs, lift_constants)
        span = last.span or getattr(last.value, "span", None)
        whole, fields = outputs[0], list[Binding]()
        if len(outputs) > 1:
            whole = Var(f"{outputs[-1].name}_all", Tuple(tuple(outputs)).ty, dataflow=True)
            fields = [VarBinding(v, TupleGetItem(whole, k)) for k, v in enumerate(outputs)]
        call = Call(add(fn), tuple(arguments), {}, (), whole.ty, span)
        replaced[last.var] = [VarBinding(whole, call, last.span), *fields]
        inner.update([b.var for b in bindings])
    kept = [replaced.get(b.var, [] if b.var in inner else [b]) for b in block.bindings]
    return DataflowBlock(tuple([b for several in kept for b in several]), block.span)


class _BlockFuser:
    """Fuses inside the dataflow blocks of a module."""

    def __init__(self, mod: IRModule, max_depth: int, max_args: int, apart: Sequence[str]) -> None:
        self.patterns = Patterns(mod)
        self.table = FunctionTable(mod)
        self.max_depth, self.max_args, self.apart = max_depth, max_args, frozenset(apart)

    def block(self, block: DataflowBlock) -> DataflowBlock:
        """The block with groups of several calls replaced."""
        groups = [self.group(members) for members in self.groups(block)[1]]
        return replace_groups(block, groups) if groups else block

    def groups(self, block: DataflowBlock) -> tuple[list[Item], list[list[Item]]]:
        """The items of a block, and its groups of several calls."""
        items = build_graph(block, self.patterns)
        groups = [_own_fields(g) for g in Partition(items, self.max_depth, self.max_args, self.apart).found()]
        return items, [g for g in groups if sum([type(_value(m)) is Call for m in g]) > 1]

    def group(self, members: list[Item]) -> Group:
        """Calls whose last one alone has a result that is used elsewhere."""
        bindings = [m.binding for m in members if isinstance(m.binding, VarBinding)]
        names = [b.value.args[0].name for b in bindings if type(b.value) is Call and type(b.value.args[0]) is GlobalVar]
        add = partial(self.table.add, hint=fused_name(names))
        return bindings, [bindings[-1].var], add, {"Primitive": True}


def _own_fields(group: list[Item]) -> list[Item]:
    """The group without fields of tuples from outside: a primitive function takes the field, not the tuple."""
    own = {m.binding.var for m in group}
    return [m for m in group if type(v := _value(m)) is not TupleGetItem or v.tuple_value in own]


def _value(item: Item) -> Expr | None:
    return getattr(item.binding, "value", None)


@module_pass()
def fuse_ops(
    mod: IRModule, *, max_depth: int = 64, max_args: int = 0, fuse_opt_level: int = -1, apart: Sequence[str] = ()
) -> IRModule:
    """Group calls of tensor programs into primitive functions.

    Requires calls of tensor programs in dataflow blocks (``legalize_ops``, ``convert_to_dataflow``). Gives private functions with
    the attribute ``Primitive``, for ``fuse_tir``.
    ``max_depth``: most calls in one function; ``max_args``: most arguments and results of one, 0 for any number;
    ``fuse_opt_level``: 0 fuses nothing, -1 follows the ``opt_level`` of the PassContext; ``apart``: tensor programs whose results
    are stored, not used on in the same function.
    """
    level = fuse_opt_level if fuse_opt_level >= 0 else PassContext.current().opt_level
    if level == 0:
        return mod
    fuser = _BlockFuser(mod, max_depth, max_args, apart)
    return mod.with_graph_functions(lambda fn: fn if is_marked(fn) else OnBlocks(fuser.block)(fn), fuser.table.added)


def fused_programs(mod: IRModule) -> list[str]:
    """Tensor programs that cost something, or have several users, and whose results ``fuse_ops`` does not store, by name: those
    with most calls first."""
    fuser, found = _BlockFuser(mod, 64, 0, ()), Counter[str]()
    for fn in mod.graph_functions().values():
        for block in collect(fn, DataflowBlock):
            for group in fuser.groups(block)[1]:
                costly = [m for m in group[:-1] if m.expensive or m.kind >= COMM_REDUCE or len(m.users) > 1]
                found.update([program_of(m) for m in costly if program_of(m)])
    return [name for name, _ in found.most_common()]
