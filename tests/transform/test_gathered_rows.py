"""Sums of rows that indices name, of columns that are no whole vectors: the last vector reads under a mask."""

from __future__ import annotations

import numpy as np
import pytest
from levels import LEVELS, Level
from lowering import LOOPS

import unity
from unity.ir.stmt import For
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.tir.pipeline import lower_prim_funcs


def bag(columns: int) -> unity.PrimFunc:
    """Row n of ``y`` is the sum of the rows of ``w`` at ``i[n, :]``; rows outside of ``w`` are its last."""
    return parse(f"""
@T.prim_func
def bag(w: T.Buffer((50, {columns}), "float32"), i: T.Buffer((7, 5), "int64"), y: T.Buffer((7, {columns}), "float32")):
    for n, c, k in T.grid(7, {columns}, 5):
        with T.block("sum"):
            vn, vc, vk = T.axis.remap("SSR", [n, c, k])
            with T.init():
                y[vn, vc] = T.float32(0)
            y[vn, vc] = y[vn, vc] + w[T.max(T.min(i[vn, vk], 49), 0), vc]
""")


@pytest.mark.parametrize("columns", [1, 15, 17, 95, 96])
@pytest.mark.parametrize("level", LEVELS, indirect=True)
def test_partial_vectors(level: Level, columns: int) -> None:
    random = np.random.default_rng(columns)
    w, i = random.random((50, columns), "float32"), random.integers(0, 60, (7, 5))
    w[3] = np.inf
    y = np.zeros((7, columns), "float32")
    compiled = unity.VirtualMachine(unity.compile(bag(columns)))
    level.require()
    compiled["bag"](w, i, y)
    np.testing.assert_allclose(y, w[np.minimum(i, 49)].sum(1), rtol=1e-5)


def test_no_lane_runs_alone() -> None:
    with unity.Target("llvm -mcpu=x86-64-v4"):
        lowered = lower_prim_funcs({"bag": bag(95)}, LOOPS)["bag"]
    assert {loop.loop_var.name for loop in collect(lowered.body, For)} <= {"n", "k"}
