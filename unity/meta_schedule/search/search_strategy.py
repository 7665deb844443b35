"""The strategies by their names in TVM."""

from __future__ import annotations

from ..core.measure_candidate import MeasureCandidate
from ..core.tune_context import SearchStrategy
from .evolutionary import EvolutionarySearch
from .replay import ReplayFunc, ReplayTrace

create = SearchStrategy.create
PySearchStrategy = SearchStrategy

__all__ = [
    "EvolutionarySearch", "MeasureCandidate", "PySearchStrategy", "ReplayFunc", "ReplayTrace", "SearchStrategy", "create",
]  # fmt: skip
