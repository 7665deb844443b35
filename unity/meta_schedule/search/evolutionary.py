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
from ..space.sketch import has_own_steps
from .mutator import DEFAULT_MUTATORS, Mutator
from .replay import ReplayTrace


class EvolutionarySearch(ReplayTrace):
    """Rounds of the best of ``population_size`` draws by the cost model. ``eps_greedy``: the share of a round taken at random;
    ``genetic_mutate_prob``: of the draws that mutate what ran well; ``parents``: how many of the best are mutated."""

    def __init__(
        self,
        *,
        population_size: int = 24,
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
        self.pool: list[MeasureCandidate] = []

    def _others(self, count: int) -> list[MeasureCandidate]:
        """Those of the draws that the model ranks highest, some at random. The rest stays for the next round."""
        self.pool += self._drawn_anew(max(count, self.population_size) - len(self.pool))
        scores = self.cost_model.predict(self.drawn.context, self.pool)
        order = [self.pool[k] for k in np.argsort(-np.asarray(scores), kind="stable")]
        chance = round(self.eps_greedy * count) if len(order) > count else 0
        chosen = order[: count - chance]
        chosen += self.drawn.rng.sample(order[count - chance :], chance)
        self.pool = [candidate for candidate in order if candidate not in chosen]
        return chosen

    def _draw(self) -> Schedule | None:
        if not self.design_spaces:
            return None
        rng = self.drawn.rng
        trace, anew = rng.choice(self.design_spaces).trace, True
        if self.ran and rng.random() < self.genetic_mutate_prob:
            best = sorted(self.ran, key=lambda one: one[0])[: self.parents]
            parent = rng.choice(best)[1]
            mutator = rng.choices(list(self.mutators), weights=list(self.mutators.values()))[0]
            mutated = mutator.apply(parent, rng)
            trace, anew = (trace, True) if mutated is None else (mutated, False)
        return self.drawn.replayed(trace, anew)

    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from a round: its fastest are mutated from now on."""
        sketches = [sch for sch in self.design_spaces[:1] if not has_own_steps(sch)]
        for candidate, result in zip(candidates, results):
            # the default build is the sketch of its decisions, where the space has one
            traces = [sch.trace for sch in (sketches if candidate.is_default else [candidate.sch])]
            self.ran += [(min(result.run_secs), trace) for trace in traces if result.run_secs]
        if self.own_model:
            self.cost_model.update(self.drawn.context, candidates, results)


__all__ = ["EvolutionarySearch"]
