"""Cost models: the logarithm of a candidate's time, guessed before it runs.

``RandomModel`` guesses at random. ``LinearModel`` begins with the cycles that the features count and learns what they miss, by
ridge regression on features of all candidates that ran. Scores are larger for faster candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import Measured, TuneContext
from .features import NAMES, features_of

STIFF = 4.0
"""Weight of the penalty on coefficients."""
FAILED = 4.0
"""Times of the slowest that a candidate without a result counts as."""


class RandomModel:
    """Scores at random, the same for the same ``seed``."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Nothing is learnt."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[float]:
        """The scores."""
        return list(self.rng.random(len(candidates)))


class LinearModel:
    """A line through the features, for each task its own level; what one task taught helps the next."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.times: list[float] = []
        self.tasks: list[str] = []
        self.coefficients = np.zeros(len(NAMES))
        self.known: dict[MeasureCandidate, np.ndarray] = {}

    def features(self, context: TuneContext, candidate: MeasureCandidate) -> np.ndarray:
        """The features of a candidate, computed once."""
        if candidate not in self.known:
            assert candidate.lowered is not None, "a candidate that is only to be run is not ranked"
            self.known[candidate] = features_of(candidate.lowered, context.machine)
        return self.known[candidate]

    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from candidates that ran; those that failed count as slow."""
        ran = [min(result.run_secs) if result.run_secs else None for result in results]
        slow = max([seconds for seconds in ran if seconds is not None], default=1.0) * FAILED
        for candidate, seconds in zip(candidates, ran):
            self.rows.append(self.features(context, candidate))
            self.times.append(float(np.log(seconds if seconds else slow)))
            self.tasks.append(context.task_name)
        self._fit()
        self.known.clear()

    def _fit(self) -> None:
        """The coefficients of what is left when the cycles are taken off, by task around its mean."""
        rows, left = np.array(self.rows), np.array(self.times) - np.array(self.rows)[:, 0]
        for task in dict.fromkeys(self.tasks):
            mine = np.array([name == task for name in self.tasks])
            rows[mine] -= rows[mine].mean(axis=0)
            left[mine] -= left[mine].mean()
        penalty = STIFF * np.eye(rows.shape[1])
        self.coefficients = np.linalg.solve(rows.T @ rows + penalty, rows.T @ left)

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[float]:
        """The scores."""
        rows = np.array([self.features(context, candidate) for candidate in candidates]).reshape(-1, len(NAMES))
        return list(-(rows[:, 0] + rows @ self.coefficients))


__all__ = ["LinearModel", "RandomModel"]
