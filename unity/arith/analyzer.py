"""Analyzer: the one place to ask about index and shape arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..ir.buffer import Range
from ..ir.build import const, dtype_of, eq, ge, logical_not, sub
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.relation import Answer
from ..ir.scalar import EQ, GE, GT, LE, LT, NE, And, FloorMod, IterVar, Not, Or
from ..ir.types import Expr
from ..ir.walk import free_vars
from ..support.arguments import guarded_class
from ..support.errors import TypeRuleError
from ..support.recursion import deep_recursion
from .bounds import Knowledge
from .canonical import Canonical, is_index
from .interval import EVERYTHING, Interval
from .modular import ModularSet
from .poly import ONE, Poly, constant, constant_value, plus
from .prove import Proof, Verdict, nonnegative
from .refute import find_counterexample
from .simplify import Simplifier


def _expr(value: Expr | int) -> Expr:
    """A question's operand. Raises TypeRuleError E201 for what is neither an expression nor a number."""
    return value if isinstance(value, Expr) else const(value)


def _order(condition: Expr) -> tuple[Expr, Expr, int] | None:
    """(a, b, gap) of a comparison of indices, which says ``a >= b + gap``; None for another condition."""
    match condition:
        case LT(a, b) | GT(b, a) if is_index(a):
            return b, a, 1
        case LE(a, b) | GE(b, a) if is_index(a):
            return b, a, 0
        case Not(inner) if (found := _order(inner)) is not None:
            return found[1], found[0], 1 - found[2]
    return None


@guarded_class
class Analyzer:
    """Bindings and constraints in force, and questions about expressions under them.

    >>> ana = Analyzer()
    >>> ana.bind(i, Range(int_imm(0), int_imm(16)))
    >>> ana.simplify(floordiv(add(mul(j, 16), i), 16))     # j
    >>> ana.can_prove(lt(i, 16))                           # True
    """

    def __init__(self, sizes: Iterable[Var] = ()) -> None:
        self.known = Knowledge()
        self._simplifier = Simplifier(self.known, self._decide)
        self.canonical: Canonical = self._simplifier.canonical
        self._premises: list[Expr] = []
        for size in sizes:
            self.bind_size(size)

    # ---- knowledge

    def bind(self, var: Var, value: Range | Expr | int) -> None:
        """Assume that ``var`` lies in the range ``value``, or equals that expression. Raises TypeRuleError E201 for no variable."""
        if not isinstance(var, Var):
            raise TypeRuleError("E201", f"a variable is bound, not {var!r}")
        known = len(self.known.table.atoms)
        number = self.known.table.variable(var)
        if isinstance(value, Range):
            value = Range(_expr(value.min), _expr(value.extent))
        if isinstance(value, Range) and type(value.min) is IntImm and type(value.extent) is IntImm:
            self.known.domain[number] = Interval(value.min.value, value.min.value + value.extent.value - 1)
            if number == known and value.extent.value > 0:  # nothing that was derived can be about a new variable
                return
        elif isinstance(value, Range):
            low, extent = self.poly(value.min), self.poly(value.extent)
            high = plus(plus(low, extent), constant(-1))
            interval = Interval(self.known.bound(low).low, self.known.bound(high).high)
            self.known.domain[number] = interval
            self.known.ends.pop(number, None)
            if number == known:
                self.known.ends[number] = low, high
            self._has_values(extent)
            me: Poly = {(number,): 1}
            if constant_value(low) is None:
                self.known.nonnegative.append(plus(me, low, -1))
            if constant_value(high) is None:
                self.known.nonnegative.append(plus(high, me, -1))
        else:
            self._be(number, self.poly(_expr(value)))
        self.known.changed()

    def _has_values(self, extent: Poly) -> None:
        """Learn that a product of sizes is not zero: none of them is."""
        if len(extent) == 1:
            ((mono, factor),) = extent.items()
            if factor > 0 and all([self.known.atom_bound(number).low >= 0 for number in mono]):
                for number in mono:
                    self.known.domain[number] = self.known.domain.get(number, EVERYTHING).intersect(Interval(1))

    def bind_iterators(self, iterators: Iterable[IterVar]) -> None:
        """Assume that the variables of the iterators of a block lie in their domains."""
        for iterator in iterators:
            self.bind(iterator.var, iterator.domain)

    def bind_range(self, var: Var, low: int, high: int) -> None:
        """Say that ``low <= var <= high``."""
        self.known.domain[self.known.table.variable(var)] = Interval(low, high)
        self.known.changed()

    def bind_size(self, var: Var, at_least: int = 0) -> None:
        """Say that ``var`` is a size (a dimension): ``var >= at_least``."""
        self.known.domain[self.known.table.variable(var)] = Interval(at_least)
        self.known.changed()

    def assume(self, condition: Expr) -> None:
        """Take a condition as true from now on."""
        condition = _expr(condition)
        self._premises.append(condition)
        self._learn(condition)
        self.known.changed()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what is learned inside. A loop's variable is bound in one: that it has a value says that the loop
        runs, which nothing after the loop may rely on."""
        state, count = self.known.snapshot(), len(self._premises)
        try:
            yield
        finally:
            self.known.restore(state)
            del self._premises[count:]

    @contextmanager
    def constraint(self, condition: Expr) -> Iterator[None]:
        """Take a condition as true inside the context."""
        with self.scope():
            self.assume(condition)
            yield

    def _learn(self, condition: Expr) -> None:
        match condition:
            case And(a, b):
                self._learn(a)
                self._learn(b)
            case Call(Op("T.likely"), (a,)):
                self._learn(a)
            case Not(Or(a, b)):
                self._learn(logical_not(a))
                self._learn(logical_not(b))
            case Not(NE(a, b)):
                self._learn(eq(a, b))
            case EQ(a, b) if is_index(a):
                self._equal(a, b)
            case _ if (found := _order(condition)) is not None:
                self._at_least(self.poly(found[0]), self.poly(found[1]), found[2])

    def _at_least(self, a: Poly, b: Poly, gap: int) -> None:
        """Learn ``a >= b + gap``."""
        fact = plus(plus(a, b, -1), constant(-gap))
        terms = [m for m in fact if m]
        if len(terms) == 1 and len(terms[0]) == 1:
            coefficient, rest = fact[terms[0]], fact.get(ONE, 0)
            number = terms[0][0]
            if coefficient > 0:
                learned = Interval(-(rest // coefficient))
            else:
                learned = Interval(high=rest // -coefficient)
            old = self.known.domain.get(number, Interval())
            self.known.domain[number] = old.intersect(learned)
            return
        self.known.nonnegative.append(fact)

    def _equal(self, a: Expr, b: Expr) -> None:
        gap = plus(self.poly(a), self.poly(b), -1)
        if type(a) is FloorMod and type(b) is IntImm and type(a.b) is IntImm and a.b.value:
            base = self.poly(a.a)
            if len(base) == 1:
                ((mono, one),) = base.items()
                if len(mono) == 1 and one == 1:
                    self._congruent(mono[0], ModularSet.make(a.b.value, b.value))
        for mono, coefficient in gap.items():
            if len(mono) == 1 and abs(coefficient) == 1:
                rest = {m: -c * coefficient for m, c in gap.items() if m != mono}
                atom = self.known.table[mono[0]]
                wide = dtype_of(a).bits > atom.bits and constant_value(rest) is None
                if not wide and not self._depends_on(rest, atom.depends):
                    self._be(mono[0], rest)
                    return
                self._congruent(mono[0], self.known.modular_set(rest))
        self.known.nonnegative.append(gap)
        self.known.nonnegative.append({m: -c for m, c in gap.items()})

    def _be(self, number: int, value: Poly) -> None:
        """Learn that an atom equals a polynomial. What ends of ranges depend on may be an atom with such an end then."""
        self.known.value[number] = value
        self.known.ends.clear()

    def _congruent(self, number: int, members: ModularSet) -> None:
        """Learn that an atom is in a modular set."""
        old = self.known.modular.get(number)
        self.known.modular[number] = members if old is None else old.intersect(members)

    def _depends_on(self, p: Poly, variables: frozenset[Var]) -> bool:
        """True if a polynomial depends on one of the variables, by the values that others are known to have too."""
        table, seen, rest = self.known.table, frozenset[Var](), self.known.table.dependencies(p)
        while rest:
            seen |= rest
            values = [self.known.value.get(table.variable(var), {}) for var in rest]
            rest = frozenset[Var]().union(*[table.dependencies(value) for value in values]) - seen
        return not seen.isdisjoint(variables)

    # ---- questions

    def poly(self, expr: Expr) -> Poly:
        """Return the canonical polynomial of the integer expression ``expr``."""
        with deep_recursion():
            return self.canonical.poly(expr)

    def simplify(self, expr: Expr) -> Expr:
        """Return ``expr`` in canonical form; the same object if it is canonical."""
        expr = _expr(expr)
        if type(expr) is IntImm:
            return expr
        with deep_recursion():
            for _ in range(4):  # until nothing merges
                if type(expr) is Var and self.known.table.variable(expr) not in self.known.value:
                    break
                self.canonical.merged = False
                before, expr = expr, self._simplifier.visit(expr)
                if expr is before or not self.canonical.merged:
                    break
            return expr

    def const_int_bound(self, expr: Expr) -> Interval:
        """Return the interval of the integer expression ``expr``."""
        with deep_recursion():
            return self.known.bound(self.canonical.poly(_expr(expr)))

    def modular_set(self, expr: Expr) -> ModularSet:
        """Return the modular set of the integer expression ``expr``."""
        with deep_recursion():
            return self.known.modular_set(self.canonical.poly(_expr(expr)))

    def can_prove(self, condition: Expr) -> bool:
        """True if the condition holds for every assignment allowed by what is known."""
        with deep_recursion():
            return self._decide(_expr(condition)) is True

    def can_prove_equal(self, a: Expr, b: Expr) -> bool:
        """True if the integer expressions ``a`` and ``b`` are proved equal."""
        a, b = _expr(a), _expr(b)
        if a is b:
            return True
        if type(a) is IntImm and type(b) is IntImm:
            return a.value == b.value
        gap = plus(self.poly(a), self.poly(b), -1)
        if not gap:
            return True
        with deep_recursion():
            gap = plus(self.canonical.poly(self.simplify(a)), self.canonical.poly(self.simplify(b)), -1)
            return not gap or self.known.bound(gap) == Interval(0, 0)

    def can_prove_less(self, a: Expr, b: Expr) -> bool:
        """``a < b``."""
        with deep_recursion():
            return self._reaches(self.canonical.poly(_expr(b)), self.canonical.poly(_expr(a)), 1)

    def can_prove_greater_equal(self, a: Expr, bound: Expr | int) -> bool:
        """``a >= bound``."""
        with deep_recursion():
            least = constant(bound) if type(bound) is int else self.canonical.poly(_expr(bound))
            return self._reaches(self.canonical.poly(_expr(a)), least)

    def prove(self, condition: Expr) -> Proof:
        """Three-way answer, with a counter-example when the condition can fail."""
        condition = _expr(condition)
        with deep_recursion():
            decided = self._decide(condition)
            if decided is True:
                return Proof(Verdict.PROVED)
            variables = [v for v in free_vars(condition) if is_index(v)]
            for premise in self._premises:
                variables += [v for v in free_vars(premise) if v not in variables and is_index(v)]
            try:
                premises = self._symbolic_premises(variables)
            except OverflowError:  # a fact with a coefficient that 64 bits lack
                return Proof(Verdict.UNKNOWN)
            found = find_counterexample(self.known, condition, variables, premises)
        if found is not None:
            words = ", ".join([f"{var.name} = {value}" for var, value in found.items()])
            return Proof(Verdict.REFUTED, found, f"false for {words}" if words else "false")
        return Proof(Verdict.UNKNOWN)

    def _symbolic_premises(self, variables: list[Var]) -> list[Expr]:
        premises = list(self._premises)
        for fact in self.known.nonnegative:
            expr = self.known.table.expr(fact)
            variables += [v for v in free_vars(expr) if v not in variables]
            premises.append(ge(expr, 0))
        return premises

    # ---- decisions

    def _decide(self, condition: Expr) -> bool | None:
        if condition in self.known.undecided:
            return None
        decided = self._decided(condition)
        if decided is None:
            self.known.undecided.add(condition)
        return decided

    def _decided(self, condition: Expr) -> bool | None:
        match condition:
            case IntImm(value):
                return bool(value)
            case And(a, b):
                left = self._decide(a)
                if left is False:
                    return False
                right = self._decide(b)
                return True if left and right else False if right is False else None
            case Or(a, b):
                left = self._decide(a)
                if left is True:
                    return True
                if left is False:
                    return self._decide(b)
                with self.constraint(logical_not(a)):  # b has to hold only where a does not
                    return True if self._decide(b) else None
            case Not(a):
                inner = self._decide(a)
                return None if inner is None else not inner
            case Call(Op("T.likely"), (a,)):
                return self._decide(a)
            case EQ(a, b) if is_index(a):
                return self._same(self.poly(a), self.poly(b))
            case NE(a, b) if is_index(a):
                same = self._same(self.poly(a), self.poly(b))
                return None if same is None else not same
        found = _order(condition)
        return None if found is None else self._sign(self.poly(found[0]), self.poly(found[1]), found[2])

    def _reaches(self, a: Poly, b: Poly, gap: int = 0) -> bool:
        """True if ``a >= b + gap`` follows from what is known."""
        return nonnegative(self.canonical, plus(plus(a, b, -1), constant(-gap)))

    def _sign(self, a: Poly, b: Poly, gap: int) -> bool | None:
        """Decide ``a >= b + gap``."""
        return True if self._reaches(a, b, gap) else False if self._reaches(b, a, 1 - gap) else None

    def _same(self, a: Poly, b: Poly) -> bool | None:
        gap = plus(a, b, -1)
        if not gap:
            return True
        bound = self.known.bound(gap)
        if bound == Interval(0, 0):
            return True
        if 0 not in bound:
            return False
        modular = self.known.modular_set(gap)
        if modular.coeff > 1 and modular.base != 0:
            return False
        if self._reaches(a, b, 1) or self._reaches(b, a, 1):
            return False
        return True if self._reaches(a, b) and self._reaches(b, a) else None


def compare_dims(a: Expr, b: Expr) -> Answer:
    """YES when two dimensions are equal for all sizes, which are at least zero, NO when for none, else MAYBE."""
    ana = Analyzer([symbol for symbol in dict.fromkeys(free_vars(a) + free_vars(b)) if is_index(symbol)])
    if ana.can_prove_equal(a, b):
        return Answer.YES
    gap = ana.known.bound(ana.poly(sub(a, b)))
    return Answer.NO if 0 not in gap else Answer.MAYBE
