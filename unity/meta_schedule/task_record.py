"""``TaskRecord``: what is known of a task while it is tuned. Not here: the loop (`tuning_loop.py`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..support.arguments import callers_line
from ..support.errors import UnityError
from ..transform.infra.backend import backend_of
from .core.measure_candidate import MeasureCandidate
from .core.tune_context import TuneContext
from .database.record import TuningRecord, fastest
from .database.workload import Workload
from .runner import RunnerInput, RunnerResult
from .space.sketch import default_candidate

FINALISTS = 3
"""Candidates of a task that run against the default at the end."""


@dataclass(slots=True, eq=False)
class TaskRecord:
    """A task while it is tuned. ``history``: the best seconds after each round; ``finalists``: the best candidates; ``rounds`` and
    ``chosen``: rounds that have begun, and their candidates."""

    ctx: TuneContext
    task_weight: float
    max_trials: int
    workload: Workload
    history: list[float] = field(default_factory=list)
    finalists: list[tuple[float, MeasureCandidate]] = field(default_factory=list)
    default_secs: float = math.inf
    default_path: str | None = None
    best_written: float = math.inf
    trials: int = 0
    rounds: int = 0
    chosen: int = 0
    failures: int = 0
    is_terminated: bool = False
    problem: str = ""
    """The reason why nothing can be measured."""
    error: Exception | None = None
    """The error of a part of the task with which its search ended."""
    known: list[TuningRecord] = field(default_factory=list)
    """The trials of an earlier search."""

    @property
    def default(self) -> MeasureCandidate:
        """The default build."""
        return default_candidate(self.ctx)

    @property
    def best_secs(self) -> float:
        """The best so far, the default included."""
        return min([self.default_secs, *[secs for secs, _ in self.finalists]])

    def reference(self) -> RunnerInput:
        """The default build, to run beside candidates."""
        assert self.default_path is not None
        kind = backend_of(self.ctx.target).runtime.device.name
        packed, other = self.default.scheduled.packed, self.ctx.other_args_info
        return RunnerInput(self.default_path, kind, self.default.args_info, packed, None, other)

    def add_results(self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]) -> None:
        """Count what was measured and keep the best candidates."""
        self.trials += len(candidates)
        found = [(fastest(r.run_secs), c) for c, r in zip(candidates, results) if r.run_secs and not c.is_default]
        self.failures += len([r for r in results if not r.run_secs])
        self.finalists = sorted([*self.finalists, *found], key=lambda pair: pair[0])[:FINALISTS]

    @contextlib.contextmanager
    def ends_alone(self) -> Iterator[None]:
        """An error of parts of the task (a template, a rule, a model) ends its search alone: the trials that it had are judged."""
        try:
            yield
        except Exception as error:  # of a user's code, of any kind
            self.error, self.is_terminated = self.error or error, True
            if not self.chosen and not self.finalists:
                self.problem = told(error)


def told(error: Exception) -> str:
    """An error of a part as the table names it, with the line of the user's code that raised it."""
    text = error.message if isinstance(error, UnityError) else f"{type(error).__name__}: {error}"
    line = callers_line(error)
    return f"{text} ({line})" if line else text


__all__ = ["FINALISTS", "TaskRecord", "told"]
