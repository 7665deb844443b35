"""The simplifier and prover: named cases, and random expressions against evaluation."""

import itertools
import random

import pytest
from fuzz import TIMES

from unity.arith import Analyzer, Verdict, prove, refute
from unity.arith.evaluate import evaluate
from unity.ir import build as b
from unity.ir.buffer import Range
from unity.ir.expr import Var
from unity.ir.scalar import Cast
from unity.ir.structural import first_difference, structural_equal
from unity.ir.types import prim_type
from unity.ir.walk import collect
from unity.support.errors import TypeRuleError


def c(value):
    return b.const(value, "int64")


i, j, k, n, m = [b.index_var(name) for name in "ijknm"]


@pytest.fixture
def ana():
    a = Analyzer()
    a.bind(i, Range(c(0), c(16)))
    a.bind(j, Range(c(0), c(4)))
    a.bind_size(n)
    a.bind_size(m)
    a.bind(k, Range(c(0), n))
    return a


CASES = [
    (b.floordiv(b.add(b.mul(j, 16), i), 16), j),
    (b.floormod(b.add(b.mul(j, 16), i), 16), i),
    (b.add(b.mul(b.floordiv(n, 4), 4), b.floormod(n, 4)), n),
    (b.sub(b.mul(n, m), b.mul(m, n)), c(0)),
    (b.floordiv(b.mul(n, m), n), m),
    (b.floordiv(b.floordiv(n, 4), 8), b.floordiv(n, 32)),
    (b.floordiv(b.floormod(n, 32), 4), b.floormod(b.floordiv(n, 4), 8)),
    (b.minimum(i, 20), i),
    (b.maximum(b.add(i, 4), b.add(i, 2)), b.add(i, 4)),
    (b.floormod(b.floormod(n, 12), 4), b.floormod(n, 4)),
    (b.floormod(b.mul(n, 8), 4), c(0)),
    (b.floordiv(b.mul(n, 8), 4), b.mul(n, 2)),
    (b.floordiv(b.add(b.mul(n, 8), 6), 4), b.add(b.mul(n, 2), 1)),
    (b.floordiv(i, 16), c(0)),
    (b.floordiv(b.sub(i, 16), 16), c(-1)),
    (b.truncdiv(i, 16), c(0)),
    (b.lt(i, 16), b.const(True)),
    (b.ge(i, 16), b.const(False)),
    (b.eq(b.floormod(b.mul(n, 4), 2), 1), b.const(False)),
    (b.select(b.lt(i, 16), n, m), n),
    (b.lt(k, n), b.const(True)),
    (b.logical_and(b.lt(i, 16), b.lt(j, 2)), b.lt(j, 2)),
    (b.add(b.add(i, j), i), b.add(b.mul(i, 2), j)),
    (b.minimum(b.add(n, 3), b.add(n, 5)), b.add(n, 3)),
]


@pytest.mark.parametrize("index", range(len(CASES)))
def test_case(ana, index):
    before, after = CASES[index]
    assert first_difference(ana.simplify(before), after) is None


def test_unchanged_expression_is_the_same_object(ana):
    expr = b.add(b.mul(n, 2), 1)
    simple = ana.simplify(expr)
    assert simple is expr


def test_products_of_symbols_bound_an_index(ana):
    k2 = b.index_var("k2")
    ana.bind(k2, Range(c(0), m))
    assert ana.can_prove(b.lt(b.add(b.mul(k, m), k2), b.mul(n, m)))
    assert ana.can_prove(b.lt(b.add(b.mul(k, 16), i), b.mul(n, 16)))


def test_a_product_of_sums_is_divided_by_its_factors(ana):
    """Loops over such sizes that are fused give products that are multiplied out."""
    sides = [b.sub(b.mul(n, 2), 1), b.add(n, 4), b.sub(b.mul(n, m), m), b.sub(m, n)]
    whole = sides[0]
    for side in sides[1:]:
        whole = b.mul(whole, side)
    whole = ana.simplify(whole)
    for side in sides:
        assert ana.can_prove_equal(b.floormod(whole, side), c(0))
        assert ana.can_prove_equal(b.mul(b.floordiv(whole, side), side), whole)
        assert not ana.can_prove_equal(b.floormod(b.add(whole, 1), side), c(0))
        assert not ana.can_prove_equal(b.floormod(whole, b.add(side, 1)), c(0))


def test_an_index_over_fused_axes_stays_in_them(ana):
    """Of a loop over n * m the quotient by m is below n and the rest below m, both not negative: where it runs, neither is zero."""
    across = b.floordiv(b.add(m, 127), 128)
    for divisor in (m, across):
        with ana.scope():
            ana.bind(k, Range(c(0), b.mul(n, divisor)))
            quotient, rest = b.floordiv(k, divisor), b.floormod(k, divisor)
            inside = [
                b.ge(quotient, 0),
                b.lt(quotient, n),
                b.ge(rest, 0),
                b.lt(rest, divisor),
                b.gt(n, 0),
                b.gt(divisor, 0),
            ]
            assert all([ana.can_prove(condition) for condition in inside])
            assert not any([ana.can_prove(c) for c in (b.lt(quotient, b.sub(n, 1)), b.lt(rest, b.sub(divisor, 1)))])
    assert not ana.can_prove(b.lt(b.floormod(k, m), m))


def test_constraint_holds_inside_only(ana):
    condition = b.lt(b.add(b.mul(i, 4), j), n)
    question = b.lt(b.mul(i, 4), n)
    with ana.constraint(condition):
        assert ana.can_prove(question)
    assert not ana.can_prove(question)


def test_that_a_loop_runs_is_known_inside_only(ana):
    positive = b.gt(m, 0)
    with ana.scope():
        ana.bind(b.index_var("p"), Range(c(0), m))
        assert ana.can_prove(positive)
    assert not ana.can_prove(positive)


def test_modular_constraint(ana):
    with ana.constraint(b.eq(b.floormod(n, 8), 0)):
        assert ana.simplify(b.floormod(n, 4)).value == 0
        assert structural_equal(ana.simplify(b.mul(b.floordiv(n, 8), 8)), n)


def test_refutation_has_a_counterexample(ana):
    proof = ana.prove(b.lt(i, 15))
    assert proof.verdict is Verdict.REFUTED and proof.counterexample[i] == 15
    with ana.constraint(b.lt(b.mul(i, 4), n)):
        proof = ana.prove(b.le(n, 100))
    assert proof.verdict is Verdict.REFUTED and proof.counterexample[n] > 100


def test_unknown_is_said():
    x, y = b.index_var("x"), b.index_var("y")
    ana = Analyzer()
    odd = b.add(b.mul(b.mul(x, x), y), 1)
    assert ana.prove(b.ne(b.mul(odd, odd), b.const(999_999_999_989, "int64"))).verdict is not Verdict.PROVED


def test_float_expressions_are_not_reordered():
    x, y = Var("x", prim_type("float32")), Var("y", prim_type("float32"))
    expr = b.add(b.add(x, y), b.mul(x, -1.0))
    assert Analyzer().simplify(expr) is expr


def test_ten_thousand_terms_in_linear_time():
    expr = c(0)
    for q in range(10_000):
        expr = b.add(expr, b.mul(i, q) if q % 2 else n)
    simple = Analyzer().simplify(expr)
    assert evaluate(simple, {i: 1, n: 2}) == sum(q for q in range(10_000) if q % 2) + 2 * 5000


CONSTANTS = (1, 2, 3, 4, 8, -3)


def random_expr(rng, variables, depth, divisors=CONSTANTS):
    def part(depth):
        return random_expr(rng, variables, depth, divisors)

    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.7 else b.const(rng.randint(-6, 9), b.dtype_of(variables[0]))
    kind = rng.randrange(9)
    x = part(depth - 1)
    if kind < 2:
        return b.add(x, part(depth - 1))
    if kind == 2:
        return b.sub(x, part(depth - 1))
    if kind == 3:
        return b.mul(x, rng.randint(-4, 8))
    if kind == 4:
        return b.mul(x, part(depth - 2 if depth > 1 else 0))
    if kind in (5, 6):
        op = b.floordiv if kind == 5 else b.floormod
        return op(x, rng.choice(divisors))
    op = b.minimum if kind == 7 else b.maximum
    return op(x, part(depth - 1))


def values_at(rng, ranges):
    return {v: rng.randint(*ranges[v]) for v in ranges} | {n: rng.randint(-50, 50), m: rng.randint(1, 12)}


@pytest.mark.parametrize("seed", range(150 * TIMES))
def test_simplify_keeps_the_value(seed):
    rng = random.Random(seed)
    ranges = {v: (low := rng.randint(-3, 3), low + rng.randint(0, 9)) for v in (i, j, k)}
    ana = Analyzer()
    for var, (low, high) in ranges.items():
        ana.bind_range(var, low, high)
    ana.bind_size(m, 1)
    variables, divisors = [i, j, k, n, m], (*CONSTANTS, m, m, b.add(m, 3), b.sub(b.mul(m, 2), 1))
    expr = random_expr(rng, variables, 5, divisors)
    simple = ana.simplify(expr)
    assert first_difference(ana.simplify(simple), simple) is None, "not idempotent"
    bound, modular = ana.const_int_bound(expr), ana.modular_set(expr)
    for _ in range(30):
        values = values_at(rng, ranges)
        expected = evaluate(expr, values)
        assert evaluate(simple, values) == expected
        assert expected in bound
        if modular.coeff:
            assert (expected - modular.base) % modular.coeff == 0
        else:
            assert expected == modular.base
    other = random_expr(rng, variables, 4, divisors)
    for condition in (b.lt(expr, other), b.eq(expr, other), b.ge(expr, other)):
        proof = ana.prove(condition)
        if proof.verdict is Verdict.REFUTED:
            assert evaluate(condition, {**{n: 0, m: 1}, **proof.counterexample}) == 0
        elif proof.verdict is Verdict.PROVED:
            for _ in range(30):
                values = values_at(rng, ranges)
                assert evaluate(condition, values) == 1


COMPARISONS = (b.lt, b.le, b.gt, b.ge, b.eq, b.eq, b.ne)


@pytest.mark.parametrize("seed", range(150 * TIMES))
def test_premises_keep_the_value(seed):
    """Under random premises, contradictions and equations of a variable with itself among them, at every point that fulfils them."""
    rng = random.Random(seed)
    dtype = rng.choice(("int32", "int64"))
    variables = [b.index_var(name, dtype) for name in "pqr"]
    ranges = [range(low := rng.randint(-4, 3), low + rng.randint(1, 6)) for _ in variables]
    divisors = (*CONSTANTS, variables[0])

    def comparison():
        sides = [random_expr(rng, variables, rng.randint(0, 3), divisors) for _ in range(2)]
        return rng.choice(COMPARISONS)(*sides)

    ana = Analyzer()
    for var, values in zip(variables, ranges):
        ana.bind_range(var, values[0], values[-1])
    premises = [comparison() for _ in range(rng.randint(1, 3))]
    for premise in premises:
        ana.assume(premise)
    points = [dict(zip(variables, values)) for values in itertools.product(*ranges)]
    points = [point for point in points if all([evaluate(premise, point) == 1 for premise in premises])]
    for _ in range(4):
        expr, condition = random_expr(rng, variables, 4, divisors), comparison()
        simple, bound, modular = ana.simplify(expr), ana.const_int_bound(expr), ana.modular_set(expr)
        proof, decided = ana.prove(condition), ana.simplify(condition)
        assert not collect(simple, Cast)
        for point in points:
            value, holds = evaluate(expr, point), evaluate(condition, point)
            if value is not None:
                assert evaluate(simple, point) == value and value in bound
                assert value == modular.base or (modular.coeff and (value - modular.base) % modular.coeff == 0)
            if holds is not None:
                assert evaluate(decided, point) == holds
                assert holds or proof.verdict is not Verdict.PROVED
        if proof.verdict is Verdict.REFUTED:
            assert all([evaluate(premise, proof.counterexample) in (None, 1) for premise in premises])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_factors_that_the_type_lacks_stay_apart(dtype):
    x = b.index_var("x", dtype)
    bits = b.dtype_of(x).bits
    wide, half = b.const(1 << (bits - 2), dtype), b.const(1 << (bits // 2 + 4), dtype)
    products = [
        b.floordiv(b.floordiv(x, half), half),
        b.mul(b.add(x, wide), 4),
        b.mul(b.mul(x, wide), 8),
        b.sub(x, b.const(-1 << (bits - 1), dtype)),
        b.floormod(b.floordiv(b.floordiv(x, half), half), half),
        b.minimum(b.mul(b.add(x, wide), 2), b.floordiv(b.floordiv(x, half), half)),
    ]
    ana = Analyzer()
    for expr in products:
        simple = ana.simplify(expr)
        for value in (-(1 << (bits - 1)), -(1 << (bits - 2)), -3, -1, 0, 1, 5, (1 << (bits - 1)) - 1):
            assert evaluate(simple, {x: value}) == evaluate(expr, {x: value}), str(expr)
    ana.bind_range(x, -(1 << (bits - 2)), -(1 << (bits - 2)) + 3)
    assert ana.can_prove(b.ge(products[1], 0)) and not ana.can_prove(b.lt(ana.simplify(products[1]), 0))


def test_congruences_join():
    congruences = [(4, 1), (6, 3), (2, 1), (12, 9)]
    for order in itertools.permutations(congruences):
        ana = Analyzer()
        for modulus, rest in order:
            ana.assume(b.eq(b.floormod(n, modulus), rest))
        assert b.is_int(ana.simplify(b.floormod(n, 12)), 9)
        for modulus, rest in congruences:
            assert b.is_int(ana.simplify(b.floormod(n, modulus)), rest)
    ana = Analyzer()
    ana.assume(b.eq(n, b.add(b.mul(b.floordiv(n, 8), 8), 3)))
    assert b.is_int(ana.simplify(b.floormod(n, 4)), 3)


@pytest.mark.parametrize("seed", range(60 * TIMES))
def test_points_refute_only_what_no_search_proves(seed, monkeypatch):
    rng = random.Random(seed)
    variables = [i, j, k, n]
    ranges = {v: (low := rng.randint(-3, 3), low + rng.randint(0, 9)) for v in (i, j, k)}
    premise, *conditions = [b.ge(random_expr(rng, variables, 3), random_expr(rng, variables, 3)) for _ in range(6)]

    def asked():
        ana = Analyzer([n])
        for var, (low, high) in ranges.items():
            ana.bind_range(var, low, high)
        ana.assume(premise)
        return [ana.can_prove(condition) for condition in conditions], ana

    with_points, ana = asked()
    for point in (ana.known.points or {}).values():
        values = {var: point.get(ana.known.table.variable(var), 0) for var in variables}
        assert all([low <= values[v] <= high for v, (low, high) in ranges.items()]) and values[n] >= 0
        for number in range(len(ana.known.table.atoms)):
            value = evaluate(ana.known.table.atom_expr(number, prim_type("int64")), values)
            assert value == point.get(number, value)
    monkeypatch.setattr(prove, "negative_somewhere", lambda known, p: False)
    assert asked()[0] == with_points


def test_conditions_behind_ones_that_hold_stay(ana):
    """Two parts of a conjunction that always hold must not take the others with them; nor of a disjunction that never do."""
    even = [b.eq(b.floormod(v, 2), 0) for v in (i, j)]
    both, either = b.logical_and(*even), b.logical_or(*even)
    held = b.logical_and(b.logical_and(both, b.lt(i, 16)), b.lt(j, 4))
    assert structural_equal(ana.simplify(held), both)
    failed = b.logical_or(b.logical_or(either, b.gt(i, 16)), b.gt(j, 4))
    assert structural_equal(ana.simplify(failed), either)
    never = b.logical_and(b.logical_and(both, b.gt(i, 16)), b.lt(j, 4))
    assert b.is_int(ana.simplify(never), 0)


@pytest.mark.parametrize(
    "step", [lambda e: b.floordiv(e, 3), lambda e: b.floordiv(b.mul(e, -7), 5)], ids=["//3", "*-7//5"]
)
def test_numbers_wider_than_a_float(step):
    """Divisors of a chain multiply to more than the largest float; every question is answered."""
    x = e = Var("x", prim_type("int64"))
    for _ in range(1000):
        e = step(e)
    ana = Analyzer()
    assert not ana.can_prove(b.ge(e, 0)) and not ana.can_prove_less(e, x) and not ana.can_prove_equal(e, x)
    assert ana.simplify(e) is not None and ana.modular_set(e).coeff >= 1 and 0 in ana.const_int_bound(e)


def test_operands_may_be_numbers_and_nothing_else():
    ana = Analyzer()
    ana.bind(i, Range(0, 10))
    ana.bind(j, 5)
    assert ana.can_prove(b.lt(b.add(i, j), 15)) and ana.can_prove_less(j, 6) and ana.can_prove_greater_equal(i, c(0))
    assert ana.simplify(3).value == 3 and ana.can_prove_equal(j, 5) and ana.can_prove(True) and not ana.can_prove(False)
    assert 3 in ana.const_int_bound(3) and ana.modular_set(3).base == 3 and ana.prove(True)
    for ask in (ana.simplify, ana.can_prove, ana.const_int_bound, ana.modular_set, ana.prove, ana.assume, lambda e: ana.bind(k, e),
                lambda e: ana.bind(e, 1), lambda e: ana.can_prove_equal(i, e), lambda e: ana.can_prove_less(e, i)):  # fmt: skip
        for wrong in (None, "i"):
            with pytest.raises(TypeRuleError, match="E201"):
                ask(wrong)


def test_what_a_scope_derives_ends_with_it():
    """Bounds and decisions about a variable that is bound inside say nothing behind; those from before are there again."""
    ana = Analyzer([n])
    assert ana.can_prove(b.ge(b.add(n, 1), 1)) and not ana.can_prove(b.lt(i, 16))
    for extent in (c(16), n):
        whole = b.floordiv(i, extent)
        with ana.scope():
            ana.bind(i, Range(c(0), extent))
            assert ana.can_prove(b.ge(i, 0)) and ana.can_prove(b.lt(i, extent))
            assert structural_equal(ana.simplify(whole), c(0))
        assert not ana.can_prove(b.lt(i, extent)) and not ana.can_prove(b.ge(i, 0))
        assert structural_equal(ana.simplify(whole), whole) and ana.can_prove(b.ge(n, 0))


def test_a_guard_of_a_last_tile_is_refuted_at_a_point():
    """No search over inequalities for what does not hold in a tile that hangs over, however many sizes make its rows."""
    rows = b.mul(b.mul(n, m), k)
    ana = Analyzer([n, m, k])
    ana.bind(j, Range(c(0), b.floordiv(b.add(rows, 127), 128)))
    ana.bind(i, Range(c(0), c(128)))
    last = b.sub(b.sub(rows, b.mul(j, 128)), 1)
    assert refute.negative_somewhere(ana.known, ana.poly(b.sub(last, i)))
    assert not refute.negative_somewhere(ana.known, ana.poly(last))
