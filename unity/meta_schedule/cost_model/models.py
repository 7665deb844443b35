"""Cost models: the logarithm of a candidate's time, guessed before it runs.

``RandomModel`` guesses at random. ``LinearModel`` begins with the cycles that the features count and learns what they miss, by
ridge regression on features of all candidates that ran; ``BoostedTrees`` goes on from there with trees of LightGBM. Scores are
larger for faster candidates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.structural import structural_digest
from ...support.errors import ScheduleError, using
from ...support.optional import require
from ...support.schema import Schema, need
from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import CostModel, Measured, TuneContext
from .feature_extractor import FeatureExtractor, ProgramFeatures
from .traffic import TrafficModel

STIFF = 16.0
"""Weight of the penalty on coefficients."""
TREES = {
    "objective": "regression", "num_leaves": 7, "min_data_in_leaf": 8, "learning_rate": 0.06, "num_threads": 1, "seed": 0,
    "deterministic": True, "verbose": -1,
}  # fmt: skip
"""Parameters by which trees are grown."""
ROUNDS, FEWEST = 80, 24
"""Trees, and candidates from which there are any."""
FAILED = 4.0
"""Times of the slowest that a candidate without a result counts as."""


class RandomModel(CostModel, names=("random",)):
    """Scores at random, the same for the same ``seed``."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Nothing is learnt."""

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[float]:
        """The scores."""
        return list(self.rng.random(len(candidates)))


class LinearModel(CostModel, names=("linear",)):
    """A line through the features, for each task its own level; what one task taught helps the next."""

    def __init__(self, extractor: FeatureExtractor | None = None) -> None:
        self.extractor = extractor or ProgramFeatures()
        self.rows: list[np.ndarray] = []
        self.times: list[float] = []
        self.tasks: list[str] = []
        """Checksums of the programs, as names are often the same."""
        self.coefficients = np.zeros(len(self.extractor.columns))
        self.known: dict[MeasureCandidate, np.ndarray] = {}

    def features(self, context: TuneContext, candidate: MeasureCandidate) -> np.ndarray:
        """The features of a candidate, computed once."""
        if candidate not in self.known:
            assert candidate.lowered is not None, "a candidate that is only to be run is not ranked"
            self.known[candidate] = self.extractor.rows(context, [candidate])[0]
        return self.known[candidate]

    def update(self, context: TuneContext, candidates: Sequence[MeasureCandidate], results: Sequence[Measured]) -> None:
        """Learn from candidates that ran; those that failed count as slow."""
        ran = [min(result.run_secs) if result.run_secs else None for result in results]
        slow = max([seconds for seconds in ran if seconds is not None], default=1.0) * FAILED
        task = structural_digest(context.func)
        for candidate, seconds in zip(candidates, ran):
            if candidate.lowered is None:
                continue  # it was never ranked
            self.rows.append(self.features(context, candidate))
            self.times.append(float(np.log(seconds if seconds else slow)))
            self.tasks.append(task)
        if self.rows:
            self.fit()
        self.known.clear()

    def fit(self) -> None:
        """Learn from all rows: the coefficients of what is left when the cycles are taken off, by task around its mean."""
        rows = np.array(self.rows)
        left = self._around_means(np.array(self.times) - rows[:, 0])
        rows = self._around_means(rows)
        penalty = STIFF * np.eye(rows.shape[1])
        self.coefficients = np.linalg.solve(rows.T @ rows + penalty, rows.T @ left)

    def _around_means(self, values: np.ndarray) -> np.ndarray:
        """Values of the candidates without the mean of their task."""
        centered = values.copy()
        for task in dict.fromkeys(self.tasks):
            mine = np.array([name == task for name in self.tasks])
            centered[mine] -= centered[mine].mean(axis=0)
        return centered

    def guess(self, rows: np.ndarray) -> np.ndarray:
        """Logarithms of times, but for a constant of each task, from rows of features."""
        return np.asarray(rows[:, 0] + rows @ self.coefficients)

    def predict(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[float]:
        """The scores."""
        rows = np.array([self.features(context, candidate) for candidate in candidates]).reshape(
            -1, len(self.coefficients)
        )
        return list(-self.guess(rows))

    def save(self, path: str | Path) -> None:
        """Write what was measured to a file of JSON, for ``load``. Raises ScheduleError E461 where there can be none."""
        rows = [row.tolist() for row in self.rows]
        data = {"names": list(self.extractor.columns), "rows": rows, "times": self.times, "tasks": self.tasks}
        with using(path):
            Path(path).write_text(json.dumps(data))

    def load(self, path: str | Path) -> None:
        """Learn from a file too. Raises ScheduleError E461 where it is not one that ``save`` wrote."""
        try:
            found = Schema().record(_Measured, json.loads(Path(path).read_text("utf-8")))
            need(found.names == tuple(self.extractor.columns), "it has other features: measure again")
            need(all([len(row) == len(found.names) for row in found.rows]), "a row has another length than the others")
            need(len(found.rows) == len(found.times) == len(found.tasks), "there are not as many rows as times")
            finite = [np.isfinite(np.array(numbers)).all() for numbers in (found.rows, found.times)]
            need(all(finite), "a number is not finite")
        except (OSError, ValueError, RecursionError) as error:
            raise ScheduleError("E461", f"{path} is not a saved cost model: {error}") from error
        self.rows += [np.array(row) for row in found.rows]
        self.times += found.times
        self.tasks += found.tasks
        if self.rows:
            self.fit()


@dataclass(slots=True, frozen=True)
class _Measured:
    """The file of a model."""

    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    times: tuple[float, ...]
    tasks: tuple[str, ...]


class BoostedTrees(LinearModel, names=("trees", "xgb")):
    """Gradient-boosted trees on what the linear model misses. Raises MissingExtraError E002 without LightGBM.

    Source: Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NeurIPS 2017.
    """

    def __init__(self, extractor: FeatureExtractor | None = None) -> None:
        super().__init__(extractor)
        self._lightgbm = require("lightgbm")
        self._trees: Any = None

    def fit(self) -> None:
        """Learn from all rows: trees of what the line leaves."""
        super().fit()
        rows = np.array(self.rows)
        left = self._around_means(np.array(self.times) - super().guess(rows))
        self._trees = (
            self._lightgbm.train(TREES, self._lightgbm.Dataset(rows, left), ROUNDS) if len(rows) >= FEWEST else None
        )

    def guess(self, rows: np.ndarray) -> np.ndarray:
        """As the linear model's, with what the trees add."""
        times = super().guess(rows)
        return times if self._trees is None or not len(rows) else times + self._trees.predict(rows)


create = CostModel.create
PyCostModel = CostModel

__all__ = ["BoostedTrees", "CostModel", "LinearModel", "PyCostModel", "RandomModel", "TrafficModel", "create"]
