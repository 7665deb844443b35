"""All loops fused, split by sizes that divide none of them, and bound: the digits of one number stay affine."""

from __future__ import annotations

import random

import numpy as np
import pytest

import unity
from unity import te
from unity.ir.interpret import run

EXTENTS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 28, 56, 64]
FACTORS = [[None, 256], [None, 64], [None, 64, 4], [None, 128, 4], [None, 32]]


@pytest.mark.parametrize("seed", range(40))
def test_fused_loops_split_anew_are_bound(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple([draw.choice(EXTENTS) for _ in range(draw.choice([2, 3, 4]))])
    A = te.placeholder(shape, "float32", name="A")
    sch = unity.Schedule(te.create_prim_func([A, te.compute(shape, lambda *i: A[i] + 1.0, name="B")]))
    loops = sch.split(sch.fuse(*sch.get_loops(sch.get_block("B"))), draw.choice(FACTORS))
    sch.bind(loops[0], "blockIdx.x")
    sch.bind(loops[1], "threadIdx.x")
    if len(loops) > 2:
        sch.vectorize(loops[2])
    if np.prod(shape) <= 4096:
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        y = np.zeros_like(x)
        run(sch.mod, "main", x, y)
        assert (y == x + 1).all()
