"""Work of tensor programs as formulas, against counts by hand."""

import pytest

from unity.arith.analyzer import Analyzer
from unity.arith.cost import cost_of
from unity.ir.build import const
from unity.ir.expr import IntImm
from unity.ir.walk import free_vars, substitute
from unity.script import parse

HEAD = "@T.prim_func\ndef f(a: T.handle, b: T.handle, c: T.handle):\n    n = T.int64()\n    k = T.int64()\n"


def counted(body: str, n: int, k: int) -> tuple[int, int, int]:
    lines = "\n".join(["    " + line for line in body.splitlines()])
    fn = parse(HEAD + lines + "\n")
    cost = cost_of(fn)
    values = []
    for expr in (cost.flops, cost.read, cost.written):
        at = {v: const({"n": n, "k": k}[v.name], "int64") for v in free_vars(expr)}
        value = Analyzer().simplify(substitute(expr, at))
        assert type(value) is IntImm
        values.append(value.value)
    return tuple(values)


MATMUL = """A = T.match_buffer(a, (n, k), "float32")
B = T.match_buffer(b, (k, 8), "float32")
C = T.match_buffer(c, (n, 8), "float32")
for i, j, l in T.grid(n, 8, k):
    with T.block("C"):
        vi, vj, vl = T.axis.remap("SSR", [i, j, l])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vl, vj]"""
TRIANGLE = """A = T.match_buffer(a, (n, n), "float64")
B = T.match_buffer(b, (k,), "float64")
C = T.match_buffer(c, (n,), "float64")
for i in range(n):
    for j in range(i):
        C[i] = C[i] + T.exp(A[i, j])"""
GATHER = """A = T.match_buffer(a, (30000, 16), "float32")
B = T.match_buffer(b, (n,), "int64")
C = T.match_buffer(c, (n, 16), "float32")
for i, j in T.grid(n, 16):
    C[i, j] = A[B[i], j]"""
BRANCH = """A = T.match_buffer(a, (n,), "float32")
B = T.match_buffer(b, (k,), "float32")
C = T.match_buffer(c, (n,), "float32")
for i in range(n):
    if i < 2:
        C[i] = A[i] * A[i] + A[i]
    else:
        C[i] = A[i] * T.float32(2)"""


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 5), (64, 32)])
def test_matrix_product(n, k):
    assert counted(MATMUL, n, k) == (2 * n * k * 8, 4 * (n * k + k * 8 + n * 8), 4 * n * 8)


def test_triangle_takes_the_mean_trip():
    flops, _, _ = counted(TRIANGLE, 101, 1)
    assert flops == 2 * 101 * 50  # sum of 0..100 is 101 * 50


def test_gather_reads_its_rows_only():
    assert counted(GATHER, 10, 1) == (0, 10 * 16 * 4 + 10 * 8, 10 * 16 * 4)


def test_dearer_branch_counts():
    assert counted(BRANCH, 10, 1)[0] == 20
