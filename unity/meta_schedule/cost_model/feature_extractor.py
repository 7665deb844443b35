"""``FeatureExtractor``: numbers that describe candidates, by which cost models learn. ``ProgramFeatures``: those of `features.py`.

A model takes another one: ``LinearModel(extractor=...)``; derive from ``ProgramFeatures`` and add columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor, tensor
from ...support.errors import ScheduleError
from ...support.lazy import absent_names
from ..core.measure_candidate import MeasureCandidate
from ..core.part import Part
from ..core.tune_context import TuneContext
from ..space.sketch import candidate_of
from .features import NAMES, features_of


class FeatureExtractor(metaclass=Part):
    """Gives the features of candidates. ``columns``: their names; the first is the logarithm of a time guessed from nothing."""

    what = "feature extractor"
    columns: Sequence[str] = ()

    @abstractmethod
    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> Sequence[Any]:
        """A tensor for each candidate: rows of its parts, or one row of the whole program."""

    def rows(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> np.ndarray:
        """One row for each candidate, the mean of its parts. Raises ScheduleError E428 for rows that do not fit ``columns``."""
        found = [one.numpy() if hasattr(one, "numpy") else one for one in self.extract_from(context, candidates)]
        rows = [np.atleast_2d(np.asarray(one, float)).mean(axis=0) for one in found]
        for row in rows:
            if row.shape != (len(self.columns),):
                text = f"a {type(self).__name__} gave {row.size} numbers for {len(self.columns)} columns"
                raise ScheduleError("E428", text, help="columns names them, the guessed time first")
        return np.array(rows).reshape(-1, len(self.columns))


class ProgramFeatures(FeatureExtractor, names=("program",)):
    """The features of the whole lowered program, one row."""

    columns = NAMES

    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[Tensor]:
        """A tensor of one row for each candidate."""
        with context.target:
            lowered = [one.lowered or candidate_of(context, one.sch).lowered for one in candidates]
        return [
            tensor(features_of(fn, context.machine, one.args_info)[None])
            for one, fn in zip(candidates, lowered)
            if fn is not None
        ]


PyFeatureExtractor = FeatureExtractor

__all__ = ["FeatureExtractor", "ProgramFeatures", "PyFeatureExtractor"]

__getattr__ = absent_names(__name__, {
    "PerStoreFeature": "ProgramFeatures gives one row of the whole program; derive from FeatureExtractor for rows of stores",
    "RandomFeatureExtractor": "derive from FeatureExtractor",
})  # fmt: skip
