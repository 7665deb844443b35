"""Programs that the tests of the search schedule."""

from __future__ import annotations

from typing import Any

from unity import te
from unity.ir.function import PrimFunc
from unity.script import tir as T


def product(n: Any = 9, k: int = 12, m: int = 33) -> PrimFunc:
    """A product of n x k and k x m numbers."""
    a, b = te.placeholder((n, k), "float32", "a"), te.placeholder((k, m), "float32", "b")
    r = te.reduce_axis((0, k), "r")
    return te.create_prim_func([a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], r), "c")])


@T.prim_func
def add_one(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for i, j in T.grid(8, 16):
        with T.block("add"):
            x, y = T.axis.remap("SS", [i, j])
            B[x, y] = A[x, y] + T.float32(1)
