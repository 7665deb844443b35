"""``Runner``: saved programs to times. ``LocalRunner`` runs in worker processes, beside the default and in turns with it.

Candidates go to a worker in groups, whose results come when a group has ended; where one makes the process crash or hang, each of
its group runs again alone, so that only that one is lost. Not here: what a worker does (`meta_schedule/workers/jobs.py`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..ffi.native.pool import num_threads
from ..support.errors import ScheduleError
from ..transform.default_schedule.packing import Packing
from .builder import awaited
from .core.arg_info import ArgInfo, TensorInfo
from .workers.jobs import Run, Turns, run_programs
from .workers.pool import LocalWorkers

GROUP = 8
"""Candidates that run in turns."""


@dataclass(slots=True, frozen=True)
class RunnerInput:
    """A saved program and its arguments. ``packed``: those it takes packed. ``reference``: the default build, in whose turns it
    runs and whose results it must have; None: itself. ``other_args_info``: arguments of other sizes with which results are compared
    as well."""

    artifact_path: str
    device_type: str = "cpu"
    args_info: Sequence[ArgInfo] = ()
    packed: dict[int, Packing] = field(default_factory=dict)
    reference: RunnerInput | None = None
    other_args_info: Sequence[ArgInfo] = ()


@dataclass(slots=True, frozen=True)
class RunnerResult:
    """Seconds of the runs, or why there are none; seconds of the default in the same turns."""

    run_secs: list[float] | None
    error_msg: str | None = None
    reference_secs: list[float] | None = None


@dataclass(slots=True, frozen=True)
class EvaluatorConfig:
    """The way times are taken: ``repeat`` samples, each the mean of at least ``number`` calls that take ``min_repeat_ms``.

    Buffers stay in the caches between calls, unless they are larger: ``enable_cpu_cache_flush`` is refused. Raises ScheduleError
    E401.
    """

    number: int = 1
    repeat: int = 5
    min_repeat_ms: float = 4.0
    enable_cpu_cache_flush: bool = False

    def __post_init__(self) -> None:
        if self.number < 1 or self.repeat < 1 or self.enable_cpu_cache_flush:
            raise ScheduleError("E401", "times need at least one call and one sample, and no flush of the caches")


class RunnerFuture:
    """The result of a run that may not have ended: ``f_done`` says if it has, ``f_result`` waits for it."""

    def __init__(self, f_done: Callable[[], bool], f_result: Callable[[], RunnerResult]) -> None:
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """True when ``result`` does not wait."""
        return self._done()

    def result(self) -> RunnerResult:
        """The result."""
        return self._result()


class Runner(ABC):
    """Takes times of saved programs."""

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[Any]:
        """A future for each program, with ``done()`` and ``result()``."""

    @staticmethod
    def create(kind: Runner | str = "local", max_workers: int | None = None) -> Runner:
        """A runner by name. Raises ScheduleError E401 for an unknown one."""
        if isinstance(kind, Runner):
            return kind
        if kind != "local":
            raise ScheduleError("E401", f"no runner {kind!r}", help='"local", or a Runner of your own')
        return LocalRunner()


class LocalRunner(Runner):
    """Runs in one worker process of this machine, one group after the other, or in the workers of ``executor``.

    ``timeout_sec``: seconds that one candidate may take. ``cooldown_sec``: pause between groups. ``threads``: threads of parallel
    loops; None: as many as here.
    """

    def __init__(
        self, timeout_sec: float = 10.0, evaluator_config: EvaluatorConfig | None = None, cooldown_sec: float = 0.0, *,
        executor: Executor | None = None, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec = cooldown_sec
        self.threads = threads
        self.executor: Executor = executor or LocalWorkers(1, timeout_sec, environment={"UNITY_CACHE": "off"})
        self.seconds = 0.0
        """Time that running took."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        by_reference: dict[int, list[int]] = {}
        for place, one in enumerate(runner_inputs):
            by_reference.setdefault(id(one.reference), []).append(place)
        cut = [places[at : at + GROUP] for places in by_reference.values() for at in range(0, len(places), GROUP)]
        made: dict[int, RunnerFuture] = {}
        for places in cut:
            group = _Group(self, [runner_inputs[place] for place in places])
            for number, place in enumerate(places):
                made[place] = RunnerFuture(partial(group.done, number), partial(group.result, number))
        return [made[place] for place in range(len(runner_inputs))]

    def submitted(self, group: Sequence[RunnerInput]) -> Future[list[Run]]:
        """Send a group, with the default before it."""
        whole = [group[0].reference or group[0], *group]
        config = self.evaluator_config
        turns = Turns(config.number, config.repeat, config.min_repeat_ms)
        info, other = [
            [(one.dtype, one.shape if isinstance(one, TensorInfo) else one.value) for one in infos]
            for infos in (group[0].args_info, group[0].other_args_info)
        ]
        artifacts = [Path(one.artifact_path).read_bytes() for one in whole]
        return self.executor.submit(
            run_programs, artifacts, [one.packed for one in whole], info, turns, self.threads or num_threads(), other,
            group[0].device_type,
        )  # fmt: skip

    def results(self, group: Sequence[RunnerInput], future: Future[list[Run]]) -> list[RunnerResult] | str:
        """The results of a group that was sent, or why there are none."""
        start = time.perf_counter()
        found = awaited(future, self.timeout_sec)
        time.sleep(self.cooldown_sec)
        self.seconds += time.perf_counter() - start
        if isinstance(found, str):
            return found
        (reference, _), *runs = found
        return [RunnerResult(secs, error, None if secs is None else reference) for secs, error in runs]

    def close(self) -> None:
        """End the workers."""
        self.executor.shutdown(wait=False, cancel_futures=True)


class _Group:
    """Candidates that run in turns. Where one of them ends the process, each runs again alone when its result is asked for."""

    def __init__(self, runner: LocalRunner, inputs: Sequence[RunnerInput]) -> None:
        self.runner, self.inputs = runner, inputs
        self.future = runner.submitted(inputs)
        self.found: list[RunnerResult] | str | None = None
        self.alone: dict[int, RunnerResult] = {}

    def done(self, number: int) -> bool:
        """True if the result of a candidate is there."""
        return number in self.alone or isinstance(self.found, list) or (self.found is None and self.future.done())

    def result(self, number: int) -> RunnerResult:
        """The result of a candidate."""
        if self.found is None:
            self.found = self.runner.results(self.inputs, self.future)
        if isinstance(self.found, list):
            return self.found[number]
        if number not in self.alone:
            one = [self.inputs[number]]
            found = self.found if len(self.inputs) == 1 else self.runner.results(one, self.runner.submitted(one))
            self.alone[number] = RunnerResult(None, found) if isinstance(found, str) else found[0]
        return self.alone[number]


__all__ = ["EvaluatorConfig", "LocalRunner", "Runner", "RunnerFuture", "RunnerInput", "RunnerResult"]
