"""Proofs that an access is inside its buffer: proved, refuted with a counter-example, a condition on the sizes, or not known.

Refuted means: for all sizes for which the access runs at all, some run of it is outside; one such run is shown. A condition is
given where the greatest and the least index follow exactly from the sizes. What depends on data is never refuted. Invariant: a
refutation shows values under which every loop runs, every guard holds and the index is outside, all of them evaluated.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..ir.buffer import Buffer, Range
from ..ir.build import add, const, dtype_of, ge, gt, le, logical_and, logical_not, logical_or, lt
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.function import PrimFunc
from ..ir.scalar import (
    EQ,
    NE,
    OPERATOR_NAMES,
    Cast,
    Not,
    Select,
)  # fmt: skip
from ..ir.types import Expr, PrimType
from ..ir.walk import children, free_vars, substitute
from .analyzer import Analyzer
from .canonical import is_index
from .evaluate import BITS, evaluate
from .poly import Atom, Mono, Poly, constant, plus, scaled, times

LONG = 100
"""Nodes of an index, with all that it is made of, from which nothing is proved: the time per access is bounded."""
GUARDS = 32
"""Guards that are looked at, the innermost."""
TRIES = 512
"""Runs that are tried in search of one that is outside."""
UNDECIDED = "nothing shows an index outside, nothing rules it out"
SIZES = (1, 2, 3, 4, 5, 8, 16, 17, 33, 64, 128)
_ARITHMETIC = frozenset((*OPERATOR_NAMES, Not, Select, Cast))
_PLAIN_CALLS = frozenset(("T.likely", "T.if_then_else", *BITS))


@dataclass(slots=True, frozen=True)
class Loop:
    """``var`` in ``[low, low + extent)`` in steps."""

    var: Var
    low: Expr
    extent: Expr
    step: Expr | None = None


@dataclass(slots=True)
class Scope:
    """The facts at a place: loops and guards around it, values and ranges of variables, and whether the place is reached for a
    reason that is not understood (behind a jump, in a while loop, under a mask)."""

    loops: list[Loop] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    values: dict[Var, Expr] = field(default_factory=dict)
    ranges: dict[Var, Loop] = field(default_factory=dict)
    uncertain: bool = False


@dataclass(slots=True, frozen=True)
class Access:
    """One axis of an access: ``[first, past)`` must lie in ``[0, extent)``. ``first`` None: an index nobody understands;
    ``past`` None: one element; ``axis`` None: bytes of ``buffer``, whose memory the access sees through a view."""

    node: Any
    buffer: Buffer
    axis: int | None
    first: Expr | None
    past: Expr | None
    extent: Expr
    verb: str

    @property
    def end(self) -> Expr:
        """The first index that is not touched."""
        assert self.first is not None
        return add(self.first, 1) if self.past is None else self.past


@dataclass(slots=True, frozen=True)
class AccessVerdict:
    """An access that is not proved to be inside. ``example`` holds the values of a run that is outside, with the index;
    ``condition`` what the sizes must fulfil; ``why`` says why neither is known."""

    access: Access
    example: tuple[dict[Var, int], int] | None = None
    condition: Expr | None = None
    why: str = ""


class _TooLong(Exception):
    """An index of more than ``LONG`` nodes."""


class Judge:
    """Judges the accesses of one program."""

    def __init__(self, fn: PrimFunc) -> None:
        shapes = [extent for buffer in fn.buffer_map.values() for extent in buffer.shape]
        self.sizes: dict[Var, None] = {e: None for e in shapes if isinstance(e, Var) and is_index(e)}
        self.symbols = dict(self.sizes)
        for param in fn.params:
            if param not in fn.buffer_map and is_index(param):
                self.symbols[param] = None
        self.facts = [
            ge(e, 0) for e in shapes if type(e) is not IntImm and not isinstance(e, Var) and self.is_formula(e)
        ]

    def is_formula(self, expr: Expr) -> bool:
        """True if it has symbols only."""
        return all([v in self.symbols for v in free_vars(expr)])

    def __call__(self, access: Access, scope: Scope) -> AccessVerdict | None:
        """The verdict; None where the access is proved to be inside."""
        if access.first is None:
            return AccessVerdict(access, why="a vector of indices that is not understood")
        if _trivially_inside(access, scope):
            return None
        try:
            return _Question(self, access, scope).answer()
        except _TooLong:
            return AccessVerdict(access, why="the index is too long")


def _trivially_inside(access: Access, scope: Scope) -> bool:
    """The common case without arithmetic: a number, or a loop over the axis."""
    index = access.first
    if access.past is not None:
        return False
    while isinstance(index, Var) and index in scope.values:
        index = scope.values[index]
    extent = access.extent
    if type(index) is IntImm:
        return type(extent) is IntImm and 0 <= index.value < extent.value
    loop = scope.ranges.get(index) if isinstance(index, Var) else None
    if loop is None or type(loop.low) is not IntImm or loop.low.value < 0:
        return False
    if loop.extent is extent:
        return loop.low.value == 0
    return type(extent) is IntImm and type(loop.extent) is IntImm and loop.low.value + loop.extent.value <= extent.value


class _Question:
    """One access in its scope, everything said in loop variables and symbols."""

    def __init__(self, judge: Judge, access: Access, scope: Scope) -> None:
        self.judge, self.access, self.scope = judge, access, scope
        assert access.first is not None
        self.first, self.end = self.substituted(access.first), self.substituted(access.end)
        self.extent = self.substituted(access.extent)
        self.around: list[Loop] = []
        self.guards: list[Expr] = []
        self.loops: dict[Var, Loop] = {}
        self.need((self.first, self.end, self.extent))
        self.relevant = self._relevant([self.substituted(guard) for guard in scope.guards[-GUARDS:]])

    def _relevant(self, guards: list[Expr]) -> list[Expr]:
        """The guards that share a variable with the access, directly or through others."""
        found: list[Expr] = []
        seen = {*self.loops, *self.symbols_of(self.first, self.end, self.extent)}
        for _ in range(3):
            for guard in guards:
                if guard not in found and any([v in seen for v in free_vars(guard)]):
                    found.append(guard)
                    seen.update(free_vars(guard))
        self.need(found)
        return found

    def substituted(self, expr: Expr) -> Expr:
        """The expression with bound variables replaced by their values."""
        return self._substitute(expr, [LONG])

    def _substitute(self, expr: Expr, left: list[int]) -> Expr:
        left[0] -= _size(expr, left[0])
        if left[0] < 0:
            raise _TooLong
        values = self.scope.values
        bound = [v for v in free_vars(expr) if v in values]
        return substitute(expr, {v: self._substitute(values[v], left) for v in bound}) if bound else expr

    def need(self, exprs: Iterable[Expr]) -> None:
        """Record the loops that expressions depend on, outer ones first."""
        for expr in exprs:
            for var in free_vars(expr):
                loop = self.scope.ranges.get(var)
                if loop is not None and var not in self.loops:
                    substituted = self.substituted_loop(loop)
                    self.need((substituted.low, substituted.extent))
                    self.loops[var] = substituted

    def substituted_loop(self, loop: Loop) -> Loop:
        step = None if loop.step is None else self.substituted(loop.step)
        return Loop(loop.var, self.substituted(loop.low), self.substituted(loop.extent), step)

    def symbols_of(self, *exprs: Expr) -> list[Var]:
        return [v for e in exprs for v in free_vars(e) if v in self.judge.symbols]

    # ---- proofs

    def analyzer(self, guards: Iterable[Expr], loops: bool) -> Analyzer:
        """An analyzer that knows the facts about the symbols, and about the loop variables if asked for."""
        ana = Analyzer(self.judge.sizes)
        for fact in self.judge.facts:
            ana.assume(fact)
        if loops:
            for loop in self.loops.values():
                ana.bind(loop.var, Range(loop.low, loop.extent))
        for guard in guards:
            ana.assume(guard)
            unequal: Any = guard.a if type(guard) is Not and type(guard.a) is EQ else guard
            if type(unequal) is (NE if unequal is guard else EQ) and is_index(unequal.a):
                for beyond, end in ((gt, ge), (lt, le)):  # what is not an end of an interval lies beyond it
                    if ana.can_prove(end(unequal.a, unequal.b)):
                        ana.assume(beyond(unequal.a, unequal.b))
        return ana

    def answer(self) -> AccessVerdict | None:
        ana = self.analyzer(self.relevant, True)
        if not is_index(self.first):
            return self._narrow(ana)
        below = ge(self.first, 0)
        above = le(self.end, self.extent)
        low, high = ana.can_prove(below), ana.can_prove(above)
        if low and high:
            return None
        why = self.obstacle()
        if why:
            return AccessVerdict(self.access, why=why)
        never = ana.can_prove(logical_not(below)) or ana.can_prove(logical_not(above))
        if never or not self.symbols_of(self.first, self.end, self.extent, *self.relevant, *self.ends()):
            return self._shown()
        return self._by_sizes(ana, low, high)

    def _narrow(self, ana: Analyzer) -> AccessVerdict | None:
        """An index of a type that wraps: only its interval counts."""
        bound = ana.const_int_bound(self.first) if dtype_of(self.first).is_integral else None
        if bound is not None and type(self.extent) is IntImm and bound.low >= 0 and bound.high < self.extent.value:
            return None
        why = self.obstacle()
        if why:
            return AccessVerdict(self.access, why=why)
        if not self.symbols_of(self.first, self.end, self.extent, *self.relevant, *self.ends()):
            return self._shown()
        return AccessVerdict(self.access, why=f"an index of type {dtype_of(self.first).name}")

    def ends(self) -> list[Expr]:
        """The bounds of the loops that the access depends on."""
        return [e for loop in self.loops.values() for e in (loop.low, loop.extent)]

    def obstacle(self) -> str:
        """The reason why the runs of the access cannot be enumerated; nothing if they can."""
        if self.scope.uncertain or len(self.scope.guards) > GUARDS:
            return "whether it is reached is known only when the program runs"
        self.around = [self.substituted_loop(loop) for loop in self.scope.loops]
        self.guards = [self.substituted(guard) for guard in self.scope.guards]
        known = {*self.judge.symbols, *[loop.var for loop in self.around]}
        steps = [loop.step for loop in self.around if loop.step is not None]
        around = [e for loop in self.around for e in (loop.low, loop.extent)]
        for expr in (self.first, self.end, self.extent, *around, *steps, *self.guards):
            if not _is_plain(expr):
                return "it depends on data"
            if any([v not in known for v in free_vars(expr)]):
                return "it depends on a value that is known only when the program runs"
        return ""

    # ---- an example

    def _shown(self) -> AccessVerdict:
        """Refuted if a run outside is found."""
        for values in itertools.islice(self._runs(), 4 * TRIES):
            found = self._outside(values)
            if found is not None:
                return AccessVerdict(self.access, (self._named(values), found))
        return AccessVerdict(self.access, why=UNDECIDED)

    def _named(self, values: dict[Var, int]) -> dict[Var, int]:
        """The values that matter: symbols first, then loops."""
        used = {*self.loops, *self.symbols_of(self.first, self.end, self.extent, *self.guards, *self.ends())}
        return {v: values[v] for v in (*self.judge.symbols, *[k.var for k in self.around]) if v in used}

    def _outside(self, values: dict[Var, int]) -> int | None:
        """The index of a run where it is outside; None for a run that is inside, or none at all."""
        if not all([evaluate(guard, values) for guard in (*self.judge.facts, *self.guards)]):
            return None
        first, extent = evaluate(self.first, values), evaluate(self.extent, values)
        if first is None or extent is None:
            return None
        end = first + 1 if self.access.past is None else evaluate(self.end, values)
        if end is None:
            return None
        return first if first < 0 else end - 1 if end > extent else None

    def _runs(self) -> Iterator[dict[Var, int]]:
        """Some runs: for some sizes the ends of the loops, then all values as far as they go, then values at random."""
        rng = random.Random(0)
        symbols = list(self.judge.symbols)
        picks: tuple[Callable[[range], Iterable[int]], ...] = (
            lambda r: (r[-1], r[0]), lambda r: r, lambda r: (rng.choice(r),),
        )  # fmt: skip
        for sizes in _assignments(symbols):
            start = dict(zip(symbols, sizes))
            for pick, times_ in zip(picks, (1, 1, TRIES // 4)):
                for _ in range(times_):
                    yield from itertools.islice(self._points(start, 0, pick), TRIES // 2)

    def _points(
        self, values: dict[Var, int], depth: int, pick: Callable[[range], Iterable[int]]
    ) -> Iterator[dict[Var, int]]:
        if depth == len(self.around):
            yield values
            return
        loop = self.around[depth]
        low, extent = evaluate(loop.low, values), evaluate(loop.extent, values)
        step = 1 if loop.step is None else evaluate(loop.step, values)
        if low is None or extent is None or step is None or extent < 1 or step < 1:
            return
        for value in dict.fromkeys(pick(range(low, low + extent, step))):
            yield from self._points({**values, loop.var: value}, depth + 1, pick)

    # ---- a condition on the sizes

    def _by_sizes(self, ana: Analyzer, low: bool, high: bool) -> AccessVerdict | None:
        """Refuted for all sizes, or the condition under which every run is inside."""
        unknown = AccessVerdict(self.access, why=UNDECIDED)
        runs: list[Expr] = list(self.guards)
        stops: list[Expr] = [logical_not(guard) for guard in self.guards]
        for loop in self.around:
            if not self.judge.is_formula(loop.low):
                return unknown
            runs.append(ge(loop.extent, 1))
            stops.append(lt(loop.extent, 1))
        if not all([self.judge.is_formula(run) for run in runs]):
            return unknown
        extremes = _Extremes(ana, {loop.var: loop for loop in self.around})
        least = None if low else extremes.of(ana.poly(self.first), False)
        most = None if high else extremes.of(ana.poly(self.end), True)
        if (least is None and not low) or (most is None and not high):
            return unknown
        table = ana.known.table
        needs: list[Expr] = []
        try:
            if least is not None:
                needs.append(ge(table.expr(least), 0))
            if most is not None:
                needs.append(le(table.expr(most), self.extent))
        except OverflowError:  # a coefficient that 64 bits lack
            return unknown
        where = self.analyzer(runs, False)
        if any([where.can_prove(logical_not(need)) for need in needs]):
            return self._shown()
        condition: Expr = const(True)
        for need in [need for need in needs if not where.can_prove(need)]:
            condition = logical_and(condition, need)
        if type(condition) is IntImm:
            return None  # whenever it runs, it is inside
        for stop in stops:
            if not self.analyzer((stop,), False).can_prove(condition):
                condition = logical_or(stop, condition)
        return AccessVerdict(self.access, condition=condition)


class _Extremes:
    """Greatest and least value of a polynomial while loops run over a box, each variable in one term only: exact."""

    def __init__(self, ana: Analyzer, loops: dict[Var, Loop]) -> None:
        self.ana, self.loops = ana, loops
        self.known, self.canonical = ana.known, ana.canonical
        self.used: set[Var] = set()

    def of(self, p: Poly, greatest: bool) -> Poly | None:
        """The extreme value; None where it is not seen."""
        self.used = set()
        return self.sum(p, greatest)

    def inner(self, atom: Atom) -> set[Var]:
        return {v for v in atom.depends if v in self.loops}

    def sum(self, p: Poly, greatest: bool) -> Poly | None:
        total: Poly = {}
        for mono, coefficient in p.items():
            value = self.term(mono, greatest == (coefficient > 0))
            if value is None:
                return None
            total = plus(total, value, coefficient)
        return total

    def term(self, mono: Mono, greatest: bool) -> Poly | None:
        moving = [n for n in mono if self.inner(self.known.table[n])]
        if not moving:
            return {mono: 1}
        atom = self.known.table[moving[0]]
        rest = list(mono)
        rest.remove(moving[0])
        others: Poly = {tuple(rest): 1}
        variables = self.inner(atom)
        if len(moving) > 1 or self.used & variables or self.known.bound(others).low < 0:
            return None
        value = self.atom(atom, greatest)
        self.used |= variables
        return None if value is None else times(value, others)

    def atom(self, atom: Atom, greatest: bool) -> Poly | None:
        if atom.kind == "var" and isinstance(atom.expr, Var):
            return self.end(self.loops[atom.expr], greatest)
        if atom.a is None or atom.b is None:
            return None
        if atom.kind == "floordiv" and atom.divisor:
            a = self.sum(atom.a, greatest)
            return None if a is None else self.canonical.floordiv(a, atom.b)
        if atom.kind in ("min", "max") and not self.inner_of(atom.a) & self.inner_of(atom.b):
            a, b = self.sum(atom.a, greatest), self.sum(atom.b, greatest)
            return None if a is None or b is None else self.canonical.extremum(atom.kind, a, b)
        return None

    def inner_of(self, p: Poly) -> set[Var]:
        return {v for mono in p for n in mono for v in self.inner(self.known.table[n])}

    def end(self, loop: Loop, greatest: bool) -> Poly | None:
        low, extent = self.ana.poly(loop.low), self.ana.poly(loop.extent)
        if not greatest:
            return low
        if loop.step is None:
            return plus(plus(low, extent), constant(-1))
        if type(loop.step) is not IntImm or loop.step.value < 1:
            return None
        steps = self.canonical.floordiv(plus(extent, constant(-1)), constant(loop.step.value))
        return plus(low, scaled(steps, loop.step.value))


def _size(expr: Any, most: int) -> int:
    """Nodes of an expression, counted up to a number."""
    count, stack = 0, [expr]
    while stack and count <= most:
        node = stack.pop()
        count += 1
        stack.extend([c for c in children(node) if isinstance(c, Expr)])
    return count


def _is_plain(expr: Expr) -> bool:
    """Integer arithmetic whose values ``evaluate`` gives exactly."""
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        dtype = node.ty.dtype if type(node.ty) is PrimType else None
        if dtype is None or dtype.lanes != 1 or not (dtype.is_bool or dtype.is_integral):
            return False
        if type(node) is IntImm or isinstance(node, Var):
            continue
        plain_call = type(node) is Call and node.op_name in _PLAIN_CALLS
        if not (type(node) in _ARITHMETIC or plain_call):
            return False
        stack.extend([c for c in children(node) if isinstance(c, Expr) and not isinstance(c, Op)])
    return True


def _assignments(symbols: list[Var]) -> Iterator[tuple[int, ...]]:
    """Values of symbols: all equal, then small ones mixed."""
    if not symbols:
        yield ()
        return
    for size in SIZES:
        yield (size,) * len(symbols)
    yield from itertools.islice(itertools.product(SIZES[:6], repeat=len(symbols)), TRIES)
