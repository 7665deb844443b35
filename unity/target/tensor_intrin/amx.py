"""Intel AMX: a block of up to 32x32 elements of float32 or int32 plus a product along a reduction, from memory to memory.

Operand B lies in rows of pairs of bfloat16 (groups of four int8): ``B[k // 2, j, k % 2]``. Each call configures the tile registers
it uses and releases them, so that it can stand anywhere; the block stays in registers along the whole depth of the call. C is
read and written by plain vectors, so that passes see what becomes of it. The
target must name the features (``-mattr=+amx-tile,+amx-bf16``). Source of the blocking (two by two tiles of sums, two of each
operand): Intel 64 and IA-32 Architectures Optimization Reference Manual, section on AMX.
"""

from __future__ import annotations

from functools import partial

from ...ir.function import PrimFunc
from ...support.errors import VerifyError
from ...transform.schedule.core.tensor_intrin import Family, Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
SIDE, ROW_BYTES, TILES = 16, 64, 8
"""Rows of a tile, bytes of a row, tile registers."""
KINDS = {
    "bf16bf16f32": ("bfloat16", "bfloat16", "float32", "tdpbf16ps"),
    "s8s8s32": ("int8", "int8", "int32", "tdpbssd"),
    "u8s8s32": ("uint8", "int8", "int32", "tdpbusd"),
}
"""Element types of A, B and C, and the instruction."""


def group_of(kind: str) -> int:
    """Neighbours along the reduction that lie side by side in B."""
    return 2 if kind.startswith("bf16") else 4


def product(rows: int, columns: int, depth: int, kind: str, scope: str = "global") -> Pair:
    """``C[i, j] += sum of A[i, k] * B[k // group, j, k % group]``, C in memory of ``scope``. Raises VerifyError E380 for a shape
    that is no whole number of tiles, or more than there are."""
    left, right, total, instruction = KINDS[kind]
    group, down, across = group_of(kind), rows // SIDE, columns // SIDE
    step = group * SIDE
    if (
        0 in (down, across, depth)
        or rows % SIDE
        or columns % SIDE
        or depth % step
        or down * across + down + across > TILES
    ):
        raise VerifyError(
            "E380", f"no block of {rows}x{columns}x{depth} fits AMX tiles of {kind}",
            help=f"rows and columns are 16 or 32, the depth is a multiple of {step}",
        )  # fmt: skip
    operands = [
        Operand("A", (rows, depth), left, strided=True), Operand("B", (depth // group, columns, group), right, strided=True),
        Operand("C", (rows, columns), total, scope, strided=True),
    ]  # fmt: skip
    loops = f"""
for i, j, k in T.grid({rows}, {columns}, {depth}):
    with T.block("update"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + T.Cast("{total}", A[vi, vk]) * T.Cast("{total}", B[vk // {group}, vj, vk % {group}])
"""
    sums = [(i, j, across * i + j) for i in range(down) for j in range(across)]
    of_a = [down * across + i for i in range(down)]
    of_b = [down * across + down + j for j in range(across)]
    used = [*[tile for _, _, tile in sums], *of_a, *of_b]
    width = 4 // group

    def call(name: str, *args: object) -> str:
        return f"""T.evaluate(T.call_llvm_intrin({", ".join(['"void"', f'"llvm.x86.{name}"', *map(str, args)])}))"""

    def load(tile: int, buffer: str, offset: str, row_bytes: int) -> str:
        pointer = f'{buffer}.access_ptr("r", offset={offset})'
        return call("tileloadd64", f"T.int8({tile})", pointer, f"{buffer}_stride * {row_bytes}")

    def store(tile: int, row: int, column: int) -> str:
        return call(
            "tilestored64", f"T.int8({tile})", f"T.address_of(sums[{row}, {column}])", f"T.int64({4 * columns})"
        )

    lane = f"i, T.Ramp(j * {SIDE}, 1, {SIDE})"
    body = [
        'config = T.alloc_buffer((64,), "uint8")',
        f'sums = T.alloc_buffer(({rows}, {columns}), "{total}")',
        "for n in range(64):",
        "    config[n] = T.uint8(0)",
        "config[0] = T.uint8(1)",
        *[f"config[{16 + 2 * t}] = T.uint8({ROW_BYTES})" for t in used],
        *[f"config[{48 + t}] = T.uint8({SIDE})" for t in used],
        call("ldtilecfg", "T.address_of(config[0])"),
        *[call("tilezero", f"T.int8({t})") for _, _, t in sums],
        f"for k in range({depth // step}):",
        *[f"    {load(t, 'A', f'A_stride * {SIDE * i} + k * {step}', width)}" for i, t in enumerate(of_a)],
        *[f"    {load(t, 'B', f'B_stride * k * {SIDE} + {SIDE * group * j}', width)}" for j, t in enumerate(of_b)],
        *[f"    {call(instruction, f'T.int8({t})', f'T.int8({of_a[i]})', f'T.int8({of_b[j]})')}" for i, j, t in sums],
        *[store(t, SIDE * i, SIDE * j) for i, j, t in sums],
        call("tilerelease"),
        f"for i, j in T.grid({rows}, {across}):",
        f"    C[{lane}] = C[{lane}] + sums[{lane}]",
    ]
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", "\n".join(body))


AMX_INTRINSICS: dict[str, Maker] = {
    f"amx_16x16_{kind}": partial(product, SIDE, SIDE, SIDE * group_of(kind), kind) for kind in KINDS
}
"""Makers by name."""


def _member(rows: str, columns: str, depth: str, kind: str, local: str | None) -> Pair:
    return product(int(rows), int(columns), int(depth), kind, "local" if local else "global")


AMX_FAMILIES: dict[str, Family] = {rf"amx_(\d+)x(\d+)x(\d+)_({'|'.join(KINDS)})(_local)?": _member}
"""Patterns of names, ``amx_32x32x512_bf16bf16f32``: rows, columns, depth; with ``_local`` C is memory of that scope."""
