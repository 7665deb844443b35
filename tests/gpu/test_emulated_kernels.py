"""Whole kernels, written by LLVM, on the emulated device: values against numpy, and nothing found where nothing is wrong."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from emulated import Arrays, ptx_of

from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu
SREG = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""
INDEX = """
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %w = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %bw = mul i32 %b, %w
  %i = add i32 %bw, %t
"""
COLLATZ = f"""
define ptx_kernel void @collatz(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {{
entry:{INDEX}
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %start, label %end
start:
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p
  br label %loop
loop:
  %a = phi i32 [ %v, %start ], [ %next, %again ]
  %steps = phi i32 [ 0, %start ], [ %more, %again ]
  %done = icmp ule i32 %a, 1
  br i1 %done, label %out, label %body
body:
  %low = and i32 %a, 1
  %odd = icmp eq i32 %low, 1
  br i1 %odd, label %up, label %down
up:
  %three = mul i32 %a, 3
  %plus = add i32 %three, 1
  br label %again
down:
  %half = call i32 @halve(i32 %a)
  br label %again
again:
  %next = phi i32 [ %plus, %up ], [ %half, %down ]
  %more = add i32 %steps, 1
  br label %loop
out:
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %i
  store i32 %steps, ptr addrspace(1) %q
  br label %end
end:
  ret void
}}
define i32 @halve(i32 %a) noinline {{
  %h = lshr i32 %a, 1
  ret i32 %h
}}
{SREG}"""
REDUCE = f"""
@part = internal addrspace(3) global [4 x float] undef, align 16
define ptx_kernel void @reduce(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %row, %n
  br label %loop
loop:
  %i = phi i32 [ %t, %entry ], [ %ni, %body ]
  %s = phi float [ 0.0, %entry ], [ %ns, %body ]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %body, label %warp
body:
  %k = add i32 %base, %i
  %p = getelementptr float, ptr addrspace(1) %x, i32 %k
  %v = load float, ptr addrspace(1) %p
  %ns = fadd float %s, %v
  %ni = add i32 %i, 128
  br label %loop
warp:
  %a0 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %s, i32 16, i32 31)
  %s0 = fadd float %s, %a0
  %a1 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %s0, i32 8, i32 31)
  %s1 = fadd float %s0, %a1
  %a2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %s1, i32 4, i32 31)
  %s2 = fadd float %s1, %a2
  %a3 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %s2, i32 2, i32 31)
  %s3 = fadd float %s2, %a3
  %a4 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %s3, i32 1, i32 31)
  %s4 = fadd float %s3, %a4
  %lane = and i32 %t, 31
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %put, label %meet
put:
  %wi = lshr i32 %t, 5
  %pp = getelementptr float, ptr addrspace(3) @part, i32 %wi
  store float %s4, ptr addrspace(3) %pp
  br label %meet
meet:
  BARRIER
  %v4 = load <4 x float>, ptr addrspace(3) @part, align 16
  %e0 = extractelement <4 x float> %v4, i32 0
  %e1 = extractelement <4 x float> %v4, i32 1
  %e2 = extractelement <4 x float> %v4, i32 2
  %e3 = extractelement <4 x float> %v4, i32 3
  %f0 = fadd float %e0, %e1
  %f1 = fadd float %e2, %e3
  %f = fadd float %f0, %f1
  %lead = icmp eq i32 %t, 0
  br i1 %lead, label %write, label %end
write:
  %q = getelementptr float, ptr addrspace(1) %y, i32 %row
  store float %f, ptr addrspace(1) %q
  br label %end
end:
  ret void
}}
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
{SREG}"""
MEET = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
TILE = 16


def tiled(barrier: str = MEET) -> str:
    """C = A B with tiles of 16 x 16 in shared memory, N = 16 * blocks."""
    steps = "\n".join(
        f"""
  %ia{k} = add i32 %arow, {k}
  %qa{k} = getelementptr float, ptr addrspace(3) @As, i32 %ia{k}
  %va{k} = load float, ptr addrspace(3) %qa{k}
  %ib{k} = add i32 %tx, {k * TILE}
  %qb{k} = getelementptr float, ptr addrspace(3) @Bs, i32 %ib{k}
  %vb{k} = load float, ptr addrspace(3) %qb{k}
  %acc{k + 1} = call float @llvm.fma.f32(float %va{k}, float %vb{k}, float %acc{k})"""
        for k in range(TILE)
    )
    return f"""
@As = internal addrspace(3) global [256 x float] undef, align 16
@Bs = internal addrspace(3) global [256 x float] undef, align 16
define ptx_kernel void @tiled(ptr addrspace(1) %A, ptr addrspace(1) %B, ptr addrspace(1) %C, i32 %n) {{
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %r0 = mul i32 %by, 16
  %row = add i32 %r0, %ty
  %c0 = mul i32 %bx, 16
  %col = add i32 %c0, %tx
  %arow = mul i32 %ty, 16
  %me = add i32 %arow, %tx
  %rn = mul i32 %row, %n
  %pas = getelementptr float, ptr addrspace(3) @As, i32 %me
  %pbs = getelementptr float, ptr addrspace(3) @Bs, i32 %me
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %nk, %loop ]
  %acc0 = phi float [ 0.0, %entry ], [ %acc16, %loop ]
  %ka = add i32 %k, %tx
  %ga = add i32 %rn, %ka
  %pa = getelementptr float, ptr addrspace(1) %A, i32 %ga
  %xa = load float, ptr addrspace(1) %pa
  store float %xa, ptr addrspace(3) %pas
  %kb = add i32 %k, %ty
  %kbn = mul i32 %kb, %n
  %gb = add i32 %kbn, %col
  %pb = getelementptr float, ptr addrspace(1) %B, i32 %gb
  %xb = load float, ptr addrspace(1) %pb
  store float %xb, ptr addrspace(3) %pbs
  {barrier}{steps}
  {MEET}
  %nk = add i32 %k, 16
  %more = icmp slt i32 %nk, %n
  br i1 %more, label %loop, label %done
done:
  %gc = add i32 %rn, %col
  %pc = getelementptr float, ptr addrspace(1) %C, i32 %gc
  store float %acc16, ptr addrspace(1) %pc
  ret void
}}
declare float @llvm.fma.f32(float, float, float)
{SREG}"""


WARP_PRODUCT = f"""
@As = internal addrspace(3) global [512 x i16] undef, align 16
@Bs = internal addrspace(3) global [256 x i16] undef, align 16
define ptx_kernel void @product(ptr addrspace(1) %A, ptr addrspace(1) %B, ptr addrspace(1) %C, i32 %n, i32 %kd) {{
entry:
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %row0 = mul i32 %by, 16
  %col0 = mul i32 %bx, 8
  %r = lshr i32 %lane, 1
  %odd = and i32 %lane, 1
  %c8 = mul i32 %odd, 8
  %c4 = mul i32 %odd, 4
  %ar = add i32 %row0, %r
  %ark = mul i32 %ar, %kd
  %as0 = mul i32 %r, 16
  %as = add i32 %as0, %c8
  %bs0 = mul i32 %r, 8
  %bs = add i32 %bs0, %c4
  %la0 = and i32 %lane, 15
  %la1 = mul i32 %la0, 16
  %la2 = lshr i32 %lane, 4
  %la3 = mul i32 %la2, 8
  %la = add i32 %la1, %la3
  %lb = mul i32 %la0, 8
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %nk, %loop ]
  %z0 = phi float [ 0.0, %entry ], [ %d0, %loop ]
  %z1 = phi float [ 0.0, %entry ], [ %d1, %loop ]
  %z2 = phi float [ 0.0, %entry ], [ %d2, %loop ]
  %z3 = phi float [ 0.0, %entry ], [ %d3, %loop ]
  %ga0 = add i32 %ark, %k
  %ga = add i32 %ga0, %c8
  %pa = getelementptr i16, ptr addrspace(1) %A, i32 %ga
  %sa = getelementptr i16, ptr addrspace(3) @As, i32 %as
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %sa, ptr addrspace(1) %pa)
  %br = add i32 %k, %r
  %brn = mul i32 %br, %n
  %gb0 = add i32 %brn, %col0
  %gb = add i32 %gb0, %c4
  %pb = getelementptr i16, ptr addrspace(1) %B, i32 %gb
  %sb = getelementptr i16, ptr addrspace(3) @Bs, i32 %bs
  call void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3) %sb, ptr addrspace(1) %pb)
  call void @llvm.nvvm.cp.async.commit.group()
  WAIT
  {MEET}
  %qa = getelementptr i16, ptr addrspace(3) @As, i32 %la
  %fa = call {{i32, i32, i32, i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %qa)
  %qb = getelementptr i16, ptr addrspace(3) @Bs, i32 %lb
  %fb = call {{i32, i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3) %qb)
  %a0 = extractvalue {{i32, i32, i32, i32}} %fa, 0
  %a1 = extractvalue {{i32, i32, i32, i32}} %fa, 1
  %a2 = extractvalue {{i32, i32, i32, i32}} %fa, 2
  %a3 = extractvalue {{i32, i32, i32, i32}} %fa, 3
  %b0 = extractvalue {{i32, i32}} %fb, 0
  %b1 = extractvalue {{i32, i32}} %fb, 1
  %d = call {{float, float, float, float}} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %z0, float %z1, float %z2, float %z3)
  %d0 = extractvalue {{float, float, float, float}} %d, 0
  %d1 = extractvalue {{float, float, float, float}} %d, 1
  %d2 = extractvalue {{float, float, float, float}} %d, 2
  %d3 = extractvalue {{float, float, float, float}} %d, 3
  {MEET}
  %nk = add i32 %k, 16
  %more = icmp slt i32 %nk, %kd
  br i1 %more, label %loop, label %done
done:
  %g = lshr i32 %lane, 2
  %m0 = and i32 %lane, 3
  %m = mul i32 %m0, 2
  %cc = add i32 %col0, %m
  %cr0 = add i32 %row0, %g
  %i0a = mul i32 %cr0, %n
  %i0 = add i32 %i0a, %cc
  %cr1 = add i32 %cr0, 8
  %i1a = mul i32 %cr1, %n
  %i1 = add i32 %i1a, %cc
  %v0 = insertelement <2 x float> undef, float %d0, i32 0
  %v1 = insertelement <2 x float> %v0, float %d1, i32 1
  %v2 = insertelement <2 x float> undef, float %d2, i32 0
  %v3 = insertelement <2 x float> %v2, float %d3, i32 1
  %o0 = getelementptr float, ptr addrspace(1) %C, i32 %i0
  store <2 x float> %v1, ptr addrspace(1) %o0, align 8
  %o1 = getelementptr float, ptr addrspace(1) %C, i32 %i1
  store <2 x float> %v3, ptr addrspace(1) %o1, align 8
  ret void
}}
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.ca.shared.global.8(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare {{i32, i32, i32, i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {{i32, i32}} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3))
declare {{float, float, float, float}} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float, float, float)
{SREG}"""
WAIT = "call void @llvm.nvvm.cp.async.wait.group(i32 0)"
HISTOGRAM = f"""
@T = internal addrspace(3) global [64 x i32] undef, align 4
define ptx_kernel void @histogram(ptr addrspace(1) %x, ptr addrspace(1) %h, ptr addrspace(1) %s, i32 %n) {{
entry:{INDEX}
  %mine = getelementptr i32, ptr addrspace(3) @T, i32 %t
  store i32 0, ptr addrspace(3) %mine
  {MEET}
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %count, label %next
count:
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p
  %bin = and i32 %v, 63
  %q = getelementptr i32, ptr addrspace(3) @T, i32 %bin
  %old = atomicrmw add ptr addrspace(3) %q, i32 1 monotonic
  %f = sitofp i32 %v to float
  %olds = atomicrmw fadd ptr addrspace(1) %s, float %f monotonic
  br label %next
next:
  {MEET}
  %c = load i32, ptr addrspace(3) %mine
  %g = getelementptr i32, ptr addrspace(1) %h, i32 %t
  %oldh = atomicrmw add ptr addrspace(1) %g, i32 %c monotonic
  ret void
}}
{SREG}"""


def number(value: int) -> ctypes.c_int:
    return ctypes.c_int(value)


@pytest.mark.parametrize("seed", [None, 5])
def test_lanes_that_part_meet_again(seed):
    x = np.arange(1, 301, dtype=np.int32)
    with device_or_emulated(seed=seed):
        arrays = Arrays()
        y = arrays.room(x.nbytes)
        arrays.run(ptx_of(COLLATZ), "collatz", (3,), (128,), arrays.put(x), y, number(300))
        found = arrays.get(y, x.shape, x.dtype)

    def steps(value: int) -> int:
        count = 0
        while value > 1:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        return count

    assert found.tolist() == [steps(int(v)) for v in x]


@pytest.mark.parametrize("n", [1, 127, 128, 700])
@pytest.mark.parametrize("seed", [None, 1])
def test_sums_of_rows_by_shuffles_and_shared_memory(n, seed):
    x = np.random.default_rng(0).integers(-8, 8, (9, n)).astype(np.float32)
    with device_or_emulated(seed=seed):
        arrays = Arrays()
        y = arrays.room(36)
        arrays.run(ptx_of(REDUCE.replace("BARRIER", MEET)), "reduce", (9,), (128,), arrays.put(x), y, number(n))
        assert np.array_equal(arrays.get(y, 9, np.float32), x.sum(axis=1))
        # lanes of the upper half ask for lanes of the next warp in the step by "down", and keep their own: nothing is wrong


@pytest.mark.parametrize("seed", [None, 2])
def test_a_product_by_tiles_in_shared_memory(seed):
    rng = np.random.default_rng(1)
    a, b = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2)]
    with device_or_emulated(seed=seed) as gpu:
        arrays = Arrays()
        c = arrays.room(a.nbytes)
        arrays.run(ptx_of(tiled()), "tiled", (4, 4), (16, 16), arrays.put(a), arrays.put(b), c, number(64))
        np.testing.assert_allclose(arrays.get(c, a.shape, a.dtype), a.astype(np.float64) @ b, atol=1e-4)
        if gpu is None:
            return
        shared = [site for site in gpu.traffic if site.scope == "shared"]
        assert bool(shared) == (seed is None) and all(site.excess == 0 for site in shared)
        assert gpu.launches[0].kernel == "tiled" and gpu.launches[0].grid == (4, 4, 1)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_product_by_matrix_instructions_and_asynchronous_copies(seed):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((32, 48)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((48, 24)).astype(ml_dtypes.bfloat16)
    with device_or_emulated(seed=seed):
        arrays = Arrays()
        c = arrays.room(32 * 24 * 4)
        text = ptx_of(WARP_PRODUCT.replace("WAIT", WAIT))
        arrays.run(text, "product", (3, 2), (32,), arrays.put(a), arrays.put(b), c, number(24), number(48))
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(arrays.get(c, wanted.shape, np.float32), wanted, atol=1e-4)


@pytest.mark.parametrize("seed", [None, 4])
def test_atomic_updates_of_shared_and_global_memory(seed):
    x = np.random.default_rng(3).integers(0, 1000, 1000).astype(np.int32)
    with device_or_emulated(seed=seed):
        arrays = Arrays()
        h, s = arrays.put(np.zeros(64, np.int32)), arrays.put(np.zeros(1, np.float32))
        arrays.run(ptx_of(HISTOGRAM), "histogram", (16,), (64,), arrays.put(x), h, s, number(1000))
        assert np.array_equal(arrays.get(h, 64, np.int32), np.bincount(x & 63, minlength=64))
        assert arrays.get(s, 1, np.float32)[0] == x.sum()


SWITCH = f"""
@lut = internal addrspace(4) constant [6 x i32] [i32 5, i32 9, i32 2, i32 7, i32 1, i32 4]
define ptx_kernel void @sw(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
entry:{INDEX}
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p
  %buf = alloca [8 x i32], align 16
  %k = and i32 %v, 7
  br label %fill
fill:
  %j = phi i32 [ 0, %entry ], [ %j2, %fill ]
  %pj = getelementptr [8 x i32], ptr %buf, i32 0, i32 %j
  %jj = mul i32 %j, %v
  store volatile i32 %jj, ptr %pj
  %j2 = add i32 %j, 1
  %c = icmp slt i32 %j2, 8
  br i1 %c, label %fill, label %go
go:
  %pk = getelementptr [8 x i32], ptr %buf, i32 0, i32 %k
  %ww = load volatile i32, ptr %pk
  switch i32 %k, label %d [ i32 0, label %a0
    i32 1, label %a1
    i32 2, label %a2
    i32 3, label %a3
    i32 4, label %a4
    i32 5, label %a5 ]
a0:
  %r0 = add i32 %ww, 100
  br label %end
a1:
  %r1 = mul i32 %ww, %v
  br label %end
a2:
  %r2 = sub i32 %ww, 77
  br label %end
a3:
  %r3 = xor i32 %ww, 1234
  br label %end
a4:
  %z = zext i32 %v to i128
  %zz = mul i128 %z, 123456789012345678901234567
  %zs = lshr i128 %zz, 70
  %r4 = trunc i128 %zs to i32
  br label %end
a5:
  %pl = getelementptr [6 x i32], ptr addrspace(4) @lut, i32 0, i32 %k
  %l = load i32, ptr addrspace(4) %pl
  %r5 = udiv i32 %ww, %l
  br label %end
d:
  %vv = call i32 @llvm.ctpop.i32(i32 %v)
  %rd = call i32 @llvm.bswap.i32(i32 %vv)
  br label %end
end:
  %r = phi i32 [ %r0, %a0 ], [ %r1, %a1 ], [ %r2, %a2 ], [ %r3, %a3 ], [ %r4, %a4 ], [ %r5, %a5 ], [ %rd, %d ]
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %i
  store i32 %r, ptr addrspace(1) %q
  ret void
}}
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.bswap.i32(i32)
{SREG}"""


@pytest.mark.parametrize("seed", [None, 6])
def test_branches_by_a_table_and_memory_of_a_thread(seed):
    x = np.random.default_rng(4).integers(0, 1 << 31, 256).astype(np.uint32)
    with device_or_emulated(seed=seed):
        arrays = Arrays()
        y = arrays.room(1024)
        arrays.run(ptx_of(SWITCH), "sw", (2,), (128,), arrays.put(x), y)
        found = arrays.get(y, 256, np.uint32)

    def case(v: int) -> int:
        k = v & 7
        w = k * v % (1 << 32)
        if k > 5:
            return int.from_bytes(v.bit_count().to_bytes(4, "little"), "big")
        big = (v * 123456789012345678901234567 % (1 << 128)) >> 70
        return [w + 100, w * v, w - 77, w ^ 1234, big, w // 4][k] % (1 << 32)

    assert found.tolist() == [case(int(v)) for v in x]


# ---- mistakes


def test_a_missing_barrier_is_a_race():
    a = np.ones((32, 32), np.float32)
    with emulated_gpu() as gpu:
        arrays = Arrays()
        args = (arrays.put(a), arrays.put(a), arrays.room(a.nbytes), number(32))
        arrays.run(ptx_of(tiled(barrier="")), "tiled", (2, 2), (16, 16), *args)
        races = [one for one in gpu.findings if one.kind == "race"]
        assert races and all(one.code == "E360" for one in races)
        text = str(races[0])
        assert "As in shared memory" in text or "Bs in shared memory" in text
        assert "ld.shared" in text and "st.shared" in text and races[0].line is not None


def test_a_missing_wait_leaves_copies_undefined():
    a, b = np.zeros((16, 16), ml_dtypes.bfloat16), np.zeros((16, 8), ml_dtypes.bfloat16)
    with emulated_gpu() as gpu:
        arrays = Arrays()
        args = (arrays.put(a), arrays.put(b), arrays.room(16 * 8 * 4), number(8), number(16))
        arrays.run(ptx_of(WARP_PRODUCT.replace("WAIT", "")), "product", (1, 1), (32,), *args)
        assert {one.kind for one in gpu.findings} >= {"uninitialised"}


def test_blocks_that_store_into_one_place_race():
    text = f"""
define ptx_kernel void @clash(ptr addrspace(1) %x) {{
entry:{INDEX}
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  store i32 %b, ptr addrspace(1) %p
  ret void
}}
{SREG}"""
    with emulated_gpu() as gpu:
        arrays = Arrays()
        arrays.run(ptx_of(text), "clash", (2,), (32,), arrays.room(128))
        assert [(one.kind, one.code) for one in gpu.findings] == [("race", "E361")]
        assert "clash_param_0" in str(gpu.findings[0])
