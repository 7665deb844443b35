"""transform_layout, transform_block_layout: layouts that keep what is computed; what they refuse."""

import json
import random

import numpy as np
import pytest
from fuzz import TIMES
from schedule_programs import ELEMENTWISE, MM_RELU, SYMBOLIC, assert_same, module

import unity
from unity import te
from unity.ir.interpret import run
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


@pytest.mark.parametrize("seed", range(8 * TIMES))
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
    (lambda s: s.transform_layout("D", "D", lambda i, j: (i // 4, j, i % 4)), "E444", "a pad value"),
    (lambda s: s.transform_layout("D", "C", lambda i, j: (i // 4, j, i % 4), pad_value=lambda a, b, c: (a, b)), "E444", "one expression"),
    (lambda s: s.transform_layout("D", "C", lambda i, j: i * unity.tir.Var("x", "int64")), "E403", "uses x"),
    (lambda s: s.transform_layout("D", "C", lambda i, j: te.max(i, j)), "E403", "//"),
    (lambda s: s.transform_layout("D", "C", unity.tir.IndexMap((), ())), "E403", "0 indices"),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i: (i,)), "E403", ""),
    (lambda s: s.transform_layout("C", ("write", 0), lambda i, j: (j // 4, i, j % 4), pad_value="x"), "E444", "a pad value"),
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


# ---- parameters


TILES = lambda i, j: (i // 4, j, i % 4)  # noqa: E731 - a map is a lambda


@pytest.mark.parametrize(
    "layout", [lambda i, j: (j, i), TILES, lambda i, j: i * 8 + j, lambda i, j: (i // 2, j, i % 2)]
)
def test_a_parameter_that_is_read(layout):
    mod, sch = start(MM_RELU)
    sch.transform_layout("C", "A", layout)
    replayed(mod, sch)
    a, b = [np.random.default_rng(0).random(s, np.float32) for s in ((6, 8), (8, 10))]
    moved = sch.trace.insts[-1].args["index_map"].map_tensor(a)
    assert [n.value for n in sch.mod["main"].buffer_map[sch.mod["main"].params[0]].shape] == list(moved.shape)
    out = np.zeros((6, 10), np.float32)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](moved, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def replayed(mod, sch):
    again = Schedule(mod)
    Trace.from_json(json.dumps(sch.trace.as_json())).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()
    again, scope = Schedule(mod), {}
    exec(sch.trace.script(), scope)
    scope["apply_trace"](again)
    assert again.mod.script() == sch.mod.script()


@pytest.mark.parametrize("value", [5, lambda a, b, c: a + b * c])
def test_a_parameter_that_is_written(value):
    mod, sch = start(MM_RELU)
    sch.transform_layout("D", "D", TILES, pad_value=value)
    replayed(mod, sch)
    a, b = [np.random.default_rng(0).random(s, np.float32) for s in ((6, 8), (8, 10))]
    out = np.full((2, 10, 4), np.nan, np.float32)
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b, out)
    for i, j, k in np.ndindex(out.shape):
        inside = np.maximum(a @ b, 0)[i * 4 + k, j] if i * 4 + k < 6 else value if value == 5 else i + j * k
        np.testing.assert_allclose(out[i, j, k], inside, rtol=1e-5)


def test_padding_that_the_caller_leaves_open():
    _, sch = start(MM_RELU)
    sch.transform_layout("D", "D", TILES, assume_injective_transform=True)
    assert "D_pad" not in sch.mod.script()


@pytest.mark.parametrize("value", [3, float("nan")])
def test_padding_of_a_parameter_is_a_promise_of_the_caller(value):
    _, sch = start(ELEMENTWISE)
    sch.transform_layout("B", "A", lambda i, j: (i // 5, j, i % 5), pad_value=value)
    assert "T.assume" in sch.mod.script()
    a = np.full((3, 10, 5), value, np.float32)
    a[:2] = 1
    a[2, :, :2] = 1
    out = np.zeros((12, 10), np.float32)
    run(sch.mod, "main", a, out)
    assert (out == 3).all()
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, out)
    assert (out == 3).all()
    a[2, 0, 2] = 4
    with pytest.raises(unity.UnityError, match="assumption"):
        run(sch.mod, "main", a, out)


def test_sizes_stay_known():
    _, sch = start(SYMBOLIC)
    sch.transform_layout("B", "B", TILES, pad_value=0)
    sch.transform_layout("B", "A", lambda i, j: (j, i))
    for n, m in ((5, 3), (4, 1), (1, 2), (0, 2)):
        a, out = np.ones((m, n), np.float32), np.full((-(-n // 4), m, 4), np.nan, np.float32)
        unity.VirtualMachine(unity.compile(sch.mod))["main"](a, out)
        assert out.sum() == 2 * n * m and not np.isnan(out).any()
    with pytest.raises(ScheduleError, match="n is known only as a dimension of A"):
        sch.transform_layout("B", "A", lambda i, j: (i, j // 2, j % 2), pad_value=0)
    assert "(m, n)" in sch.mod.script()


def test_a_size_in_a_map():
    mod, sch = start(SYMBOLIC.replace("a: T.handle", "s: T.handle, a: T.handle").replace(
        "A = T.match", 'S = T.match_buffer(s, (n, m), "int8")\n        A = T.match'))  # fmt: skip
    m = sch.mod["main"].buffer_map[sch.mod["main"].params[1]].shape[1]
    sch.transform_layout("B", "B", lambda i, j: i * m + j, assume_injective_transform=True)
    assert "B[vi * m + vj]" in sch.mod.script()
    replayed(mod, sch)


def test_callers_keep_the_layout():
    text = (
        MM_RELU
        + """
    @R.function
    def graph(a: R.Tensor((6, 8), "float32"), b: R.Tensor((8, 10), "float32")):
        cls = MyModule
        return R.call_tir(cls.main, (a, b), R.Tensor((6, 10), "float32"))
"""
    )
    sch = Schedule(module(text))
    before = sch.mod
    with pytest.raises(ScheduleError, match="graph calls main with A in its present layout"):
        sch.transform_layout("C", "A", lambda i, j: (j, i))
    assert sch.mod is before


def test_strided_parameters_are_copied_first():
    text = SYMBOLIC.replace('(a, (n, m), "float32")', '(a, (n, m), "float32", strides=[m * 2, 2])')
    with pytest.raises(ScheduleError, match="strides"):
        Schedule(module(text)).transform_layout("B", "A", lambda i, j: (j, i))


# ---- arguments


def test_maps_keep_the_type_of_the_indices():
    text = ELEMENTWISE.replace("T.grid(12, 10)", "T.grid(T.int32(12), T.int32(10))").replace(
        "(12, 10)", "(T.int32(12), T.int32(10))"
    )
    mod, sch = start(text)
    sch.transform_layout("B", "B", lambda i, j: (0, i // 4, j, i % 4))
    replayed(mod, sch)
    assert "T.int64" not in sch.mod.script() and "T.int32(0)" in sch.mod.script()


def test_sampled_numbers_in_a_map():
    mod, sch = start(ELEMENTWISE)
    _, f = sch.sample_perfect_tile(sch.get_loops("B")[1], 2, decision=[2, 5])
    sch.transform_layout("B", "B", lambda i, j: (i, j // f, j % f))
    assert "B[vi, vj // 5, vj % 5]" in sch.mod.script()
    replayed(mod, sch)


def test_buffers_and_keywords_as_arguments():
    mod, sch = start(ELEMENTWISE)
    sch.transform_layout(
        "D", sch.get(sch.get_block("D")).reads[0].buffer, lambda *first, last: [*first, last // 2, last % 2]
    )
    assert 'B = T.alloc_buffer((12, 5, 2), "float32")' in sch.mod.script()
    sch.transform_layout("D", ("read", "B"), lambda i, j, k: [k, i, j])
    assert 'B = T.alloc_buffer((2, 12, 5), "float32")' in sch.mod.script()
    replayed(mod, sch)
    with pytest.raises(ScheduleError, match="block B does not access D"):
        sch.transform_layout("B", Schedule(mod).mod["main"].buffer_map[mod["main"].params[1]], lambda i, j: (j, i))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 1000), ("int32", 1.5), ("int32", float("nan")), ("int32", float("inf")), ("uint8", -1)],
)
def test_pad_values_that_the_buffer_cannot_hold(dtype, value):
    sch = Schedule(module(ELEMENTWISE.replace("float32", dtype)))
    with pytest.raises(ScheduleError, match=f"is not of type {dtype}"):
        sch.transform_layout("B", "B", TILES, pad_value=value)
    sch.transform_layout("B", "B", TILES, pad_value=3.0)
