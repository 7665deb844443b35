"""Instructions of Hopper in script: barriers, bulk copies, products of warpgroups, in the thread checker, on the emulated device, assembled."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import device_function

import unity
from unity.script import parse
from unity.target.cuda.assemble import assemble, find_assembler
from unity.target.cuda.codegen import ptx_of, write_programs

BF16 = np.dtype(ml_dtypes.bfloat16)
PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((70, 160), "bfloat16"), B: T.Buffer((32, 160), "bfloat16"), C: T.Buffer((128, 32), "float32")):
        for bx in T.thread_binding(2, "blockIdx.x"):
            for tx in T.thread_binding(256, "threadIdx.x"):
                SA = T.alloc_buffer((2, 64, 64), "bfloat16", scope="shared.dyn", align=1024)
                SB = T.alloc_buffer((2, 32, 64), "bfloat16", scope="shared.dyn", align=1024)
                D = T.alloc_buffer((16,), "float32", scope="local")
                warp: T.int32 = T.tvm_warp_shuffle(T.uint32(0xFFFFFFFF), tx // 32, 0, 32, 32)
                T.create_barriers(4)
                if tx == 0:
                    for s in range(2):
                        T.ptx_init_barrier_thread_count(s, 1)
                        T.ptx_init_barrier_thread_count(2 + s, 128)
                T.tvm_storage_sync("shared")
                if warp >= 4:
                    T.ptx_setmaxnreg(False, 40)
                    if tx == 128:
                        for k in range(3):
                            T.ptx_wait_barrier(2 + k % 2, (k // 2 + 1) % 2)
                            T.ptx_arrive_barrier_expect_tx(k % 2, 12288)
                            T.ptx_cp_async_bulk_tensor("bfloat16", SA.data, k % 2 * 4096, A.data, k % 2, 128, 70, 160, 64, 64, bx * 64, k * 64)
                            T.ptx_cp_async_bulk_tensor("bfloat16", SB.data, k % 2 * 2048, B.data, k % 2, 128, 32, 160, 32, 64, 0, k * 64)
                else:
                    T.ptx_setmaxnreg(True, 232)
                    for k in range(3):
                        T.ptx_wait_barrier(k % 2, k // 2 % 2)
                        T.ptx_wgmma_fence()
                        for j in T.unroll(4):
                            T.ptx_wgmma("float32", "m64n32k16", "row", "col", "bfloat16", "bfloat16", "float32",
                                        SA.data, k % 2 * 4096 + j * 16, SB.data, k % 2 * 2048 + j * 16, D.data, 0, 128, k + j > 0)
                        T.ptx_wgmma_commit_group()
                        T.ptx_wgmma_wait_group(0)
                        T.ptx_arrive_barrier(2 + k % 2)
                    for e in T.unroll(16):
                        C[bx * 64 + tx // 32 * 16 + tx % 32 // 4 + e % 4 // 2 * 8, e // 4 * 8 + tx % 4 * 2 + e % 2] = D[e]
"""
"""Two blocks with a warpgroup that copies and one that multiplies, two tiles ahead; rows and depth end inside a box."""


def factors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    a, b = [draw.standard_normal(shape).astype(BF16) for shape in ((70, 160), (32, 160))]
    wanted = np.zeros((128, 32), "float32")
    wanted[:70] = a.astype("float32") @ b.astype("float32").T
    return a, b, wanted


def checked(text: str) -> Any:
    a, b, wanted = factors()
    c = np.zeros_like(wanted)
    report = unity.check_gpu(parse(text), a, b, c)
    return report, c, wanted


@pytest.mark.gpu
def test_a_product_whose_warpgroups_specialise() -> None:
    module = parse(PRODUCT)
    assert parse(module.script()).script() == module.script()
    report, c, wanted = checked(PRODUCT)
    assert report.ok, report
    np.testing.assert_allclose(c, wanted, atol=1e-3)
    a, b, _ = factors()
    a.flags.writeable = b.flags.writeable = False  # copies read them, and nothing goes back
    executable = unity.compile(module, target="cuda -arch=sm_90a")
    for seed in (None, 1):
        with device_or_emulated("sm_90a", seed=seed):
            c = unity.tensor(np.zeros_like(wanted), device=unity.cuda(0))
            unity.VirtualMachine(executable, unity.cuda(0))["main"](a, b, c)
            np.testing.assert_allclose(c.numpy(), wanted, atol=1e-3)


MISTAKES: dict[str, tuple[str, str, str]] = {
    "the tile is given back before the product has ended": (
        "T.ptx_wgmma_wait_group(0)\n                        T.ptx_arrive_barrier(2 + k % 2)",
        "T.ptx_arrive_barrier(2 + k % 2)\n                        T.ptx_wgmma_wait_group(0)", "race",
    ),
    "sums are read before the product has ended": ("T.ptx_wgmma_wait_group(0)", "T.ptx_wgmma_wait_group(1)", "uninitialised"),
    "threads use a barrier that they have not seen begin": ('T.tvm_storage_sync("shared")', "T.evaluate(0)", "race"),
    "a warp does not take part in a product": ("if warp >= 4:", "if warp >= 3:", "collective"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake: str) -> None:
    right, wrong, kind = MISTAKES[mistake]
    assert PRODUCT.count(right) == 1
    text = PRODUCT.replace(right, wrong)
    if kind == "collective":
        text = text.replace("thread_count(2 + s, 128)", "thread_count(2 + s, 96)")
    report, _, _ = checked(text)
    assert kind in {finding.kind for finding in report.findings}, report


@pytest.mark.parametrize(
    "right, wrong, message",
    [
        ("(k % 2, 12288)", "(k % 2, 12304)", "E362.*no thread can go on"),
        ("(k % 2, k // 2 % 2)", "(k % 2, 1)", "E362.*no thread can go on(.|\n)*before anything was written there"),
        ("T.ptx_wait_barrier(2 + k % 2, (k // 2 + 1) % 2)", "T.evaluate(0)", "E362.*more arrivals at barrier 0"),
        ("thread_count(2 + s, 128)", "thread_count(2 + s, 64)", "E362.*more arrivals at barrier 2 than the 64"),
        ("T.ptx_init_barrier_thread_count(s, 1)", "T.evaluate(0)", "E364.*is used before"),
        ("T.create_barriers(4)", "T.create_barriers(3)", "E372.*barrier 3 of 3"),
    ],
)
def test_what_ends_a_run(right: str, wrong: str, message: str) -> None:
    with pytest.raises(unity.UnityError, match=message):
        checked(PRODUCT.replace(right, wrong))


FORMS = [
    ("float16", "float16", "col"), ("bfloat16", "float32", "col"), ("bfloat16", "float32", "row"), ("int8", "int32", "col"),
    ("float8_e4m3fn", "float32", "col"),
]  # fmt: skip
"""Types of the factors and of the sums, layout of B."""
LIKE_THEM = [("float16", "float32", "col"), ("uint8", "int32", "col"), ("float8_e5m2", "float32", "col")]


def products(forms: list[tuple[str, str, str]]) -> str:
    """The body of a kernel of 128 threads: a product of each form, A in shared memory and in registers, of factors that threads store."""
    lines = ["T.create_barriers(1)"]
    for n, (a, d, layout) in enumerate(forms):
        item = unity.DataType(a).itemsize
        k, columns = 32 // item, 16
        pitch = 128 // item
        lines += f"""
SA{n} = T.alloc_buffer((64, {pitch}), "{a}", scope="shared.dyn", align=1024)
SB{n} = T.alloc_buffer((16, {pitch}), "{a}", scope="shared.dyn", align=1024)
D{n} = T.alloc_buffer(({columns // 2},), "{d}", scope="local")
R{n} = T.alloc_buffer(({k // 2},), "{a}", scope="local")
for i in range({64 * k // 128}):
    at{n}: T.int32 = i * 128 + tx
    SA{n}[at{n} // {k}, T.bitwise_xor(at{n} % {k} // {16 // item}, at{n} // {k} % 8) * {16 // item} + at{n} % {16 // item}] = T.Cast("{a}", X[at{n}])
for i in range({16 * k // 128}):
    at{n}: T.int32 = i * 128 + tx
    SB{n}[{"at{n} % 16, T.bitwise_xor(at{n} // 16 // {e}, at{n} % 8) * {e} + at{n} // 16 % {e}" if layout == "col" else "at{n} // 16, T.bitwise_xor(at{n} % 16 // {e}, at{n} // 16 % 8) * {e} + at{n} % {e}"}] = T.Cast("{a}", X[1024 + at{n}])
for i in T.unroll({k // 2}):
    R{n}[i] = T.Cast("{a}", X[(tx // 32 * 16 + tx % 32 // 4 + i // {4 // item} % 2 * 8) * {k} + tx % 4 * {4 // item} + i % {4 // item} + i // {8 // item} * {16 // item}])
T.ptx_fence_proxy_async()
T.tvm_storage_sync("shared")
T.ptx_wgmma_fence()
T.ptx_wgmma("{d}", "m64n16k{k}", "row", "{layout}", "{a}", "{a}", "{d}", SA{n}.data, 0, SB{n}.data, 0, D{n}.data, 0, 128, T.bool(False))
T.ptx_wgmma("{d}", "m64n16k{k}", "row", "{layout}", "{a}", "{a}", "{d}", R{n}.data, 0, SB{n}.data, 0, D{n}.data, 0, 128, T.bool(True))
T.ptx_wgmma_commit_group()
T.ptx_wgmma_wait_group(0)
for e in T.unroll(8):
    Y[{1024 * n} + (tx // 32 * 16 + tx % 32 // 4 + e % 4 // 2 * 8) * 16 + e // 4 * 8 + tx % 4 * 2 + e % 2] = T.Cast("float32", D{n}[e])
""".replace("{n}", str(n)).replace("{e}", str(16 // item)).strip().split("\n")  # fmt: skip
    return "\n".join(lines)


def program(body: str, threads: int, size: int) -> str:
    """A module with a kernel of one block."""
    head = f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((4096,), "float32"), Y: T.Buffer(({size},), "float32")):
        for tx in T.thread_binding({threads}, "threadIdx.x"):
"""
    return head + "\n".join(["            " + line for line in body.strip().split("\n")])


@pytest.mark.gpu
def test_every_form_of_product() -> None:
    """Factors stored by threads, small numbers that all types hold: checker and device give the exact sums, twice."""
    x = np.random.default_rng(1).integers(0, 4, 4096).astype("float32")
    text = program(products(FORMS), 128, 1024 * len(FORMS))
    wanted = []
    for a, _, layout in FORMS:
        k = 32 // unity.DataType(a).itemsize
        left, right = x[: 64 * k].reshape(64, k), x[1024 : 1024 + 16 * k].reshape(k, 16)
        wanted.append(2 * left @ right if layout else None)
    y = np.zeros(1024 * len(FORMS), "float32")
    report = unity.check_gpu(parse(text), x, y)
    assert report.ok, report
    np.testing.assert_array_equal(y.reshape(-1, 64, 16), wanted)
    unfenced = program(products(FORMS[:1]).replace("T.ptx_fence_proxy_async()", "T.evaluate(0)"), 128, 1024)
    assert "no T.ptx_fence_proxy_async between" in str(unity.check_gpu(parse(unfenced), x, y[:1024]).races)
    executable = unity.compile(parse(text), target="cuda -arch=sm_90a")
    with device_or_emulated("sm_90a", traffic=False):
        y = unity.tensor(np.zeros_like(y), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
        np.testing.assert_array_equal(y.numpy().reshape(-1, 64, 16), wanted)


@pytest.mark.skipif(not find_assembler(), reason="there is no ptxas here: pip install nvidia-cuda-nvcc-cu12")
def test_forms_that_differ_in_a_word_are_assembled() -> None:
    func = device_function(products(LIKE_THEM), 128, X="float32", Y="float32")
    written = write_programs({"kernel": func}, unity.Target("cuda -arch=sm_90a"))
    (resources,) = assemble(ptx_of(written.device, written.arch), "sm_90a").kernels.values()
    assert resources.spill_bytes == 0


def test_sums_are_registers_by_name() -> None:
    """A product neither gives nor takes its sums as values: LLVM would copy them, and the assembler wait for the copies."""
    body = """
S = T.alloc_buffer((8192,), "bfloat16", scope="shared", align=1024)
D = T.alloc_buffer((32,), "float32", scope="local")
T.ptx_wgmma("float32", "m64n64k16", "row", "col", "bfloat16", "bfloat16", "float32", S.data, 0, S.data, 4096, D.data, 0, 128, T.bool(True))
Y[tx] = D[0]
"""
    written = write_programs({"kernel": device_function(body, 128, Y="float32")}, unity.Target("cuda -arch=sm_90a"))
    assert "extractvalue" not in written.device.text
    assert "{sums0_0, sums0_1, " in ptx_of(written.device, written.arch)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("Y[tx] = D[tx % 32]", "its indices are constants"),
        ("T.atomic_add(T.address_of(D[0]), T.float32(1))", "pointer"),
    ],
)
def test_sums_have_constant_places(statement: str, words: str) -> None:
    """They are registers."""
    body = f"""
S = T.alloc_buffer((8192,), "bfloat16", scope="shared", align=1024)
D = T.alloc_buffer((32,), "float32", scope="local")
T.ptx_wgmma("float32", "m64n64k16", "row", "col", "bfloat16", "bfloat16", "float32", S.data, 0, S.data, 4096, D.data, 0, 128, T.bool(True))
{statement}
"""
    with pytest.raises(unity.UnityError, match=words) as caught:
        write_programs({"kernel": device_function(body, 128, Y="float32")}, unity.Target("cuda -arch=sm_90a"))
    assert caught.value.code == "E526"


COPIES = """
S = T.alloc_buffer((256,), "float32", scope="shared")
T.create_barriers(2)
if tx == 0:
    T.ptx_init_barrier_thread_count(0, 1)
    T.ptx_init_barrier_thread_count(1, 32)
T.tvm_storage_sync("shared")
if T.ptx_elect_sync():
    T.ptx_arrive_barrier_expect_tx(0, 512)
    T.ptx_cp_async_bulk("float32", S.data, 128, X.data, 64, 512, 0)
T.ptx_cp_async("float32", S.data, tx * 4, X.data, tx * 4, 16)
T.ptx_cp_async_barrier(1)
T.ptx_arrive_barrier(1)
T.ptx_wait_barrier(0)
T.ptx_wait_barrier(1, 0)
for i in range(8):
    Y[tx + i * 32] = S[255 - tx - i * 32]
"""


@pytest.mark.gpu
def test_copies_tell_barriers() -> None:
    text = program(COPIES, 32, 256)
    x, y = np.arange(4096, dtype="float32"), np.zeros(256, "float32")
    wanted = np.concatenate([x[:128], x[64:192]])[::-1]
    report = unity.check_gpu(parse(text), x, y)
    assert report.ok and (y == wanted).all(), report
    executable = unity.compile(parse(text), target="cuda -arch=sm_90")
    with device_or_emulated("sm_90"):
        y = unity.tensor(np.zeros(256, "float32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
        assert (y.numpy() == wanted).all()


@pytest.mark.parametrize(
    "line, arch, code, message",
    [
        ("T.create_barriers(1)", "sm_80", "E526", "T.create_barriers needs sm_90"),
        ("T.ptx_wgmma_fence()", "sm_90", "E526", "needs sm_90a"),
        ("T.ptx_setmaxnreg(True, 232)", "sm_100", "E526", "needs sm_90a"),
        ("T.ptx_arrive_barrier(0)", "sm_90", "E526", "stands before T.create_barriers"),
        ("T.create_barriers(1)\nT.create_barriers(1)", "sm_90", "E526", "stands twice"),
        ("T.ptx_elect_sync()", "sm_80", "E526", "needs sm_90"),
    ],
)
def test_what_has_no_code(line: str, arch: str, code: str, message: str) -> None:
    func = device_function(line, X="float32")
    with pytest.raises(unity.UnityError, match=message) as refused:
        write_programs({"kernel": func}, unity.Target(f"cuda -arch={arch}"))
    assert refused.value.code == code


@pytest.mark.parametrize(
    "right, wrong, message",
    [
        ('"m64n32k16", "row"', '"m64n32k8", "row"', "no shape"), ("m64n32k16", "m64n36k16", "a multiple of 8 up to 256"),
        ('"row", "col"', '"row", "rows"', "no layouts"), ("D.data, 0, 128", "D.data, 0, 100", "rows of 32, 64 or 128 bytes"),
        ('"float32",\n', '"int32",\n', "no product of"), ("70, 160, 64, 64", "70, 160, 64, 512", "a box of"),
        ("128, 70, 160, 64, 64", "64, 70, 160, 64, 64", "no longer than the swizzle"),
        ("bx * 64, k * 64", "bx * 64, k * 64, 0", "a size, a box and a corner"), ("232", "233", "a multiple of 8"),
        ("wait_group(0)", "wait_group(tx)", "it takes a constant"),
    ],
)  # fmt: skip
def test_arguments_that_no_instruction_takes(right: str, wrong: str, message: str) -> None:
    """The verifier says so, with the line."""
    assert right in PRODUCT
    with pytest.raises(unity.UnityError, match=f"E341.*{message}"):
        unity.check_gpu(parse(PRODUCT.replace(right, wrong, 1)))


TURNED = """
S = T.alloc_buffer((32, 32), "float32", scope="shared", align=1024)
for i in range(32):
    S[i, T.bitwise_xor(tx // 4, i % 8) * 4 + tx % 4] = X[tx * 32 + i]
T.ptx_fence_proxy_async()
T.tvm_storage_sync("shared")
if tx == 0:
    T.ptx_cp_async_bulk_tensor_store("float32", S.data, 0, Y.data, 128, 40, 48, 32, 32, 16, 24)
    T.ptx_cp_async_bulk_commit_group()
    T.ptx_cp_async_bulk_wait_group(0)
T.tvm_storage_sync("shared")
S[0, tx] = T.float32(0)
"""


@pytest.mark.gpu
def test_a_tile_goes_out_turned() -> None:
    """A transposed tile leaves by a bulk copy; what hangs over the tensor is not stored."""
    x = np.arange(4096, dtype="float32")
    wanted = np.zeros((40, 48), "float32")
    wanted[16:, 24:] = x[:1024].reshape(32, 32).T[:24, :24]
    text = program(TURNED, 32, 1).replace('Y: T.Buffer((1,), "float32")', 'Y: T.Buffer((40, 48), "float32")')
    y = np.zeros((40, 48), "float32")
    report = unity.check_gpu(parse(text), x, y)
    assert report.ok and (y == wanted).all(), report
    for mistake in ("T.ptx_cp_async_bulk_wait_group(0)", "T.ptx_fence_proxy_async()"):
        assert unity.check_gpu(parse(text.replace(mistake, "T.evaluate(0)")), x, y).races
    overwritten = text.replace('_group(0)\n            T.tvm_storage_sync("shared")', "_group(0)")
    assert overwritten != text and unity.check_gpu(parse(overwritten), x, y).races
    executable = unity.compile(parse(text), target="cuda -arch=sm_90")
    with device_or_emulated("sm_90"):
        y = unity.tensor(np.zeros((40, 48), "float32"), device=unity.cuda(0))
        unity.VirtualMachine(executable, unity.cuda(0))["main"](x, y)
        assert (y.numpy() == wanted).all()


ROWS = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        X = T.match_buffer(x, (n, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for bx in T.thread_binding(n, "blockIdx.x"):
            for tx in T.thread_binding(32, "threadIdx.x"):
                S = T.alloc_buffer((32,), "float32", scope="shared", align=128)
                S[tx] = T.if_then_else(tx < m, X[bx, tx], T.float32(0))
                T.ptx_fence_proxy_async()
                T.tvm_storage_sync("shared")
                if tx == 0:
                    T.ptx_cp_async_bulk_tensor_store("float32", S.data, 0, Y.data, 0, n, m, 1, 32, bx, 0)
                    T.ptx_cp_async_bulk_commit_group()
                    T.ptx_cp_async_bulk_wait_group(0)
"""


@pytest.mark.gpu
def test_tensors_of_any_size_have_maps_where_they_are_needed() -> None:
    """Without blocks there is no launch, and so no map of an empty tensor; a tensor that can have no map is an error with its code."""
    executable = unity.compile(parse(ROWS), target="cuda -arch=sm_90")
    with device_or_emulated("sm_90"):
        vm = unity.VirtualMachine(executable, unity.cuda(0))
        for n, m in ((3, 20), (1, 4), (0, 4), (0, 0)):
            x = np.arange(n * m, dtype="float32").reshape(n, m)
            y = unity.tensor(np.zeros((n, m), "float32"), device=unity.cuda(0))
            vm["main"](x, y)
            assert (y.numpy() == x).all()
        for shape in ((3, 5), (3, 0)):
            x = unity.tensor(np.zeros(shape, "float32"), device=unity.cuda(0))
            with pytest.raises(unity.UnityError, match=r"E735.*the tensor map of"):
                vm["main"](x, x)
