"""The strategies by their names in TVM."""

from __future__ import annotations

from ...support.errors import ScheduleError
from ..core.tune_context import SearchStrategy
from .evolutionary import EvolutionarySearch
from .replay import ReplayFunc, ReplayTrace

STRATEGIES: dict[str, type[ReplayTrace]] = {
    "evolutionary": EvolutionarySearch,
    "replay-trace": ReplayTrace,
    "replay-func": ReplayFunc,
}


def create(kind: str | SearchStrategy = "evolutionary") -> SearchStrategy:
    """A strategy by its name, or as it is. Raises ScheduleError E428 for another name."""
    if not isinstance(kind, str):
        return kind
    if kind not in STRATEGIES:
        raise ScheduleError("E428", f"no search strategy {kind!r}", help=f"one of: {', '.join(STRATEGIES)}")
    return STRATEGIES[kind]()


__all__ = ["STRATEGIES", "EvolutionarySearch", "ReplayFunc", "ReplayTrace", "create"]
