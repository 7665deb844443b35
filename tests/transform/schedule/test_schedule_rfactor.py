"""rfactor: partial results for every reducer, place of the new axis and form of the reduction; what it refuses."""

import random

import numpy as np
import pytest
from fuzz import TIMES
from schedule_programs import MM_RELU, assert_same, module

import unity
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace

REDUCED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((ROWS, COLS), "DT"), B: T.Buffer((ROWS,), "DT")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(ROWS, COLS):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = INIT
                B[vi] = VALUE
"""
KINDS = [
    ("float32", "T.float32(0)", "B[vi] + A[vi, vj]"), ("float32", "T.float32(2.5)", "B[vi] + A[vi, vj] * A[vi, vj]"),
    ("float64", "T.float64(1)", "A[vi, vj] * B[vi]"), ("int32", "T.int32(1000)", "T.min(B[vi], A[vi, vj])"),
    ("float32", 'T.min_value("float32")', "T.max(B[vi], A[vi, vj])"), ("bool", "T.bool(False)", "B[vi] or A[vi, vj]"),
    ("bool", "T.bool(True)", "B[vi] and A[vi, vj]"), ("int32", "T.int32(3)", "B[vi] + A[vi, vj]"),
    ("float32", "A[vi, 1]", "B[vi] + A[vi, vj]"),
]  # fmt: skip


def reduced(kind=0, n=5, m=12):
    dtype, init, value = KINDS[kind]
    return module(
        REDUCED.replace("INIT", init)
        .replace("VALUE", value)
        .replace("DT", dtype)
        .replace("ROWS", str(n))
        .replace("COLS", str(m))
    )


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("axis", [0, -1])
def test_reducers(kind, axis):
    mod = reduced(kind)
    sch = Schedule(mod, debug_mask="all")
    _j0, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    made = sch.rfactor(j1, axis)
    shape = [e.value for e in sch.get(made).writes[0].buffer.shape]
    assert shape == ([4, 5] if axis == 0 else [5, 4]) and sch.get(made).name == "B_rf"
    assert_same(mod, sch.mod)
    sch.parallel(sch.get_loops(made)[0])
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("seed", range(8 * TIMES))
def test_random_products(seed):
    rng = random.Random(seed)
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    i, j, k = sch.get_loops("C")
    parts = sch.split(k, [None, rng.choice([1, 2, 4, 8])])
    loops = [i, j, *parts]
    rng.shuffle(loops)
    if rng.random() < 0.3:
        loops = [*sch.split(i, [None, 4]), *[x for x in loops if x is not i]]
    sch.reorder(*loops)
    made = sch.rfactor(rng.choice(parts), rng.choice([0, 1, 2, -1, -2, -3]), merge_loops=rng.random() < 0.5)
    spatial = sch.get_loops(made)
    assert len(spatial) == len(loops)
    assert_same(mod, sch.mod, seeds=1)


def test_after_decomposition():
    mod = reduced()
    sch = Schedule(mod, debug_mask="all")
    _i, j = sch.get_loops("B")
    j0, _j1 = sch.split(j, [None, 3])
    sch.decompose_reduction("B", j0)
    sch.rfactor(j0, 0, merge_loops=True)
    assert_same(mod, sch.mod)


def test_then_decompose_and_vectorize():
    mod = reduced()
    sch = Schedule(mod, debug_mask="all")
    _i, j = sch.get_loops("B")
    j0, j1 = sch.split(j, [None, 4])
    made = sch.rfactor(j1, -1)
    sch.decompose_reduction(made, j0)
    sch.vectorize(j1)
    assert_same(mod, sch.mod)
    a, b = np.random.default_rng(0).random((5, 12), np.float32), np.zeros(5, np.float32)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_a_reduction_to_one_cell_is_parallel_afterwards():
    mod = reduced(0, 1, 24)
    sch = Schedule(mod, debug_mask="all")
    j0, _j1 = sch.split(sch.get_loops("B")[1], [4, None])
    sch.parallel(sch.get_loops(sch.rfactor(j0, 0))[1])
    assert_same(mod, sch.mod)


def test_a_condition_that_every_part_meets_once():
    mod = reduced(0, 3, 10)
    sch = Schedule(mod, debug_mask="all")
    _j0, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(j1, 0)
    assert_same(mod, sch.mod)


def test_a_part_without_values_is_refused():
    mod = reduced(0, 3, 10)
    sch = Schedule(mod)
    j0, _j1 = sch.split(sch.get_loops("B")[1], [6, 4])
    with pytest.raises(ScheduleError, match="may meet no value"):
        sch.rfactor(j0, 0)


REFUSED = [
    (0, lambda s: s.rfactor(s.get_loops("B")[0], 0), "a reduction loop"),
    (0, lambda s: s.rfactor(s.get_loops("B")[1], 2), "axis in range"),
    (0, lambda s: s.rfactor(s.get_loops("B")[1], -3), "axis in range"),
    (0, lambda s: s.rfactor(s.fuse(*s.get_loops("B")), 0), "a reduction loop"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    kind, step, condition = REFUSED[case]
    sch = Schedule(reduced(kind))
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == "E443" and f"condition: {condition}" in str(found.value)


@pytest.mark.parametrize("value", ["B[vi] - A[vi, vj]", "A[vi, vj]", "B[vi] + A[vi, vj] * B[vi]"])
def test_other_reducers_are_refused(value):
    text = (
        REDUCED.replace("INIT", "T.float32(0)")
        .replace("VALUE", value)
        .replace("DT", "float32")
        .replace("ROWS", "3")
        .replace("COLS", "4")
    )
    sch = Schedule(module(text))
    with pytest.raises(ScheduleError) as found:
        sch.rfactor(sch.get_loops("B")[1], 0)
    assert found.value.code == "E443" and "known reducer" in str(found.value)


def test_a_spatial_block_is_refused():
    sch = Schedule(module(MM_RELU))
    with pytest.raises(ScheduleError, match="not a reduction block"):
        sch.rfactor(sch.get_loops("D")[1], 0)


@pytest.mark.parametrize("size", [4, 5, 12])
def test_chunks_added_to_a_total(size):
    """Partial results of a loop that is no multiple of a chunk, each added up where it was made."""
    mod = reduced(n=5, m=12)
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("B")
    chunk, _ = sch.split(sch.get_loops(block)[1], [None, size])
    sch.decompose_reduction(block, chunk)
    partial = sch.rfactor(chunk, 0)
    sch.merge(*[sch.get_loops(b)[1] for b in (partial, sch.get_block("B_update"))])
    assert_same(mod, sch.mod)


def test_chunk_that_may_be_left_out_is_not_merged():
    """A condition on the chunks themselves leaves partial results unwritten."""
    text = REDUCED.replace("ROWS", "5").replace("COLS", "12").replace("DT", "float32").replace("INIT", "T.float32(0)")
    text = text.replace("VALUE", "B[vi] + A[vi, vj]").replace(
        '"SR", [i, j])', '"SR", [i, j])\n                T.where(j < 6)'
    )
    sch = Schedule(module(text), error_render_level="none")
    block = sch.get_block("B")
    chunk, _ = sch.split(sch.get_loops(block)[1], [None, 4])
    sch.decompose_reduction(block, chunk)
    with pytest.raises(ScheduleError):
        partial = sch.rfactor(chunk, 0)
        sch.merge(*[sch.get_loops(b)[1] for b in (partial, sch.get_block("B_update"))])


ARGMAX = """
@I.ir_module
class Module:
    @T.prim_func
    def main(P: T.Buffer((3, 12), "int32"), X: T.Buffer((3, 12), "float32"), I: T.Buffer((3,), "int32"), M: T.Buffer((3,), "float32")):
        for i, k in T.grid(3, 12):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    I[vi] = -1
                    M[vi] = T.float32("-inf")
                at: T.int32 = T.Select(CONDITION, I[vi], P[vi, vk])
                most: T.float32 = T.Select(CONDITION, M[vi], X[vi, vk])
                I[vi] = at
                M[vi] = most
"""
FIRST_OF_EQUAL = "M[vi] > X[vi, vk] or (M[vi] == X[vi, vk] and I[vi] < P[vi, vk])"


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("condition", ["M[vi] >= X[vi, vk]", "X[vi, vk] <= M[vi]", FIRST_OF_EQUAL])
def test_a_choice_with_its_place(condition, place):
    """argmax in parts: both results get their partial ones."""
    mod = module(ARGMAX.replace("CONDITION", condition))
    sch = Schedule(mod, debug_mask="all" if condition == FIRST_OF_EQUAL else "none")
    sch.parallel(sch.get_loops(sch.rfactor(sch.split(sch.get_loops("M")[1], [3, 4])[place], 0))[1 + place])
    values = np.random.default_rng(0).permutation(36).reshape(3, 12).astype(np.float32)
    values[0, 3] = np.inf
    values[1] = -np.inf
    places, found, most = np.tile(np.arange(12, dtype=np.int32), (3, 1)), np.zeros(3, np.int32), np.zeros(3, np.float32)
    before = found.copy(), most.copy()
    unity.compile(mod)["main"](places, values, *before)
    unity.compile(sch.mod)["main"](places, values, found, most)
    np.testing.assert_array_equal(most, values.max(1))
    np.testing.assert_array_equal(most, before[1])
    assert list(found[[0, 2]]) == list(values.argmax(1)[[0, 2]]) == list(before[0][[0, 2]])


@pytest.mark.parametrize("condition", ["M[vi] + X[vi, vk] > T.float32(0)", "M[vi] == X[vi, vk]", "I[vi] >= 3"])
def test_what_is_no_choice(condition):
    sch = Schedule(module(ARGMAX.replace("CONDITION", condition)))
    with pytest.raises(ScheduleError, match="known reducer"):
        sch.rfactor(sch.get_loops("M")[1], 0)
