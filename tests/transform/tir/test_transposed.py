"""Transpositions through registers: every cell comes from its place, beyond whole blocks too, and what fits no block is refused."""

from __future__ import annotations

import ml_dtypes  # noqa: F401 - numpy then knows bfloat16
import numpy as np
import pytest
from lowering import LOOPS

import unity
from unity.ir.interpret import run
from unity.ir.scalar import Shuffle
from unity.ir.stmt import For
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.tir.pipeline import lower_prim_func

HEADER = "from unity.script import tir as T\n\n@T.prim_func\n"


def program(shape: tuple[int, ...], order: tuple[int, ...], dtype: str, value: str = "X[{source}]") -> str:
    names = [f"i{n}" for n in range(len(shape))]
    out = [shape[axis] for axis in order]
    source = [""] * len(shape)
    for name, axis in zip(names, order):
        source[axis] = f"v{name}"
    loops = "\n".join([f"{'    ' * (n + 1)}for {name} in range({e}):" for n, (name, e) in enumerate(zip(names, out))])
    pad = "    " * (len(names) + 1)
    target = ", ".join([f"v{n}" for n in names])
    axes = "\n".join([f"{pad}    v{n} = T.axis.spatial({e}, {n})" for n, e in zip(names, out)])
    made = value.format(source=", ".join(source), target=target)
    sizes = f"{shape if len(shape) > 1 else (*shape, 1)}"
    return (
        f'{HEADER}def main(X: T.Buffer({sizes}, "{dtype}"), Y: T.Buffer({tuple(out)}, "{dtype}")):\n{loops}\n'
        f'{pad}with T.block("out"):\n{axes}\n{pad}    Y[{target}] = {made}\n'
    )


def shuffles(text: str) -> int:
    return len(collect(lower_prim_func(parse(text), LOOPS).body, Shuffle))


@pytest.mark.parametrize("dtype", ("float32", "float64", "int16", "float16", "bfloat16", "uint32"))
@pytest.mark.parametrize("shape", ((16, 16), (16, 32), (17, 16), (40, 37), (64, 19)))
def test_matrices(shape: tuple[int, int], dtype: str) -> None:
    text = program(shape, (1, 0), dtype)
    assert shuffles(text) > 0
    x = (np.arange(shape[0] * shape[1]) % 120).reshape(shape).astype(dtype)
    y = np.zeros(shape[::-1], x.dtype)
    unity.build(parse(text))["main"](x, y)
    np.testing.assert_array_equal(y, x.T)


DECISIONS = ({}, *[{"registers": side} for side in (0, 2, 4, 8, 16)], {"loop_0": 1}, {"registers": 4, "loop_0": 1})


@pytest.mark.parametrize("level", (3, 4))
@pytest.mark.parametrize("shape", ((9, 49), (49, 11), (5, 33), (8, 8), (31, 17)))
def test_blocks_and_their_order_are_decisions(shape: tuple[int, int], level: int) -> None:
    sch = unity.Schedule(parse(program(shape, (1, 0), "float32")))
    x, y = np.random.default_rng(0).standard_normal(shape).astype("float32"), np.zeros(shape[::-1], "float32")
    programs = set()
    with unity.Target(f"llvm -mcpu=x86-64-v{level}"):
        for decided in DECISIONS:
            made = sch.copy()
            made.annotate("out", "schedule", decided)
            lowered = lower_prim_func(made.mod["main"], LOOPS)
            programs.add(lowered.script())
            y[:] = 0
            run(lowered, None, x, y)
            np.testing.assert_array_equal(y, x.T)
    assert len(programs) >= 3


@pytest.mark.parametrize(("short", "turned"), ((4, False), (8, True), (9, True), (15, True)))
def test_lines_shorter_than_a_register_are_turned_in_a_part_of_one(short: int, turned: bool) -> None:
    with unity.Target("llvm -mcpu=x86-64-v4"):
        for shape in ((short, 49), (49, short)):
            assert (shuffles(program(shape, (1, 0), "float32")) > 0) == turned


def test_one_cell_is_not_shared() -> None:
    sch = unity.Schedule(parse(program((1, 1), (1, 0), "float32")))
    sch.annotate("out", "schedule", {"parallel": 1})
    y = np.zeros((1, 1), "float32")
    unity.build(sch.mod)["main"](np.ones((1, 1), "float32"), y)
    assert y == 1


@pytest.mark.parametrize("order", ((0, 2, 1), (2, 1, 0), (2, 0, 1), (1, 2, 0)))
def test_three_axes_and_a_formula(order: tuple[int, ...]) -> None:
    text = program((18, 20, 33), order, "float32", "T.exp(X[{source}]) * T.float32(2)")
    assert shuffles(text) > 0
    x = np.random.default_rng(0).standard_normal((18, 20, 33)).astype("float32")
    y = np.zeros([x.shape[a] for a in order], "float32")
    unity.build(parse(text))["main"](x, y)
    np.testing.assert_allclose(y, 2 * np.exp(x.transpose(order)), rtol=1e-6)


@pytest.mark.parametrize("level", ("v3", "v4"))
@pytest.mark.parametrize("shape", ((9, 5), (40, 13), (13, 40), (29, 16), (16, 29), (45, 37), (11, 12), (15, 15)))
@pytest.mark.parametrize("rest", ((), (1,), (2,)))
def test_threads_share_blocks_without_a_race(
    level: str, shape: tuple[int, int], rest: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last block has cells of the one before: threads never have both. The interpreter refuses races."""
    monkeypatch.setattr("unity.transform.default_schedule.nests.order_loops.SHARED_WORK", 0)
    order = (1, 0) if not rest else (0, 2, 1)
    with unity.Target(f"llvm -mcpu=x86-64-{level}"):
        lowered = lower_prim_func(parse(program((*rest, *shape), order, "float64")), LOOPS)
    assert any([loop.kind == "parallel" for loop in collect(lowered.body, For)]) or max(shape) < 16
    x = np.random.default_rng(0).standard_normal((*rest, *shape))
    y = np.zeros([x.shape[axis] for axis in order])
    run(unity.IRModule({"main": lowered}), "main", x, y)
    np.testing.assert_array_equal(y, x.transpose(order))


def test_symbolic_extents() -> None:
    text = (
        HEADER
        + """def main(x: T.handle, y: T.handle):
    n = T.int64()
    m = T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    Y = T.match_buffer(y, (m, n), "float32")
    for i, j in T.grid(m, n):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vj, vi]
"""
    )
    assert shuffles(text) > 0
    run = unity.build(parse(text))["main"]
    for n, m in ((0, 5), (1, 1), (16, 16), (15, 40), (33, 50)):
        x = np.random.default_rng(0).standard_normal((n, m)).astype("float32")
        y = np.zeros((m, n), "float32")
        run(x, y)
        np.testing.assert_array_equal(y, x.T)


def test_what_is_no_transposition_stays() -> None:
    assert shuffles(program((3, 300), (1, 0), "float32")) == 0  # less than a block of any processor
    assert shuffles(program((64, 64), (0, 1), "float32")) == 0
    assert shuffles(program((64, 64), (1, 0), "bool")) == 0
    guarded = "T.if_then_else({target} < 60, X[{source}], T.float32(0))"
    text = program((64, 64), (1, 0), "float32", guarded.replace("{target} < 60", "vi0 < 60"))
    assert shuffles(text) == 0  # the choice may be there to keep the read inside the buffer
