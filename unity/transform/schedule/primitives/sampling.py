"""sample_categorical, sample_perfect_tile, sample_partitioned_tile: random choices that the trace remembers as
decisions."""

from __future__ import annotations

import functools
import random
from typing import Any

from ....ir.build import int_value
from ..core.refuse import refuse
from ..core.registry import SAMPLE, Sampled, primitive
from ..core.sref import LoopRef
from ..core.state import ScheduleState


@primitive(kind=SAMPLE, checks=("a probability for each candidate",),
           example='v = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])')  # fmt: skip
def sample_categorical(
    state: ScheduleState, candidates: list[int], probs: list[float], decision: int | None = None
) -> int:
    """Choose one of ``candidates`` with the probabilities ``probs``. Returns an ExprRV.

    ``decision``: position of the candidate to take. Raises ScheduleError E428 for probabilities that do not fit.
    """
    if not candidates or len(candidates) != len(probs):
        refuse(
            "E428",
            f"{len(candidates)} candidates, {len(probs)} probabilities",
            "a probability for each candidate",
            nearest=f"{len(candidates)} probabilities",
        )
    if any([not isinstance(c, int) for c in candidates]):
        refuse(
            "E428",
            "candidates must be integers",
            "integer candidates",
            nearest="integers: sample the place of another value, and look it up",
        )
    if any([not isinstance(p, (int, float)) or p < 0 for p in probs]) or sum(probs) <= 0:
        refuse(
            "E428",
            f"{probs} are not probabilities",
            "a probability for each candidate",
            nearest="numbers from 0 to 1 that add up to 1",
        )
    index = decision
    if index is None:
        index = state.rng.choices(range(len(candidates)), weights=probs)[0]
    if not isinstance(index, int) or not 0 <= index < len(candidates):
        refuse(
            "E428",
            f"the decision {index!r} is not an index of {len(candidates)} candidates",
            "a valid decision",
            nearest=f"decision is an index, from 0 to {len(candidates) - 1}",
        )
    return Sampled(candidates[index], index)  # type: ignore[return-value]


@functools.lru_cache(maxsize=4096)
def _tilings(extent: int, parts: int, limit: int) -> int:
    """The number of ways to write ``extent`` as an ordered product of ``parts`` factors, the last at most ``limit`` (no limit:
    0)."""
    if parts == 1:
        return 1 if not limit or extent <= limit else 0
    return sum([_tilings(extent // f, parts - 1, limit) for f in divisors(extent)])


@functools.lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """Divisors in order."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return tuple(dict.fromkeys([*small, *[n // d for d in reversed(small)]]))


MAX_PARTS = 64
"""Factors a loop may be divided into."""


def draw_tiling(rng: random.Random, extent: int, parts: int, limit: int) -> list[int]:
    """An ordered factorisation, each equally likely. The product is exactly ``extent``."""
    found: list[int] = []
    rest = extent
    for left in range(parts, 1, -1):
        choices = divisors(rest)
        weights = [_tilings(rest // f, left - 1, limit) for f in choices]
        found.append(rng.choices(choices, weights=weights)[0])
        rest //= found[-1]
    return [*found, rest]


def _extent(loop: LoopRef) -> int:
    extent = int_value(loop.loop.extent)
    if extent is None or extent < 1:
        refuse("E428", f"the extent of loop {loop.name} is not a positive constant", "constant extent", loop,
               "split with a factor of None")  # fmt: skip
    return extent


def _decided(loop: LoopRef, extent: int, n: int, decision: Any) -> list[int]:
    """A decision as it fits the loop: kept where the factors still multiply to the extent, else the outermost is made
    to."""
    if (
        not isinstance(decision, (list, tuple))
        or len(decision) != n
        or any([not isinstance(f, int) or f < 1 for f in decision])
    ):
        refuse(
            "E428",
            f"the decision {decision!r} is not a tiling into {n}",
            "a valid decision",
            loop,
            f"{n} positive integers whose product is the extent of the loop",
        )
    inner = 1
    for factor in decision[1:]:
        inner *= factor
    if extent % inner:
        refuse("E428", f"the decision {list(decision)} does not divide the extent {extent} of loop {loop.name}",
               "a valid decision", loop,
               "sample anew, or give factors that multiply to the extent")  # fmt: skip
    return [extent // inner, *decision[1:]]


@primitive(kind=SAMPLE, checks=("constant extent", "innermost factor within its limit"),
           example='i, j, k = sch.get_loops(sch.get_block("C"))\n'
                   'v0, v1 = sch.sample_perfect_tile(i, n=2, decision=[2, 8])\nsch.split(i, [v0, v1])')  # fmt: skip
def sample_perfect_tile(
    state: ScheduleState, loop: LoopRef, n: int, max_innermost_factor: int = 16, decision: list[int] | None = None
) -> list[int]:
    """Choose ``n`` factors whose product is the extent of a loop, each factorisation equally likely. Returns ExprRVs for ``split``.

    ``max_innermost_factor``: limit of the last factor; -1: none. ``decision``: the factors to take. Raises ScheduleError E428.
    """
    extent = _extent(loop)
    if not 1 <= n <= MAX_PARTS or max_innermost_factor == 0 or max_innermost_factor < -1:
        refuse(
            "E428",
            f"no tiling into {n} with innermost factor {max_innermost_factor}",
            "a valid tiling",
            loop,
            "n of at least 1, and a limit of at least 1, or -1 for none",
        )
    if decision is not None:
        factors = _decided(loop, extent, n, decision)
    else:
        limit = max(max_innermost_factor, 0)
        if not _tilings(extent, n, limit):
            refuse("E428", f"loop {loop.name} of {extent} has no tiling into {n} with innermost factor {max_innermost_factor}",
                   "innermost factor within its limit", loop,
                   "max_innermost_factor=-1 sets no limit")  # fmt: skip
        factors = draw_tiling(state.rng, extent, n, limit)
    return Sampled(factors, factors)  # type: ignore[return-value]


@primitive(kind=SAMPLE, checks=("constant extent", "partition in range"),
           example='i, j, k = sch.get_loops(sch.get_block("C"))\n'
                   'tiles = sch.sample_partitioned_tile(i, 3, partition_pos=1, innerpart_factor=4)')  # fmt: skip
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopRef,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: list[int] | None = None,
) -> list[int]:
    """Choose ``n`` factors of a loop's extent such that the product of those from ``partition_pos`` on is a multiple of
    ``innerpart_factor``. Returns ExprRVs for ``split``.

    If the extent allows none, all factors but the first are 1. Raises ScheduleError E428.
    """
    extent = _extent(loop)
    if not 1 <= n <= MAX_PARTS or not 0 <= partition_pos <= n or innerpart_factor < 1:
        refuse(
            "E428",
            f"no partition at {partition_pos} of {n} parts by {innerpart_factor}",
            "partition in range",
            loop,
            f"a partition_pos from 0 to {n - 1}, and a positive innerpart_factor",
        )
    if decision is not None:
        factors = _decided(loop, extent, n, decision)
    elif extent % innerpart_factor or (partition_pos == n and innerpart_factor > 1):
        factors = [extent, *[1] * (n - 1)]
    elif partition_pos in (0, n):
        factors = draw_tiling(state.rng, extent, n, 0)
    else:
        outer, inner = draw_tiling(state.rng, extent // innerpart_factor, 2, 0)
        factors = [
            *draw_tiling(state.rng, outer, partition_pos, 0),
            *draw_tiling(state.rng, inner * innerpart_factor, n - partition_pos, 0),
        ]
    return Sampled(factors, factors)  # type: ignore[return-value]
