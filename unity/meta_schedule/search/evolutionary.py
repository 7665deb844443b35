"""``EvolutionarySearch``: what ran well is mutated; the cost model says which of the results are worth running.

Source of the shape: Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...support.errors import ScheduleError
from ...transform.schedule import Schedule, Trace
from ..core.measure_candidate import MeasureCandidate
from ..core.part import check_numbers, given, initialize_part
from ..core.tune_context import CostModel, Measured, TuneContext
from ..cost_model.models import LinearModel
from ..space.sketch import has_own_steps
from .mutator import default_mutators
from .replay import PATIENCE, ReplayTrace

DRAWS = 3
"""Draws for each trial until the population is there: a draw takes a tenth of the time of a trial."""


class EvolutionarySearch(ReplayTrace, names=("evolutionary",)):
    """Rounds of the best of ``population_size`` draws by the cost model; at first of three for each trial.

    ``init_measured_ratio``: how many of the best that ran are mutated, as a share of the population. ``init_min_unmeasured``:
    random draws before the first round, at least. ``max_fail_count``: draws for each candidate that is wanted, before one has run;
    ``genetic_max_fail_count``: then. ``genetic_num_iters``: generations of a round; those after the first mutate what the model
    ranks highest. ``genetic_mutate_prob``: the share of draws that mutate. ``eps_greedy``: the share of a round taken at random.
    ``mutator_probs``: mutators and how often each is tried.
    """

    def __init__(
        self, *, population_size: int = 48, init_measured_ratio: float = 0.125, init_min_unmeasured: int = 0,
        max_fail_count: int = PATIENCE, genetic_num_iters: int = 1, genetic_mutate_prob: float = 0.7,
        genetic_max_fail_count: int = PATIENCE, eps_greedy: float = 0.1, mutator_probs: Mapping[Any, float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_numbers(1, population_size=population_size, genetic_num_iters=genetic_num_iters)
        check_numbers(1, max_fail_count=max_fail_count, genetic_max_fail_count=genetic_max_fail_count)
        check_numbers(0, init_min_unmeasured=init_min_unmeasured)
        check_numbers(0, 1, init_measured_ratio=init_measured_ratio, genetic_mutate_prob=genetic_mutate_prob)
        check_numbers(0, 1, eps_greedy=eps_greedy)
        self.population_size, self.init_measured_ratio = population_size, init_measured_ratio
        self.init_min_unmeasured, self.genetic_num_iters = init_min_unmeasured, genetic_num_iters
        self.genetic_mutate_prob, self.patience = genetic_mutate_prob, max_fail_count
        self.genetic_max_fail_count = genetic_max_fail_count
        self.eps_greedy, self.mutator_probs = eps_greedy, mutator_probs

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Take the task, with the mutators of its space where that has any."""
        super().initialize_with_tune_context(context)
        probs = self.mutator_probs
        if probs is None:
            probs = getattr(context.space_generator, "mutator_probs", None)
        probs = default_mutators() if probs is None else dict(probs)
        check_numbers(0, **{type(mutator).__name__: prob for mutator, prob in probs.items()})
        self.mutators = {mutator: prob for mutator, prob in probs.items() if prob > 0}
        for mutator in self.mutators:
            initialize_part(mutator, context)

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
        wanted = max(count, 0 if self.ran else self.init_min_unmeasured)
        self._draw_up_to(max(wanted, min(self.population_size, DRAWS * count)))
        order = self._ranked()
        for _ in range(self.genetic_num_iters - 1):
            best = [candidate.sch.trace for candidate in order[: self._parents()]]
            self.pool += self._sample_new(count, lambda best=best: self._mutated(best))  # type: ignore[misc]
            order = self._ranked()
        chance = round(self.eps_greedy * count) if len(order) > count else 0
        chosen = order[: count - chance]
        chosen += self.sampler.rng.sample(order[count - chance :], chance)
        self.pool = [candidate for candidate in order if candidate not in chosen]
        return chosen

    def look_ahead(self) -> None:
        """Fill the population."""
        if self.left > 0:
            self._draw_up_to(min(self.population_size, len(self.pool) + DRAWS * self.round))

    def _draw_up_to(self, wanted: int) -> None:
        self.pool += self._sample_new(wanted - len(self.pool))

    def _ranked(self) -> list[MeasureCandidate]:
        """The pool, what the model ranks highest first."""
        scores = self.cost_model.predict(self.sampler.context, self.pool)
        if len(scores) != len(self.pool):
            model, got = type(self.cost_model).__name__, len(scores)
            raise ScheduleError(
                "E428", f"{model}.predict gave {got} scores for {len(self.pool)} candidates",
                help="give one score for each candidate, in order",
            )  # fmt: skip
        return [self.pool[k] for k in np.argsort(-np.asarray(scores), kind="stable")]

    def _parents(self) -> int:
        """The number of the best that are mutated."""
        return max(1, round(self.init_measured_ratio * self.population_size))

    def _draw(self) -> Schedule | None:
        if not self.design_spaces:
            return None
        rng = self.sampler.rng
        if self.ran and rng.random() < self.genetic_mutate_prob:
            best = sorted(self.ran, key=lambda one: one[0])[: self._parents()]
            return self._mutated([trace for _, trace in best])
        return super()._draw()

    def _mutated(self, parents: Sequence[Trace]) -> Schedule | None:
        """One of some traces with another decision, by the first mutator that finds one to change; a new draw where none does."""
        rng, left = self.sampler.rng, dict(self.mutators)
        parent = rng.choice(list(parents)) if parents else None
        while left and parent is not None:
            mutator = rng.choices(list(left), list(left.values()))[0]
            mutated = mutator.apply(parent, rng)
            if mutated is not None:
                return self.sampler.replay(given(mutator, "apply", mutated, Trace), False)
            del left[mutator]
        return super()._draw()

    def notify_runner_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from a round: its fastest are mutated from now on."""
        sketches = [sch for sch in self.design_spaces[:1] if not has_own_steps(sch)]
        for candidate, result in zip(candidates, results):
            # the default build is the sketch of its decisions, where the space has one
            traces = [sch.trace for sch in (sketches if candidate.is_default else [candidate.sch])]
            self.ran += [(min(result.run_secs), trace) for trace in traces if result.run_secs]
        self.patience = self.genetic_max_fail_count if self.ran else self.patience
        if self.own_model:
            self.cost_model.update(self.sampler.context, candidates, results)


__all__ = ["EvolutionarySearch"]
