"""Loop primitives: what they make, and every refusal with its condition; a refused step changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

import unity
from unity.ir.interpret import run
from unity.ir.stmt import Block
from unity.ir.walk import collect
from unity.support.errors import ScheduleError
from unity.transform.schedule import Refused, Schedule, Trace

WRONG_SPATIAL = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 1), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(4, 8):
            with T.block("Y"):
                vi, vk = T.axis.remap("SS", [i, k])
                Y[vi, 0] = A[vi, vk]
"""
SHIFTED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((10,), "float32")
        for z in range(1):
            with T.block("Z"):
                B[0] = T.float32(0)
        for i in range(9):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                B[vi + 1] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(9, i)
                C[vi] = B[vi]
"""
CROSSED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi]
            with T.block("E"):
                vi = T.axis.spatial(8, i)
                C[7 - vi] = T.float32(1)
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = C[vi]
"""
LOOSE = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((4, 4), "int32"), S: T.Buffer((1,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(4, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1
            S[0] = S[0] * 2 + T.Cast("int32", i)
"""


def loops(sch: Schedule, name: str = "C") -> list[Any]:
    return sch.get_loops(sch.get_block(name))


def _bound(sch: Schedule) -> None:
    i, *_ = loops(sch)
    sch.bind(i, "threadIdx.x")
    sch.split(i, [2, 3])


def _annotated(sch: Schedule) -> None:
    i, *_ = loops(sch)
    sch.annotate(i, "x", 1)
    sch.fuse(*loops(sch)[:2])


REFUSALS: list[tuple[str, str, str, str, Callable[[Schedule], Any]]] = [
    ("split bound", MM_RELU, "E421", "plain loop", _bound),
    ("fuse annotated", MM_RELU, "E421", "plain loop", _annotated),
    ("factors short", MM_RELU, "E422", "factors cover the loop", lambda s: s.split(loops(s)[0], [2, 2])),
    ("factor zero", MM_RELU, "E422", "positive factors", lambda s: s.split(loops(s)[0], [None, 0])),
    ("fuse apart", MM_RELU, "E423", "only children in a chain", lambda s: s.fuse(loops(s)[0], loops(s)[2])),
    ("fuse nothing", MM_RELU, "E423", "at least one loop", lambda s: s.fuse()),
    ("reorder twice", MM_RELU, "E424", "no loop twice", lambda s: s.reorder(loops(s)[0], loops(s)[0])),
    ("reorder nests", MM_RELU, "E424", "one chain", lambda s: s.reorder(loops(s)[0], loops(s, "D")[1])),
    ("iterators", MM_RELU, "E424", "a permutation", lambda s: s.reorder_block_iter_var(s.get_block("C"), [0, 1])),
    ("unit at root", MM_RELU, "E424", "not the root block", lambda s: s.add_unit_loop(s.get_block("root"))),
    ("parallel reduction", MM_RELU, "E414", "spatial iterators only", lambda s: s.parallel(loops(s)[2])),
    ("vectorize reduction", MM_RELU, "E414", "spatial iterators only", lambda s: s.vectorize(loops(s)[2])),
    ("bind reduction", MM_RELU, "E414", "spatial iterators only", lambda s: s.bind(loops(s)[2], "blockIdx.x")),
    ("thread axis", MM_RELU, "E425", "known thread axis", lambda s: s.bind(loops(s)[0], "thread.x")),
    ("same cell", WRONG_SPATIAL, "E417", "distinct cells", lambda s: s.parallel(loops(s, "Y")[1])),
    ("same cell order", WRONG_SPATIAL, "E417", "distinct cells", lambda s: s.reorder(*loops(s, "Y")[::-1])),
    ("shifted read", SHIFTED, "E415", "independent iterations", lambda s: s.parallel(loops(s, "B")[0])),
    ("crossed writes", CROSSED, "E415", "independent iterations", lambda s: s.parallel(loops(s, "C")[0])),
    ("loose statement", LOOSE, "E418", "blocks only", lambda s: s.parallel(loops(s, "A")[0])),
    ("loose statement order", LOOSE, "E418", "blocks only", lambda s: s.reorder(*loops(s, "A")[::-1])),
    ("decompose no reduction", MM_RELU, "E412", "reduction block", lambda s: s.decompose_reduction(s.get_block("D"), loops(s, "D")[0])),
    ("decompose elsewhere", MM_RELU, "E427", "loop around the block", lambda s: s.decompose_reduction(s.get_block("C"), loops(s, "D")[0])),
    ("no such key", MM_RELU, "E426", "key present", lambda s: s.unannotate(loops(s)[0], "x")),
    ("tile", MM_RELU, "E428", "innermost factor within its limit", lambda s: s.sample_perfect_tile(loops(s)[2], 1, 4)),
    ("tile decision", MM_RELU, "E428", "a valid decision", lambda s: s.sample_perfect_tile(loops(s)[0], 2, decision=[2, 4])),
    ("tile symbolic", SYMBOLIC, "E428", "constant extent", lambda s: s.sample_perfect_tile(loops(s, "B")[0], 2)),
    ("probabilities", MM_RELU, "E428", "a probability for each candidate", lambda s: s.sample_categorical([1, 2], [1.0])),
    ("scope of parameter", MM_RELU, "E429", "allocated in the function", lambda s: s.set_scope(s.get_block("D"), 0, "shared")),
    ("scope unknown", MM_RELU, "E429", "known scope", lambda s: s.set_scope(s.get_block("C"), 0, "shares")),
    ("buffer index", MM_RELU, "E429", "a written buffer", lambda s: s.set_scope(s.get_block("C"), 1, "shared")),
    ("align axis", MM_RELU, "E429", "axis in range", lambda s: s.storage_align(s.get_block("C"), 0, 2, 32, 8)),
    ("align factor", MM_RELU, "E429", "positive factor", lambda s: s.storage_align(s.get_block("C"), 0, 1, 0, 8)),
    ("dtype", MM_RELU, "E429", "known data type", lambda s: s.unsafe_set_dtype(s.get_block("C"), 0, "float33")),
    ("partition", MM_RELU, "E422", "parts within the loop", lambda s: s.loop_partition(loops(s)[0], [4, 3])),
    ("merge extents", ELEMENTWISE, "E423", "same extents", lambda s: s.merge(loops(s, "B")[0], s.split(loops(s, "D")[0], [3, 4])[0])),
    ("merge shifted", ELEMENTWISE.replace("= B[vi, vj]", "= B[11 - vi, vj]"), "E415", "region cover",
     lambda s: s.merge(loops(s, "B")[0], loops(s, "D")[0])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "condition", "step"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(text: str, code: str, condition: str, step: Callable[[Schedule], Any]) -> None:
    sch = Schedule(module(text), debug_mask=1)
    with pytest.raises(Refused) as caught:
        step(sch)
    refused = caught.value
    assert (refused.code, refused.condition) == (code, condition), str(refused)
    assert refused.message.startswith(f"{refused.primitive}: ")
    if refused.marks and condition != "not the root block":
        assert "^^^" in str(refused)
    kinds = {inst.kind for inst in sch.trace.insts}
    if kinds <= {"get_block", "get_loops"}:
        assert sch.mod.script() == module(text).script()
    sch.state.check()


def test_counter_examples_name_the_iterations() -> None:
    sch = Schedule(module(WRONG_SPATIAL))
    with pytest.raises(Refused) as caught:
        sch.parallel(loops(sch, "Y")[1])
    assert "i = 0, k = 0 and i = 0, k = 1 write Y[0, 0]" in str(caught.value)
    assert caught.value.counterexample == {"i": 0, "k": 1}
    bare = Schedule(module(WRONG_SPATIAL), error_render_level="none")
    with pytest.raises(Refused) as caught:
        bare.parallel(loops(bare, "Y")[1])
    assert caught.value.condition == "distinct cells"


def test_wrong_spatial_loops_that_are_distinct_may_run_in_parallel() -> None:
    sch = Schedule(module(MM_RELU), debug_mask="all")
    i, j, k = loops(sch)
    sch.reorder(k, i, j)
    sch.parallel(i)
    sch.vectorize(j)
    assert "T.parallel(6)" in sch.mod.script() and "T.vectorized(10)" in sch.mod.script()


def test_threads_may_reduce_and_share_work() -> None:
    sch = Schedule(module(MM_RELU))
    _, _, k = loops(sch)
    sch.bind(k, "threadIdx.x")
    unit = sch.add_unit_loop(loops(sch, "D")[1])
    sch.bind(unit, "threadIdx.y")
    assert sch.mod.script().count("T.thread_binding") == 2


def test_decompose_at_every_legal_loop() -> None:
    mod = module(MM_RELU)
    for place in range(3):
        sch = Schedule(mod, debug_mask="all")
        block = sch.get_block("C")
        init = sch.decompose_reduction(block, sch.get_loops(block)[place])
        assert [sch.get(b).name for b in (init, block)] == ["C_init", "C_update"]
        assert len(sch.get_loops(init)) == 2
        assert_same(mod, sch.mod)
    sch = Schedule(mod)
    i, j, k = loops(sch)
    sch.reorder(k, i, j)
    with pytest.raises(Refused, match="drives a reduction iterator and is outside of i"):
        sch.decompose_reduction(sch.get_block("C"), i)


def test_decompose_keeps_predicates_and_kinds() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 3])
    sch.reorder(j0, k0, k1, j1)
    sch.vectorize(j1)
    init = sch.decompose_reduction(block, k0)
    assert sch.get(sch.get_loops(init)[-1]).kind == "vectorized"
    sch.parallel(sch.get_loops(init)[0])
    assert_same(mod, sch.mod)


def test_fused_reduction_and_spatial_loops_decompose() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    jk = sch.fuse(j, k)
    sch.decompose_reduction(block, jk)
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("factor", [2, 3, 4, 5, 8, 12, 16])
def test_the_first_step_of_a_cell_stays_its_first(factor: int) -> None:
    """Parts of a loop that counts cells and steps change places where the first step is at the start of one of them."""
    sch = Schedule(
        module("""
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((5, 8), "int32"), C: T.Buffer((4, 5), "int32")):
        for i, j, k in T.grid(4, 5, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
""")
    )
    _, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(sch.fuse(j, k), [None, factor])
    if 8 % factor == 0 or factor % 8 == 0:
        sch.reorder(inner, outer)
        assert sch.trace.insts[-1].grade == "proved"
    else:
        with pytest.raises(Refused, match="the first step of C comes first though"):
            sch.reorder(inner, outer)


def test_disable_predication_is_tested() -> None:
    sch = Schedule(module(SYMBOLIC))
    i, _ = loops(sch, "B")
    with pytest.raises(Refused, match="E404"):
        sch.split(i, [None, 2], disable_predication=True)
    sch = Schedule(module(MM_RELU))
    i, *_ = loops(sch)
    sch.split(i, [None, 2], disable_predication=True)
    assert sch.trace.insts[-1].grade == "proved"


def test_symbolic_factors() -> None:
    mod = module(SYMBOLIC)
    sch = Schedule(mod, debug_mask=1)
    i, j = loops(sch, "B")
    extent = sch.get(j).extent
    sch.split(i, [None, 3])
    sch.split(j, [extent, 1])
    assert_same(mod, sch.mod, seeds=3)


def test_set_scope_and_dtype() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    sch.set_scope(sch.get_block("D"), 0, "global")  # where a parameter is already
    sch.set_scope(sch.get_block("C"), "C", "local")
    assert_same(mod, sch.mod)
    assert 'scope="local"' in sch.mod.script()
    sch.unsafe_set_dtype(sch.get_block("C"), 0, "float64")
    assert sch.trace.insts[-1].grade == "unsafe"
    assert_same(mod, sch.mod)
    assert '"float64", scope="local"' in sch.mod.script()
    assert 'C[vi, vj] = C[vi, vj] + T.Cast("float64", ' in sch.mod.script()  # the sum is one of float64


def test_partition_and_merge() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    inner = sch.merge(loops(sch)[1], loops(sch, "D")[1])
    parts = sch.loop_partition(inner, [3, None, 2])
    assert [sch.get(p).extent.value for p in parts] == [3, 5, 2]
    assert_same(mod, sch.mod)
    names = [b.name for b in collect(sch.mod["main"], Block)]
    assert sorted(names) == ["C_0", "C_1", "C_2", "D_0", "D_1", "D_2"]


def test_sampling_is_exact_and_within_limits() -> None:
    sch = Schedule(module(MM_RELU), seed=5)
    i, _, k = loops(sch)
    seen = set()
    for _ in range(60):
        tiles = [sch.get(v) for v in sch.sample_perfect_tile(k, 3, max_innermost_factor=4)]
        assert tiles[0] * tiles[1] * tiles[2] == 8 and tiles[2] <= 4
        seen.add(tuple(tiles))
    assert len(seen) == 9  # every factorisation of 8 into three with the last at most 4
    for _ in range(20):
        parts = [sch.get(v) for v in sch.sample_partitioned_tile(k, 3, 1, 4)]
        assert parts[0] * parts[1] * parts[2] == 8 and parts[1] * parts[2] % 4 == 0
    assert {sch.get(sch.sample_categorical([7, 9], [1.0, 0.0])) for _ in range(5)} == {7}
    assert [sch.get(v) for v in sch.sample_partitioned_tile(i, 2, 1, 4)] == [6, 1]


def test_untouched_parts_keep_their_nodes() -> None:
    sch = Schedule(module(MM_RELU))
    before = sch.get(sch.get_block("D"))
    loop = sch.get(loops(sch, "D")[0])
    sch.split(loops(sch)[1], [None, 4])
    assert sch.get(sch.get_block("D")) is before and sch.get(loops(sch, "D")[0]) is loop


def test_sampled_locations() -> None:
    mod = module(ELEMENTWISE)
    seen = set()
    for seed in range(12):
        sch = Schedule(mod, seed=seed, debug_mask="all")
        block = sch.get_block("B")
        where = sch.sample_compute_location(block)
        seen.add(sch.trace.insts[-1].decision)
        sch.compute_at(block, where)
        assert_same(mod, sch.mod, seeds=1)
        again = Schedule(mod)
        Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
        assert again.mod.script() == sch.mod.script()
    assert seen == {-2, -1, 0, 1}
    sch = Schedule(mod)
    root = sch.sample_compute_location(sch.get_block("D"))
    assert sch.trace.insts[-1].decision == -1
    with pytest.raises(Refused, match="split takes a loop, the sampled location is 'root'"):
        sch.split(root, [None, 2])


SCATTERED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((11, 3), "float32"), B: T.Buffer((11, 3), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(11, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi * 7 % 11, vj] = A[vi, vj]
"""


def test_what_is_not_proved_is_tested_or_refused() -> None:
    mod = module(SCATTERED)
    sch = Schedule(mod)
    sch.parallel(loops(sch, "B")[0])
    assert sch.trace.insts[-1].grade == "tested" and "# tested" in sch.trace.script()
    assert_same(mod, sch.mod)
    large = Schedule(module(SCATTERED.replace("11", "100003")))
    with pytest.raises(Refused, match="not proved that spatial iterators of block B write different cells") as caught:
        large.parallel(loops(large, "B")[0])
    assert caught.value.code == "E404"
    collides = Schedule(module(SCATTERED.replace("vi * 7 % 11", "vi * 7 % 10")))
    with pytest.raises(Refused, match="i = 0, j = 0 and i = 10, j = 0 write") as caught:
        collides.parallel(loops(collides, "B")[0])
    assert caught.value.code == "E417"


def panels() -> Schedule:
    """A tiled product whose panel of A is packed inside the parallel loop."""
    sch = Schedule(module(MM_RELU), debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 2])
    j0, j1 = sch.split(j, [None, 5])
    sch.reorder(i0, j0, k, i1, j1)
    panel = sch.cache_read(block, 0, "global")
    sch.compute_at(panel, j0)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j1)
    return sch


def test_buffers_of_one_iteration_are_allocated_inside_a_parallel_loop() -> None:
    sch = panels()
    text = sch.mod.script()
    assert text.index("T.parallel(6)") < text.index("A_global = T.alloc_buffer")
    assert_same(module(MM_RELU), sch.mod)
    with pytest.raises(Refused, match="allocated inside a loop"):
        sch.set_scope(sch.get_block("A_global"), 0, "local")


def test_a_buffer_that_outlives_the_iteration_stays_shared() -> None:
    sch = Schedule(module(MM_RELU))
    block = sch.get_block("C")
    i, *_ = sch.get_loops(block)
    panel = sch.cache_read(block, 0, "global")
    sch.compute_at(panel, i)
    sch.reorder(*sch.get_loops(panel)[1:][::-1])
    unit = sch.add_unit_loop(sch.get_loops(block)[0])
    sch.parallel(unit)
    loose = Schedule(module(MM_RELU))
    block = loose.get_block("C")
    _, j, _ = loose.get_loops(block)
    panel = loose.cache_read(block, 0, "global")
    loose.compute_at(panel, j)
    loose.parallel(j)
    assert_same(module(MM_RELU), loose.mod)


@pytest.mark.parametrize("loops", [1, 2])
def test_a_running_sum_is_no_buffer_of_one_iteration(loops: int) -> None:
    text = (
        MM_RELU[: MM_RELU.index("        for i, j, k in T.grid")]
        + """
        for i, j, k in T.grid(6, 10, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            with T.block("D"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                D[vi, vk] = C[vi, vj]
"""
    )
    drives, reads = "drives a reduction iterator", {1: "completes its reduction", 2: "the same cell"}
    for step, reason in (
        (lambda s, x: s.parallel(x), drives),
        (lambda s, x: s.bind(x, "blockIdx.x"), drives),
        (lambda s, x: s.bind(x, "threadIdx.x"), reads[loops]),
    ):
        sch = Schedule(module(text))
        inner = sch.get_loops("C")[-loops:]
        with pytest.raises(ScheduleError, match=reason):
            step(sch, sch.fuse(*inner))


def test_scheduled_programs_compile() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 8), "float32"), rng.random((8, 10), "float32")
    found = np.zeros((6, 10), "float32")
    unity.VirtualMachine(unity.compile(panels().mod))["main"](a, b, found)
    np.testing.assert_allclose(found, np.maximum(a @ b, 0), rtol=1e-5)


def test_a_program_that_cannot_run_is_no_test() -> None:
    broken = SCATTERED.replace("A[vi, vj]", "A[vi + 5, vj]")
    with pytest.raises(Refused, match="the program did not run on random arguments"):
        sch = Schedule(module(broken))
        sch.parallel(loops(sch, "B")[0])


SYMBOLIC_SUM = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i, k in T.grid(n, m):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(5)
                B[vi] = B[vi] + A[vi, vk]
"""


def empty_sum(sch: Schedule) -> list[float]:
    """What the scheduled sum gives over nothing."""
    found = np.zeros((3,), "float32")
    run(sch.mod, "main", np.zeros((3, 0), "float32"), found)
    return list(found)


def test_a_reduction_over_nothing_keeps_its_initial_value() -> None:
    sch = Schedule(module(SYMBOLIC_SUM))
    block = sch.get_block("B")
    i, k = sch.get_loops(block)
    with pytest.raises(Refused, match="B would not be initialised"):
        sch.fuse(i, k)
    cache = sch.cache_read(block, 0, "local")
    with pytest.raises(Refused, match="B would not be initialised"):
        sch.compute_at(cache, k)
    sch.split(k, [None, 4])
    sch.split(i, [None, 2])
    assert empty_sum(sch) == [5, 5, 5]
    *_, last = sch.get_loops(block)
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.compute_at(cache, last)
    assert empty_sum(sch) == [5, 5, 5]


def test_parts_of_a_reduction_go_on() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    *_, k = loops(sch)
    sch.loop_partition(k, [3, None])
    assert sch.get(sch.get_block("C_0")).init is not None and sch.get(sch.get_block("C_1")).init is None
    assert_same(mod, sch.mod)


SHARED_WORK = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((4, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            with T.block("rows"):
                row = T.axis.spatial(4, ty)
                B = T.alloc_buffer((8, 16), "float32", scope="shared")
                for i, j in T.grid(8, 16):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for n in range(8):
                    with T.block("C"):
                        vn = T.axis.spatial(8, n)
                        C[row, vn] = B[vn, row]
"""


def test_threads_share_work_that_does_not_depend_on_them():
    sch = Schedule(module(SHARED_WORK))
    i, _ = sch.get_loops("B")[-2:]
    _, inner = sch.split(i, [None, 4])
    sch.bind(inner, "threadIdx.y")
    (n,) = sch.get_loops("C")[-1:]
    _, inner = sch.split(n, [None, 4])
    with pytest.raises(Refused) as found:  # through the iterator of the block around it
        sch.bind(inner, "threadIdx.y")
    assert found.value.code == "E425"
