"""reindex and its caches: layouts by iterators, that they compute the same, what they refuse."""

import pytest
from schedule_programs import MM_RELU, assert_same, module

from unity.support.errors import ScheduleError
from unity.transform.schedule import Schedule, Trace

SYMBOLIC_MM = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"global_symbol": "main"})
        n, k, m = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k), "float32")
        B = T.match_buffer(b, (k, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        for i, j, l in T.grid(n, m, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
CONV = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((2, 8), "float32"), W: T.Buffer((4, 2, 3), "float32"), C: T.Buffer((4, 6), "float32")):
        T.func_attr({"global_symbol": "main"})
        for o, x, c, r in T.grid(4, 6, 2, 3):
            with T.block("C"):
                vo, vx, vc, vr = T.axis.remap("SSRR", [o, x, c, r])
                with T.init():
                    C[vo, vx] = T.float32(0)
                C[vo, vx] = C[vo, vx] + A[vc, vx + vr] * W[vo, vc, vr]
"""


def start(text):
    mod = module(text)
    return mod, Schedule(mod, debug_mask="all")


@pytest.mark.parametrize("width", [1, 4, 10, 16])
def test_packing(width):
    mod, sch = start(MM_RELU)
    packed = sch.reindex_cache_read(sch.get_block("C"), 1, "global", lambda i, j, k: (j // width, k, j % width))
    buffer = sch.get(packed).writes[0].buffer
    assert [n.value for n in buffer.shape] == [-(-10 // width), 8, min(width, 10)]
    assert_same(mod, sch.mod)


def test_packing_with_symbolic_sizes():
    mod, sch = start(SYMBOLIC_MM)
    sch.reindex_cache_read(sch.get_block("C"), "B", "global", lambda i, j, k: (j // 4, k, j % 4))
    assert_same(mod, sch.mod, seeds=4)


def test_write_transposed():
    mod, sch = start(MM_RELU)
    sch.reindex_cache_write(sch.get_block("C"), 0, "local", lambda i, j, k: (j, i))
    assert_same(mod, sch.mod)


def test_im2col():
    mod, sch = start(CONV)
    made = sch.reindex(sch.get_block("C"), ("read", 0))
    assert [n.value for n in sch.get(made).writes[0].buffer.shape] == [6, 2, 3]
    sch.reindex(sch.get_block("C"), "W")
    sch.reindex(sch.get_block("C"), ("write", 0))
    assert_same(mod, sch.mod)


def test_a_trace_holds_the_map():
    mod, sch = start(MM_RELU)
    sch.reindex_cache_read(sch.get_block("C"), 1, "global", lambda i, j, k: (j // 4, k, j % 4))
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


REFUSED = [
    (MM_RELU, lambda s: s.reindex_cache_read(s.get_block("C"), 1, "global", lambda i, j, k: (k, j // 2)), "E438"),
    (MM_RELU, lambda s: s.reindex_cache_read(s.get_block("C"), 1, "global", lambda i, j: (j,)), "E403"),
    (MM_RELU, lambda s: s.reindex_cache_write(s.get_block("C"), 0, "local", lambda i, j, k: (i, j, k)), "E438"),
    (MM_RELU, lambda s: s.reindex(s.get_block("C"), ("read", 5)), "E438"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    text, step, code = REFUSED[case]
    mod = module(text)
    sch = Schedule(mod)
    with pytest.raises(ScheduleError) as found:
        step(sch)
    assert found.value.code == code, found.value
    assert sch.mod is mod
