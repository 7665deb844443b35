"""The accelerator of the MLC course, 16x16 matrix units reached through LLVM IR, and the schedule that uses it."""

from __future__ import annotations

import unity
from unity.script import tir as T
from unity.target.tensor_intrin import TensorIntrin


@T.prim_func
def tmm16_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16), "float32", offset_factor=16, scope="global.A_reg")
    B = T.match_buffer(b, (16, 16), "float32", offset_factor=16, scope="global.B_reg")
    C = T.match_buffer(c, (16, 16), "float32", offset_factor=16, scope="global.accumulator")
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for i, j, k in T.grid(16, 16, 16):
            with T.block(""):
                vii, vjj, vkk = T.axis.remap("SSR", [i, j, k])
                C[vii, vjj] = C[vii, vjj] + A[vii, vkk] * B[vjj, vkk]


@T.prim_func
def tmm16_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    sa = T.var("int32")
    sb = T.var("int32")
    sc = T.var("int32")
    A = T.match_buffer(a, (16, 16), "float32", offset_factor=16, strides=[sa, 1], scope="global.A_reg")
    B = T.match_buffer(b, (16, 16), "float32", offset_factor=16, strides=[sb, 1], scope="global.B_reg")
    C = T.match_buffer(c, (16, 16), "float32", offset_factor=16, strides=[sc, 1], scope="global.accumulator")
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        T.evaluate(T.call_extern("int32", "tmm16", C.access_ptr("w"), A.access_ptr("r"), B.access_ptr("r"), sa, sb, sc))


KERNEL = """
define i32 @tmm16(ptr %c, ptr %a, ptr %b, i32 %sa, i32 %sb, i32 %sc) {
entry:
  %la = sext i32 %sa to i64
  %lb = sext i32 %sb to i64
  %lc = sext i32 %sc to i64
  br label %rows
rows:
  %i = phi i64 [0, %entry], [%i1, %next]
  br label %columns
columns:
  %j = phi i64 [0, %rows], [%j1, %store]
  br label %dot
dot:
  %k = phi i64 [0, %columns], [%k1, %dot]
  %s = phi float [0.0, %columns], [%s1, %dot]
  %ra = mul i64 %i, %la
  %rb = mul i64 %j, %lb
  %ia = add i64 %ra, %k
  %ib = add i64 %rb, %k
  %pa = getelementptr float, ptr %a, i64 %ia
  %pb = getelementptr float, ptr %b, i64 %ib
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %m = fmul float %va, %vb
  %s1 = fadd float %s, %m
  %k1 = add i64 %k, 1
  %ck = icmp slt i64 %k1, 16
  br i1 %ck, label %dot, label %store
store:
  %rc = mul i64 %i, %lc
  %ic = add i64 %rc, %j
  %pc = getelementptr float, ptr %c, i64 %ic
  %vc = load float, ptr %pc
  %nc = fadd float %vc, %s1
  store float %nc, ptr %pc
  %j1 = add i64 %j, 1
  %cj = icmp slt i64 %j1, 16
  br i1 %cj, label %columns, label %next
next:
  %i1 = add i64 %i, 1
  %ci = icmp slt i64 %i1, 16
  br i1 %ci, label %rows, label %done
done:
  ret i32 0
}
"""
TensorIntrin.register("tmm16", tmm16_desc, tmm16_impl)


def accelerated(sch: unity.Schedule, block: str, text: str = KERNEL) -> unity.IRModule:
    """A product with transposed right operand on the units; ``text`` is the LLVM IR behind the call, none where empty."""
    i, j, k = sch.get_loops(block)
    i, ii = sch.split(i, factors=[None, 16])
    j, ji = sch.split(j, factors=[None, 16])
    k, ki = sch.split(k, factors=[None, 16])
    sch.reorder(i, j, k, ii, ji, ki)
    block_mm = sch.blockize(ii)
    A_reg = sch.cache_read(block_mm, 0, storage_scope="global.A_reg")
    B_reg = sch.cache_read(block_mm, 1, storage_scope="global.B_reg")
    sch.compute_at(A_reg, k)
    sch.compute_at(B_reg, k)
    write_back_block = sch.cache_write(block_mm, 0, storage_scope="global.accumulator")
    sch.reverse_compute_at(write_back_block, j)
    sch.decompose_reduction(block_mm, k)
    sch.tensorize(block_mm, "tmm16")
    if text:
        sch.annotate(i, "pragma_import_llvm", text)
    return sch.mod
