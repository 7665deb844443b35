"""transform_layout, set_axis_separator, transform_block_layout: layouts that keep what is computed; what they refuse."""

import random

import numpy as np
import pytest
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

import unity
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace


def start(text):
    mod = module(text)
    return mod, Schedule(mod, debug_mask="all")


@pytest.mark.parametrize("buffer", [("write", 0), "C", ("write", "C")])
def test_blocks_of_columns(buffer):
    mod, sch = start(MM_RELU)
    sch.transform_layout(sch.get_block("C"), buffer, lambda i, j: (j // 4, i, j % 4))
    assert 'C = T.alloc_buffer((3, 6, 4), "float32")' in sch.mod.script()
    assert_same(mod, sch.mod)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_packing_by_a_cache():
    mod, sch = start(MM_RELU)
    copy = sch.cache_read(sch.get_block("C"), "B", "global")
    sch.transform_layout(copy, ("write", 0), lambda k, j: (j // 5, k, j % 5))
    assert_same(mod, sch.mod)
    arrays = [np.random.default_rng(0).random(s, np.float32) for s in ((6, 8), (8, 10), (6, 10))]
    unity.VirtualMachine(unity.compile(sch.mod))["main"](*arrays)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-5)


@pytest.mark.parametrize("value", [None, 0, -1.5])
def test_padding(value):
    mod, sch = start(ELEMENTWISE)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 5, j // 4, i % 5, j % 4), pad_value=value)
    assert ("B_pad" in sch.mod.script()) == (value is not None)
    assert_same(mod, sch.mod)


def test_after_blockize():
    mod, sch = start(MM_RELU)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 3])
    sch.reorder(i0, j, k, i1)
    sch.blockize(i1)
    sch.transform_layout(sch.get_block("D"), ("read", 0), lambda i, j: (i // 3, j, i % 3))
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("seed", range(20))
def test_random_layouts(seed):
    rng = random.Random(seed)
    mod, sch = start(rng.choice([MM_RELU, ELEMENTWISE]))
    f, g = rng.choice([1, 2, 3, 4, 5]), rng.choice([1, 2, 4, 7])

    def layout(i, j):
        parts = [i // f, i % f, j // g, j % g]
        order = random.Random(seed).sample(range(4), 4)
        return tuple([parts[x] for x in order])

    sch.transform_layout(sch.get_block("D"), ("read", 0), layout, pad_value=rng.choice([None, 3]))
    assert_same(mod, sch.mod, seeds=1)


def test_separators():
    mod, sch = start(MM_RELU)
    sch.set_axis_separator("C", ("write", 0), [1])
    assert "axis_separators" in sch.mod.script()
    assert_same(mod, sch.mod)


@pytest.mark.parametrize(
    "layout", [lambda i, j: (i * 10 + j,), lambda i, j: (j, i), lambda i, j: (i // 3, j // 5, i % 3, j % 5)]
)
def test_iterations(layout):
    mod, sch = start(MM_RELU)
    sch.transform_block_layout("D", layout)
    assert len(sch.get_loops("D")) == len(sch.get(sch.get_block("D")).iter_vars)
    assert_same(mod, sch.mod)


def test_iterations_of_a_reduction():
    mod, sch = start(MM_RELU)
    sch.transform_block_layout("C", lambda i, j, k: (k, i * 10 + j))
    assert [a.kind for a in sch.get(sch.get_block("C")).iter_vars] == ["R", "S"]
    assert_same(mod, sch.mod)


def test_symbolic_iterations():
    mod, sch = start(SYMBOLIC)
    sch.transform_block_layout("B", lambda i, j: (j, i))
    assert_same(mod, sch.mod)


REFUSED = [
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (j, i // 2)), "E444", "a cell for each cell"),
    (lambda s: s.transform_layout("C", ("read", 0), lambda i, j: (j, i)), "E444", "a buffer of the function's own"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i: (i,)), "E403", ""),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (j // 4, i, j % 4), pad_value="x"), "E444", "a pad value"),
    (lambda s: s.set_axis_separator("C", ("write", 0), [2, 1]), "E444", "separators in order"),
    (lambda s: s.transform_block_layout("C", lambda i, j, k: (i, j * 8 + k)), "E445", "iterators of one kind"),
    (lambda s: s.transform_block_layout("D", lambda i, j: (i // 4, j)), "E445", "a bijective map"),
    (lambda s: s.transform_block_layout("D", lambda i, j: (i // 4, j, i % 4)), "E445", "a bijective map"),
    (lambda s: (s.split(s.get_loops("D")[0], [2, 3]), s.transform_block_layout("D", lambda i, j: (j, i))), "E445", "trivial binding"),
    (lambda s: s.transform_layout("C", ("write", 3), lambda i, j: (j, i)), "E429", ""),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    step, code, condition = REFUSED[case]
    sch = Schedule(module(MM_RELU))
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == code and condition in str(found.value)


def test_a_map_that_is_tested():
    mod, sch = start(ELEMENTWISE)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i + j * 12,), assume_injective_transform=True)
    assert_same(mod, sch.mod)
    with pytest.raises(ScheduleError, match="E404"):
        sch.transform_layout("B", ("write", 0), lambda i: (i // 2,), assume_injective_transform=True)


def test_vectors_and_views_keep_their_layout():
    text = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((8, 8), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi, T.Ramp(0, 1, 8)] = A[vi, T.Ramp(0, 1, 8)]
        for i, j in T.grid(8, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj]
"""
    sch = Schedule(module(text))
    with pytest.raises(ScheduleError, match="accessed by vectors"):
        sch.transform_layout("D", ("read", 0), lambda i, j: (j, i))
