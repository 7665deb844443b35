"""The tiles that a product on tensor cores may have, and the time that each is expected to take: the rule takes the least.

A block has an iteration for each k-tile. It lasts as long as what limits it: the tensor cores, the operands that their
products read in shared memory, what comes from the second cache, or the time that a copy is on its way. Before the first one and
after the last one there is time in which a processor computes nothing; blocks beyond the processors of a device wait for others.
Constants are those of an H100: its data sheet, and what fits the times of 98 kernels of this package on one, of 16 to 8,192 rows.
The error is 6 % (root of the mean square). Other devices have other times, in about the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....infra.backend import GpuMachine
from .tile_blocks import WARP
from .warpgroup_sizes import ROWS


class Choice(NamedTuple):
    """Rows and columns of a tile, warps or warpgroups along them, and of warps the part of a processor's speed that is expected.
    ``swapped``: the operands are exchanged."""

    rows: int
    columns: int
    row_parts: int
    column_parts: int
    speed: float = 1.0
    is_grouped: bool = False
    swapped: bool = False

    @property
    def sums(self) -> int:
        """Registers of a thread for its sums, where parts are warps."""
        return self.rows * self.columns // (self.row_parts * self.column_parts * WARP)


class Sizes(NamedTuple):
    """A product: elements of its iterators, bytes of an element of the operands and of the result; whether all are known; bytes of
    both operands, of which windows share elements."""

    batch: int
    rows: int
    columns: int
    steps: int
    item: int
    result: int
    known: bool
    read: int


CHOICES = (
    Choice(128, 256, 2, 4, 1.0),  # a warp has 64 x 64: 8 loads of matrices for 32 products, 128 registers of sums
    Choice(128, 128, 2, 4, 0.9),  # 64 x 32: 6 loads for 16 products; two blocks have room in a processor of an H100
    Choice(64, 128, 2, 4, 0.75),  # 32 x 32: 4 loads for 8 products
    Choice(64, 64, 2, 2, 0.65),
    Choice(32, 64, 2, 2, 0.45),  # few rows: weights are read once, and what limits is memory
    Choice(16, 64, 1, 2, 0.3),
)
"""Tiles of warps, largest first. A larger one reads less memory for each product; smaller ones occupy more processors."""
GROUP_CHOICES = (
    *[
        Choice(ROWS * down, columns, down, over, is_grouped=True)
        for down, over, columns in (
            (2, 1, 256), (3, 1, 192), (2, 1, 192), (3, 1, 128), (4, 1, 128), (2, 1, 128), (1, 2, 128), (2, 1, 96), (2, 1, 64),
            (1, 1, 128), (1, 1, 64), (1, 1, 32),
        )
    ],
    *[Choice(ROWS * down, columns, down, 1, is_grouped=True, swapped=True)
      for down, columns in ((2, 64), (1, 64), (2, 32), (1, 32), (2, 16), (1, 16))],
)  # fmt: skip
"""Tiles of warpgroups, where the device has their products. Those of exchanged operands are for few rows: the columns of the
weights fill the rows of a product, which are always 64."""
PIECES = (1, 2, 3, 4, 6, 8)
"""Pieces of a sum."""
LEAST_K_TILES = 3
"""K-tiles of a piece."""

STEP_BYTES = 128
"""Bytes of a tile's row of steps: a cache line."""
PRODUCTS = 29
"""Cells of a tile whose products of a k-tile the tensor cores compute in a clock: by the data sheet 32, of 64 steps of 2 bytes; the
clock is lower where all of them multiply (measured)."""
SHARED_RATE = 128
"""Bytes that shared memory gives in a clock. Each warpgroup reads both operands of its products there (Luo et al., arXiv
2501.12084)."""
L2_RATE = 67
"""Bytes that a processor gets from the second cache in a clock (measured)."""
MEMORY_RATE = 1500
"""Bytes that memory gives in a clock: 2.55 TB/s (measured)."""
LATENCY = 1300
"""Clocks from the beginning of a bulk copy until what it brings is there."""
LEAST_K_TILE = 230
"""Clocks of a k-tile at least: barriers, and the latency of the products."""
START = 3800
"""Clocks until the first k-tile, the launch among them (measured)."""
STORE_RATE = 25
"""Bytes of results that a processor writes in a clock (measured)."""
REDUCE = 1700
"""Clocks of a kernel that joins the pieces of a sum, beside what it reads (measured)."""
WARP_SPEED, WARP_LATENCY, WARP_STAGES = 0.6, 3000, 4
"""Products of warps: their part of the speed of warpgroups, and their copies (16 x 64 cells take 0.6 us a k-tile, measured)."""


def tiles_of(choice: Choice, pieces: int, sizes: Sizes) -> int:
    """Tiles of a product."""
    m, n = (sizes.columns, sizes.rows) if choice.swapped else (sizes.rows, sizes.columns)
    return sizes.batch * pieces * math.ceil(m / choice.rows) * math.ceil(n / choice.columns)


def turns_of(sizes: Sizes, pieces: int) -> int:
    """K-tiles of a block for a tile."""
    return math.ceil(math.ceil(sizes.steps * sizes.item / STEP_BYTES) / pieces)


def clocks_of(choice: Choice, pieces: int, sizes: Sizes, gpu: GpuMachine) -> float:
    """The clocks that a product takes."""
    waves = math.ceil(tiles_of(choice, pieces, sizes) / gpu.processors)
    cells, edges = choice.rows * choice.columns, choice.rows + choice.columns
    products = cells / PRODUCTS
    if choice.is_grouped:
        groups = choice.row_parts * choice.column_parts
        shared = groups * (ROWS + choice.columns // choice.column_parts) * STEP_BYTES / SHARED_RATE
        late = LATENCY / max(1, gpu.shared_bytes // (edges * STEP_BYTES) - 1)
        k_tile = max(_overlapped(products, shared, edges * STEP_BYTES / L2_RATE, late), LEAST_K_TILE)
    else:
        k_tile = max(
            products / choice.speed / WARP_SPEED, edges * STEP_BYTES / L2_RATE, WARP_LATENCY / (WARP_STAGES - 1)
        )
    written = cells * (4 if pieces > 1 else sizes.result) / STORE_RATE
    starts = 1 if choice.is_grouped else waves  # a block of warpgroups has more than one tile
    blocks = starts * START + waves * (turns_of(sizes, pieces) * k_tile + written)
    reduce = REDUCE + (pieces + 1) * sizes.batch * sizes.rows * sizes.columns * 4 / MEMORY_RATE if pieces > 1 else 0
    memory = START + (sizes.read + sizes.batch * sizes.rows * sizes.columns * sizes.result) / MEMORY_RATE
    return max(blocks, memory) + blocks / 100 + reduce  # where memory limits, the least work


def _overlapped(*clocks: float) -> float:
    """The clocks of what goes on at once: those of the longest, and more where others are nearly as long."""
    return math.sqrt(math.sqrt(sum([number**4 for number in clocks])))


def plans(sizes: Sizes, gpu: GpuMachine, grouped: bool) -> list[tuple[Choice, int]]:
    """The choices, those that take least time first, each with the pieces of the sum that are best for it."""
    k_tiles = sizes.steps * sizes.item // STEP_BYTES
    found: list[tuple[float, Choice, int]] = []
    for choice in (*(GROUP_CHOICES if grouped else ()), *CHOICES):
        several = choice.is_grouped and sizes.known
        options = [n for n in PIECES if n == 1 or (several and k_tiles >= n * LEAST_K_TILES)]
        best = min(options, key=lambda n: clocks_of(choice, n, sizes, gpu))
        found.append((clocks_of(choice, best, sizes, gpu), choice, best))
    return [(choice, pieces) for _, choice, pieces in sorted(found, key=lambda row: row[0])]
