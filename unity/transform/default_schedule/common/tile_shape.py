"""The size of a tile of outputs kept in registers, from a small model of one processor core.

One step of a tile of ``rows`` x ``vectors`` reads ``vectors`` vectors and ``rows`` single values and makes ``rows * vectors``
multiply-adds. Figures are those of today's wide cores: two multiply-adds and two loads a cycle, a latency of four cycles,
half a vector a cycle from the second cache level, 32 vector registers with AVX-512 (16 else).

Chunks of long sums of floats: the rounding error of one running sum of K values grows with the root of K (with K where they have
one sign); with chunks it grows with a chunk and hardly with K. Source: Blanchard, Higham, Mary, "A class of fast and accurate
summation algorithms", SIAM J. Sci. Comput. 42(3), 2020; a chunk is as long as the blocks of the reduction in vendors' libraries.
Not here: any IR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LATENCY = 4.0
"""Cycles until a multiply-add can be followed by the next into the same register."""


UNKNOWN = 64
"""The number that a symbolic extent is taken for where sizes are weighed."""
SHARED_TILES = 16
"""Tiles of a single row that threads can share evenly."""

LOADS, LOADS_OF_COLUMN = 2.0, 1.4
"""Loads of a cycle in a step; of a tile one vector wide, most of whose loads are single values, each of a row of its own."""

WIDEST, WIDEST_ALONE = 4, 5
"""Vectors of a tile of several rows, at most; where they are all columns."""

RESERVED = 6
"""Registers that are left to the operands of a step and to what follows it: tiles that fill all of them are larger code, which a
search may choose (``most_rows``)."""

VARIANT = 0.02
"""The further cost of a tile of another size, as a share: it is more code to compile and to keep in cache."""


def divisors(extent: int, most: int) -> list[int]:
    """The divisors of an extent up to ``most``, in order: sizes that leave nothing over."""
    return [n for n in range(1, min(extent, most) + 1) if extent % n == 0]


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one reduction step of a tile."""
    loads = rows + vectors
    return (
        max(rows * vectors / 2, LATENCY, loads / (LOADS if vectors > 1 else LOADS_OF_COLUMN), 2.0 * vectors)
        + 0.05 * loads
        + 0.5
    )


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """(how many, how large): whole tiles and the rest."""
    whole, rest = divmod(extent, size)
    return [(count, width) for count, width in ((whole, size), (1, rest)) if count and width]


def most_rows(vectors: int, registers: int) -> int:
    """Rows of a tile that stays in registers beside the vectors and the single value of a step."""
    return max(1, (registers - 1 - vectors) // vectors)


def _cycles(rows: int, vectors: int, height: int, width: int) -> float:
    """Cycles of a step of ``rows`` x ``vectors`` in tiles of ``height`` x ``width``."""
    tiles = [(count * times, j, v) for count, j in pieces(rows, height) for times, v in pieces(vectors, width)]
    return sum([count * step_cycles(j, v) for count, j, v in tiles]) * (1 + VARIANT * (len(tiles) - 1))


def _heights(rows: int, width: int, registers: int) -> range:
    """Rows of tiles of so many vectors that leave registers to the operands of a step."""
    return range(1, min((registers - RESERVED) // width, rows, 16) + 1)


def tile_rows(rows: int, vectors: int, registers: int) -> tuple[float, int]:
    """The cycles of a step of ``rows`` rows of ``vectors`` vectors, in tiles of as many rows as take the fewest, and these rows."""
    return min([(_cycles(rows, vectors, n, vectors), n) for n in _heights(rows, vectors, registers) or (1,)])


def tile_shape(rows: int, columns: int, lanes: int, registers: int) -> tuple[int, int]:
    """(rows, vectors) of the tile that covers ``rows`` x ``columns`` outputs in the fewest cycles: vectors have ``lanes``
    elements."""
    return tile_cost(rows, columns, lanes, registers)[1:]


def tile_cost(rows: int, columns: int, lanes: int, registers: int) -> tuple[float, int, int]:
    """The cycles of a step of ``rows`` x ``columns`` outputs in the best tiles, and their rows and vectors."""
    vectors = -(-columns // lanes)
    # a single row has no use for its vectors again: long runs of memory are best, if enough tiles are left for the threads, and
    # never fewer vectors than multiply-adds are under way
    widest = WIDEST_ALONE if vectors <= WIDEST_ALONE else WIDEST
    if rows == 1:
        widest = max(int(2 * LATENCY), min(16, vectors // SHARED_TILES))
    sizes = [(n, width) for width in range(1, min(widest, vectors) + 1) for n in _heights(rows, width, registers)]
    found = [(_cycles(rows, vectors, height, width), height, width) for height, width in sizes]
    return min(found, key=lambda tile: tile[0], default=(math.inf, 1, 1))


CHUNK = 192
"""Most steps of a chunk."""
LONG = 256
"""Steps from which on a reduction is worth chunks."""


def chunk_of(extents: Sequence[int | None], most: int = CHUNK) -> tuple[int, int] | None:
    """(first, size) for the loops of a reduction, outermost first: those from ``first`` on are whole in a chunk of ``most`` steps,
    and ``size`` steps of the one before. None where the reduction is short. A symbolic extent is None; one of zero counts as a
    step: what is left over besides no whole stride."""
    if None not in extents and math.prod([e or 0 for e in extents]) < LONG:
        return None
    inside, first = 1, len(extents)
    while (extent := extents[first - 1]) is not None and inside * max(extent, 1) <= most:
        inside, first = inside * max(extent, 1), first - 1
    return first, _size(extent, most // inside)


def _size(extent: int | None, most: int) -> int:
    """Steps of a loop in one chunk: a divisor of its extent where one is long enough, else the last chunk is shorter."""
    if extent is None:
        return most
    divisor = max(divisors(extent, most))
    return divisor if 2 * divisor > most or most < 4 else -(-extent // -(-extent // most))
