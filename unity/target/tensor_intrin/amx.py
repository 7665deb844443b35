"""Intel AMX: a block of up to 32x32 elements of float32 or int32 plus a product along a reduction.

Operand B lies in rows of pairs of bfloat16 (groups of four int8): ``B[k // 2, j, k % 2]``. The plain intrinsics go from memory to
memory; their C is read and written by plain vectors, so that passes see what becomes of it. Those of scope ``amx.tile`` come in
three: fill with zeros, add a product, store; between them the block stays in tile registers 0 to 3, so only one is alive at a time.
Tiles are configured around what uses them by the pass ``configure_tiles``. The
target must name the features (``-mattr=+amx-tile,+amx-bf16``). Source of the blocking (two by two tiles of sums, two of each
operand): Intel 64 and IA-32 Architectures Optimization Reference Manual, section on AMX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...ir.function import PrimFunc
from ...support.errors import VerifyError
from ...transform.schedule.core.tensor_intrin import Family, Maker
from .program import Operand, program

Pair = tuple[PrimFunc, PrimFunc]
SIDE, TILES = 16, 8
"""Rows of a tile, tile registers."""
SCOPE = "amx.tile"
"""The scope of blocks in tile registers."""
KINDS = {
    "bf16bf16f32": ("bfloat16", "bfloat16", "float32", "tdpbf16ps"),
    "s8s8s32": ("int8", "int8", "int32", "tdpbssd"),
    "u8s8s32": ("uint8", "int8", "int32", "tdpbusd"),
}
"""Element types of A, B and C, and the instruction."""


def group_of(kind: str) -> int:
    """Neighbours along the reduction that lie side by side in B."""
    return 2 if kind.startswith("bf16") else 4


@dataclass(slots=True, frozen=True)
class Block:
    """A block of ``rows`` x ``columns`` sums of a kind, in the first tile registers. Raises VerifyError E380 for one that is not a
    whole number of tiles, or of more than there are."""

    rows: int
    columns: int
    kind: str

    def __post_init__(self) -> None:
        down, across = self.rows // SIDE, self.columns // SIDE
        if 0 in (down, across) or self.rows % SIDE or self.columns % SIDE or down * across + down + across > TILES:
            raise VerifyError(
                "E380", f"no block of {self.rows}x{self.columns} fits AMX tiles",
                help="rows and columns are 16 or 32",
            )  # fmt: skip

    @property
    def sums(self) -> list[tuple[int, int, int]]:
        """Row, column and register of each tile."""
        down, across = self.rows // SIDE, self.columns // SIDE
        return [(i, j, across * i + j) for i in range(down) for j in range(across)]

    def operand(self, name: str, scope: str) -> Operand:
        """The sums as a buffer."""
        return Operand(name, (self.rows, self.columns), KINDS[self.kind][2], scope, strided=True)

    def zero(self) -> list[str]:
        """Statements that clear the tiles."""
        return [_call("tilezero", f"T.int8({t})") for _, _, t in self.sums]

    def store(self, target: str, plus: str = "") -> list[str]:
        """Statements that write the tiles, or ``plus`` and the tiles, to a buffer, by a copy in memory of known strides."""
        tiles = [f"T.address_of(sums[{SIDE * i}, {SIDE * j}]), T.int64({4 * self.columns})" for i, j, _ in self.sums]
        cell = f"i, j * {SIDE} + lane"
        return [
            f'sums = T.alloc_buffer(({self.rows}, {self.columns}), "{KINDS[self.kind][2]}")',
            *[_call("tilestored64", f"T.int8({t})", tile) for (_, _, t), tile in zip(self.sums, tiles)],
            f"for i, j in T.grid({self.rows}, {self.columns // SIDE}):",
            f"    for lane in T.vectorized({SIDE}):",
            f"        {target}[{cell}] = {f'{plus}[{cell}] + ' if plus else ''}sums[{cell}]",
        ]


def _call(name: str, *args: str) -> str:
    return f"""T.evaluate(T.call_llvm_intrin({", ".join(['"void"', f'"llvm.x86.{name}"', *args])}))"""


def _grid(rows: int, columns: int, store: str) -> str:
    return f"""
for i, j in T.grid({rows}, {columns}):
    with T.block("cell"):
        vi, vj = T.axis.remap("SS", [i, j])
        {store}
"""


def product(rows: int, columns: int, depth: int, kind: str, scope: str = "global") -> Pair:
    """``C[i, j] += sum of A[i, k] * B[k // group, j, k % group]``, C in memory or, by ``scope``, in tile registers. Raises
    VerifyError E380 for a shape that is not a whole number of tiles, or more than there are."""
    left, right, total, instruction = KINDS[kind]
    block, group, down, across = Block(rows, columns, kind), group_of(kind), rows // SIDE, columns // SIDE
    step = group * SIDE
    if depth == 0 or depth % step:
        text = f"no block of {rows}x{columns}x{depth} fits AMX tiles of {kind}"
        raise VerifyError("E380", text, help=f"the depth is a multiple of {step}")
    operands = [
        Operand("A", (rows, depth), left, strided=True), Operand("B", (depth // group, columns, group), right, strided=True),
        block.operand("C", scope),
    ]  # fmt: skip
    loops = f"""
for i, j, k in T.grid({rows}, {columns}, {depth}):
    with T.block("update"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + T.Cast("{total}", A[vi, vk]) * T.Cast("{total}", B[vk // {group}, vj, vk % {group}])
"""
    of_a = [down * across + i for i in range(down)]
    of_b = [down * across + down + j for j in range(across)]

    def load(tile: int, buffer: str, offset: str, row_bytes: int) -> str:
        pointer = f'{buffer}.access_ptr("r", offset={offset})'
        return _call("tileloadd64", f"T.int8({tile})", pointer, f"{buffer}_stride * {row_bytes}")

    tiles = [(t, of_a[i], of_b[j]) for i, j, t in block.sums]
    steps = [
        f"for k in range({depth // step}):",
        *[f"    {load(t, 'A', f'A_stride * {SIDE * i} + k * {step}', 4 // group)}" for i, t in enumerate(of_a)],
        *[f"    {load(t, 'B', f'B_stride * k * {SIDE} + {SIDE * group * j}', 4 // group)}" for j, t in enumerate(of_b)],
        *[f"    {_call(instruction, *[f'T.int8({t})' for t in three])}" for three in tiles],
    ]
    body = steps if scope == SCOPE else [*block.zero(), *steps, *block.store("C", "C")]
    return program(operands, "C A B", "C", loops), program(operands, "C A B", "C", "\n".join(body))


def fill(block: Block) -> Pair:
    """``C[i, j] = 0`` in tile registers."""
    c = [block.operand("C", SCOPE)]
    zeros = _grid(block.rows, block.columns, f'C[vi, vj] = T.Cast("{KINDS[block.kind][2]}", 0)')
    return program(c, "", "C", zeros), program(c, "", "C", "\n".join(block.zero()))


def store(block: Block) -> Pair:
    """``D[i, j] = C[i, j]`` from tile registers to local memory."""
    operands = [block.operand("C", SCOPE), block.operand("D", "local")]
    copy = _grid(block.rows, block.columns, "D[vi, vj] = C[vi, vj]")
    return program(operands, "C", "D", copy), program(operands, "C", "D", "\n".join(block.store("D")))


AMX_INTRINSICS: dict[str, Maker] = {
    f"amx_16x16_{kind}": partial(product, SIDE, SIDE, SIDE * group_of(kind), kind) for kind in KINDS
}
"""Makers by name."""


def _product(rows: str, columns: str, depth: str, kind: str, tiles: str | None) -> Pair:
    return product(int(rows), int(columns), int(depth), kind, SCOPE if tiles else "global")


def _of_block(make: Callable[[Block], Pair], rows: str, columns: str, kind: str) -> Pair:
    return make(Block(int(rows), int(columns), kind))


_KIND = f"({'|'.join(KINDS)})"
AMX_FAMILIES: dict[str, Family] = {
    rf"amx_(\d+)x(\d+)x(\d+)_{_KIND}(_tiles)?": _product,
    rf"amx_fill_(\d+)x(\d+)_{_KIND}": partial(_of_block, fill),
    rf"amx_store_(\d+)x(\d+)_{_KIND}": partial(_of_block, store),
}
"""Patterns of names, ``amx_32x32x512_bf16bf16f32``: rows, columns, depth; with ``_tiles`` C is in tile registers."""
