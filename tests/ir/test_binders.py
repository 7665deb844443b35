"""A signature defines its symbols as a whole: ``n + 1`` may stand before the parameter whose shape is ``n``."""

from __future__ import annotations

import numpy as np
import pytest

from unity.ir import (
    AllocBuffer,
    DeclBuffer,
    For,
    SeqExpr,
    Stmt,
    Var,
    first_difference,
    interpret,
    replace,
    structural_hash,
)
from unity.ir.analysis import definitions, use_counts
from unity.ir.walk import collect, free_vars, fresh_copy, rewrite, used_vars
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


PARTS = {
    "allocations": """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i in range(n):
        rows = T.alloc_buffer((m, n), "float32")
        view = T.decl_buffer((m * n,), "float32", data=rows.data)
        view[i] = A[i, 0]
        B[i, 0] = rows[0, i]
""",
    "blocks": """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("row"):
            vi = T.axis.spatial(n, i)
            step = T.int64()
            row = T.match_buffer(A[vi, 0:m], (m,), strides=[step])
            sums = T.alloc_buffer((m,), "float32")
            sums[0] = row[0]
            B[vi] = sums[0]
""",
    "branches": """
@R.function
def f(c: R.Tensor((), "bool"), x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    if c:
        y: R.Tensor((n, m), "float32") = R.exp(x)
        z = R.match_cast(y, R.Tensor((n, m), "float32"))
        r = R.add(z, R.ones((n, m), "float32"))
    else:
        r = R.negative(x)
    return r
""",
}


@pytest.mark.parametrize("what", PARTS)
def test_parts_use_the_symbols_around_them(what: str) -> None:
    """What allocates, views or binds takes its sizes from outside: a copy of a part has the same free variables as the part."""
    fn = parse(PARTS[what])
    symbols = [v for v in used_vars(fn) if v.name in ("n", "m")]
    parts = [p for p in collect(fn, (Stmt, SeqExpr)) if type(p) not in (AllocBuffer, DeclBuffer)]
    assert len(symbols) == 2 and set(symbols) <= set(free_vars(fn.body))
    for part in parts:
        copy = fresh_copy(part)
        assert set(free_vars(copy)) == set(free_vars(part))
        assert first_difference(copy, part) is None
    copy = fresh_copy(fn)
    assert free_vars(copy) == free_vars(fn) == [] and not set(symbols) & set(used_vars(copy))


def test_allocations_of_other_sizes_differ() -> None:
    fn = parse(PARTS["allocations"])
    n, m = [next(v for v in used_vars(fn) if v.name == name) for name in "nm"]
    (loop,) = collect(fn, For)
    (alloc,) = collect(loop, AllocBuffer)
    turned = replace(alloc.buffer, shape=(n, m), data=Var("rows", alloc.buffer.data.ty))
    other = rewrite(fresh_copy(loop), {AllocBuffer: lambda a: replace(a, buffer=replace(a.buffer, shape=(n, m)))})
    assert alloc.buffer.shape == (m, n)
    assert first_difference(AllocBuffer(turned), alloc) is not None
    assert first_difference(other, loop) is not None
    found = definitions(fn)
    assert found[n] is fn and found[m] is fn and found[alloc.buffer] is alloc and found[alloc.buffer.data] is alloc
    assert use_counts(fn)[m] == 2 and use_counts(fn)[n] == 3
