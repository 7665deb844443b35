"""Mutators: change one decision of a trace.

A mutator is any object with ``apply(trace, rng) -> trace or None`` (nothing to change). Not here: whether the result applies.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...ffi.native.pool import num_threads
from ...support.errors import UnityError
from ...transform.schedule import Instruction, Trace
from ...transform.schedule.primitives.location import legal_locations
from ...transform.schedule.primitives.sampling import divisors
from ..core.part import Part, copied, is_for_processor, take_task
from ..core.tune_context import TuneContext
from ..space.postproc import PARALLEL, UNROLL
from ..space.sketch import start


class Mutator(metaclass=Part):
    """Gives a trace with another decision, or None."""

    what = "mutator"
    initialize_with_tune_context, clone = take_task, copied

    @abstractmethod
    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""

    @classmethod
    def create(cls, kind: Any, *args: Any, **options: Any) -> Any:
        """The mutators of a kind of targets and how often each is tried; what is not text as it is."""
        return default_mutators() if is_for_processor(kind) is not None else Part.create(cls, kind, *args, **options)


def _sampling(trace: Trace, kind: str) -> list[Instruction]:
    return [inst for inst in trace.insts if inst.kind == kind and inst.decision is not None]


def _annotating(trace: Trace) -> list[Instruction]:
    return [inst for inst in trace.insts if inst.kind == "annotate"]


class MutateCategorical(Mutator, names=("mutate-categorical",)):
    """Another candidate of one ``sample_categorical``: the next smaller or larger half of the times, else any."""

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""
        found = self._of(trace)
        if not found:
            return None
        inst = rng.choice(found)
        candidates = inst.args["candidates"]
        order = sorted(range(len(candidates)), key=lambda k: candidates[k])
        at = order.index(inst.decision)
        near = [order[k] for k in (at - 1, at + 1) if 0 <= k < len(order)]
        others = near if rng.random() < 0.5 else [k for k in order if k != inst.decision]
        return trace.with_decision(inst, rng.choice(others), remove_postproc=True)

    def _of(self, trace: Trace) -> list[Instruction]:
        return [inst for inst in _sampling(trace, "sample_categorical") if len(inst.args["candidates"]) > 1]


class MutateTileSize(Mutator, names=("mutate-tile-size",)):
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


class MutateUnroll(MutateCategorical, names=("mutate-unroll",)):
    """Another number of statements that are written out, of a ``sample_categorical`` that an annotation takes."""

    def _of(self, trace: Trace) -> list[Instruction]:
        taken = [inst.args["ann_val"] for inst in _annotating(trace) if inst.args["ann_key"] in UNROLL]
        return [inst for inst in super()._of(trace) if any([value is out for value in taken for out in inst.outputs])]


class MutateParallel(Mutator, names=("mutate-parallel",)):
    """Another number of parallel turns, a part of ``max_jobs_per_core`` times the threads."""

    def __init__(self, max_jobs_per_core: int = 16) -> None:
        self.max_jobs_per_core = max_jobs_per_core

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""
        found = [inst for inst in _annotating(trace) if inst.args["ann_key"] == PARALLEL]
        if not found:
            return None
        inst = rng.choice(found)
        others = [n for n in divisors(self.max_jobs_per_core * num_threads()) if n != inst.args["ann_val"]]
        if not others:
            return None
        changed = {**inst.args, "ann_val": rng.choice(others)}
        return Trace([replace(one, args=changed) if one is inst else one for one in trace.simplified(True).insts])


class MutateComputeLocation(Mutator, names=("mutate-compute-location",)):
    """Another place of one ``sample_compute_location``: those that are legal where the steps before are as they are."""

    def __init__(self) -> None:
        self.context: TuneContext | None = None

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task: places are looked for in its program."""
        self.context = context

    def apply(self, trace: Trace, rng: random.Random) -> Trace | None:
        """The changed trace."""
        found = _sampling(trace, "sample_compute_location")
        if not found or self.context is None:
            return None
        inst = rng.choice(found)
        others = [place for place in self._places(trace, inst) if place != inst.decision]
        return trace.with_decision(inst, rng.choice(others), remove_postproc=True) if others else None

    def _places(self, trace: Trace, inst: Instruction) -> list[int]:
        """The legal decisions of a step."""
        assert self.context is not None
        sch, places = start(self.context.mod), []

        def at(step: Instruction, args: dict[str, Any], decision: Any) -> Any:
            if step is inst:
                places.extend(legal_locations(sch.state, sch.get_sref(args["block"]))[1])
            return decision

        with suppress(UnityError):
            Trace(trace.insts[: trace.insts.index(inst) + 1]).apply_to_schedule(sch, decision_provider=at)
        return places


def default_mutators() -> dict[Mutator, float]:
    """The mutators of a search and how often each is tried; one that finds nothing to change leaves the draw to chance."""
    return {
        MutateCategorical(): 0.55, MutateTileSize(): 0.35, MutateComputeLocation(): 0.05, MutateParallel(): 0.05,
    }  # fmt: skip


create = Mutator.create
PyMutator = Mutator

__all__ = [
    "MutateCategorical", "MutateComputeLocation", "MutateParallel", "MutateTileSize", "MutateUnroll", "Mutator", "PyMutator",
    "create", "default_mutators",
]  # fmt: skip
