"""Bulk copies, transaction barriers and products of warpgroups, on the device of this machine or the emulated one."""

import ctypes
from ctypes import c_int, c_uint, c_void_p

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from emulated import HEADER, Arrays

from unity import UnityError
from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu
BF16 = np.dtype(ml_dtypes.bfloat16)
K, N = 64, 32
ENCODE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_uint, *[c_void_p] * 5, *[c_int] * 4)


def tensor_map(arrays: Arrays, address: int, kind: int, sizes, pitches, box, swizzle: int = 3, status: int = 0):
    """A tensor map by the driver, as the argument of a kernel."""
    raw = ctypes.create_string_buffer(192)
    place = -(-ctypes.addressof(raw) // 64) * 64
    rank = len(sizes)
    encode = ENCODE(arrays.context.driver.address("cuTensorMapEncodeTiled"))
    given = [(ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * max(rank - 1, 1))(*pitches),
             (c_uint * rank)(*box), (c_uint * rank)(*[1] * rank)]  # fmt: skip
    assert encode(place, kind, rank, address, *given, 0, swizzle, 0, 0) == status
    return (ctypes.c_char * 128).from_buffer_copy(ctypes.string_at(place, 128))


def product(
    wait: str = "",
    announced: int = (64 + N) * K * 2,
    swizzle: int = 1,
    steps: tuple[int, ...] = (0, 2, 4, 6),
    atom: int = 1024,
) -> str:
    """D = A B^T of bfloat16: A 64 x 64 and B N x 64 come by bulk copies, one warpgroup multiplies, each thread stores its part."""
    registers = ", ".join(f"%f{k}" for k in range(N // 2))
    begin = "\n".join(f"mov.b32 %f{k}, 0f00000000;" for k in range(N // 2))
    saves = "\n".join(f"st.global.f32 [%d9+{4 * k}], %f{k};" for k in range(N // 2))
    wait = wait or "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [full], 0; @!%p1 bra WAIT;"
    layout = swizzle << 62 | (atom >> 4) << 32 | 1 << 16
    multiply = "\n".join(
        f"add.s64 %d5, %d3, {step}; add.s64 %d6, %d4, {step};"
        f"wgmma.mma_async.sync.aligned.m64n{N}k16.f32.bf16.bf16 {{{registers}}}, %d5, %d6, 1, 1, 1, 0, 0;"
        for step in steps
    )
    return (
        HEADER.format(arch="sm_90a")
        + f"""
.extern .shared .align 1024 .b8 tiles[];
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 out)
{{
  .reg .pred %p<4>; .reg .b32 %t, %r<9>, %f<{N // 2}>; .reg .b64 %d<10>;
  .shared .align 8 .b64 full;
  mov.u32 %t, %tid.x; setp.ne.u32 %p0, %t, 0; @%p0 bra READY;
  mbarrier.init.shared.b64 [full], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0; @%p0 bra HAVE;
  mbarrier.arrive.expect_tx.shared.b64 %d0, [full], {announced};
  mov.b64 %d1, a; cvta.param.u64 %d1, %d1; mov.b64 %d2, b; cvta.param.u64 %d2, %d2;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tiles], [%d1, {{0, 0}}], [full];
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tiles+{64 * K * 2}], [%d2, {{0, 0}}], [full];
HAVE: {wait}
  {begin}
  mov.b32 %r1, tiles; shr.u32 %r1, %r1, 4; cvt.u64.u32 %d3, %r1; or.b64 %d3, %d3, {layout - (1 << 64) if layout >> 63 else layout};
  add.s64 %d4, %d3, {64 * K * 2 >> 4};
  wgmma.fence.sync.aligned;
  {multiply}
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  ld.param.b64 %d8, [out]; mul.wide.u32 %d9, %t, {2 * N}; add.s64 %d9, %d8, %d9;
  {saves}
  ret;
}}
"""
    )


def matrix(found: np.ndarray) -> np.ndarray:
    """The product out of the parts of 128 threads: thread t of a warp has rows t / 4 and t / 4 + 8 of the warp's 16."""
    made = np.zeros((64, N), np.float32)
    for thread in range(128):
        for e in range(N // 2):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (e % 4 // 2)
            made[row, 8 * (e // 4) + 2 * (thread % 4) + e % 2] = found[thread, e]
    return made


def run(text: str, swizzle: int = 3, width: int = K):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, K)).astype(BF16), rng.standard_normal((N, K)).astype(BF16)
    arrays = Arrays()
    maps = [tensor_map(arrays, arrays.put(x), 9, (K, len(x)), (2 * K,), (width, len(x)), swizzle) for x in (a, b)]
    out = arrays.room(64 * N * 4)
    arrays.run(text, "k", (1,), (128,), *maps, out, shared=(64 + N) * K * 2)
    return matrix(arrays.get(out, (128, N // 2), np.float32)), a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("seed", [None, 1])
def test_a_product_of_a_warpgroup(seed):
    with device_or_emulated("sm_90a", seed=seed):
        found, wanted = run(product())
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_missing_wait_reads_what_has_not_come():
    with emulated_gpu("sm_90a") as gpu:
        run(product(wait="add.s32 %r2, %r1, 0;"))
        assert {one.kind for one in gpu.findings} == {"uninitialised"} and "wgmma" in str(gpu.findings[0])


def test_bytes_that_never_come():
    with emulated_gpu("sm_90a") as gpu:
        with pytest.raises(UnityError, match="no thread can go on"):
            run(product(announced=(64 + N) * K * 2 + 16))
        assert gpu.findings[0].kind == "barrier" and "transaction barrier" in str(gpu.findings[0])


def there_and_back(swizzle: int, inner: int, first: int) -> str:
    """A kernel that copies a box at a corner into shared memory, stores it as it lies, and copies it out to another tensor."""
    return (
        HEADER.format(arch="sm_90")
        + f"""
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 out)
{{
  .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .b64 %d<10>;
  .shared .align 1024 .b8 tile[{inner * 8}]; .shared .align 8 .b64 full;
  mov.u32 %t, %tid.x; setp.ne.u32 %p0, %t, 0; @%p0 bra READY;
  mbarrier.init.shared.b64 [full], 1;
  mbarrier.arrive.expect_tx.shared.b64 %d0, [full], {inner * 8};
  mov.b64 %d1, a; cvta.param.u64 %d1, %d1;
  cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%d1, {{{first}, 5}}], [full];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [full], 0; @!%p1 bra WAIT;
  mov.b32 %r1, tile; ld.param.b64 %d3, [out]; mov.b32 %r3, %t;
COPY: shl.b32 %r2, %r3, 2; add.s32 %r4, %r1, %r2; ld.shared.b32 %r5, [%r4]; cvt.u64.u32 %d4, %r2; add.s64 %d4, %d3, %d4;
  st.global.b32 [%d4], %r5; add.s32 %r3, %r3, 32; setp.lt.u32 %p2, %r3, {inner * 2}; @%p2 bra COPY;
  @%p0 bra END;
  mov.b64 %d2, b; cvta.param.u64 %d2, %d2; fence.proxy.async;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d2, {{{first}, 5}}], [tile];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}}
"""
    )


@pytest.mark.parametrize("first", [0, -4])
@pytest.mark.parametrize("swizzle, inner", [(0, 16), (1, 32), (2, 64), (3, 128)])
def test_tiles_come_and_go_by_bulk_copies(swizzle, inner, first):
    """A box that hangs over edges comes in with zeros outside, is read as it lies, and goes out again inside alone."""
    width, text = inner // 4, there_and_back(swizzle, inner, first)
    x = np.arange(1, 10 * 36 + 1, dtype=np.int32).reshape(10, 36)
    with device_or_emulated("sm_90") if first == 0 else emulated_gpu("sm_90") as gpu:
        arrays = Arrays()
        back = arrays.put(np.zeros_like(x))
        maps = [tensor_map(arrays, place, 3, (36, 10), (144,), (width, 8), swizzle) for place in (arrays.put(x), back)]
        out = arrays.room(inner * 8)
        arrays.run(text, "k", (1,), (32,), *maps, out)
        tile, gone = arrays.get(out, (8, width), np.int32), arrays.get(back, x.shape, np.int32)
        assert gpu is None or gpu.findings == []
    wanted = np.zeros((8, width), np.int32)
    shown = min(width + first, 36)
    wanted[:5, -first : shown - first] = x[5:, :shown]
    lying = np.zeros(inner * 8, np.uint8)
    for at, byte in enumerate(wanted.view(np.uint8).ravel()):
        lying[at ^ (at >> 7 & {0: 0, 1: 1, 2: 3, 3: 7}[swizzle]) << 4] = byte
    assert (tile.view(np.uint8).ravel() == lying).all()
    kept = np.zeros_like(x)
    kept[5:, :shown] = x[5:, :shown]
    assert (gone == kept).all()


def test_a_corner_between_vectors_ends_a_kernel():
    with emulated_gpu("sm_90") as gpu, pytest.raises(UnityError, match="CUDA_ERROR_ILLEGAL_INSTRUCTION"):
        arrays = Arrays()
        place = arrays.put(np.zeros((10, 36), np.int32))
        maps = [tensor_map(arrays, place, 3, (36, 10), (144,), (4, 8), 0) for _ in range(2)]
        arrays.run(there_and_back(0, 16, -2), "k", (1,), (32,), *maps, arrays.room(128))
    assert "-8 bytes into a row" in str(gpu.findings[0])


def test_plain_bulk_copies_and_arrivals_by_all():
    """Each of 64 threads arrives twice; the second phase waits for a copy too."""
    text = (
        HEADER.format(arch="sm_90")
        + """
.visible .entry k(.param .u64 x, .param .u64 y)
{
  .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .b64 %d<10>;
  .shared .align 16 .b8 kept[256]; .shared .align 8 .b64 full;
  ld.param.b64 %d1, [x]; ld.param.b64 %d2, [y];
  mov.u32 %t, %tid.x; setp.ne.u32 %p0, %t, 0; @!%p0 mbarrier.init.shared::cta.b64 [full], 64; bar.sync 0;
  mbarrier.arrive.shared::cta.b64 %d0, [full];
ONE: mbarrier.test_wait.shared::cta.b64 %p1, [full], %d0; @!%p1 bra ONE;
  @%p0 bra REST;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [kept], [%d1], 256, [full];
REST: mbarrier.arrive.shared::cta.b64 _, [full];
TWO: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 1; @!%p1 bra TWO;
  mov.b32 %r1, kept; shl.b32 %r2, %t, 2; add.s32 %r1, %r1, %r2; ld.shared.b32 %r3, [%r1]; add.s32 %r3, %r3, 1; st.shared.b32 [%r1], %r3;
  fence.proxy.async; bar.sync 0; @%p0 bra END;
  cp.async.bulk.global.shared::cta.bulk_group [%d2], [kept], 256; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
END: ret;
}
"""
    )
    x = np.arange(64, dtype=np.int32)
    for seed in (None, 2):
        with device_or_emulated("sm_90", seed=seed):
            arrays = Arrays()
            y = arrays.room(256)
            arrays.run(text, "k", (1,), (64,), arrays.put(x), y)
            assert (arrays.get(y, 64, np.int32) == x + 1).all()


def test_tensor_maps_that_cannot_be():
    with device_or_emulated("sm_90", launched=False):
        arrays = Arrays()
        place = arrays.room(4096)
        tensor_map(arrays, place + 4, 3, (32, 8), (128,), (32, 8), status=1)  # not aligned to 16 bytes
        tensor_map(arrays, place, 3, (32, 8), (100,), (32, 8), status=1)
        tensor_map(arrays, place, 3, (32, 8), (128,), (64, 8), status=1)  # wider than its swizzle
        tensor_map(arrays, place, 3, (32, 8), (128,), (32, 257), status=1)
