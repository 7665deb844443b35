"""Intel AMX: a 16x16 tile of float32 or int32 plus a product of 64 bytes along the reduction, from memory to memory.

Operand B lies in rows of pairs of bfloat16 (groups of four int8): ``B[k // 2, j, k % 2]``. Each call configures its three tile
registers and releases them, so that it can stand anywhere. The target must name the features (``-mattr=+amx-tile,+amx-bf16``).
"""

from __future__ import annotations

from functools import partial

from ...ir.function import PrimFunc
from ...ir.tensor_intrin import Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
ROWS, ROW_BYTES = 16, 64
KINDS = {
    "bf16bf16f32": ("bfloat16", "bfloat16", "float32", "tdpbf16ps"),
    "s8s8s32": ("int8", "int8", "int32", "tdpbssd"),
    "u8s8s32": ("uint8", "int8", "int32", "tdpbusd"),
}
"""Element types of A, B and C, and the instruction."""


def product(kind: str) -> Pair:
    """``C[i, j] += sum of A[i, k] * B[k // group, j, k % group]``."""
    left, right, total, instruction = KINDS[kind]
    group = 2 if left == "bfloat16" else 4
    depth = group * 16
    operands = [
        Operand("A", (ROWS, depth), left, strided=True), Operand("B", (16, 16, group), right, strided=True),
        Operand("C", (ROWS, 16), total, strided=True),
    ]  # fmt: skip
    loops = f"""
for i, j, k in T.grid({ROWS}, 16, {depth}):
    with T.block("update"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + T.Cast("{total}", A[vi, vk]) * T.Cast("{total}", B[vk // {group}, vj, vk % {group}])
"""
    width = 2 if group == 2 else 1
    call = 'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.'
    tiles = (("C", 0, 4), ("A", 1, width), ("B", 2, width))
    body = "\n".join([
        'config = T.alloc_buffer((64,), "uint8")',
        "for n in range(64):",
        "    config[n] = T.uint8(0)",
        "config[0] = T.uint8(1)",
        *[f"config[{16 + 2 * t}] = T.uint8({ROW_BYTES})" for t in range(3)],
        *[f"config[{48 + t}] = T.uint8({ROWS})" for t in range(3)],
        f'{call}ldtilecfg", T.address_of(config[0])))',
        *[f'{call}tileloadd64", T.int8({t}), T.address_of({n}[{", ".join("0" * (3 if n == "B" else 2))}]), {n}_stride * {b}))'
          for n, t, b in tiles],
        f'{call}{instruction}", T.int8(0), T.int8(1), T.int8(2)))',
        f'{call}tilestored64", T.int8(0), T.address_of(C[0, 0]), C_stride * 4))',
        f'{call}tilerelease"))',
    ])  # fmt: skip
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", body)


AMX_INTRINSICS: dict[str, Maker] = {f"amx_16x16_{kind}": partial(product, kind) for kind in KINDS}
"""Makers by name."""
