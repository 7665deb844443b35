"""blockize: tiles as blocks, with initialisation, conditions and neighbours; what it refuses."""

import random

import numpy as np
import pytest
from fuzz import TIMES
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

from unity.ir.interpret import run
from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace

MIXED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(4, 4):
            with T.block("B"):
                v = T.axis.spatial(16, j * 4 + i)
                B[v] = A[v] + T.float32(1)
"""


def tiled(sch, factors, order=None):
    loops = sch.get_loops(sch.get_block("C"))
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(loops, factors)]
    outer, inner = [p[0] for p in pairs], [p[1] for p in pairs]
    if order:
        outer = [outer[x] for x in order]
    sch.reorder(*outer, *inner)
    return outer, inner


def test_a_matrix_product_in_tiles():
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    outer, inner = tiled(sch, [3, 5, 4])
    block = sch.blockize(inner[0])
    assert sch.get(block).name == "C_o" and [a.dom.extent.value for a in sch.get(block).iter_vars] == [2, 2, 2]
    assert [[r.extent.value for r in region.region] for region in sch.get(block).reads] == [[3, 4], [4, 5]]
    assert [a.dom.extent.value for a in sch.get(sch.get_block("C")).iter_vars] == [3, 5, 4]
    copy = sch.cache_read(block, 0, "global")
    sch.compute_at(copy, outer[2])
    out = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(out, outer[1])
    sch.decompose_reduction(block, outer[2])
    assert_same(mod, sch.mod)
    assert "proved" in {inst.grade for inst in sch.trace.insts}
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_neighbours_become_one():
    mod = module(ELEMENTWISE)
    sch = Schedule(mod, debug_mask="all")
    sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("D"))[0])
    block = sch.blockize([sch.get_block("B"), sch.get_block("D")], preserve_unit_iters=False)
    assert [a.var.name for a in sch.get(block).iter_vars] == ["vi_o"]
    assert [sch.get(b).name for b in sch.get_child_blocks(block)] == ["B", "D"]
    assert_same(mod, sch.mod)


def test_all_of_a_program():
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    sch.blockize([sch.get_block("C"), sch.get_block("D")])
    assert_same(mod, sch.mod)


def test_symbolic_rows():
    mod = module(SYMBOLIC)
    sch = Schedule(mod, debug_mask="all")
    sch.blockize(sch.get_loops(sch.get_block("B"))[1])
    assert_same(mod, sch.mod)


def test_a_block_itself():
    mod = module(ELEMENTWISE)
    sch = Schedule(mod, debug_mask="all")
    made = sch.blockize(sch.get_block("D"))
    assert len(sch.get(made).iter_vars) == 2
    assert_same(mod, sch.mod)


def test_a_condition_outside_stays_outside():
    mod = module(ELEMENTWISE)
    sch = Schedule(mod, debug_mask="all")
    i, j = sch.get_loops(sch.get_block("D"))
    sch.split(i, [None, 5])
    sch.blockize(j)
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("seed", range(10 * TIMES))
def test_random_tiles(seed):
    rng = random.Random(seed)
    n, m, k = [rng.choice([1, 2, 4, 6, 8, 9]) for _ in range(3)]
    mod = module(
        MM_RELU.replace("(6, 8)", f"({n}, {k})")
        .replace("(8, 10)", f"({k}, {m})")
        .replace("(6, 10)", f"({n}, {m})")
        .replace("T.grid(6, 10, 8)", f"T.grid({n}, {m}, {k})")
        .replace("T.grid(6, 10)", f"T.grid({n}, {m})")
    )
    sch = Schedule(mod, debug_mask="all")
    factors = [rng.choice([f for f in range(1, size + 1) if size % f == 0]) for size in (n, m, k)]
    order = rng.sample(range(3), 3)
    _, inner = tiled(sch, factors, order)
    block = sch.blockize(rng.choice(inner), preserve_unit_iters=rng.random() < 0.5)
    if rng.random() < 0.5:
        sch.decompose_reduction(block, sch.get_loops(block)[0])
    assert_same(mod, sch.mod, seeds=1)


def test_regions_divide_by_no_size_of_zero():
    mod = module(SYMBOLIC.replace("A[vi, vj] +", "A[vi % n, vi % m] +"))
    sch = Schedule(mod)
    sch.blockize(sch.get_loops("B")[1])
    for sizes in ((0, 0), (3, 0), (0, 3), (3, 4)):
        found = np.zeros(sizes, "float32")
        run(sch.mod, "main", np.ones(sizes, "float32"), found)
        assert (found == 2).all()


REFUSED = [
    (MIXED, lambda s: s.blockize(s.get_loops(s.get_block("B"))[1]), "a division of the iterators"),
    (
        ELEMENTWISE,
        lambda s: s.blockize(s.split(s.get_loops(s.get_block("D"))[1], [None, 4])[1]),
        "a divisible condition",
    ),
    (MM_RELU, lambda s: s.blockize([s.get_block("C"), s.get_block("root")]), "one scope"),
    (ELEMENTWISE, lambda s: s.blockize(s.get_block("root")), "one block inside"),
    (ELEMENTWISE, lambda s: s.blockize([]), "one block inside"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    text, step, condition = REFUSED[case]
    mod = module(text)
    sch = Schedule(mod)
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == "E440" and condition in str(found.value)


def test_two_blocks_in_a_loop_are_refused():
    mod = module(ELEMENTWISE)
    sch = Schedule(mod)
    i = sch.get_loops(sch.get_block("D"))[0]
    sch.compute_at(sch.get_block("B"), i)
    before = sch.mod
    with pytest.raises(ScheduleError, match="more than one block"):
        sch.blockize(i)
    assert sch.mod is before
