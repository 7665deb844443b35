"""Index maps, subspace division and touched domains, against enumeration and numpy."""

import itertools

import numpy as np
import pytest

from unity.arith.evaluate import evaluate
from unity.arith.index_map import IndexMap, index_map
from unity.arith.itermap_inverse import subspace_divide
from unity.ir import build as b
from unity.ir.buffer import Range
from unity.support.errors import TypeRuleError


def c(value):
    return b.const(value, "int64")


def test_tiled_layout_and_back():
    tiled = index_map(2, lambda i, j: (b.floordiv(i, 4), b.floordiv(j, 8), b.floormod(i, 4), b.floormod(j, 8)))
    x = np.arange(8 * 16).reshape(8, 16)
    packed = tiled.map_tensor(x)
    np.testing.assert_array_equal(packed, x.reshape(2, 4, 2, 8).transpose(0, 2, 1, 3))
    back = tiled.inverse([c(8), c(16)])
    np.testing.assert_array_equal(back.map_tensor(packed), x)
    assert [e.value for e in tiled.map_shape([c(8), c(16)])] == [2, 2, 4, 8]


def test_padded_layout():
    tiled = index_map(1, lambda i: (b.floordiv(i, 4), b.floormod(i, 4)))
    with pytest.raises(TypeRuleError, match="no inverse"):
        tiled.inverse([c(14)])
    inverse, padding = tiled.non_surjective_inverse([c(14)])
    for outer, inner in itertools.product(range(4), range(4)):
        at = dict(zip(inverse.initial_indices, (outer, inner)))
        assert evaluate(inverse.final_indices[0], at) == outer * 4 + inner
        assert evaluate(padding, at) == int(outer * 4 + inner >= 14)


def test_symbolic_inverse():
    n = b.index_var("n")
    swapped = index_map(2, lambda i, j: (j, i))
    back = swapped.inverse([n, c(4)])
    o0, o1 = back.initial_indices
    assert back.final_indices == (o1, o0)


def test_division_of_a_space():
    i, j, k = [b.index_var(name) for name in "ijk"]
    ranges = {i: Range(c(0), c(4)), j: Range(c(0), c(8)), k: Range(c(0), c(2))}
    bindings = [b.add(b.mul(i, 8), j), k]
    found = subspace_divide(bindings, ranges, [j, k])
    assert found is not None
    for values in itertools.product(range(4), range(8), range(2)):
        at = dict(zip((i, j, k), values))
        for binding, part in zip(bindings, found):
            whole = evaluate(part.outer, at) * evaluate(part.inner_extent, at) + evaluate(part.inner, at)
            assert whole == evaluate(binding, at)
            assert evaluate(part.inner, at) < evaluate(part.inner_extent, at)
    assert [evaluate(p.inner_extent, {}) for p in found] == [8, 2]
    assert subspace_divide(bindings, ranges, [i, k]) is None


def test_a_map_of_a_function():
    """Its indices are named as in the function."""
    x = np.arange(24).reshape(4, 6)
    for made in (
        IndexMap.from_func(lambda i, j: [j // 2, i, j % 2]),
        IndexMap.from_func(lambda *k: (k[1] // 2, k[0], k[1] % 2), ndim=2, index_dtype="int32"),
    ):
        np.testing.assert_array_equal(made.map_tensor(x), x.reshape(4, 3, 2).transpose(1, 0, 2))
    assert [v.name for v in made.initial_indices] == ["i0", "i1"]
    assert b.is_int(IndexMap.from_func(lambda i: 3).final_indices[0], 3)
    with pytest.raises(TypeRuleError, match="how many"):
        IndexMap.from_func(lambda *k: k)
