"""All loops fused, split by sizes that divide none of them, and bound: the digits of one number stay affine."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest

import unity
from unity import te
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import ScheduleError

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


def test_tiles_under_a_fused_grid() -> None:
    """A tile that one digit of the grid selects becomes a block."""
    A, r = te.placeholder((8, 12), "float32", name="A"), te.reduce_axis((0, 3), name="r")
    sch = unity.Schedule(
        te.create_prim_func([A, te.compute((8, 12), lambda i, j: te.sum(A[i, r] * r, axis=r), name="C")])
    )
    block = sch.get_block("C")
    i, j, r0 = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 4])
    sch.reorder(i0, j0, r0, i1, j1)
    grid = sch.fuse(i0, j0)
    tile = sch.cache_read(block, 0, "shared")
    sch.compute_at(tile, grid)
    sch.blockize(sch.get_loops(tile)[1])
    sch.bind(grid, "blockIdx.x")
    x, y = np.arange(96, dtype="float32").reshape(8, 12), np.zeros((8, 12), "float32")
    run(sch.mod, "main", x, y)
    assert (y == (x[:, 1] + 2 * x[:, 2])[:, None]).all()


REPEATED = """
@T.prim_func
def main(A: T.Buffer((3, 5), "float32"), S: T.Buffer((3,), "float32")):
    for f, k in T.grid(12, {steps}):
        with T.block("S"):
            vi, vk = T.axis.spatial(3, f // 4), T.axis.{kind}({steps}, k)
            {init}
            S[vi] = {value}
"""


@pytest.mark.parametrize("sums", [False, True])
def test_repeated_iterations(sums: bool) -> None:
    """What a loop repeats may run in several threads, unless it adds."""
    init = "with T.init():\n                S[vi] = T.float32(0)" if sums else "T.reads(A[vi, vk])"
    value = "S[vi] + A[vi, vk]" if sums else "A[vi, vk]"
    text = REPEATED.format(steps=5 if sums else 1, kind="reduce" if sums else "spatial", init=init, value=value)
    sch = unity.Schedule(parse(text))
    loop = sch.get_loops(sch.get_block("S"))[0]
    with pytest.raises(ScheduleError):
        sch.parallel(loop)
    with pytest.raises(ScheduleError) if sums else contextlib.nullcontext():
        sch.bind(loop, "blockIdx.x")
