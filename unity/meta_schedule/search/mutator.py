"""Mutators: change one decision of a trace.

A mutator is any object with ``apply(trace, rng) -> trace or None`` (nothing to change). Not here: whether the result applies.
"""

from __future__ import annotations

import random
from typing import Protocol

from ...transform.schedule import Instruction, Trace
from ...transform.schedule.primitives.sampling import divisors


class Mutator(Protocol):
    """Gives a trace with another decision, or None."""

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None: ...


def _sampling(trace: Trace, kind: str) -> list[Instruction]:
    return [inst for inst in trace.insts if inst.kind == kind and inst.decision is not None]


class MutateCategorical:
    """Another candidate of one ``sample_categorical``: the next smaller or larger half of the times, else any."""

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""
        found = [inst for inst in _sampling(trace, "sample_categorical") if len(inst.args["candidates"]) > 1]
        if not found:
            return None
        inst = rng.choice(found)
        candidates = inst.args["candidates"]
        order = sorted(range(len(candidates)), key=lambda k: candidates[k])
        at = order.index(inst.decision)
        near = [order[k] for k in (at - 1, at + 1) if 0 <= k < len(order)]
        others = near if rng.random() < 0.5 else [k for k in order if k != inst.decision]
        return trace.with_decision(inst, rng.choice(others), remove_postproc=True)


class MutateTileSize:
    """One divisor of a factor of ``sample_perfect_tile`` moved to another factor."""

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""
        found = [inst for inst in _sampling(trace, "sample_perfect_tile") if any([f > 1 for f in inst.decision])]
        found = [inst for inst in found if len(inst.decision) > 1]
        if not found:
            return None
        inst = rng.choice(found)
        factors = list(inst.decision)
        source = rng.choice([k for k, f in enumerate(factors) if f > 1])
        target = rng.choice([k for k in range(len(factors)) if k != source])
        moved = rng.choice(divisors(factors[source])[1:])
        factors[source], factors[target] = factors[source] // moved, factors[target] * moved
        limit = inst.args.get("max_innermost_factor", -1)
        if 0 < limit < factors[-1]:
            return None
        return trace.with_decision(inst, factors, remove_postproc=True)


DEFAULT_MUTATORS: dict[Mutator, float] = {MutateCategorical(): 0.6, MutateTileSize(): 0.4}
"""Mutators and how often each is tried."""

__all__ = ["DEFAULT_MUTATORS", "MutateCategorical", "MutateTileSize", "Mutator"]
