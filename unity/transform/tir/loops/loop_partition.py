"""loop_partition: an innermost loop is split where its conditions change, so that its main part has none.

Conditions that compare the loop variable with what the loop does not change (borders of a padded image, the first step of a
reduction) hold in one range of iterations. The iterations before it, in it and behind it become loops of their own; in the middle
one the conditions are gone. Loops around other loops are split where they ask for it (annotation ``pragma_loop_partition_hint``).

Nests that copy - one store of a value that a chain of choices decides, as joined tensors have - are split at every choice, around
inner loops too, so that each piece is a plain loop; inside a parallel loop the choices become ``if`` statements.

Rewrite: ``for i in range(n): if i >= 2: s`` -> ``for i in range(2): if i >= 2: s; for i in range(n - 2): s[i + 2]``
(`simplify` removes what is decided by then).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.build import (
    add,
    ceildiv,
    conjuncts,
    const,
    dtype_of,
    floordiv,
    int_imm,
    int_value,
    is_int,
    maximum,
    minimum,
    sub,
)
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import Node, replace
from ....ir.scalar import EQ, BufferLoad, Let, Select
from ....ir.stmt import Bind, BufferStore, For, IfThenElse, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, collect, fresh_copy, rewrite, substitute, used_vars
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import is_choice, slope
from ..blocks.lower_opaque_block import leaves_loop
from .hoist_if_then_else import is_plain
from .unroll_loop import statement_count
from .version_predicates import Assume, difference_of, has_choices

HINT = "pragma_loop_partition_hint"
DONE = "partitioned"
"""Annotation of the loops before and behind the main part."""


@dataclass(slots=True)
class _Range:
    """Iterations in which an atom has a value; None is the end of the loop."""

    atom: Expr
    value: bool
    low: Expr | None = None
    high: Expr | None = None


def _range(atom: Expr, var: Var) -> _Range | None:
    one = const(1, dtype_of(var))
    if type(atom) is EQ and atom.a is var and is_int(atom.b, 0):
        return _Range(atom, False, low=one)
    found = difference_of(atom)
    if found is None:
        return None
    difference, strict = found
    step = slope(difference, var)
    if step is None or step == 0 or dtype_of(difference) is not dtype_of(var):
        return None
    rest = substitute(difference, {var: const(0, dtype_of(var))})
    rest = sub(rest, one) if strict else rest  # the atom says step * var + rest >= 0
    if step > 0:
        return _Range(atom, True, low=ceildiv(sub(const(0, dtype_of(var)), rest), step))
    return _Range(atom, True, high=add(floordiv(rest, -step), one))


def _ranges(loop: For, inner: set[Var]) -> list[_Range]:
    found: list[_Range] = []
    seen: set[Node] = set()
    for node in collect(loop.body, (IfThenElse, Call, Select)):
        if type(node) is Call and not is_choice(node):
            continue
        for atom in conjuncts(node.args[0] if type(node) is Call else node.cond):
            used = used_vars(atom)
            if atom in seen or loop.loop_var not in used or not is_plain(atom) or any([v in inner for v in used]):
                continue
            seen.add(atom)
            made = _range(atom, loop.loop_var)
            if made is not None:
                found.append(made)
    return found


def _part(loop: For, first: Expr, last: Expr, body: Stmt, main: bool) -> Stmt:
    """Iterations from ``first`` up to ``last``."""
    start = is_int(first, 0)
    extent = last if start else Analyzer().simplify(sub(last, first))
    if type(extent) is IntImm and extent.value <= 0:
        return seq()
    shifted = body if start else substitute(body, {loop.loop_var: add(loop.loop_var, first)})
    noted = loop.without_notes(HINT) if main else replace(loop, annotations={DONE: 1})
    return fresh_copy(replace(noted, extent=extent, body=shifted))


def _loop(loop: For, max_statements: int, least: int) -> Stmt:
    inner = collect(loop.body, For)
    small = int_value(loop.extent, least) < least
    if loop.note(DONE) or loop.kind != "serial" or not loop.counts_up or leaves_loop(loop.body):
        return loop
    if not loop.note(HINT) and (inner or small or statement_count(loop.body) > max_statements):
        return loop
    bound = {part.loop_var for part in inner} | {part.var for part in collect(loop.body, (Bind, Let))}
    ranges = _ranges(loop, bound)
    if not ranges:
        return loop
    ty = prim_type(dtype_of(loop.loop_var))
    zero: Expr = int_imm(0, ty)
    low, high = zero, loop.extent
    for found in ranges:
        low = maximum(low, found.low) if found.low is not None else low
        high = minimum(high, found.high) if found.high is not None else high
    ana = Analyzer()
    low = ana.simplify(minimum(low, loop.extent)) if low is not zero else zero
    high = ana.simplify(maximum(high, low))
    middle = Assume({r.atom: r.value for r in ranges})(loop.body)
    # one condition does not hold where its range does not reach
    border = Assume({r.atom: not r.value for r in ranges})(loop.body) if len(ranges) == 1 else loop.body
    parts = [
        _part(loop, zero, low, border, False),
        _part(loop, low, high, middle, True),
        _part(loop, high, loop.extent, border, False),
    ]
    return seq(*parts)


def _copied(body: Stmt) -> BufferStore | None:
    """The one store of a nest of loops, when its value reads other buffers only."""
    while type(body) is For:
        body = body.body
    if type(body) is not BufferStore or body.predicate is not None:
        return None
    return None if any([load.buffer is body.buffer for load in collect(body.value, BufferLoad)]) else body


def _first_choice(value: Expr) -> tuple[Expr, int]:
    """Condition of the outermost choice in a value, and how many choices there are; 0 without one."""
    choices = [node for node in collect(value, Call) if is_choice(node)]  # children come first
    return (choices[-1].args[0], len(choices)) if choices else (value, 0)


def _outside(cond: Expr, value: Expr) -> Expr | None:
    """A condition of ``value`` as it reads around it: variables that are bound inside stand for what they are bound to."""
    ana = Analyzer()
    known: dict[Any, Expr] = {}
    for let in reversed(collect(value, Let)):  # from the outermost on
        if is_plain(let.value):
            known[let.var] = ana.simplify(substitute(let.value, known))
    made: Expr = substitute(cond, known)
    bound = {let.var for let in collect(value, Let)}
    return None if any([v in bound for v in used_vars(made)]) else made


class _Copies(StatementRewriter):
    """Cuts nests that copy."""

    def __init__(self, max_parts: int) -> None:
        super().__init__()
        self.max_parts = max_parts

    def enter(self, node: Any) -> Any | None:
        if type(node) is not For:
            return None
        made = self.split(node, self.max_parts)
        return None if made is node else made

    def split(self, loop: Stmt, budget: int) -> Stmt:
        """A nest in at most ``budget`` parts."""
        store = _copied(loop)
        if type(loop) is not For or store is None:
            return loop
        chosen, choices = _first_choice(store.value)
        cond = _outside(chosen, store.value) if choices and budget >= 2 else None
        if cond is None or len(conjuncts(cond)) != 1 or not is_plain(cond):
            return loop
        if loop.loop_var not in used_vars(cond):
            return replace(loop, body=self.split(loop.body, budget))
        inner = {part.loop_var for part in collect(loop.body, For)}
        found = None if any([v in inner for v in used_vars(cond)]) else _range(cond, loop.loop_var)
        if found is None or not loop.counts_up or loop.kind not in ("serial", "parallel"):
            return loop
        first = (found.high is not None) == found.value  # the condition's value in the iterations before the border
        bodies = [Assume({chosen: value})(loop.body) for value in (first, not first)]
        rest = max(1, budget * (1 + _first_choice(_value(bodies[0]))[1]) // (1 + choices))
        if loop.kind == "parallel":
            before, behind = [
                self.split_inside(loop, body, share) for body, share in zip(bodies, (rest, budget - rest))
            ]
            cases = (before, behind) if first else (behind, before)
            return replace(loop, body=IfThenElse(cond, *cases))
        ana = Analyzer()
        border = found.low if found.low is not None else found.high
        assert border is not None
        border = ana.simplify(minimum(maximum(border, int_imm(0, prim_type(dtype_of(loop.loop_var)))), loop.extent))
        zero: Expr = int_imm(0, prim_type(dtype_of(loop.loop_var)))
        parts = [_part(loop, zero, border, bodies[0], True), _part(loop, border, loop.extent, bodies[1], True)]
        return seq(*[self.split(part, share) for part, share in zip(parts, (rest, budget - rest))])

    def split_inside(self, loop: For, body: Stmt, budget: int) -> Stmt:
        """The body of a parallel loop in one branch: its own choices become branches in turn."""
        made = self.split(replace(loop, body=body), budget)
        return fresh_copy(made.body if type(made) is For else body)


def _value(nest: Stmt) -> Expr:
    store = _copied(nest)
    assert store is not None
    return store.value


@prim_func_pass()
def loop_partition(func: PrimFunc, *, max_statements: int = 32, least: int = 8, max_parts: int = 64) -> PrimFunc:
    """Cut innermost loops where their conditions change.

    For programs without blocks; ``simplify`` removes the decided conditions.
    ``max_statements`` of a body that is written three times; ``least``: loops of fewer iterations stay whole; ``max_parts`` of
    a nest that copies.
    """
    if not has_choices(func.body):
        return func
    body = _Copies(max_parts)(func.body)
    return replace(func, body=rewrite(body, {For: lambda loop: _loop(loop, max_statements, least)}))
