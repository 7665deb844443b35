"""Chunks of long sums of floats, whose sums are added up: for every reduction that keeps a running sum.

The rounding error of one running sum of K values grows with the root of K (with K where they have one sign); with chunks it grows
with a chunk and hardly with K. Source: Blanchard, Higham, Mary, "A class of fast and accurate summation algorithms", SIAM J. Sci.
Comput. 42(3), 2020; a chunk is as long as the blocks of the reduction in vendors' libraries. Not here: any IR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    divisor = max([n for n in range(1, most + 1) if extent % n == 0])
    return divisor if 2 * divisor > most or most < 4 else -(-extent // -(-extent // most))
