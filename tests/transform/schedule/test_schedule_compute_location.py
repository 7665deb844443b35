"""compute_at, reverse_compute_at, cache_read, cache_write, inlining: what they make, that it computes the same, what they refuse."""

import random

import pytest
from fuzz import TIMES
from schedule_programs import ELEMENTWISE, MM_RELU, assert_same, module
from schedule_text import alloc, buffers, match, nest, program

from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule

STENCIL = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((18,), "float32"), D: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((18,), "float32")
        for i in range(18):
            with T.block("B"):
                vi = T.axis.spatial(18, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(16):
            with T.block("D"):
                vi = T.axis.spatial(16, i)
                D[vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""

SYMBOLIC_CHAIN = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, d: T.handle):
        T.func_attr({"global_symbol": "main"})
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        D = T.match_buffer(d, (n, m), "float32")
        B = T.alloc_buffer((n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(n, m):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + T.float32(1)
"""

FLATTENED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((12, 16), "float32"), D: T.Buffer((192,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((12, 16), "float32")
        for i, j in T.grid(12, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for f in range(192):
            with T.block("D"):
                vf = T.axis.spatial(192, f)
                D[vf] = B[vf // 16, vf % 16] + T.float32(1)
"""

SUM = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8, 12), "float32"), S: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((8, 12), "float32")
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * A[vi, vj]
        for i, j in T.grid(8, 12):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + B[vi, vj]
"""


def start(text):
    mod = module(text)
    return mod, Schedule(mod, debug_mask="all")


def test_mm_relu_of_the_course():
    mod, sch = start(MM_RELU)
    block = sch.get_block("C", func_name="main")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 5])
    sch.reorder(i, j0, k, j1)
    sch.reverse_compute_at(sch.get_block("D"), j0)
    text = sch.mod.script()
    assert text.index('T.block("C")') < text.index('T.block("D")')
    assert len(sch.get_loops(sch.get_block("D"))) == 3
    sch.decompose_reduction(block, k)
    assert_same(mod, sch.mod)


def test_compute_at_recomputes_a_stencil():
    mod, sch = start(STENCIL)
    (i,) = sch.get_loops(sch.get_block("D"))
    i0, _ = sch.split(i, factors=[4, 4])
    sch.compute_at(sch.get_block("B"), i0)
    loops = sch.get_loops(sch.get_block("B"))
    assert [sch.get(loop).extent.value for loop in loops] == [4, 6]
    assert_same(mod, sch.mod)


def test_compute_at_with_a_tail():
    mod, sch = start(STENCIL)
    (i,) = sch.get_loops(sch.get_block("D"))
    i0, _ = sch.split(i, factors=[None, 5])
    sch.compute_at(sch.get_block("B"), i0)
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("factor", [1, 4, 16])
def test_symbolic_sizes(factor):
    mod, sch = start(SYMBOLIC_CHAIN)
    i, j = sch.get_loops(sch.get_block("D"))
    _, j1 = sch.split(j, factors=[None, factor])
    sch.compute_at(sch.get_block("B"), i if factor == 4 else j1)
    assert_same(mod, sch.mod)


def test_reverse_compute_at_keeps_handles():
    mod, sch = start(ELEMENTWISE)
    consumer = sch.get_block("D")
    i, j = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(consumer, j)
    assert sch.get(consumer).name == "D"
    assert [sch.get(x).loop_var.name for x in sch.get_loops(consumer)] == ["i", "j"]
    assert sch.get(sch.get_loops(consumer)[0]) is sch.get(i)
    assert_same(mod, sch.mod)


def test_a_reduction_consumer_moves_where_each_cell_is_made_once():
    mod, sch = start(SUM)
    _, j = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("S"), j)
    assert_same(mod, sch.mod)


def test_preserve_unit_loops():
    _, sch = start(ELEMENTWISE)
    _, j = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("B"), j, preserve_unit_loops=True)
    assert len(sch.get_loops(sch.get_block("B"))) == 4


def test_caches_of_a_matrix_product():
    mod, sch = start(MM_RELU)
    block = sch.get_block("C")
    a = sch.cache_read(block, 0, "shared")
    b = sch.cache_read(block, "B", "local")
    c = sch.cache_write(block, 0, "local")
    assert [sch.get(x).name for x in (a, b, c)] == ["A_shared", "B_local", "C_local"]
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, factors=[3, 2])
    j0, j1 = sch.split(j, factors=[None, 4])
    k0, k1 = sch.split(k, factors=[2, None])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.compute_at(a, k0)
    sch.compute_at(b, k0)
    sch.reverse_compute_at(c, j0)
    assert [sch.get(x).extent.value for x in sch.get_loops(a)] == [3, 3, 2, 2, 4]
    assert_same(mod, sch.mod)


def test_cooperative_fetching_relaxes_threads():
    _, sch = start(MM_RELU)
    block = sch.get_block("C")
    a = sch.cache_read(block, 0, "shared")
    local = sch.cache_read(block, 1, "local")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, factors=[2, 3])
    j0, j1 = sch.split(j, factors=[2, 5])
    sch.reorder(i0, j0, i1, j1, k)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    k0, _ = sch.split(k, factors=[4, 2])
    sch.compute_at(a, k0)
    sch.compute_at(local, k0)
    shared_loops = [sch.get(x).extent.value for x in sch.get_loops(a)]
    assert shared_loops[-2:] == [3, 2]  # the rows of all threads of the block
    assert [sch.get(x).extent.value for x in sch.get_loops(local)][-1] == 2  # one thread's own


def test_cache_write_after_compute_at_stays_in_the_loop():
    mod, sch = start(ELEMENTWISE)
    i, _ = sch.get_loops(sch.get_block("D"))
    sch.compute_at(sch.get_block("B"), i)
    sch.cache_write(sch.get_block("B"), 0, "local")
    assert_same(mod, sch.mod)


@pytest.mark.parametrize(
    ("factor", "layout", "move", "inside"),
    [
        (None, None, lambda s: s.reverse_compute_at("D", s.get_loops("B")[0]), "ax0 in range(16)"),
        (None, None, lambda s: s.reverse_compute_at("D", s.get_loops("B")[1]), "spatial(192, i * 16 + j)"),
        (5, None, lambda s: s.reverse_compute_at("D", s.get_loops("B")[1]), "ax0 in range(16)"),
        (
            None,
            "i, j: (i // 4, j // 4, i % 4, j % 4)",
            lambda s: s.compute_at("B", s.get_loops("D")[0]),
            "spatial(12, f // 16)",
        ),
        (4, "i, j: (i // 4, j, i % 4)", lambda s: s.compute_at("B", s.get_loops("D")[0]), "spatial(12, f // 16)"),
    ],
)
def test_moving_by_quotients_and_remainders(factor, layout, move, inside):
    """Indices ``x // c`` and ``x % c`` say together which x is meant, and the first alone which c of them."""
    mod, sch = start(FLATTENED)
    if factor is not None:
        sch.split(sch.get_loops("B")[0], [None, factor])
    if layout is not None:
        sch.transform_layout("B", ("write", 0), eval(f"lambda {layout}"))
    move(sch)
    assert inside in sch.mod.script()
    assert_same(mod, sch.mod)


@pytest.mark.parametrize(
    "index", ["{n} - 1 - vi, vj", "vi, 3 - vj", "{n} - 1 - vi, vj // 2 * 2 + 1 - vj % 2", "{n} * 2 - 1 - vi * 2, vj"]
)
@pytest.mark.parametrize("n", ["5", "n"])
def test_copies_of_what_is_stored_backwards(n, index):
    """The copy goes over all cells that were stored, or the step is refused."""
    loops = f"for i, j in T.grid({n}, 4):\n    with T.block('B'):\n        vi, vj = T.axis.remap('SS', [i, j])\n"
    mod = module(program(
        "a: T.handle, b: T.handle", "n = T.int64()", match("A", "a", "n, 4"), match("B", "b", f"{n} * 2, 4"),
        f"{loops}        B[{index.format(n=n)}] = A[vi % n, vj] + T.float32(1)",
    ))  # fmt: skip
    for step in (lambda s: s.cache_write("B", 0, "global"), lambda s: s.reindex("B", ("write", 0))):
        sch = Schedule(mod)
        try:
            step(sch)
        except ScheduleError as error:
            assert error.code == "E438" and "* 2" in index + n
        assert_same(mod, sch.mod)


def test_consumer_blocks():
    _, sch = start(MM_RELU)
    made = sch.cache_write(sch.get_block("C"), 0, "global", consumer_blocks=[sch.get_block("D")])
    assert "C_global" in sch.mod.script().split('T.block("D")')[1]
    assert sch.get(made).name == "C_global"
    with pytest.raises(ScheduleError, match="does not read"):
        sch.cache_read(sch.get_block("C"), 0, "global", consumer_blocks=[sch.get_block("D")])


def test_inlining():
    mod, sch = start(ELEMENTWISE)
    sch.compute_inline(sch.get_block("B"))
    assert "alloc_buffer" not in sch.mod.script()
    assert_same(mod, sch.mod)
    mod, sch = start(ELEMENTWISE)
    kept = sch.get_block("B")
    sch.reverse_compute_inline(sch.get_block("D"))
    assert sch.get(kept).name == "B"
    assert_same(mod, sch.mod)


UNIT = """@I.ir_module
class Unit:
    @T.prim_func
    def main(A: T.Buffer((12, 10), "float32"), B: T.Buffer((12, 10, 1), "float32"), D: T.Buffer((1, 3, 4, 10), "float32")):
        C = T.alloc_buffer((12, 10))
        for i, u, j in T.grid(12, 1, 10):
            with T.block("C"):
                vi, vu, vj = T.axis.remap("SSS", [i, u, j])
                C[vi, vj] = A[vi, vj + vu] * 2.0
        for one, i, k, j in T.grid(1, 3, 4, 10):
            with T.block("D"):
                vo, vi, vk, vj = T.axis.remap("SSSS", [one, i, k, j])
                D[vo, vi, vk, vj] = C[vi * 4 + vk, vj] + B[vi * 4 + vk, vj, vo]
"""


@pytest.mark.parametrize(("inline", "block"), [("compute_inline", "C"), ("reverse_compute_inline", "D")])
def test_inlining_of_blocks_with_an_axis_of_one_step(inline: str, block: str) -> None:
    mod, sch = start(UNIT)
    getattr(sch, inline)(block)
    assert "alloc_buffer" not in sch.mod.script()
    assert_same(mod, sch.mod)


LAYOUTS = [
    "i, j: (j, i)",
    "i, j: (i // 4, j // 2, i % 4, j % 2)",
    "i, j: (i * 10 + j,)",
    "i, j: (11 - i, j)",
    "i, j: (i // 5, j, i % 5)",
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inline", ["compute_inline", "reverse_compute_inline"])
def test_inlining_through_layouts_and_inexact_splits(layout: str, inline: str) -> None:
    """A block may store in any layout that has an inverse, and its condition may leave out what a split adds."""
    mod, sch = start(ELEMENTWISE)
    bijective = "5" not in layout  # 12 rows are no whole number of 5
    sch.transform_layout("B", ("write", 0), eval(f"lambda {layout}"), pad_value=None if bijective else 0.0)
    sch.split(sch.get_loops("B")[0], [None, 7])
    sch.split(sch.get_loops("D")[1], [None, 4])
    assert_same(mod, sch.mod)
    if not bijective:
        with pytest.raises(ScheduleError) as found:
            getattr(sch, inline)("B" if inline == "compute_inline" else "D")
        assert found.value.code == "E439"
        return
    getattr(sch, inline)("B" if inline == "compute_inline" else "D")
    assert "alloc_buffer" not in sch.mod.script() and sch.mod.script().count("T.where") == 1
    assert_same(mod, sch.mod)


@pytest.mark.parametrize("seed", range(4 * TIMES))
@pytest.mark.parametrize(("inline", "block"), [("compute_inline", "B"), ("reverse_compute_inline", "D")])
def test_inlining_after_inexact_splits_of_inexact_splits(inline: str, block: str, seed: int) -> None:
    rng = random.Random(seed)
    mod, sch = start(ELEMENTWISE)
    for _ in range(3):
        sch.split(rng.choice(sch.get_loops(block)), [None, rng.choice([2, 3, 5, 7])])
    getattr(sch, inline)(block)
    assert "alloc_buffer" not in sch.mod.script()
    assert_same(mod, sch.mod, seeds=1)


@pytest.mark.parametrize("split", [False, True])
def test_a_consumer_of_a_part_stays(split: bool) -> None:
    """Its producer would write beyond what it stores to."""
    sch = Schedule(module(program(
        buffers(A="8", D="4"), alloc("B", "8"),
        nest("B", "i", "8", "S", "B[vi] = A[vi] + T.float32(1)"), nest("D", "i", "4", "S", "D[vi] = B[vi]"),
    )))  # fmt: skip
    if split:
        sch.split(sch.get_loops("D")[0], [None, 3])
    with pytest.raises(ScheduleError, match="does not read each element"):
        sch.reverse_compute_inline("D")


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_consumer_moves_to_whole_sums_of_fused_loops(rows: int) -> None:
    mod, sch = start(MM_RELU)
    k = sch.get(sch.get_loops("C")[2]).extent.value
    fused = sch.fuse(*sch.get_loops("C"))
    with pytest.raises(ScheduleError, match="E434"):
        sch.reverse_compute_at("D", fused)
    sch.reverse_compute_at("D", sch.split(fused, [None, rows * k])[0])
    assert_same(mod, sch.mod, seeds=1)
    with pytest.raises(ScheduleError):  # pieces of a sum
        other = start(MM_RELU)[1]
        other.reverse_compute_at("D", other.split(other.fuse(*other.get_loops("C")), [None, k // 2])[0])


def test_inlining_under_a_condition_of_the_data_is_refused() -> None:
    for step in (lambda s: s.compute_inline("B"), lambda s: s.reverse_compute_inline("D")):
        _, sch = start(ELEMENTWISE.replace("B[vi, vj] =", "T.where(i + j < 20)\n                B[vi, vj] ="))
        with pytest.raises(ScheduleError, match="runs under a condition"):
            step(sch)


REFUSED = [
    (MM_RELU, lambda s: s.compute_at(s.get_block("D"), s.get_loops(s.get_block("C"))[0]), "E432"),
    (MM_RELU, lambda s: s.compute_at(s.get_block("C"), s.get_loops(s.get_block("C"))[0]), "E430"),
    (MM_RELU, lambda s: s.reverse_compute_at(s.get_block("D"), s.get_loops(s.get_block("C"))[2]), "E434"),
    (MM_RELU, lambda s: s.reverse_compute_at(s.get_block("C"), s.get_loops(s.get_block("D"))[0]), "E433"),
    (STENCIL, lambda s: s.reverse_compute_at(s.get_block("D"), s.get_loops(s.get_block("B"))[0]), "E435"),
    (ELEMENTWISE, lambda s: s.compute_at(s.get_block("B"), s.get_loops(s.get_block("D"))[0], index=1), "E433"),
    (MM_RELU, lambda s: s.compute_inline(s.get_block("C")), "E439"),
    (MM_RELU, lambda s: s.reverse_compute_inline(s.get_block("D")), "E439"),
    (MM_RELU, lambda s: s.cache_read(s.get_block("C"), 7, "local"), "E438"),
    (MM_RELU, lambda s: s.cache_read(s.get_block("C"), 0, "nowhere"), "E429"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals_leave_the_module(case):
    text, step, code = REFUSED[case]
    mod = module(text)
    sch = Schedule(mod)
    length = len(sch.trace.insts)
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == code, found.value
    assert sch.mod is mod
    assert all([i.row.kind == "query" for i in sch.trace.insts[length:]])
    assert "condition:" in str(found.value)


def test_split_after_reduction_consumer_is_refused_when_cells_repeat():
    _, sch = start(SUM)
    i, j = sch.get_loops(sch.get_block("B"))
    outer = sch.add_unit_loop(i)
    assert outer is not None
    sch.reverse_compute_at(sch.get_block("S"), j)  # a loop of one iteration repeats nothing


@pytest.mark.parametrize("seed", range(12 * TIMES))
def test_random_locations_agree(seed):
    rng = random.Random(seed)
    text = rng.choice([MM_RELU, ELEMENTWISE, STENCIL, SYMBOLIC_CHAIN, SUM])
    mod = module(text)
    sch = Schedule(mod, debug_mask="all")
    names = [b for b in "ABCDS" if f'T.block("{b}")' in text]
    done = 0
    for _ in range(12):
        block = sch.get_block(rng.choice(names))
        other = sch.get_block(rng.choice(names))
        loops = sch.get_loops(other)
        moves = [
            lambda: sch.split(rng.choice(loops), factors=[None, rng.choice([1, 2, 3, 4])]),
            lambda: sch.reorder(*rng.sample(loops, 2)),
            lambda: sch.compute_at(block, rng.choice(loops), index=rng.choice([-1, -2])),
            lambda: sch.reverse_compute_at(block, rng.choice(loops), index=rng.choice([-1, -2])),
            lambda: sch.cache_read(block, 0, "local"),
            lambda: sch.cache_write(block, 0, "local"),
        ]
        try:
            rng.choice(moves)()
            done += 1
        except ScheduleError:
            continue
        except (ValueError, IndexError):
            continue
    assert_same(mod, sch.mod, seeds=1)
    assert done or sch.mod is mod


OWNED = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8), "float32")
        C = T.alloc_buffer((8, 8), "float32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + B[vi, 7 - vj]
        for i, j in T.grid(8, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] * T.float32(2)
"""


def test_a_block_stays_with_the_buffer_that_its_loop_owns() -> None:
    sch = Schedule(module(OWNED))
    loop = sch.fuse(*sch.get_loops("C"))
    sch.parallel(loop)
    sch.compute_at("B", loop)
    before = sch.mod
    outer = sch.get_loops("D")[0]
    with pytest.raises(ScheduleError, match="would use B outside of loop i_j_fused") as found:
        sch.compute_at("C", outer)
    assert found.value.code == "E448" and sch.mod is before
    with pytest.raises(ScheduleError, match="E448"):
        sch.compute_inline("C")
    assert sch.mod is before
    sch.loop_partition(loop, [3, None])  # each part owns a copy
    assert_same(module(OWNED), sch.mod)
