"""x86 vector instructions: dot products of bytes (AVX-512 with and without VNNI) and a float32 update of one vector.

All are exact: the AVX-512 form without VNNI widens to 16 bits first, so that nothing saturates.
"""

from __future__ import annotations

from ...ir.function import PrimFunc
from ...ir.tensor_intrin import Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
_BYTES = [Operand("A", (4,), "uint8"), Operand("B", (16, 4), "int8"), Operand("C", (16,), "int32")]
_FLOATS = [Operand("A", (1,), "float32"), Operand("B", (16,), "float32"), Operand("C", (16,), "float32")]
_DOT = """
for i, k in T.grid(16, 4):
    with T.block("update"):
        vi, vk = T.axis.remap("SR", [i, k])
        C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])
"""
_FLAT = 'Bf = T.decl_buffer((64,), "int8", data=B.data, elem_offset=B_offset)\n'


def vnni() -> Pair:
    """``C[i] += sum of A[k] * B[i, k]``, one ``vpdpbusd``."""
    body = (
        _FLAT
        + """
a = T.Broadcast(T.reinterpret("int32", A[T.Ramp(0, 1, 4)]), 16)
b = T.reinterpret("int32x16", Bf[T.Ramp(0, 1, 64)])
C[T.Ramp(0, 1, 16)] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", C[T.Ramp(0, 1, 16)], a, b)
"""
    )
    return program(_BYTES, "C A B", "C", _DOT), program(_BYTES, "C A B", "C", body)


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
    return program(_BYTES, "C A B", "C", _DOT), program(_BYTES, "C A B", "C", body)


def axpy() -> Pair:
    """``C[i] += A[0] * B[i]``: the inner step of a matrix product, fused where the target multiplies and adds at once."""
    loops = """
for i in range(16):
    with T.block("update"):
        vi = T.axis.spatial(16, i)
        C[vi] = C[vi] + A[0] * B[vi]
"""
    body = "C[T.Ramp(0, 1, 16)] = C[T.Ramp(0, 1, 16)] + T.Broadcast(A[0], 16) * B[T.Ramp(0, 1, 16)]"
    return program(_FLOATS, "C A B", "C", loops), program(_FLOATS, "C A B", "C", body)


CPU_INTRINSICS: dict[str, Maker] = {
    "dot_16x4_vnni": vnni, "dot_16x4_avx512": avx512, "axpy_16_f32_avx512": axpy,
}  # fmt: skip
"""Makers by name."""
