"""Iteration maps against enumeration; sets and bounds against enumeration."""

import functools
import itertools
import random

import pytest

from unity.arith.evaluate import evaluate
from unity.arith.intset import IntSet, eval_set, of_range
from unity.arith.itermap import detect_iter_map
from unity.arith.itermap_inverse import inverse_affine_iter_map, sum_expr
from unity.arith.solve import deduce_bound, detect_linear_equation
from unity.ir import build as b
from unity.ir.buffer import Range
from unity.ir.scalar import And
from unity.ir.structural import structural_equal


def c(value):
    return b.const(value, "int64")


i, j, k, n = [b.index_var(name) for name in "ijkn"]


def box(**extents):
    return {var: Range(c(0), c(extents[var.name])) for var in (i, j, k) if var.name in extents}


def image(indices, ranges, predicate=None):
    variables = list(ranges)
    points = []
    for values in itertools.product(*[range(ranges[v].extent.value) for v in variables]):
        assignment = dict(zip(variables, values))
        if predicate is None or evaluate(predicate, assignment):
            points.append(tuple([evaluate(e, assignment) for e in indices]))
    return points


def test_fused_and_split():
    ranges = box(i=4, j=8)
    fused = b.add(b.mul(i, 8), j)
    assert detect_iter_map([fused], ranges, check="bijective")
    assert detect_iter_map([b.floordiv(fused, 4), b.floormod(fused, 4)], ranges, check="bijective")
    assert detect_iter_map([b.floordiv(fused, 4)], ranges, check="surjective").errors
    assert detect_iter_map([b.floordiv(fused, 4)], ranges, check="onto")
    outer, inner = b.floordiv(fused, 8), b.floormod(fused, 2)
    assert detect_iter_map([outer, inner], ranges, check="onto")
    assert not detect_iter_map([outer, inner], ranges, check="surjective")
    assert not detect_iter_map([b.floordiv(fused, 4), b.floormod(fused, 8)], ranges, check="onto")


def test_gap_and_overlap_are_refused_with_a_reason():
    ranges = box(i=4, j=8)
    for stride in (7, 9):
        result = detect_iter_map([b.add(b.mul(i, stride), j)], ranges)
        assert not result and "chain" in result.errors[0]
    assert "used" in detect_iter_map([i, i], ranges).errors[0]
    assert "j is not used" in detect_iter_map([i], ranges, check="bijective").errors[0]
    assert "product" in detect_iter_map([b.mul(i, j)], ranges).errors[0]


def test_predicate_limits_a_fused_iterator():
    ranges = box(i=4, j=5)
    value = b.add(b.mul(i, 5), j)
    assert detect_iter_map([value], ranges, b.lt(value, 18))


def test_symbolic_extents():
    ranges = {i: Range(c(0), n), j: Range(c(0), c(8))}
    fused = b.add(b.mul(i, 8), j)
    assert detect_iter_map([b.floordiv(fused, 8), b.floormod(fused, 8)], ranges, check="bijective")


@pytest.mark.parametrize("seed", range(200))
def test_bijective_maps_are_bijective(seed):
    rng = random.Random(seed)
    ranges = {v: Range(c(0), c(rng.choice([1, 2, 3, 4, 6, 8]))) for v in (i, j, k)}
    order = [i, j, k]
    rng.shuffle(order)
    fused = c(0)
    for var in order:
        fused = b.add(b.mul(fused, ranges[var].extent.value + rng.choice([0, 0, 0, 1])), var)
    size = 1
    for r in ranges.values():
        size *= r.extent.value
    factor = rng.choice([f for f in range(1, 9) if size % f == 0])
    high, low = b.floordiv(fused, factor), b.floormod(fused, factor)
    indices = rng.choice([[fused], [high, low], [low], [high], [high, b.floormod(low, 2)], [b.floordiv(high, 2), low]])
    points = image(indices, ranges)
    for check in ("onto", "surjective", "bijective"):
        result = detect_iter_map(indices, ranges, check=check)
        if not result:
            continue
        shape = [max(p[d] for p in points) + 1 for d in range(len(indices))]
        total = 1
        for extent in shape:
            total *= extent
        assert len(set(points)) == total, "not surjective"
        for s, index in zip(result.indices, indices):
            values = [
                evaluate(sum_expr(s, ranges), dict(zip(ranges, v)))
                for v in itertools.product(*[range(r.extent.value) for r in ranges.values()])
            ]
            assert values == [
                evaluate(index, dict(zip(ranges, v)))
                for v in itertools.product(*[range(r.extent.value) for r in ranges.values()])
            ]
        if check == "bijective":
            assert len(points) == len(set(points))
            outputs = [b.index_var(f"o{d}") for d in range(len(indices))]
            inverse = inverse_affine_iter_map(result.indices, outputs, ranges)
            for values in itertools.product(*[range(r.extent.value) for r in ranges.values()]):
                assignment = dict(zip(ranges, values))
                at = {o: evaluate(e, assignment) for o, e in zip(outputs, indices)}
                assert {v: evaluate(inverse[v], at) for v in ranges} == assignment


def test_some_random_maps_are_detected():
    found = 0
    for seed in range(100):
        rng = random.Random(seed)
        ranges = {v: Range(c(0), c(rng.choice([2, 4, 8]))) for v in (i, j)}
        fused = b.add(b.mul(i, ranges[j].extent), j)
        found += bool(detect_iter_map([b.floordiv(fused, 2), b.floormod(fused, 2)], ranges, check="bijective"))
    assert found == 100


@pytest.mark.parametrize("seed", range(150))
def test_sets_hold_every_value(seed):
    rng = random.Random(seed)
    ranges = box(i=rng.randint(1, 7), j=rng.randint(1, 7))
    domains = {v: of_range(r) for v, r in ranges.items()}
    x = b.add(b.mul(i, rng.randint(-5, 5)), b.mul(j, rng.randint(-5, 5)))
    choices = [x, b.floordiv(x, rng.randint(1, 5)), b.floormod(x, rng.randint(1, 5)), b.minimum(x, 3), b.maximum(x, j)]
    expr = b.add(rng.choice(choices), rng.choice(choices))
    s = eval_set(expr, domains)
    values = [p[0] for p in image([expr], ranges)]
    assert s.low is not None and s.high is not None
    assert evaluate(s.low, {}) <= min(values) and max(values) <= evaluate(s.high, {})


def test_symbolic_region():
    s = eval_set(b.add(b.mul(i, 4), j), {j: IntSet(c(0), c(3))})
    assert structural_equal(s.as_range().extent, c(4))


@pytest.mark.parametrize("seed", range(150))
def test_deduced_bound_is_exact(seed):
    rng = random.Random(seed)
    expr = b.add(b.mul(i, rng.choice([-3, -2, -1, 1, 2, 5])), b.add(b.mul(n, rng.randint(-3, 3)), rng.randint(-9, 9)))
    compare = rng.choice([b.lt, b.le, b.gt, b.ge])
    condition = compare(expr, rng.randint(-9, 9))
    s = deduce_bound(i, condition)
    assert s is not None
    for size in range(-4, 5):
        for value in range(-30, 31):
            inside = (s.low is None or evaluate(s.low, {n: size}) <= value) and (
                s.high is None or value <= evaluate(s.high, {n: size})
            )
            assert inside == bool(evaluate(condition, {i: value, n: size}))


def test_linear_coefficients():
    form = detect_linear_equation(b.add(b.mul(i, b.mul(n, 2)), b.sub(j, 5)), [i, j])
    assert structural_equal(form.coefficients[0], b.mul(n, 2))
    assert form.coefficients[1].value == 1 and form.rest.value == -5
    assert detect_linear_equation(b.mul(i, i), [i]) is None


def split_again_and_again(rng):
    """Indices of loops that were split into parts, parts of them too, with the predicates of splits that are not exact, some wrong."""
    ranges, predicates, indices = {}, [], []

    def parts(extent, depth):
        factor = rng.randrange(2, 5)
        if depth == 0 or extent < 3 or rng.random() < 0.2:
            var = b.index_var(f"i{len(ranges)}")
            ranges[var] = Range(c(0), c(extent))
            return var
        outer = parts(-(-extent // factor), depth - 1)
        inner = parts(factor, depth - 1)
        value = b.add(b.mul(outer, factor), inner)
        if extent % factor and rng.random() < 0.9:
            predicates.append(b.lt(value, extent if rng.random() < 0.9 else extent + rng.choice((-1, 1, 2))))
        return value

    for _ in range(rng.choice((1, 1, 2))):
        indices.append(parts(rng.randrange(3, 20), 3))
    rng.shuffle(predicates)
    return indices, ranges, functools.reduce(b.logical_and, predicates) if predicates else None


def test_parts_of_parts_are_recognised():
    rng, found = random.Random(3), 0
    for _ in range(300):
        indices, ranges, predicate = split_again_and_again(rng)
        got = detect_iter_map(indices, ranges, predicate, "bijective")
        if not got or not got.exact:
            continue
        found += predicate is not None and type(predicate) is And
        extents = [s.args[0].extent.value if s.args else 1 for s in got.indices]
        points = image(indices, ranges, predicate)
        assert all(len(s.args) <= 1 for s in got.indices)
        assert sorted(points) == sorted(itertools.product(*[range(n) for n in extents])), (indices, predicate)
    assert found > 60
