"""Inlining of blocks: a block that computes a buffer point by point disappears, and its readers compute the value themselves.

Here: the rewriting and what must hold for it, shared by fusion and by schedules. Not here: when it pays
(`transform/relax/fusion/auto_inline.py`).
Invariant: the readers see bit by bit the values they read before; a value read several times at one place is computed once
(``T.Let``), and never outside the lazy branch that asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ....arith import Analyzer
from ....arith.index_map import IndexMap
from ....ir.analysis.regions import block_regions, opaque_in
from ....ir.buffer import Buffer
from ....ir.build import add, ge, is_int, lt
from ....ir.expr import Call, IntImm, Var
from ....ir.node import Node, replace
from ....ir.scalar import And, BufferLoad, IterVar, Let, Or, is_binary
from ....ir.stmt import NOTHING, AllocBuffer, Block, BlockRealize, BufferStore, Stmt
from ....ir.structural import structural_equal, structural_hash
from ....ir.types import Expr
from ....ir.walk import Rewriter, children, collect, fresh_copy, nodes_in, substitute, used_vars
from ....support.errors import PassError, TypeRuleError
from ...tir.analysis.loop_nests import JOINS, calls_are_pure, is_choice
from .moving import Mover

S = TypeVar("S", bound=Stmt)


@dataclass(slots=True, frozen=True)
class Inverse:
    """The points of a block from the cells it accesses: each accesses one, and together all of them."""

    variables: tuple[Var, ...]
    map: IndexMap

    def at(self, indices: tuple[Expr, ...]) -> dict[Var, Expr]:
        """The variables of the block at a cell."""
        return dict(zip(self.variables, self.map.map_indices(indices)))


def variables_in(indices: tuple[Expr, ...]) -> set[Var]:
    """The variables of some indices."""
    return {var for index in indices for var in used_vars(index)}


def inverse_of(block: Block, indices: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Inverse | None:
    """The inverse of accesses ``indices`` to a buffer of a shape; None where there is none."""
    used = variables_in(indices)
    axes = [axis for axis in block.iter_vars if axis.var in used]
    sizes = [axis.domain.extent for axis in axes]
    forward = IndexMap(tuple([axis.var for axis in axes]), indices)
    if not all([is_int(axis.domain.min, 0) for axis in axes]):
        return None
    try:
        whole = forward.map_shape(sizes)
        ana = Analyzer()
        if all([ana.can_prove_equal(a, b) for a, b in zip(whole, shape)]):
            return Inverse(forward.initial_indices, forward.inverse(sizes))
    except TypeRuleError:
        pass
    return None


def runs_everywhere(realize: BlockRealize) -> bool:
    """True if the condition of a block leaves out only iterations that have no point in its domain."""
    if is_int(realize.predicate, 1):
        return True
    ana = Analyzer()
    for axis, value in realize.bindings:
        ana.assume(ge(value, axis.domain.min))
        ana.assume(lt(value, add(axis.domain.min, axis.domain.extent)))
    return ana.can_prove(realize.predicate)


@dataclass(slots=True, frozen=True)
class Definition:
    """``buffer[indices] = value`` for all points: indices are variables of the block or constants, or those of ``inverse``, which
    gives the variables at a cell."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    inverse: Inverse | None = None

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """The value at a point. Variables that the value binds are new."""
        if self.inverse is None:
            mapping = {formal: given for formal, given in zip(self.indices, indices) if type(formal) is Var}
        else:
            mapping = self.inverse.at(indices)
        if collect(self.value, Let):
            return fresh_copy(self.value, mapping)
        return substitute(self.value, mapping)


def definition(realize: BlockRealize) -> Definition | str:
    """The definition that a block computes, or why it cannot be inlined."""
    block = realize.block
    store = block.body
    if type(store) is not BufferStore or store.predicate is not None:
        return f"block {block.name} is more than one store"
    if block.init is not None or any([iterator.kind != "S" for iterator in block.iter_vars]):
        return f"block {block.name} is a reduction"
    if block.alloc_buffers or block.match_buffers or block.annotations.get("script_parsing_detect_access"):
        return f"block {block.name} holds buffers of its own"
    if not runs_everywhere(realize):
        return f"block {block.name} runs under a condition"
    if not calls_are_pure(store.value):
        return f"block {block.name} has effects"
    inverse = None
    if not covers(store.indices, store.buffer.shape, block):
        inverse = inverse_of(block, store.indices, store.buffer.shape)
        if inverse is None:
            return f"block {block.name} does not write one element for each of its points"
    others = {axis.var: axis.domain for axis in block.iter_vars if axis.var not in variables_in(store.indices)}
    value = substitute(store.value, {var: domain.min for var, domain in others.items() if is_int(domain.extent, 1)})
    if any([v in others for v in used_vars(value)]):
        return f"block {block.name} writes one element several times"
    if any([load.buffer.data is store.buffer.data for load in collect(store.value, BufferLoad)]):
        return f"block {block.name} reads what it writes"
    return Definition(store.buffer, store.indices, value, inverse)


def covers(indices: tuple[Expr, ...], shape: tuple[Expr, ...], block: Block) -> bool:
    """True if the indices are variables of a block, each once, apart from zeros along axes of one element."""
    variables = {iterator.var for iterator in block.iter_vars}
    used = [i for i in indices if type(i) is Var and i in variables]
    rest = [(i, n) for i, n in zip(indices, shape) if not (type(i) is Var and i in variables)]
    return len(set(used)) == len(used) and all([is_int(i, 0) and is_int(n, 1) for i, n in rest])


def statements_of_kind(root: Node, kind: type[S]) -> list[S]:
    """All statements of a kind, in the order of the text (outer before inner)."""
    found: list[S] = []
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if type(node) is kind:
            found.append(node)
        if isinstance(node, Stmt):
            stack.extend([c for c in reversed(children(node)) if isinstance(c, Stmt)])
    return found


def realizes(root: Node) -> list[BlockRealize]:
    """All realisations of blocks, in the order of the text (outer before inner)."""
    return statements_of_kind(root, BlockRealize)


def defined_in(body: Stmt, block: Block) -> tuple[BlockRealize, Definition]:
    """The realisation of a block, and the definition that it computes. Raises PassError E552 where it cannot be inlined."""
    realize = next((r for r in realizes(body) if r.block is block), None)
    found = f"there is no block {block.name}" if realize is None else definition(realize)
    if realize is None or isinstance(found, str):
        raise PassError("E552", f"cannot inline: {found}", block.span)
    return realize, found


def _problem(body: Stmt, block: Block, found: Definition) -> str | None:
    """The reason why ``compute_inline`` of a block would be wrong, or None."""
    stores = statements_of_kind(body, BufferStore)
    if found.buffer not in allocations(body):
        return f"{found.buffer.name} is not a buffer of the program's own"
    if sum([s.buffer.data is found.buffer.data for s in stores]) != 1:
        return f"{found.buffer.name} is written elsewhere too"
    nodes = nodes_in(body)
    if found.buffer in opaque_in(nodes) or has_aliases(nodes, found.buffer):
        return f"{found.buffer.name} is reached through a pointer or a view"
    if any([type(x) is BufferLoad and x.buffer is found.buffer and is_vector_load(x) for x in nodes]):
        return f"{found.buffer.name} is read under a mask or in several lanes"
    reads = {load.buffer.data for load in collect(found.value, BufferLoad)}
    later = stores[[s is block.body for s in stores].index(True) + 1 :]
    for store in later:
        if store.buffer.data in reads:
            return f"{store.buffer.name}, which block {block.name} reads, is written again afterwards"
    return None


def is_vector_load(load: BufferLoad) -> bool:
    """True for a load of several elements or under a mask: the value of one element does not stand for it."""
    return load.predicate is not None or load.ty.dtype.lanes != load.buffer.dtype.lanes


def has_aliases(nodes: Sequence[Node], buffer: Buffer) -> bool:
    """True if another buffer among the nodes of a body lies in the memory of one, or a view of it."""
    return any([type(n) is Buffer and n.data is buffer.data and n is not buffer for n in nodes]) or any(
        [match.source.buffer is buffer for b in nodes if type(b) is Block for match in b.match_buffers]
    )


def allocations(body: Stmt) -> set[Buffer]:
    """The buffers that a body allocates."""
    inside = [buffer for block in statements_of_kind(body, Block) for buffer in block.alloc_buffers]
    return {*inside, *[stmt.buffer for stmt in statements_of_kind(body, AllocBuffer)]}


def compute_inline(body: Stmt, block: Block) -> Stmt:
    """The body without ``block``: whoever read its buffer computes the value. Raises PassError E552 where it cannot be."""
    realize, found = defined_in(body, block)
    problem = _problem(body, block, found)
    if problem is not None:
        raise PassError("E552", f"cannot inline: {problem}", block.span)
    return inline_definition(body, realize, found)


def inline_definition(body: Stmt, realize: BlockRealize, found: Definition) -> Stmt:
    """``compute_inline`` without its checks, for callers that know."""
    return inline_reads(remove_block(body, realize, found.buffer), found)


def inline_reads(stmt: Stmt, found: Definition) -> Stmt:
    """A statement with every read of a defined buffer replaced by its value."""
    made: Stmt = _Inliner(found)(stmt)
    return made


def remove_block(body: Stmt, realize: BlockRealize, buffer: Buffer) -> Stmt:
    """The body without a block, without the loops around it alone, and without the allocation of ``buffer``."""
    made: Stmt = Mover({id(realize): NOTHING}, dropped=buffer)(body)
    return made


def with_regions(block: Block) -> Block:
    """The block with declared regions that are those of its body."""
    bare = replace(block, reads=None, writes=None)
    reads, writes = block_regions(bare, derive=True)
    return replace(bare, reads=reads, writes=writes)


def block_of_store(name: str, axes: Sequence[IterVar], store: BufferStore) -> Block:
    """A block of one store, with declared regions."""
    return with_regions(Block(tuple(axes), None, None, (), (), {}, name, store))


class _Inliner(Rewriter):
    """Replaces loads of a defined buffer in every statement; blocks get their declared regions anew."""

    def __init__(self, found: Definition) -> None:
        super().__init__({BufferLoad: self.load})
        self.definition = found

    def load(self, node: BufferLoad) -> Expr:
        return self.definition.at(node.indices) if node.buffer is self.definition.buffer else node

    def enter(self, node: Any) -> Any | None:
        if type(node) is BufferStore:
            value = inline_value(node.value, self.definition)
            indices = tuple([self.visit(i) for i in node.indices])
            predicate = node.predicate if node.predicate is None else self.visit(node.predicate)
            return replace(node, value=value, indices=indices, predicate=predicate)
        return None

    def leave(self, node: Any) -> Any:
        if type(node) is Block and (node.reads is not None or node.writes is not None):
            declared = (*(node.reads or ()), *(node.writes or ()))
            if any([region.buffer is self.definition.buffer for region in declared]):
                return with_regions(node)
        return super().leave(node)


class _LoadVars:
    """A variable for each place (index tuple) at which a buffer is read, and how often it is."""

    def __init__(self, outer: _LoadVars | None = None) -> None:
        self.outer = outer
        self.by_hash: dict[int, list[tuple[tuple[Expr, ...], Var]]] = {}
        self.variables: dict[Var, tuple[Expr, ...]] = {}
        self.counts: dict[Var, int] = {}

    def find(self, indices: tuple[Expr, ...], key: int) -> Var | None:
        for known, var in self.by_hash.get(key, ()):
            if structural_equal(known, indices):
                return var
        return None

    def use(self, load: BufferLoad, add: bool) -> Var | None:
        """The variable of a load's place: one known around it, else (with ``add``) one of this region."""
        key = structural_hash(load.indices)
        owner: _LoadVars | None = self
        while owner is not None:
            var = owner.find(load.indices, key)
            if var is not None:
                owner.counts[var] += 1
                return var
            owner = owner.outer
        if not add:
            return None
        var = Var(f"{load.buffer.name}_value", load.ty)
        self.by_hash.setdefault(key, []).append((load.indices, var))
        self.variables[var] = load.indices
        self.counts[var] = 1
        return var


class _Region(Rewriter):
    """Puts variables for loads in what is always evaluated; lazy parts are regions inside, finished on the way."""

    def __init__(self, found: Definition, outer: _LoadVars | None) -> None:
        super().__init__({BufferLoad: self.load})
        self.definition = found
        self.variables = _LoadVars(outer)
        self.bound: set[Var] = set()
        self.lazy: list[tuple[Var, Expr]] = []
        """Stand-ins of lazy parts: finished once all places of this region are known."""

    def load(self, node: BufferLoad) -> Expr:
        if node.buffer is not self.definition.buffer:
            return node
        if self.bound and any([v in self.bound for i in node.indices for v in used_vars(i)]):
            return self.definition.at(node.indices)
        var = self.variables.use(node, True)
        assert var is not None
        return var

    def enter(self, node: Any) -> Any | None:
        if type(node) is Let:
            value = self.visit(node.value)
            self.bound.add(node.var)
            return replace(node, value=value, body=self.visit(node.body))
        if is_choice(node):
            return replace(node, args=(self.visit(node.args[0]), self.later(node.args[1]), self.later(node.args[2])))
        if isinstance(node, (And, Or)):
            return replace(node, a=self.visit(node.a), b=self.later(node.b))
        return None

    def later(self, part: Expr) -> Expr:
        if not any([load.buffer is self.definition.buffer for load in collect(part, BufferLoad)]):
            return part
        stand_in = Var("lazy", part.ty)
        self.lazy.append((stand_in, part))
        return stand_in


def inline_value(expr: Expr, found: Definition, outer: _LoadVars | None = None) -> Expr:
    """An expression with every load of the defined buffer replaced by its value; one read twice is bound by a ``T.Let``."""
    if not any([load.buffer is found.buffer for load in collect(expr, BufferLoad)]):
        return expr
    region = _Region(found, outer)
    made: Expr = region(expr)
    if region.lazy:
        made = substitute(made, {v: inline_value(part, found, region.variables) for v, part in region.lazy})
    once: dict[Var, Expr] = {}
    for var, indices in reversed(region.variables.variables.items()):
        value = found.at(indices)
        if region.variables.counts[var] == 1 or is_trivial(value):
            once[var] = value
        else:
            made = _bound(var, value, made)
    return _resolve(made, once)


def _bound(var: Var, value: Expr, expr: Expr) -> Expr:
    """The expression with a variable bound; what joins a value to a cell keeps that form, with the binding inside."""
    if is_binary(expr) and type(expr) in JOINS:
        a, b = expr.a, expr.b
        if var not in used_vars(a):
            return replace(expr, b=Let(var, value, b))
        if var not in used_vars(b):
            return replace(expr, a=Let(var, value, a))
    return Let(var, value, expr)


def _resolve(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Replace variables whose values may use other ones of them."""
    while values and any([v in values for v in used_vars(expr)]):
        expr = substitute(expr, values)
    return expr


def is_trivial(value: Expr) -> bool:
    """True for what costs nothing to compute again: constants, variables, plain loads."""
    if type(value) is BufferLoad:
        return all([isinstance(i, (IntImm, Var)) for i in value.indices])
    return not collect(value, (BufferLoad, Call)) and not children(value)
