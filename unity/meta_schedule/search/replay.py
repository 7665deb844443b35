"""The part that strategies share, and the two that draw at random: ``ReplayTrace`` draws the decisions of the sketches anew,
``ReplayFunc`` makes the sketches anew.

Invariant: the first candidate is the default build; no two candidates of a task are the same program; the same seed gives the
same candidates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.structural import structural_hash
from ...support.errors import UnityError
from ...transform.default_schedule.common.choices import choices_of
from ...transform.schedule import Schedule, Trace
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import MAIN, CostModel, Measured, SearchStrategy, TuneContext
from ..space.paths import Paths, decided_by, decided_in, drawn
from ..space.postproc import postprocs_of
from ..space.sketch import candidate_of, default_candidate, has_own_steps, start

PATIENCE = 16
"""Draws for each candidate that is wanted: after so many without a new one the space is used up."""


class CandidateSampler:
    """Draws of a task as candidates; each program comes once."""

    def __init__(self, context: TuneContext) -> None:
        self.context = context
        self.rng = random.Random(context.rand_state)
        self.postprocs = postprocs_of(context)
        self.seen: set[int] = set()
        """Hashes of programs."""
        self.paths = Paths()
        self.refused = 0
        """Draws that were not a program: a step did not apply."""

    def default(self) -> MeasureCandidate:
        """The default build."""
        candidate = default_candidate(self.context)
        self.seen.add(structural_hash(candidate.lowered))
        return candidate

    def new(self, sch: Schedule | None) -> MeasureCandidate | None:
        """A schedule as a candidate; None where it is none, or its program was there before."""
        decided = sch is not None and not has_own_steps(sch)
        if sch is None or (decided and self.paths.leads_to_known(decided_in(sch.mod.prim_funcs()[MAIN]))):
            return None
        try:
            if not decided and not self._finished(sch):
                self.refused += 1
                return None
            with choices_of() as path:
                candidate = candidate_of(self.context, sch)
        except UnityError:
            self.refused += 1
            return None
        finally:
            if decided:
                self.paths.add(path)
        key = structural_hash(candidate.lowered)
        if key in self.seen:
            return None
        self.seen.add(key)
        return candidate

    def _finished(self, sch: Schedule) -> bool:
        """Finish a schedule with steps of its own; False where it is not a candidate."""
        if self.postprocs:
            sch.enter_postproc()
        return all([one.apply(sch) for one in self.postprocs])

    def replay(self, trace: Trace, resample: bool) -> Schedule | None:
        """The program under a trace, its decisions drawn ``resample`` or as they are; None where a step does not apply, and where
        decisions lead to a program that was there before."""
        if decided_by(trace) is not None:
            trace, resample = drawn(trace, self.rng) if resample else trace, False
            decided = decided_by(trace)
            if decided is not None and self.paths.leads_to_known(decided):
                return None
        sch = start(self.context.mod, seed=self.rng.randrange(1, 2**31 - 1))
        try:
            trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=_resample if resample else None)
        except UnityError:
            self.refused += 1
            return None
        return sch


def _resample(inst: Any, args: Any, decision: Any) -> None:
    """Every decision is drawn."""


class ReplayTrace(SearchStrategy, names=("replay-trace",)):
    """Sketches with decisions drawn at random."""

    def __init__(self) -> None:
        self.context: TuneContext | None = None
        self.design_spaces: list[Schedule] = []
        self.patience = PATIENCE

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task."""
        self.context = context

    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int, design_spaces: Sequence[Schedule], database: Any = None,
        cost_model: CostModel | None = None,
    ) -> None:  # fmt: skip
        """Begin: ``max_trials`` candidates, ``num_trials_per_iter`` in a round."""
        assert self.context is not None, "the strategy was not given its task"
        self.sampler = CandidateSampler(self.context)
        self.design_spaces = list(design_spaces)
        self.left, self.round = max_trials, num_trials_per_iter

    def go_on(self, ran: Sequence[tuple[Trace, Measured]]) -> list[tuple[MeasureCandidate, Measured]]:
        """Take up what an earlier search measured: its programs do not come again. Returns the candidates that still are any."""
        found = [(self.sampler.new(self.sampler.replay(trace, False)), result) for trace, result in ran]
        known = [(candidate, result) for candidate, result in found if candidate is not None]
        self.notify_runner_results([candidate for candidate, _ in known], [result for _, result in known])
        return known

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next round, the default build before all others; None when there is none."""
        count = min(self.left, self.round)
        candidates = [self.sampler.default()] if count and not self.sampler.seen else []
        candidates += self._others(count - len(candidates))
        self.left -= len(candidates)
        return candidates or None

    def _others(self, count: int) -> list[MeasureCandidate]:
        """Candidates of a round besides the default build, at most ``count``."""
        return self._sample_new(count)

    def _sample_new(self, count: int, draw: Callable[[], Schedule | None] | None = None) -> list[MeasureCandidate]:
        """New candidates, at most ``count``."""
        candidates: list[MeasureCandidate] = []
        for _ in range(self.patience * count):
            if len(candidates) >= count:
                break
            found = self.sampler.new((draw or self._draw)())
            candidates += [found] if found is not None else []
        return candidates

    def _draw(self) -> Schedule | None:
        return (
            self.sampler.replay(self.sampler.rng.choice(self.design_spaces).trace, True) if self.design_spaces else None
        )

    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Nothing is learnt."""

    def post_tuning(self) -> None:
        """End."""


class ReplayFunc(ReplayTrace, names=("replay-func",)):
    """The space generator asked anew for each candidate, as for functions that draw outside of sampling steps."""

    def _draw(self) -> Schedule | None:
        context = self.sampler.context
        try:
            candidate = context.generate_design_space()
        except UnityError:
            self.sampler.refused += 1
            return None
        return self.sampler.rng.choice(candidate) if candidate else None


__all__ = ["CandidateSampler", "ReplayFunc", "ReplayTrace"]
