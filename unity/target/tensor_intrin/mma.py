"""CUDA ``mma.sync`` with ``ldmatrix`` for 16x16x16 tiles of float16, and ``dp4a``.

Operands lie in warp memory of 32 lanes times 8 registers; which element lies where follows the PTX ISA. A tile's product is two
m16n8k16 instructions, one per half of its columns. Names as in TVM.
"""

from __future__ import annotations

from functools import partial

from ...ir.function import PrimFunc
from ...transform.schedule.core.tensor_intrin import Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
LANE = "vi % 8 * 4 + vj % 8 // 2, vj // 8 * 4 + vi // 8 * 2 + vj % 2"
"""Lane and register of element (vi, vj): operand A and the accumulator."""
LANE_B = "vj % 8 * 4 + vi % 8 // 2, vj // 8 * 4 + vi // 8 * 2 + vi % 2"
"""Lane and register of element (vi, vj) of operand B."""
SCOPES = {"shared": "shared", "shared_dyn": "shared.dyn"}


def _warp(name: str, dtype: str) -> Operand:
    return Operand(name, (32, 8), dtype, "warp", 8)


def ldmatrix(operand: str, scope: str) -> Pair:
    """A 16x16 tile from shared memory to the lanes of a warp."""
    operands = [Operand("S", (16, 16), "float16", SCOPES[scope], 8, True), _warp("W", "float16")]
    lane = LANE if operand == "a" else LANE_B
    loops = f"""
for i, j in T.grid(16, 16):
    with T.block("ldmatrix"):
        vi, vj = T.axis.remap("SS", [i, j])
        W[{lane}] = S[vi, vj]
"""
    trans = "False" if operand == "a" else "True"
    call = f"""
for tx in T.thread_binding(32, thread="threadIdx.x"):
    row = S_offset + tx % 16 * S_stride + tx // 16 * 8
    T.ptx_ldmatrix("float16", T.bool({trans}), 4, ".b16", W.data, W_offset + tx * 8, S.data, row)
"""
    return program(operands, "S", "W", loops), program(operands, "S", "W", call)


def sync(total: str) -> Pair:
    """``C += A @ B`` on warp memory."""
    wide, kind = {"f32": ("float32", "fp32"), "f16": ("float16", "fp16")}[total]
    operands = [_warp("A", "float16"), _warp("B", "float16"), _warp("C", wide)]
    left, right = [
        f"A[{LANE.replace('vj', 'vk')}]", f"B[{LANE_B.replace('vi', 'vk')}]",
    ]  # fmt: skip
    if wide != "float16":
        left, right = [f'T.Cast("{wide}", {side})' for side in (left, right)]
    loops = f"""
for i, j, k in T.grid(16, 16, 16):
    with T.block("update"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[{LANE}] = C[{LANE}] + {left} * {right}
"""
    head = f'"{wide}", "m16n8k16", "row", "col", "fp16", "fp16", "{kind}"'
    calls = [
        f"    T.ptx_mma({head}, A.data, A_offset + tx * 8, B.data, B_offset + tx * 8 + {half}, C.data, C_offset + tx * 8 + {half},"
        f" T.bool(False))"
        for half in (0, 4)
    ]
    body = "\n".join(['for tx in T.thread_binding(32, thread="threadIdx.x"):', *calls])
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", body)


def fill(total: str) -> Pair:
    """An accumulator of zeros."""
    dtype = {"f32": "float32", "f16": "float16"}[total]
    loops = f"""
for i, j in T.grid(32, 8):
    with T.block("init"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.{dtype}(0)
"""
    body = f"""
for tx in T.thread_binding(32, thread="threadIdx.x"):
    for r in range(8):
        C[tx, r] = T.{dtype}(0)
"""
    return program([_warp("C", dtype)], "", "C", loops), program([_warp("C", dtype)], "", "C", body)


def store(total: str, scope: str) -> Pair:
    """An accumulator to memory."""
    dtype = {"f32": "float32", "f16": "float16"}[total]
    operands = [_warp("A", dtype), Operand("C", (16, 16), dtype, {**SCOPES, "global": "global"}[scope], 1, True)]
    loops = f"""
for i, j in T.grid(16, 16):
    with T.block("store"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[{LANE}]
"""
    body = """
for tx in T.thread_binding(32, thread="threadIdx.x"):
    for r in range(8):
        C[r % 4 // 2 * 8 + tx // 4, r // 4 * 8 + tx % 4 * 2 + r % 2] = A[tx, r]
"""
    return program(operands, "A", "C", loops), program(operands, "A", "C", body)


def dp4a(a: str, b: str, total: str) -> Pair:
    """``C[0] += sum of A[k] * B[k]`` over four bytes."""
    types = {"s8": "int8", "u8": "uint8", "s32": "int32", "u32": "uint32"}
    wide = types[total]
    operands = [
        Operand("A", (4,), types[a], "shared", 4), Operand("B", (4,), types[b], "shared", 4), Operand("C", (1,), wide, "local", 1)
    ]  # fmt: skip
    loops = f"""
for k in range(4):
    with T.block("update"):
        vk = T.axis.reduce(4, k)
        C[0] = C[0] + T.Cast("{wide}", A[vk]) * T.Cast("{wide}", B[vk])
"""
    call = f'C[0] = T.dp4a(A[T.Ramp(0, 1, 4)], B[T.Ramp(0, 1, 4)], C[0], dtype="{wide}")'
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", call)


def _table() -> dict[str, Maker]:
    found: dict[str, Maker] = {}
    for total in ("f32", "f16"):
        found[f"mma_f16f16{total}"] = partial(sync, total)
        found[f"mma_fill_16x16_{total}"] = partial(fill, total)
        for scope in ("shared", "shared_dyn", "global"):
            found[f"mma_store_16x16_{total}_{scope}"] = partial(store, total, scope)
    for operand in ("a", "b"):
        for scope in SCOPES:
            found[f"mma_ldmatrix_f16_{operand}_{scope}"] = partial(ldmatrix, operand, scope)
    for a, b, total in (("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "u8", "u32")):
        found[f"dp4a_{a}{b}{total}"] = partial(dp4a, a, b, total)
    return found


MMA_INTRINSICS = _table()
"""Makers by name."""
