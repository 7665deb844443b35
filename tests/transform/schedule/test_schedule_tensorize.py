"""tensorize: intrinsics of the user's and shipped ones in the place of tiles; an accelerator from LLVM IR; refusals."""

import random

import numpy as np
import pytest
from accelerator import KERNEL, accelerated
from fuzz import TIMES
from schedule_programs import MM_RELU, assert_same, module

import unity
import unity.target.tensor_intrin
from unity.ffi.targets.target import runnable_processor
from unity.script import parse
from unity.support.errors import CodegenError, ScheduleError, VMError
from unity.transform.schedule import Schedule, Trace
from unity.transform.schedule.core.tensor_intrin import TensorIntrin


def product(n, m, k, right="B[vk, vj]", dtype="float32", left="A[vi, vk]"):
    shape = (k, m) if right == "B[vk, vj]" else (m, k)
    return f"""
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer(({n}, {k}), "{dtype}"), B: T.Buffer({shape}, "{dtype}"), C: T.Buffer(({n}, {m}), "{dtype}")):
        T.func_attr({{"global_symbol": "main"}})
        for i, j, k in T.grid({n}, {m}, {k}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.{dtype}(0)
                C[vi, vj] = C[vi, vj] + {left} * {right}
"""


def mm_intrinsic(tile, strided=True, factor=1, scope="global", pointer=False):
    strides = {x: f", strides=(s{x}, 1)" if strided else "" for x in "abc"}
    symbols = "\n    ".join([f's{x} = T.var("int64")' for x in "abc"]) if strided else "pass"
    head = "\n    ".join(
        [
            f'{x.upper()} = T.match_buffer({x}, ({tile}, {tile}), "float32", offset_factor={factor}{{{x}}}, scope="{scope}")'
            for x in "abc"
        ]
    )
    block = f"""
    with T.block("root"):
        T.reads(C[0:{tile}, 0:{tile}], A[0:{tile}, 0:{tile}], B[0:{tile}, 0:{tile}])
        T.writes(C[0:{tile}, 0:{tile}])
"""
    desc = f"""
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle):
    {head.format(a="", b="", c="")}
{block}
        for i, j, k in T.grid({tile}, {tile}, {tile}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    body = (
        "T.evaluate(T.call_extern('int32', 'abs', A.data))"
        if pointer
        else f"""for i, k, j in T.grid({tile}, {tile}, {tile}):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]"""
    )
    impl = f"""
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    {symbols if strided else ""}
    {head.format(**strides)}
{block}
        {body}
"""
    return parse(desc), parse(impl)


TensorIntrin.register("test_mm_4", *mm_intrinsic(4))
TensorIntrin.register("test_mm_4_multiple", *mm_intrinsic(4, factor=16))
TensorIntrin.register("test_mm_4_local", *mm_intrinsic(4, scope="local"))


def tile(sch, factors, name="C"):
    loops = sch.get_loops(sch.get_block(name))
    pairs = [sch.split(loop, [None, f]) for loop, f in zip(loops, factors)]
    sch.reorder(*[p[0] for p in pairs], *[p[1] for p in pairs])
    return [p[0] for p in pairs], [p[1] for p in pairs]


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_random_sizes(seed):
    rng = random.Random(seed)
    n, m, k = [4 * rng.randint(1, 3) for _ in range(3)]
    swapped = {"left": "B[vk, vj]", "right": "A[vi, vk]"} if rng.random() < 0.5 else {}
    text = product(n, m, k, **swapped)
    if swapped:
        text = text.replace(f"B: T.Buffer({(m, k)}", f"B: T.Buffer({(k, m)}")
    mod = module(text)
    sch = Schedule(mod, debug_mask="all")
    outer, inner = tile(sch, [4, 4, 4])
    sch.decompose_reduction("C", outer[2])
    if rng.random() < 0.5:
        copy = sch.cache_read(sch.get_block("C_update"), "A", "global")
        sch.compute_at(copy, outer[2])
    sch.tensorize(inner[0], "test_mm_4")
    assert_same(mod, sch.mod)
    assert sch.trace.insts[-1].grade == "proved"
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def test_a_row_update_compiles_and_runs():
    mod = module(product(3, 32, 5))
    sch = Schedule(mod, debug_mask="all")
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction("C", k)
    sch.tensorize(j1, "axpy_16_f32_avx512")
    assert_same(mod, sch.mod)
    a, b, c = [np.random.default_rng(0).random(s, np.float32) for s in ((3, 5), (5, 32), (3, 32))]
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


BYTES = """
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((3, 12), "uint8"), B: T.Buffer((2, 3, 16, 4), "int8"), C: T.Buffer((3, 32), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i, j, k in T.grid(3, 32, 12):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 16, vk // 4, vj % 16, vk % 4])
"""


@pytest.mark.parametrize("name", ["dot_16x4_vnni", "dot_16x4_avx512"])
def test_dot_products_of_bytes(name):
    mod = module(BYTES)
    sch = Schedule(mod, debug_mask=1)
    i, j, k = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, [None, 16]), sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction("C", k0)
    sch.tensorize(j1, name)
    rng = np.random.default_rng(1)
    a = rng.integers(0, 255, (3, 12)).astype(np.uint8)
    b = rng.integers(-128, 127, (2, 3, 16, 4)).astype(np.int8)
    c = np.zeros((3, 32), np.int32)
    if not has_vnni():
        pytest.skip("no AVX-512 VNNI")
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b, c)
    flat = b.transpose(1, 3, 0, 2).reshape(12, 32)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ flat.astype(np.int32))


def has_vnni():
    return "avx512vnni" in runnable_processor().features


# ---- an accelerator with 16x16 registers, from LLVM IR


def on_the_accelerator(text=KERNEL):
    return accelerated(Schedule(module(product(32, 48, 64, "B[vj, vk]"))), "C", text)


def test_the_accelerator_of_the_course():
    a, b = [np.random.default_rng(2).random(s, np.float32) for s in ((32, 64), (48, 64))]
    c = np.zeros((32, 48), np.float32)
    mod = on_the_accelerator()
    unity.VirtualMachine(unity.compile(mod))["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-4)


BAD_IR = [
    ("", "E527", "no C function"),
    ("this is no LLVM IR", "E450", "does not take"),
    ("define i32 @other() {\n ret i32 0\n}\n", "E527", "tmm16"),
    (KERNEL.replace("i32 %sa", "i64 %sa").replace("sext i64 %sa to i64", "add i64 %sa, 0"), "E450", "called as"),
    (KERNEL + "\ndeclare void @no_such_function_at_all()\n", "E450", "no such C function"),
    (KERNEL.replace("@tmm16", "@unity.kernel.main"), "E450", "defined twice"),
    ('target triple = "aarch64-unknown-linux-gnu"\n' + KERNEL, "E450", "aarch64"),
]


@pytest.mark.parametrize("case", range(len(BAD_IR)))
def test_bad_llvm_ir(case):
    text, code, words = BAD_IR[case]
    with pytest.raises(CodegenError) as found:
        unity.compile(on_the_accelerator(text))
    assert found.value.code == code and words in str(found.value)


# ---- refusals


def refused(text, factors, name, how=lambda sch: None, decompose=True):
    mod = module(text)
    sch = Schedule(mod)
    outer, inner = tile(sch, factors)
    if decompose:
        sch.decompose_reduction("C", outer[2])
    how(sch)
    before = sch.mod
    with pytest.raises(ScheduleError) as found:
        sch.tensorize(inner[0], name)
    assert sch.mod is before
    return found.value


def test_other_shapes():
    error = refused(product(8, 8, 8), [4, 2, 4], "test_mm_4")
    assert error.code == "E441" and "runs 4 times, j_1 2 times" in str(error)


def test_other_accesses():
    error = refused(product(8, 8, 8, "B[vj, vk]"), [4, 4, 4], "test_mm_4")
    assert error.code == "E441" and "axis 0 of B" in str(error)


def test_another_type():
    error = refused(product(8, 8, 8, dtype="float64"), [4, 4, 4], "test_mm_4")
    assert error.code == "E441" and "float64" in str(error)


def test_another_operation():
    error = refused(product(8, 8, 8).replace("A[vi, vk] *", "A[vi, vk] -"), [4, 4, 4], "test_mm_4")
    assert error.code == "E441" and "A[vi, vk] * B[vk, vj] where" in str(error)


def test_initialisation_inside():
    error = refused(product(8, 8, 8), [4, 4, 4], "test_mm_4", decompose=False)
    assert error.code == "E441" and "decompose_reduction" in str(error)


def test_another_scope():
    error = refused(product(8, 8, 8), [4, 4, 4], "test_mm_4_local")
    assert error.code == "E441" and "scope" in str(error)


def test_offsets_that_are_no_multiple():
    error = refused(product(8, 8, 8), [4, 4, 4], "test_mm_4_multiple")
    assert error.code == "E442" and "multiple of 16" in str(error)


def test_strides():
    desc, impl = mm_intrinsic(4)
    text = impl.script().replace("strides=(sa, 1)", "strides=(64, 1)")
    TensorIntrin.register("test_mm_4_stride", desc, parse(text), override=True)
    error = refused(product(8, 8, 8), [4, 4, 4], "test_mm_4_stride")
    assert error.code == "E442" and "needs stride 64 along axis 0 of A" in str(error)


def test_the_output_is_no_input():
    text = product(4, 4, 4).replace("A[vi, vk] *", "C[vi, vk] *")
    sch = Schedule(
        parse(text.replace("                with T.init():\n                    C[vi, vj] = T.float32(0)\n", ""))
    )
    with pytest.raises(ScheduleError) as found:
        sch.tensorize(sch.get_loops("C")[0], "test_mm_4")
    assert found.value.code == "E442" and "both C" in str(found.value)


def test_an_unknown_name():
    sch = Schedule(module(MM_RELU))
    with pytest.raises(ScheduleError, match=r"E441.*no tensor intrinsic"):
        sch.tensorize(sch.get_loops("C")[0], "no_such_intrinsic")


def test_a_bare_pointer():
    desc, impl = mm_intrinsic(4, pointer=True)
    TensorIntrin.register("test_mm_4_pointer", desc, impl, override=True)
    error = refused(product(8, 8, 8), [4, 4, 4], "test_mm_4_pointer")
    assert error.code == "E442" and "without an offset" in str(error)


@pytest.mark.parametrize(
    "name, factors",
    [
        ("axpy_8_f32_avx2", [1, 8, 1]),
        ("dot_16_f32_avx512", [1, 1, 16]),
        ("dot_8_f32_avx2", [1, 1, 8]),
        ("outer_6x16_f32_avx512", [6, 16, 1]),
        ("outer_4x8_f32_avx2", [4, 8, 1]),
    ],
)
def test_float_instructions(name, factors):
    right = "B[vj, vk]" if name.startswith("dot") else "B[vk, vj]"
    n, m, k = [2 * factor if factor > 1 else 3 for factor in factors]
    mod = module(product(n, m, k, right))
    sch = Schedule(mod, debug_mask="all")
    outer, inner = tile(sch, factors)
    sch.decompose_reduction("C", outer[2])
    sch.tensorize(inner[0], name)
    assert_same(mod, sch.mod, seeds=1)
    rng, columns = np.random.default_rng(3), (m, k) if name.startswith("dot") else (k, m)
    a, b, c = [rng.random(s, np.float32) for s in ((n, k), columns, (n, m))]
    unity.VirtualMachine(unity.compile(sch.mod))["main"](a, b, c)
    np.testing.assert_allclose(c, a @ (b.T if name.startswith("dot") else b), rtol=1e-5)


@pytest.mark.parametrize(
    "kind, group, types",
    [
        ("bf16bf16f32", 2, ("bfloat16", "bfloat16", "float32")),
        ("s8s8s32", 4, ("int8", "int8", "int32")),
        ("u8s8s32", 4, ("uint8", "int8", "int32")),
    ],
)
def test_tiles_of_amx_are_assembled(kind, group, types):
    left, right, total = types
    depth = 32 * group
    sch = Schedule(
        module(f"""
@I.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer((32, {depth}), "{left}"), B: T.Buffer(({depth}, 32), "{right}"), C: T.Buffer((32, 32), "{total}")):
        T.func_attr({{"global_symbol": "main"}})
        for i, j, k in T.grid(32, 32, {depth}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.{total}(0)
                C[vi, vj] = C[vi, vj] + T.Cast("{total}", A[vi, vk]) * T.Cast("{total}", B[vk, vj])
""")
    )
    sch.reindex_cache_read("C", "B", "global", lambda i, j, k: (k // group, j, k % group))
    outer, inner = tile(sch, [16, 16, 16 * group])
    sch.decompose_reduction("C", outer[2])
    sch.tensorize(inner[0], f"amx_16x16_{kind}")
    mod = sch.mod
    if "amx-tile" in runnable_processor().features:
        pytest.skip("this machine has AMX")
    with pytest.raises(CodegenError, match=r"E520.*amx-tile"):
        unity.compile(mod)
    attributes = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+amx-tile,+amx-bf16,+amx-int8"
    made = unity.compile(mod, target=f"llvm -mattr={attributes}")
    assert len(made.objects["kernels"]) > 1000
    with pytest.raises(VMError) as found:
        unity.VirtualMachine(made)
    assert found.value.code == "E451" and "amx-tile" in str(found.value)
