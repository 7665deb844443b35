"""x86 vector instructions: dot products of bytes (AVX-512 with and without VNNI) and of pairs of bfloat16 (AVX-512 BF16);
float32 dot products, updates of one vector and outer products (AVX-512 and AVX2).

Those of bytes are exact: the AVX-512 form without VNNI widens to 16 bits first, so that nothing saturates.
"""

from __future__ import annotations

from functools import partial

from ...ir.function import PrimFunc
from ...transform.schedule.core.tensor_intrin import Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]


def _bytes(scope: str) -> list[Operand]:
    return [Operand("A", (4,), "uint8"), Operand("B", (16, 4), "int8"), Operand("C", (16,), "int32", scope)]


_DOT = """
for i, k in T.grid(16, 4):
    with T.block("update"):
        vi, vk = T.axis.remap("SR", [i, k])
        C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])
"""
_FLAT = 'Bf = T.decl_buffer((64,), "int8", data=B.data, elem_offset=B_offset)\n'


def vnni(scope: str = "global") -> Pair:
    """``C[i] += sum of A[k] * B[i, k]``, one ``vpdpbusd``; ``scope`` is that of C."""
    body = (
        _FLAT
        + """
a = T.reinterpret("int8x64", T.Broadcast(T.reinterpret("int32", A[T.Ramp(0, 1, 4)]), 16))
b = Bf[T.Ramp(0, 1, 64)]
C[T.Ramp(0, 1, 16)] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", C[T.Ramp(0, 1, 16)], a, b)
"""
    )
    return program(_bytes(scope), "C A B", "C", _DOT), program(_bytes(scope), "C A B", "C", body)


def avx512() -> Pair:
    """The same with two ``vpmaddwd`` on 16-bit numbers and one addition of neighbours."""
    evens, odds = [", ".join([str(k) for k in range(first, 32, 2)]) for first in (0, 1)]
    body = (
        _FLAT
        + f"""
a = T.reinterpret("int16x32", T.Broadcast(T.reinterpret("int64", T.Cast("int16x4", A[T.Ramp(0, 1, 4)])), 8))
low = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.pmaddw.d.512", a, T.Cast("int16x32", Bf[T.Ramp(0, 1, 32)]))
high = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.pmaddw.d.512", a, T.Cast("int16x32", Bf[T.Ramp(32, 1, 32)]))
C[T.Ramp(0, 1, 16)] = C[T.Ramp(0, 1, 16)] + T.Shuffle([low, high], [{evens}]) + T.Shuffle([low, high], [{odds}])
"""
    )
    return program(_bytes("global"), "C A B", "C", _DOT), program(_bytes("global"), "C A B", "C", body)


def bf16(scope: str = "global") -> Pair:
    """``C[i] += A[0] * B[i, 0] + A[1] * B[i, 1]`` of bfloat16 into float32, one ``vdpbf16ps`` (denormals count as zero)."""
    operands = [
        Operand("A", (2,), "bfloat16"), Operand("B", (16, 2), "bfloat16"), Operand("C", (16,), "float32", scope)
    ]  # fmt: skip
    loops = """
for i, k in T.grid(16, 2):
    with T.block("update"):
        vi, vk = T.axis.remap("SR", [i, k])
        C[vi] = C[vi] + T.Cast("float32", A[vk]) * T.Cast("float32", B[vi, vk])
"""
    body = """
Bf = T.decl_buffer((32,), "bfloat16", data=B.data, elem_offset=B_offset)
a = T.reinterpret("bfloat16x32", T.Broadcast(T.reinterpret("int32", A[T.Ramp(0, 1, 2)]), 16))
b = Bf[T.Ramp(0, 1, 32)]
C[T.Ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
    "float32x16", "llvm.x86.avx512bf16.dpbf16ps.512", C[T.Ramp(0, 1, 16)], a, b
)
"""
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", body)


def axpy(lanes: int) -> Pair:
    """``C[i] += A[0] * B[i]``: the inner step of a matrix product, fused where the target multiplies and adds at once."""
    loops = f"""
for i in range({lanes}):
    with T.block("update"):
        vi = T.axis.spatial({lanes}, i)
        C[vi] = C[vi] + A[0] * B[vi]
"""
    span = f"T.Ramp(0, 1, {lanes})"
    body = f"C[{span}] = C[{span}] + T.Broadcast(A[0], {lanes}) * B[{span}]"
    return program(_floats(1, lanes, lanes), "C A B", "C", loops), program(_floats(1, lanes, lanes), "C A B", "C", body)


def _floats(a: int, b: int, c: int) -> list[Operand]:
    return [Operand("A", (a,), "float32"), Operand("B", (b,), "float32"), Operand("C", (c,), "float32")]


def dot(lanes: int) -> Pair:
    """``C[0] += sum of A[k] * B[k]`` over one vector: a product, then halves added to each other."""
    loops = f"""
for k in range({lanes}):
    with T.block("update"):
        vk = T.axis.reduce({lanes}, k)
        C[0] = C[0] + A[vk] * B[vk]
"""
    span = f"T.Ramp(0, 1, {lanes})"
    width = lanes
    body = f"p{width} = A[{span}] * B[{span}]\n"
    while width > 1:  # the upper half onto the lower one
        half = width // 2
        low, high = [", ".join([str(k) for k in ks]) for ks in (range(half), range(half, width))]
        body += f"p{half} = T.Shuffle([p{width}], [{low}]) + T.Shuffle([p{width}], [{high}])\n"
        width = half
    body += "C[0] = C[0] + p1"
    return program(_floats(lanes, lanes, 1), "C A B", "C", loops), program(_floats(lanes, lanes, 1), "C A B", "C", body)


def outer(rows: int, lanes: int) -> Pair:
    """``C[i, j] += A[i, 0] * B[j]``: ``rows`` vectors of a tile of a matrix product, each updated once."""
    operands = [
        Operand("A", (rows, 1), "float32", strided=True), Operand("B", (lanes,), "float32"),
        Operand("C", (rows, lanes), "float32", strided=True),
    ]  # fmt: skip
    loops = f"""
for i, j in T.grid({rows}, {lanes}):
    with T.block("update"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = C[vi, vj] + A[vi, 0] * B[vj]
"""
    span = f"T.Ramp(0, 1, {lanes})"
    body = "\n".join(
        [f"C[{i}, {span}] = C[{i}, {span}] + T.Broadcast(A[{i}, 0], {lanes}) * B[{span}]" for i in range(rows)]
    )
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", body)


CPU_INTRINSICS: dict[str, Maker] = {
    "dot_16x4_vnni": vnni, "dot_16x4_avx512": avx512, "dot_16x2_bf16_avx512": bf16,
    "dot_16x4_vnni_local": partial(vnni, "local"), "dot_16x2_bf16_avx512_local": partial(bf16, "local"),
    "axpy_16_f32_avx512": partial(axpy, 16), "axpy_8_f32_avx2": partial(axpy, 8),
    "dot_16_f32_avx512": partial(dot, 16), "dot_8_f32_avx2": partial(dot, 8),
    "outer_6x16_f32_avx512": partial(outer, 6, 16), "outer_4x8_f32_avx2": partial(outer, 4, 8),
}  # fmt: skip
"""Makers by name; those with ``_local`` add to a tile that stays in registers."""
