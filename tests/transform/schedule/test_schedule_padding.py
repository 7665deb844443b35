"""decompose_padding and pad_einsum: the same results, loops over the inside alone; what they refuse."""

import random

import numpy as np
import pytest
from fuzz import TIMES
from schedule_programs import MM_RELU, assert_same, module

import unity
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace

PAD = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((6, 7), "float32"), B: T.Buffer((10, 11), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(10, 11):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(CONDITION, A[vi - 2, vj - 1], T.float32(FILL))
"""
BOX = "2 <= vi and vi < 8 and 1 <= vj and vj < 8"


def start(text):
    mod = module(text)
    return mod, Schedule(mod, debug_mask="all")


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("fill", ["0", "-2.5"])
def test_padding_of_an_image(place, fill):
    mod, sch = start(PAD.replace("CONDITION", BOX).replace("FILL", fill))
    block = sch.get_block("B")
    assert sch.can_decompose_padding(block, sch.get_loops(block)[place])
    made = sch.decompose_padding(block, sch.get_loops(block)[place])
    assert sch.get(made).name == "B_pad_const"
    inside = [sch.get(loop).extent.value for loop in sch.get_loops(block)]
    assert inside == ([6, 7] if place == 0 else [10, 7])
    assert ("T.where" in sch.mod.script()) == (place == 1)
    assert_same(mod, sch.mod)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_a_condition_that_is_no_box():
    mod, sch = start(PAD.replace("CONDITION", BOX + " and vi + vj < 12").replace("FILL", "1"))
    sch.decompose_padding("B", sch.get_loops("B")[0])
    assert "T.where" in sch.mod.script()
    assert_same(mod, sch.mod)


def test_after_a_split():
    mod, sch = start(PAD.replace("CONDITION", BOX).replace("FILL", "1"))
    i, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    sch.decompose_padding("B", i)
    assert_same(mod, sch.mod)


def test_what_is_no_padding():
    _, sch = start(MM_RELU)
    block = sch.get_block("D")
    assert not sch.can_decompose_padding(block, sch.get_loops(block)[0])
    with pytest.raises(ScheduleError) as found:
        sch.decompose_padding(block, sch.get_loops(block)[0])
    assert found.value.code == "E446" and "padding with a constant" in str(found.value)
    with pytest.raises(ScheduleError, match="E446"):
        sch.decompose_padding(block, sch.get_loops("C")[0])


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_random_padding_of_a_product(seed):
    rng = random.Random(seed)
    mod, sch = start(MM_RELU)
    padding = [rng.choice([1, 2, 3, 4, 5, 8, 16]) for _ in range(3)]
    sch.pad_einsum(sch.get_block("C"), padding)
    extents = [sch.get(loop).extent.value for loop in sch.get_loops("C")]
    assert extents == [-(-n // p) * p for n, p in zip((6, 10, 8), padding)]
    assert_same(mod, sch.mod, seeds=1)
    if rng.random() < 0.5:
        for loop, factor in zip(sch.get_loops("C"), padding):
            sch.split(loop, [None, factor])
        assert_same(mod, sch.mod, seeds=1)


def test_padding_then_inlining_and_running():
    mod, sch = start(MM_RELU)
    sch.pad_einsum("C", [4, 16, 1])
    sch.compute_inline("A_pad")
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1)
    assert_same(mod, sch.mod)
    arrays = [np.random.default_rng(0).random(s, np.float32) for s in ((6, 8), (8, 10), (6, 10))]
    unity.VirtualMachine(unity.compile(sch.mod))["main"](*arrays)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-5)


OUTER = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((5,), "float32"), B: T.Buffer((7,), "float32"), C: T.Buffer((5, 7), "float32")):
        for i, j in T.grid(5, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi] * B[vj]
"""


def test_a_product_that_sums_nothing():
    mod, sch = start(OUTER)
    sch.pad_einsum("C", [4, 8])
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [8, 8]
    assert_same(mod, sch.mod)


REFUSED = [
    (MM_RELU, lambda s: s.pad_einsum("C", [4, 4]), "positive padding"),
    (MM_RELU, lambda s: s.pad_einsum("C", [4, 0, 4]), "positive padding"),
    (MM_RELU, lambda s: (s.split(s.get_loops("C")[0], [None, 2]), s.pad_einsum("C", [4, 4, 4])), "trivial binding"),
    (MM_RELU.replace("A[vi, vk] *", "A[vi, vk] +"), lambda s: s.pad_einsum("C", [4, 4, 4]), "an einsum"),
    (MM_RELU.replace("* B[vk, vj]", "* B[0, vj]"), lambda s: s.pad_einsum("C", [4, 4, 4]), "an einsum"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    text, step, condition = REFUSED[case]
    sch = Schedule(module(text))
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == "E447" and condition in str(found.value)
