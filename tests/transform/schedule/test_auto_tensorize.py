"""Which iterators of a block are those of an intrinsic, and schedules that put the intrinsic in place: found, run, refused."""

import numpy as np
import pytest
from schedule_programs import assert_same
from test_schedule_tensorize import mm_intrinsic

import unity
import unity.target.tensor_intrin
from unity.arith.index_map import IndexMap
from unity.ir.build import const
from unity.ir.module import IRModule
from unity.ir.structural import structural_equal
from unity.script import parse
from unity.support.errors import ScheduleError, VerifyError
from unity.target.cpu.backend import CPU
from unity.tir.schedule.analysis import get_auto_tensorize_mapping_info, get_tensorize_loop_mapping, is_tensorizable
from unity.tir.schedule.transform import auto_tensorize, tile_with_tensor_intrin
from unity.transform.auto_tensorize.dots import dot_named
from unity.transform.default_schedule import matmul as matmul_rule
from unity.transform.default_schedule.apply import schedule_function
from unity.transform.infra.backend import Machine
from unity.transform.schedule import Schedule, Trace
from unity.transform.schedule.core.tensor_intrin import TensorIntrin

TensorIntrin.register("auto_mm_4", *mm_intrinsic(4))
TensorIntrin.register("auto_dot_16x4", *[TensorIntrin.get("dot_16x4_vnni").desc] * 2)
TensorIntrin.register("auto_mm_4_local", *mm_intrinsic(4, scope="local"))


def contraction(shapes, grid, kinds, output, left, right, dtype="float32", to=None):
    """A program of one sum of products; ``left`` and ``right`` index A and B by iterators v0, v1, ..."""
    cast = (lambda text: f'T.Cast("{to}", {text})') if to else str
    names = ", ".join([f"i{k}" for k in range(len(grid))])
    iterators = ", ".join([f"v{k}" for k in range(len(grid))])
    a, b = (shapes[0], dtype) if isinstance(dtype, str) else (shapes[0], dtype[0]), None
    b = (shapes[1], dtype if isinstance(dtype, str) else dtype[1])
    c = to or a[1]
    return f"""
@T.prim_func
def main(A: T.Buffer({a[0]}, "{a[1]}"), B: T.Buffer({b[0]}, "{b[1]}"), C: T.Buffer({shapes[2]}, "{c}")):
    for {names} in T.grid({", ".join(map(str, grid))}):
        with T.block("C"):
            {iterators} = T.axis.remap("{kinds}", [{names}])
            with T.init():
                C[{output}] = T.{c}(0)
            C[{output}] = C[{output}] + {cast(f"A[{left}]")} * {cast(f"B[{right}]")}
"""


def conv2d(n, h, w, c, o, k, stride=1, weights_first=False, **types):
    shapes = [(n, (h - 1) * stride + k, (w - 1) * stride + k, c), (k, k, c, o), (n, h, w, o)]
    reads = [f"v0, v1 * {stride} + v4, v2 * {stride} + v5, v6", "v4, v5, v6, v3"]
    if weights_first:
        shapes[:2], reads = shapes[1::-1], reads[::-1]
    return contraction(shapes, (n, h, w, o, k, k, c), "SSSSRRR", "v0, v1, v2, v3", *reads, **types)


def matmul(n, m, k, transposed=False, **types):
    shapes = [(n, k), (m, k) if transposed else (k, m), (n, m)]
    return contraction(shapes, (n, m, k), "SSR", "v0, v1", "v0, v2", "v1, v2" if transposed else "v2, v1", **types)


def batch(b, n, m, k, **types):
    shapes = [(b, n, k), (b, k, m), (b, n, m)]
    return contraction(shapes, (b, n, m, k), "SSSR", "v0, v1, v2", "v0, v1, v3", "v0, v3, v2", **types)


def scheduled(text, **options):
    sch = Schedule(parse(text), **options)
    return sch, sch.get_block("C")


def description(name):
    return TensorIntrin.get(name).desc


# ---- loops


PACKED = contraction(
    [(1024, 1024), (64, 256, 16, 4), (1024, 1024)], (1024, 1024, 1024), "SSR", "v0, v1", "v0, v2",
    "v1 // 16, v2 // 4, v1 % 16, v2 % 4", dtype=("uint8", "int8"), to="int32",
)  # fmt: skip
NCHWC = contraction(
    [(1, 4, 56, 56, 16), (16, 4, 1, 1, 4, 16, 4), (1, 16, 56, 56, 16)], (1, 16, 56, 56, 16, 1, 1, 4, 4, 4), "SSSSSRRRRR",
    "v0, v1, v2, v3, v4", "v0, v7, v2 + v5, v3 + v6, v8 * 4 + v9", "v1, v7, v5, v6, v8, v4, v9", dtype=("uint8", "int8"), to="int32",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "loops"),
    [
        (PACKED, "dot_16x4_vnni", (1, 2)),
        (NCHWC, "dot_16x4_vnni", (4, 9)),
        (matmul(512, 512, 512), "auto_mm_4", (0, 1, 2)),
        (matmul(512, 512, 512, transposed=True), "auto_mm_4", (0, 1, 2)),
        (batch(3, 8, 12, 16), "auto_mm_4", (1, 2, 3)),
    ],
)
def test_loops_of_a_description(text, name, loops):
    sch, block = scheduled(text)
    for order in (1, -1):
        found = get_tensorize_loop_mapping(sch, block, description(name))
        by_position = {found.desc_loop_indexer[loop]: sch.get(rv).loop_var.name for rv, loop in found.loop_map.items()}
        assert [by_position[k] for k in range(len(loops))] == [f"i{k}" for k in loops]
        assert found.block_iter_paddings is None
        if order == 1:  # the mapping does not depend on the order of the loops
            sch.reorder(*sch.get_loops(block)[::-1])


def test_padding_of_loops():
    sch, block = scheduled(matmul(127, 256, 65))
    assert get_tensorize_loop_mapping(sch, block, description("auto_mm_4")) is None
    found = get_tensorize_loop_mapping(sch, block, description("auto_mm_4"), allow_padding=True)
    assert found.block_iter_paddings == [4, 1, 4]
    assert tile_with_tensor_intrin(sch, block, "auto_mm_4") is None
    loop = tile_with_tensor_intrin(sch, block, "auto_mm_4", allow_padding=True)
    assert sch.get(loop).extent.value == 4
    assert [sch.get(rv).extent.value for rv in sch.get_loops(block)] == [32, 64, 17, 4, 4, 4]


def test_loops_that_are_split_already():
    sch, block = scheduled(matmul(64, 32, 16))
    i, _, _ = sch.get_loops(block)
    sch.split(i, [None, 8])
    found = get_tensorize_loop_mapping(sch, block, description("auto_mm_4"))
    assert sorted([sch.get(rv).extent.value for rv in found.loop_map]) == [8, 16, 32]


# ---- iterators


HALF = {"dtype": "float16", "to": "float32"}
WMMA = next(name for name in TensorIntrin.names() if name.startswith("wmma_sync_16x16x16_f16f16f32"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (conv2d(4, 16, 16, 64, 64, 3, **HALF), lambda n, h, w, c, p, q, r: (n * 256 + h * 16 + w, c, p * 192 + q * 64 + r)),
        (conv2d(1, 16, 16, 64, 64, 3, **HALF), lambda n, h, w, c, p, q, r: (n * 256 + h * 16 + w, c, p * 192 + q * 64 + r)),
        (conv2d(1, 4, 4, 8, 8, 1, weights_first=True, **HALF), lambda n, h, w, c, p, q, r: (n * 16 + h * 4 + w, c, p * 8 + q * 8 + r)),
        (batch(16, 32, 32, 32, **HALF), lambda b, n, m, k: (b, n, m, k)),
        (matmul(1, 32, 32, **HALF), lambda n, m, k: (n, m, k)),
        (matmul(512, 512, 512, transposed=True, **HALF), lambda n, m, k: (n, m, k)),
    ],
)  # fmt: skip
def test_iterators_of_a_description(text, expected):
    sch, block = scheduled(text)
    found = get_auto_tensorize_mapping_info(sch, block, description(WMMA))
    (index_map,) = found.mappings
    variables = index_map.initial_indices
    wanted = IndexMap(variables, tuple(expected(*variables)))
    cells = [[const(k * 7 % axis.dom.extent.value, "int64") for axis in found.lhs_iters] for k in range(20)]
    assert all([structural_equal(index_map.map_indices(cell), wanted.map_indices(cell)) for cell in cells])
    assert len(found.lhs_iters) == len(variables) and len(found.rhs_iters) == 3
    assert sorted([buffer.name for buffer in found.lhs_buffer_map]) == ["A", "B", "C"]
    assert is_tensorizable(sch, block, description(WMMA))


# ---- schedules


GROUPED = contraction(
    [(1, 5, 6, 3, 4), (3, 2, 2, 4, 5), (1, 4, 5, 3, 5)], (1, 4, 5, 3, 5, 2, 2, 4), "SSSSSRRR",
    "v0, v1, v2, v3, v4", "v0, v1 + v5, v2 + v6, v3, v7", "v3, v5, v6, v7, v4",
)  # fmt: skip
DEPTHWISE = contraction(
    [(1, 6, 6, 5), (3, 3, 5), (1, 4, 4, 5)],
    (1, 4, 4, 5, 3, 3),
    "SSSSRR",
    "v0, v1, v2, v3",
    "v0, v1 + v4, v2 + v5, v3",
    "v4, v5, v3",
)
TWO_AXES = contraction([(6, 3, 5), (5, 7, 3), (7, 6)], (6, 7, 3, 5), "SSRR", "v1, v0", "v0, v2, v3", "v3, v1, v2")
CASES = {
    "product": (matmul(4, 8, 8), ("auto_mm_4", "axpy_8_f32_avx2", "outer_4x8_f32_avx2")),
    "odd product": (matmul(5, 7, 9), ("auto_mm_4_local", "outer_4x8_f32_avx2", "dot_8_f32_avx2")),
    "one row": (matmul(1, 9, 5, transposed=True), ("auto_mm_4", "axpy_8_f32_avx2")),
    "transposed": (matmul(9, 6, 7, transposed=True), ("auto_mm_4", "dot_8_f32_avx2")),
    "batch": (batch(3, 5, 4, 6), ("auto_mm_4", "outer_4x8_f32_avx2")),
    "convolution": (conv2d(2, 2, 3, 3, 5, 2, stride=2), ("auto_mm_4", "dot_8_f32_avx2")),
    "weights first": (conv2d(1, 2, 3, 3, 10, 2, weights_first=True), ("outer_4x8_f32_avx2",)),
    "grouped": (GROUPED, ("auto_mm_4",)),
    "depthwise": (DEPTHWISE, ("dot_8_f32_avx2",)),
    "bytes": (conv2d(1, 2, 2, 3, 17, 2, dtype=("uint8", "int8"), to="int32"), ("auto_dot_16x4",)),
    "two axes": (TWO_AXES, ("auto_mm_4", "outer_4x8_f32_avx2")),
}


@pytest.mark.parametrize("case", CASES)
def test_intrinsics_in_programs(case):
    text, names = CASES[case]
    mod = IRModule({"main": parse(text)}, {}, {})
    for name in names:
        sch = Schedule(mod)
        made = auto_tensorize(sch, sch.get_block("C"), name)
        assert sch.get(made).match_buffers, "the implementation stands there"
        assert_same(mod, sch.mod, seeds=1)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_operands_that_fit_are_not_copied():
    sch, block = scheduled(matmul(8, 12, 16))
    auto_tensorize(sch, block, "auto_mm_4")
    assert not [buffer for buffer in sch.mod["main"].script().splitlines() if "alloc_buffer" in buffer]


def test_compiled():
    mod = IRModule({"main": parse(conv2d(1, 5, 6, 8, 16, 3))}, {}, {})
    sch = Schedule(mod)
    auto_tensorize(sch, sch.get_block("C"), "axpy_8_f32_avx2")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 7, 8, 8), "float32"), rng.standard_normal((3, 3, 8, 16), "float32")
    outputs = [np.zeros((1, 5, 6, 16), "float32") for _ in range(2)]
    for program, out in zip((mod, sch.mod), outputs):
        unity.compile(program)["main"](a, b, out)
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-5)


MAXIMUM = matmul(8, 8, 8).replace("C[v0, v1] + A[v0, v2] * B[v2, v1]", "T.max(C[v0, v1], A[v0, v2] * B[v2, v1])")
VECTOR = contraction([(8, 16), (16,), (8,)], (8, 16), "SR", "v0", "v0, v1", "v1")
DEPTHWISE = contraction(
    [(4, 9, 9), (4, 2, 2), (4, 8, 8)], (4, 8, 8, 2, 2), "SSSRR", "v0, v1, v2", "v0, v1 + v3, v2 + v4", "v0, v3, v4"
)
OPEN_ROWS = (
    matmul(8, 8, 8)
    .replace("(8, 8)", '("rows", 8)')
    .replace('B: T.Buffer(("rows", 8)', "B: T.Buffer((8, 8)")
    .replace("grid(8,", "grid(rows,")
)
PRODUCT = matmul(8, 8, 8)


def with_value(value, start="C[v0, v1] + "):
    """The product with another value in the place of its own."""
    return PRODUCT.replace("C[v0, v1] + A[v0, v2] * B[v2, v1]", start + value)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (MAXIMUM, "auto_mm_4", "where the program has"),
        (matmul(8, 8, 8, dtype="float64"), "auto_mm_4", "C holds float64, C of the description float32"),
        (matmul(16, 16, 16, dtype="int8", to="int32"), "dot_16x4_vnni", "A holds int8, A of the description uint8"),
        (VECTOR, "auto_mm_4", "no spatial iterator of block C selects elements of B and C alone, as"),
        (DEPTHWISE, "auto_mm_4", "no spatial iterator of block C selects elements of B and C alone, as"),
        (OPEN_ROWS, "auto_mm_4", "iterator v0 of block C is not from 0 to a constant"),
        (with_value("(A[v0, v2] - B[v2, v1])"), "auto_mm_4", "the program has A[v0, v2] - B[v2, v1]"),
        (with_value("A[v0, v2]"), "auto_mm_4", "the program has A[v0, v2]"),
        (with_value("A[v0, v2] * B[v2, v1]", ""), "auto_mm_4", "the program has A[v0, v2] * B[v2, v1]"),
        (
            with_value("T.if_then_else(v2 < v0, A[v0, v2], T.float32(0)) * B[v2, v1]"),
            "auto_mm_4",
            "has T.if_then_else(v2 < v0",
        ),
        (matmul(16, 16, 16, **HALF), "auto_mm_5", "no tensor intrinsic is registered"),
    ],
)
def test_what_is_in_the_way(text, name, words):
    sch, block = scheduled(text)
    before = sch.mod.script()
    with pytest.raises((ScheduleError, VerifyError)) as refused:
        auto_tensorize(sch, block, name)
    assert words in str(refused.value) and sch.mod.script() == before
    if TensorIntrin.get(name, allow_missing=True) is not None:
        assert not is_tensorizable(sch, block, description(name))
        assert get_tensorize_loop_mapping(sch, block, description(name), allow_padding=True) is None


def test_scopes_that_other_intrinsics_fill():
    sch, block = scheduled(matmul(16, 16, 16, **HALF))
    with pytest.raises(ScheduleError, match="which other intrinsics have to fill"):
        auto_tensorize(sch, block, WMMA)


def test_a_refusal_leaves_the_schedule_as_it_was():
    """The laid out program is tried first: padding refuses a sum whose first value was taken away."""
    sch, block = scheduled(matmul(5, 7, 9))
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    before, steps = sch.mod.script(), len(sch.trace.insts)
    with pytest.raises(ScheduleError):
        auto_tensorize(sch, block, "auto_mm_4")
    assert sch.mod.script() == before and {inst.row.kind for inst in sch.trace.insts[steps:]} <= {"query"}


TensorIntrin.register("auto_dot_16x4_local", *[TensorIntrin.get("dot_16x4_vnni_local").desc] * 2)
WIDE = Machine(64, 32)
BYTES = {"dtype": ("uint8", "int8"), "to": "int32"}
DOTS = {
    "product": matmul(17, 33, 8, **BYTES),
    "no rows": matmul(0, 16, 8, **BYTES),
    "odd product": matmul(5, 17, 7, **BYTES),
    "one row": matmul(1, 16, 5, transposed=True, **BYTES),
    "batch": batch(3, 5, 16, 6, **BYTES),
    "convolution": conv2d(1, 2, 3, 3, 18, 2, stride=2, **BYTES),
    "channels first": contraction(
        [(3, 4, 5), (16, 3, 3, 2), (16, 2, 4)], (16, 2, 4, 3, 3, 2), "SSSRRR", "v0, v1, v2",
        "v3, v1 + v4, v2 + v5", "v0, v3, v4, v5", **BYTES,
    ),
    "weights first": contraction(
        [(2, 2, 3, 17), (1, 3, 4, 3), (1, 2, 3, 17)], (1, 2, 3, 17, 2, 2, 3), "SSSSRRR", "v0, v1, v2, v3",
        "v4, v5, v6, v3", "v0, v1 + v4, v2 + v5, v6", dtype=("int8", "uint8"), to="int32",
    ),
}  # fmt: skip


TWO_COLUMNS = contraction(
    [(3, 4), (4, 2, 8), (3, 2, 8)], (3, 2, 8, 4), "SSSR", "v0, v1, v2", "v0, v3", "v3, v1, v2", **BYTES
)


@pytest.mark.parametrize("name", DOTS)
def test_dot_products_are_put_in_place_by_the_rule(name):
    """The intrinsic computes by its description, which the interpreter runs."""
    mod = IRModule({"main": parse(DOTS[name])}, {}, {})
    sch = Schedule(mod)
    auto_tensorize(sch, sch.get_block("C"), "auto_dot_16x4_local")
    found = schedule_function("main", sch.mod["main"], set(), WIDE, CPU.rules)
    fits = name in ("product", "no rows")
    assert "auto_dot_16x4_local" in found.reason and ("gathered" in found.reason) != fits
    assert_same(mod, IRModule({"main": found.func}, {}, {}), seeds=1)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


@pytest.mark.parametrize("text", [matmul(8, 9, 8, **BYTES), TWO_COLUMNS])
def test_a_dot_product_that_does_not_fit_is_refused_at_the_build(text):
    sch, block = scheduled(text)
    auto_tensorize(sch, block, "auto_dot_16x4_local")
    with pytest.raises(ScheduleError, match="auto_dot_16x4_local is not how block C can be computed here"):
        schedule_function("main", sch.mod["main"], set(), WIDE, CPU.rules)


def test_a_dot_product_whose_steps_are_refused_is_told_of(monkeypatch):
    """No other way to compute the block takes its place."""

    tile = matmul_rule.tile_nest

    def refused(*arguments):
        if arguments[-1] is not None:
            raise ScheduleError("E441", "no step applies")
        return tile(*arguments)

    monkeypatch.setattr(matmul_rule, "tile_nest", refused)
    sch, block = scheduled(matmul(17, 33, 8, **BYTES))
    auto_tensorize(sch, block, "auto_dot_16x4_local")
    with pytest.raises(ScheduleError, match="not how block C can be computed here: auto_dot_16x4_local does not apply"):
        schedule_function("main", sch.mod["main"], set(), WIDE, CPU.rules)


def test_dot_products_of_other_types():
    sch, block = scheduled(matmul(16, 16, 16, dtype="int8", to="int32"))
    with pytest.raises(ScheduleError, match="A holds int8, A of the description uint8"):
        auto_tensorize(sch, block, "auto_dot_16x4_local")


@pytest.mark.parametrize(
    "name",
    ["dot_16x4_vnni", "dot_16_f32_avx512", "axpy_16_f32_avx512", "auto_mm_4_local", "amx_16x16_u8s8s32", "nobody's"],
)
def test_other_intrinsics_are_no_dot_products(name):
    assert dot_named(name) is None


def grouped_intrinsic(rows, columns, depth, group):
    """A block product whose right operand lies in groups along the reduction."""
    desc = TensorIntrin.get(f"amx_{rows}x{columns}x{depth}_{'bf16bf16f32' if group == 2 else 'u8s8s32'}").desc
    return desc, desc


TensorIntrin.register("auto_pairs", *grouped_intrinsic(16, 16, 32, 2))
TensorIntrin.register("auto_fours", *grouped_intrinsic(32, 16, 64, 4))
IN_GROUPS = {
    "matmul": lambda types: matmul(17, 18, 34, **types),
    "transposed": lambda types: matmul(16, 16, 64, transposed=True, **types),
    "conv2d": lambda types: conv2d(1, 3, 4, 5, 17, 2, **types),
    "batch": lambda types: batch(2, 5, 17, 32, **types),
}


@pytest.mark.parametrize("name", IN_GROUPS)
@pytest.mark.parametrize(
    ("intrin", "types"),
    [
        ("auto_pairs", {"dtype": "bfloat16", "to": "float32"}),
        ("auto_fours", {"dtype": ("uint8", "int8"), "to": "int32"}),
    ],
)
def test_operands_in_groups_along_the_reduction(name, intrin, types):
    sch = Schedule(parse(IN_GROUPS[name](types)))
    before = sch.mod
    assert is_tensorizable(sch, sch.get_block("C"), TensorIntrin.get(intrin).desc)
    auto_tensorize(sch, sch.get_block("C"), intrin)
    assert "T.match_buffer(B_global" in sch.mod.script()
    assert_same(before, sch.mod, seeds=1)


def test_a_copy_of_a_schedule_tests_steps_as_well():
    sch = Schedule(parse(matmul(4, 4, 4)))
    assert sch.copy().tests is sch.tests
