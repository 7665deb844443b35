"""A signature defines its symbols as a whole: ``n + 1`` may stand before the parameter whose shape is ``n``."""

from __future__ import annotations

import numpy as np
import pytest

from unity.ir import first_difference, interpret, structural_hash
from unity.ir.walk import free_vars, fresh_copy
from unity.script import parse

PROGRAMS = {
    "graph": '@R.function\ndef f(x: R.Tensor(("n + 1",), "float32"), y: R.Tensor(("n",), "float32")):\n    n = T.int64()\n'
    + '    return R.add(y, R.ones((n,), "float32"))\n',
    "tuple": '@R.function\ndef f(x: R.Tuple(R.Tensor(("n * 2",), "float32"), R.Shape(["n"])), y: R.Shape(["m - 1", "m"])):\n'
    + "    m = T.int64()\n    return R.shape([m])\n",
    "match_cast": "@R.function\ndef f(x: R.Tensor(ndim=2)):\n    n = T.int64()\n"
    + '    y = R.match_cast(x, R.Tensor((n + 1, n), "float32"))\n    return y\n',
    "buffers": "@T.prim_func\ndef f(a: T.handle, c: T.handle):\n    n = T.int64()\n"
    + '    A = T.match_buffer(a, (n + 1,), "float32")\n    C = T.match_buffer(c, (n,), "float32")\n    A[n] = C[0]\n',
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_symbols_are_bound_whatever_their_order(what: str) -> None:
    first, second = parse(PROGRAMS[what]), parse(PROGRAMS[what])
    assert first_difference(first, second) is None
    assert structural_hash(first) == structural_hash(second)
    assert free_vars(first) == []
    copy = fresh_copy(first)
    assert free_vars(copy) == []
    assert str(copy) == str(first)
    assert first_difference(copy, first) is None


def test_different_symbols_stay_different() -> None:
    text = (
        '@R.function\ndef f(x: R.Tensor(("{} + 1",), "float32"), y: R.Tensor(("n", "m"), "float32")):\n    return x\n'
    )
    assert first_difference(parse(text.format("n")), parse(text.format("m"))) is not None
    assert structural_hash(parse(text.format("n"))) != structural_hash(parse(text.format("m")))


def test_the_symbols_have_one_value() -> None:
    fn = parse(PROGRAMS["graph"])
    result = interpret.run(fn, "f", np.ones(4, "float32"), np.ones(3, "float32"))
    np.testing.assert_array_equal(np.asarray(result), np.full(3, 2, "float32"))
