"""The base: lookup, all-or-nothing, stale references, copies, pictures."""

from __future__ import annotations

import pytest
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

import unity
from unity.support.errors import ScheduleError
from unity.transform.schedule import Refused, Schedule


def test_front_door() -> None:
    assert unity.Schedule is Schedule


def test_split_reorder_fuse_agree() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    k0, k1 = sch.split(k, factors=[3, 3])
    sch.fuse(i, j0)
    assert_same(mod, sch.mod)
    assert sch.trace.insts[-1].grade == "proved"
    assert [sch.get(x).loop_var.name for x in sch.get_loops(block)] == ["i_j_0_fused", "k_0", "k_1", "j_1"]
    assert sch.get(k0).extent.value == 3 and sch.get(k1).extent.value == 3


def test_symbolic_split() -> None:
    mod = module(SYMBOLIC)
    sch = Schedule(mod, debug_mask=1)
    _, j = sch.get_loops(sch.get_block("B"))
    sch.split(j, [None, 4])
    sch.fuse(*sch.get_loops(sch.get_block("B"))[:2])
    assert_same(mod, sch.mod, seeds=3)


def test_stale_reference_and_nothing_changed() -> None:
    sch = Schedule(module(MM_RELU))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.split(j, [2, 5])
    before, steps = sch.mod, len(sch.trace.insts)
    with pytest.raises(ScheduleError, match="'j' no longer stands"):
        sch.split(j, [2, 5])
    with pytest.raises(ScheduleError, match=r"do not cover loop i: 2 \* 2 = 4 < 6"):
        sch.split(i, [2, 2])
    assert sch.mod is before and len(sch.trace.insts) == steps
    sch.state.check()


@pytest.mark.parametrize("factors", [[0, 2], [-1, 2], [None, None], [], ["a"], [2.5, None], [True, None]])
def test_bad_factors(factors: list[object]) -> None:
    sch = Schedule(module(MM_RELU))
    i, *_ = sch.get_loops(sch.get_block("C"))
    with pytest.raises(ScheduleError, match=r"E422|E403"):
        sch.split(i, factors)


def test_picture_marks_the_loop() -> None:
    sch = Schedule(module(MM_RELU))
    i, _, k = sch.get_loops(sch.get_block("C"))
    with pytest.raises(Refused) as caught:
        sch.fuse(i, k)
    text = str(caught.value)
    assert "only children in a chain" in text and "^^^" in text and caught.value.primitive == "fuse"
    lines = text.splitlines()
    marked = [lines[n - 1].strip() for n, line in enumerate(lines) if line.strip().startswith("^")]
    assert marked == ["for i, j in T.grid(6, 10):", "for k in range(8):"]
    short = Schedule(module(MM_RELU), error_render_level="fast")
    loops = short.get_loops(short.get_block("C"))
    with pytest.raises(Refused) as caught:
        short.fuse(loops[0], loops[2])
    assert "note: here:" in text and "note: here:" not in str(caught.value)


def test_block_names() -> None:
    sch = Schedule(module(ELEMENTWISE))
    assert [sch.get(b).name for b in sch.get_child_blocks(sch.get_block("root"))] == ["B", "D"]
    assert [sch.get(b).name for b in sch.get_producers(sch.get_block("D"))] == ["B"]
    assert [sch.get(b).name for b in sch.get_consumers(sch.get_sblock("B"))] == ["D"]
    assert [sch.get(b).name for b in sch.get_output_blocks(sch.get_block("root"))] == ["D"]
    with pytest.raises(ScheduleError, match="its blocks are: B, D"):
        sch.get_block("E")
    twice = Schedule(module(ELEMENTWISE.replace('T.block("D")', 'T.block("B")')))
    with pytest.raises(ScheduleError, match=r"2 blocks named 'B'"):
        twice.get_block("B")


def test_copy_is_independent() -> None:
    sch = Schedule(module(MM_RELU))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    other = sch.copy()
    other.split(i, [2, 3])
    assert sch.mod is not other.mod and len(sch.get_loops(sch.get_block("C"))) == 3
    sch.fuse(i, j)
    sch.state.check()
    other.state.check()


def test_wrong_kinds() -> None:
    sch = Schedule(module(MM_RELU))
    block = sch.get_block("C")
    with pytest.raises(ScheduleError, match=r"E403.*loop must be a loop"):
        sch.split(block, [1, 2])
    with pytest.raises(ScheduleError, match="E403"):
        sch.get_loops(3)
    assert len(sch.get_loops("C")) == 3  # a block may be given by name
    foreign = Schedule(module(MM_RELU))
    with pytest.raises(ScheduleError, match="E402"):
        foreign.get_loops(block)
    with pytest.raises(ScheduleError, match="E401"):
        Schedule("mod")
    with pytest.raises(TypeError):
        sch.split()


def test_module_changed_underneath() -> None:
    mod = module(MM_RELU)
    sch = Schedule(mod)
    i, *_ = sch.get_loops(sch.get_block("C"))
    own = sch.mod["main"]
    mod.functions["main"] = module(ELEMENTWISE)["main"]
    with pytest.raises(ScheduleError, match="changed underneath"):
        sch.split(i, [2, 3])
    mod.functions["main"] = own
    sch.split(i, [2, 3])


def test_root_block() -> None:
    sch = Schedule(module(MM_RELU), debug_mask="all")
    sch.annotate(sch.get_block("root"), "note", 1)
    assert 'T.block("root")' in sch.mod.script()
    again = Schedule(sch.mod, debug_mask="all")
    again.set_scope(again.get_block("C"), 0, "local")
    again.unannotate(again.get_block("root"), "note")
    assert_same(module(MM_RELU), again.mod)


def test_kinds_survive_split_and_fuse() -> None:
    sch = Schedule(module(ELEMENTWISE), debug_mask="all")
    i, j = sch.get_loops(sch.get_block("B"))
    sch.parallel(i)
    sch.vectorize(j)
    with pytest.raises(ScheduleError, match="the loops run in different ways: parallel, vectorized"):
        sch.fuse(i, j)
    parts = [*sch.split(i, [3, 4]), *sch.split(j, [None, 4])]
    assert [sch.get(p).kind for p in parts] == ["parallel", "serial", "serial", "vectorized"]
    i, j = sch.get_loops(sch.get_block("D"))
    sch.parallel(i)
    sch.parallel(j)
    assert sch.get(sch.fuse(i, j)).kind == "parallel"


ISSUE = """
@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""


def test_the_course_schedule_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    MyModule = module(ISSUE)
    sch = unity.Schedule(MyModule)
    blk = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(blk)  # noqa: RUF059
    j0, j1 = sch.split(j, factors=[None, 8])
    sch.reorder(j0, k, j1)
    sch.reverse_compute_at(sch.get_block("C", func_name="mm_relu"), j0)
    sch.decompose_reduction(blk, k)
    sch.mod.show()
    sch.trace.show()
    shown = capsys.readouterr().out
    assert 'with T.block("Y_init")' in shown and 'with T.block("Y_update")' in shown
    assert "sch.reverse_compute_at(" in shown and "# proved" in shown
    small = ISSUE.replace("128", "8")
    sch.trace.apply_to_schedule(made := Schedule(module(small), debug_mask="all"))
    assert_same(module(small), made.mod, name="mm_relu")


BOUND_SIZE = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        m: T.int64 = n * 2
        C = T.alloc_buffer((m,), "float32")
        D = T.alloc_buffer((n,), "float32")
        for i in range(n):
            with T.block("C"):
                vi = T.axis.spatial(n, i)
                C[vi + n] = A[vi]
        for i in range(n):
            with T.block("D"):
                vi = T.axis.spatial(n, i)
                D[vi] = C[vi + n]
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = D[vi]
"""


def test_allocations_stay_behind_the_sizes_they_need() -> None:
    mod = module(BOUND_SIZE)
    sch = Schedule(mod, debug_mask="all")
    sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 4])
    sch.compute_inline(sch.get_block("D"))
    assert_same(mod, sch.mod)


GRAPH = """
@I.ir_module
class MyModule:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "f"})
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]

    @T.prim_func
    def g(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "g"})
        A[0] = T.float32(1)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = MyModule
        with R.dataflow():
            y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""


def test_functions_of_a_module() -> None:
    mod = module(GRAPH)
    sch = Schedule(mod)
    assert sch.func_working_on is None
    with pytest.raises(ScheduleError, match="which function has the block 'B'"):
        sch.get_block("B")
    for wrong in ("main", "h"):
        with pytest.raises(ScheduleError, match="E407"):
            sch.get_block("B", func_name=wrong)
        with pytest.raises(ScheduleError, match="E407"):
            sch.work_on(wrong)
    sch.work_on("f")
    sch.split(sch.get_loops(sch.get_block("B"))[0], [2, 2])
    assert sch.mod["main"] is mod["main"] and sch.mod["g"] is mod["g"] and sch.mod["f"] is not mod["f"]
    assert sch.get_child_blocks(sch.get_block("root", func_name="g")) == []
    assert_same(mod, sch.mod, name="f")
