"""``EvolutionarySearch``: what ran well is mutated; the cost model says which of the results are worth running.

Source of the shape: Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...transform.schedule import Schedule, Trace
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import CostModel, Measured
from ..cost_model.models import LinearModel
from .mutator import DEFAULT_MUTATORS, Mutator
from .replay import PATIENCE, ReplayTrace


class EvolutionarySearch(ReplayTrace):
    """Rounds of the ``population_size`` draws that the cost model likes best. ``eps_greedy``: the share of a round taken at random;
    ``genetic_mutate_prob``: of the draws that mutate what ran well; ``parents``: how many of the best are mutated."""

    def __init__(
        self,
        *,
        population_size: int = 32,
        genetic_mutate_prob: float = 0.7,
        eps_greedy: float = 0.1,
        parents: int = 6,
        mutator_probs: Mapping[Mutator, float] | None = None,
    ) -> None:
        super().__init__()
        self.population_size, self.genetic_mutate_prob = population_size, genetic_mutate_prob
        self.eps_greedy, self.parents = eps_greedy, parents
        self.mutators = dict(DEFAULT_MUTATORS if mutator_probs is None else mutator_probs)

    def pre_tuning(
        self, max_trials: int, num_trials_per_iter: int, design_spaces: Sequence[Schedule], database: Any = None,
        cost_model: CostModel | None = None,
    ) -> None:  # fmt: skip
        """Begin: as in `ReplayTrace`; without a cost model one is learnt from this task alone."""
        super().pre_tuning(max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        self.own_model = cost_model is None
        self.cost_model: CostModel = cost_model if cost_model is not None else LinearModel()
        self.ran: list[tuple[float, Trace]] = []

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next round: the default build first, then what the model ranks highest, with some at random."""
        count = min(self.left, self.round)
        if not count or not self.design_spaces:
            return None
        made: list[MeasureCandidate] = []
        if not self.drawn.seen:
            first = self.drawn.new(None, True)
            made += [first] if first is not None else []
        pool: list[MeasureCandidate] = []
        for _ in range(PATIENCE * count):
            if len(pool) >= max(count, self.population_size):
                break
            found = self.drawn.new(self._draw())
            pool += [found] if found is not None else []
        made += self._picked(pool, count - len(made))
        self.left -= len(made)
        return made or None

    def _draw(self) -> Schedule | None:
        rng = self.drawn.rng
        trace, anew = rng.choice(self.design_spaces).trace, True
        if self.ran and rng.random() < self.genetic_mutate_prob:
            best = sorted(self.ran, key=lambda one: one[0])[: self.parents]
            parent = rng.choice(best)[1]
            mutator = rng.choices(list(self.mutators), weights=list(self.mutators.values()))[0]
            mutated = mutator.apply(parent, rng)
            trace, anew = (trace, True) if mutated is None else (mutated, False)
        return self.drawn.replayed(trace, anew)

    def _picked(self, pool: list[MeasureCandidate], count: int) -> list[MeasureCandidate]:
        """The candidates of a pool that are run. The others may be drawn again."""
        if len(pool) <= count:
            return pool
        scores = self.cost_model.predict(self.drawn.context, pool)
        order = [pool[k] for k in np.argsort(-np.asarray(scores), kind="stable")]
        chance = round(self.eps_greedy * count)
        chosen = order[: count - chance]
        chosen += self.drawn.rng.sample(order[count - chance :], chance)
        for candidate in order:
            if candidate not in chosen:
                self.drawn.forget(candidate)
        return chosen

    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from a round: its fastest are mutated from now on."""
        for candidate, result in zip(candidates, results):
            if result.run_secs:
                trace = candidate.sch.trace if candidate.sch.trace.insts else self.design_spaces[0].trace
                self.ran.append((min(result.run_secs), trace))
        if self.own_model:
            self.cost_model.update(self.drawn.context, candidates, results)


__all__ = ["EvolutionarySearch"]
