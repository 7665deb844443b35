"""The calls of a dataflow block that are computed together: a graph of the calls, its post-dominators, and groups over it.

A call joins the groups between it and its immediate post-dominator, the nearest call through which everything computed from it
flows, when the kinds of the programs on the way allow it. (The scheme of Relay: Roesch et al. 2019, "Relay: a high-level compiler
for deep learning", section 4.4; post-dominators by the least-common-ancestor method of Cooper, Harvey, Kennedy 2001.)
Here: the decision. Not here: any rewriting. Invariant: every user of a member other than the group's last one is a member.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ....ir.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    GlobalVar,
    Op,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ....ir.function import PrimFunc
from ....ir.module import IRModule
from ....ir.relation import Answer, dims, same_dim
from ....ir.types import Expr, TensorType, Type
from ....ir.walk import substitute, used_vars
from ....op.common.table import R
from .auto_inline import SMALL_WORK
from .op_pattern import OPAQUE_EDGE, Edge, KernelPattern, OpPatternKind, analyze_pattern

ELEMENTWISE, BROADCAST, INJECTIVE = OpPatternKind.ELEMENTWISE, OpPatternKind.BROADCAST, OpPatternKind.INJECTIVE
COMM_REDUCE, OUT_EWISE, OPAQUE = OpPatternKind.COMM_REDUCE, OpPatternKind.OUT_EWISE_FUSABLE, OpPatternKind.OPAQUE


@dataclass(slots=True, eq=False)
class Item:
    """One binding. ``users``: the items that use it with the edge between; ``escapes``: used outside the block too."""

    index: int
    binding: Binding
    kind: OpPatternKind
    expensive: bool = False
    work: int = 0
    args: list[Expr] = field(default_factory=list)
    users: list[tuple[Item, Edge]] = field(default_factory=list)
    escapes: bool = False
    dominator: Item | None = None
    relation: OpPatternKind = OPAQUE
    """Greatest kind among the edges to the post-dominator."""
    depth: int = 0


class Patterns:
    """Patterns of the tensor programs of a module, found once."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self._known: dict[str, KernelPattern | None] = {}

    def of(self, value: Expr) -> KernelPattern | None:
        """Pattern behind ``R.call_dps(f, (args...), ...)`` of a tensor program, else None."""
        if type(value) is not Call or type(value.op) is not Op or value.op.name != R.call_dps.name:
            return None
        callee = value.args[0]
        if type(callee) is not GlobalVar or type(value.args[1]) is not Tuple or value.attrs:
            return None
        func = self.mod.functions.get(callee.name)
        if type(func) is not PrimFunc:
            return None
        if callee.name not in self._known:
            self._known[callee.name] = analyze_pattern(func)
        return self._known[callee.name] if fits(func, value) else None


def fits(func: PrimFunc, call: Call) -> bool:
    """True when the sizes of a call are seen to be those that the program was written for: otherwise its call checks them."""
    given = call.args[1]
    assert type(given) is Tuple
    scalars = call.args[2].values if len(call.args) > 2 and type(call.args[2]) is ShapeExpr else ()
    actual: list[Expr | Type] = [*given.fields, *call.output_types, *scalars]
    if len(actual) != len(func.params):
        return False
    known: dict[Var, Expr] = {}
    pairs: list[tuple[Expr, Expr]] = []
    for param, value in zip(func.params, actual):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if isinstance(value, Expr):
                known[param] = value
            continue
        shape = dims(value.ty if isinstance(value, Expr) else value)
        if shape is None or len(shape) != len(buffer.shape):
            return False
        for formal, extent in zip(buffer.shape, shape):
            if isinstance(formal, Var) and formal not in known:
                known[formal] = extent
            pairs.append((formal, extent))
    return all([same_dim(substitute(formal, known), extent) is Answer.YES for formal, extent in pairs])


def build_graph(block: DataflowBlock, patterns: Patterns) -> list[Item]:
    """An item for each binding of a block, in order, with users and post-dominators."""
    items: list[Item] = []
    by_var: dict[Var, Item] = {}
    for index, binding in enumerate(block.bindings):
        item = _item(index, binding, patterns, by_var)
        items.append(item)
        by_var[binding.var] = item
    _dominators(items)
    return items


def _item(index: int, binding: Binding, patterns: Patterns, by_var: dict[Var, Item]) -> Item:
    value = binding.value
    escapes = not binding.var.dataflow
    pattern = patterns.of(value) if type(binding) is VarBinding else None
    if pattern is not None and pattern.kind is not OPAQUE and isinstance(value, Call):
        given = value.args[1]
        assert type(given) is Tuple
        args = list(given.fields)
        item = Item(index, binding, pattern.kind, pattern.expensive, pattern.work, args, escapes=escapes)
        tensors = [a for a in args if isinstance(a.ty, TensorType)]
        if len(tensors) == len(pattern.edges):
            for arg, edge in zip(tensors, pattern.edges):
                if isinstance(arg, Var) and arg in by_var:
                    by_var[arg].users.append((item, edge))
            rest = [a for a in args if not isinstance(a.ty, TensorType)] + list(value.args[2:])
            _uses(rest, item, by_var)
            return item
    if type(value) is TupleGetItem and isinstance(value.tuple_value, Var) and value.tuple_value in by_var:
        source = by_var[value.tuple_value]
        if source.kind is not OPAQUE and patterns.of(source.binding.value) is not None:
            item = Item(index, binding, min(source.kind, INJECTIVE), False, 0, [value.tuple_value], escapes=escapes)
            source.users.append((item, Edge(ELEMENTWISE, False)))
            return item
    item = Item(index, binding, OPAQUE, True, escapes=escapes)
    _uses([binding], item, by_var)
    return item


def _uses(parts: list[Expr] | list[Binding], item: Item, by_var: dict[Var, Item]) -> None:
    """Opaque edges from everything used in some expressions."""
    for part in parts:
        for var in used_vars(part):
            source = by_var.get(var)
            if source is not None and source is not item:
                source.users.append((item, OPAQUE_EDGE))


def _dominators(items: list[Item]) -> None:
    """Immediate post-dominators, from the last item to the first. An item that escapes, or that nobody uses, has none."""
    for item in reversed(items):
        if item.escapes or not item.users:
            item.depth = 1
            continue
        common: Item | None = item.users[0][0]
        relation = item.users[0][1].kind
        for user, edge in item.users:
            relation = max(relation, edge.kind)
            common, met = _meet(common, user)
            relation = max(relation, met)
        item.dominator, item.relation = common, relation
        item.depth = common.depth + 1 if common is not None else 1


def _meet(a: Item | None, b: Item | None) -> tuple[Item | None, OpPatternKind]:
    """Nearest common post-dominator, and the greatest relation on the ways to it."""
    relation = ELEMENTWISE
    while a is not b:
        if a is None or b is None:
            return None, OPAQUE
        if a.depth < b.depth:
            relation, b = max(relation, b.relation), b.dominator
        elif b.depth < a.depth:
            relation, a = max(relation, a.relation), a.dominator
        else:
            relation = max(relation, a.relation, b.relation)
            a, b = a.dominator, b.dominator
    return a, relation


@dataclass(slots=True, eq=False)
class Group:
    """Items computed together; ``kind`` is that of the reduction among them, else the greatest."""

    kind: OpPatternKind
    members: list[Item]
    expensive: bool
    repeats: bool = False
    """An edge inside reads elements repeatedly."""
    parent: Group | None = None

    def root(self) -> Group:
        """The group this one has become part of."""
        found = self
        while found.parent is not None:
            found = found.parent
        here = self
        while here.parent is not None:
            here.parent, here = found, here.parent
        return found


class Partition:
    """Groups of a graph's items under limits on kernels per group (``max_depth``) and arguments (``max_args``, 0 for any number);
    results of the programs ``apart`` are stored."""

    def __init__(self, items: list[Item], max_depth: int, max_args: int, apart: Collection[str] = ()) -> None:
        self.items = items
        self.max_depth, self.max_args, self.apart = max_depth, max_args, apart
        self.groups = {item: Group(item.kind, [item], item.expensive) for item in items}
        for phase in (0, 1):
            for item in items:
                if item.dominator is not None and item.kind is not OPAQUE:
                    self._try(item, item.dominator, phase)

    def of(self, item: Item) -> Group:
        """The group of an item."""
        return self.groups[item].root()

    def found(self) -> list[list[Item]]:
        """Members of each group in order."""
        roots = dict.fromkeys([self.of(item) for item in self.items])
        return [sorted(group.members, key=lambda item: item.index) for group in roots]

    def _try(self, item: Item, sink: Item, phase: int) -> None:
        group = self.of(item)
        if group is self.of(sink):
            return
        if group.kind in (COMM_REDUCE, OUT_EWISE):  # an epilogue: one output element from each reduced one
            if phase == 0 and item.relation is ELEMENTWISE:
                self._join(item, sink, BROADCAST, BROADCAST)
        elif group.kind is not OPAQUE and item.relation <= COMM_REDUCE and (phase == 1 or group.kind <= BROADCAST):
            self._join(item, sink, INJECTIVE, OUT_EWISE)

    def _join(self, item: Item, sink: Item, inner: OpPatternKind, last: OpPatternKind) -> None:
        """Fuse everything from an item to its post-dominator when no group between is of a kind above ``inner``, nor the last
        one above ``last``."""
        path = self._path(item, sink)
        if path is None:
            return
        target = self.of(sink)
        roots = list(dict.fromkeys([self.of(p) for p in path]))
        if target.kind > last or any([g.kind > inner for g in roots if g is not target and g is not self.of(item)]):
            return
        on_path = set(path)
        upstream = [p for p in path if p is not sink]
        if self.apart and any([program_of(p) in self.apart for p in upstream]):
            return
        repeated = any([edge.repeats for p in upstream for user, edge in p.users if user in on_path])
        costly = any([self.of(p).expensive for p in upstream if self.of(p) is not target])
        if costly and (repeated or target.repeats):
            return
        again = any(
            [edge.repeats and edge.kind is COMM_REDUCE for p in upstream for user, edge in p.users if user in on_path]
        )
        if again and sum([m.work for g in roots if g is not target for m in g.members]) > SMALL_WORK:
            return
        members = [m for g in roots for m in g.members]
        if len(members) > self.max_depth or (self.max_args and _inputs(members) > self.max_args):
            return
        for group in roots:
            if group is not target:
                group.parent = target
        target.members = members
        target.kind = max([g.kind for g in roots])
        target.expensive = any([g.expensive for g in roots])
        target.repeats = repeated or any([g.repeats for g in roots])

    def _path(self, item: Item, sink: Item) -> list[Item] | None:
        """All items on the ways from one to its post-dominator, both included; None where they are too many."""
        found: dict[Item, None] = {item: None}
        work = [item]
        while work:
            for user, _ in work.pop().users:
                if user in found:
                    continue
                found[user] = None
                if user is not sink:
                    if user.kind is OPAQUE or len(found) > self.max_depth:
                        return None
                    work.append(user)
        return list(found)


def program_of(item: Item) -> str:
    """The name of the tensor program that an item calls; "" where it calls none."""
    value = getattr(item.binding, "value", None)
    callee = value.args[0] if type(value) is Call and value.op is R.call_dps.op else None
    return callee.name if type(callee) is GlobalVar else ""


def _inputs(members: list[Item]) -> int:
    """Number of different arguments a group takes, with its results."""
    own = {m.binding.var for m in members}
    given: set[Expr] = set()
    for member in members:
        for arg in member.args:
            if isinstance(arg, (Var, Constant)) and arg not in own:
                given.add(arg)
            elif isinstance(arg, ShapeExpr):
                given.update(arg.values)
    return len(given) + 1
