"""``Runner``: saved programs to times. ``LocalRunner`` runs in worker processes, beside the default and in turns with it.

Each candidate is a call of its own: its result is known when it has been measured, and one that crashes or hangs is lost alone. Not
here: what a worker does (`meta_schedule/workers/jobs.py`).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..ffi.device import DEVICE_KINDS
from ..ffi.native.pool import num_threads
from ..ffi.targets.target import target as make_target
from ..support.arguments import checked_class
from ..support.errors import ScheduleError
from ..support.lazy import absent_names
from ..transform.default_schedule.packing import Packing
from ..transform.infra.backend import backend_of
from .builder import ENVIRONMENT, submit, wait_for
from .core.arg_info import ArgInfo
from .core.part import Part, check_numbers
from .workers.jobs import Run, Turns, run_program
from .workers.pool import LocalWorkers


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


@checked_class
@dataclass(slots=True, frozen=True)
class EvaluatorConfig:
    """The way times are taken: ``repeat`` samples, each the mean of at least ``number`` calls that take ``min_repeat_ms``.

    Buffers stay in the caches between calls, unless they are larger: ``enable_cpu_cache_flush`` is refused. Raises ScheduleError
    E401.
    """

    number: int = 1
    repeat: int = 20
    min_repeat_ms: float = 0.5
    enable_cpu_cache_flush: bool = False

    def __post_init__(self) -> None:
        check_numbers(1, number=self.number, repeat=self.repeat)
        check_numbers(0, min_repeat_ms=self.min_repeat_ms)
        if self.enable_cpu_cache_flush:
            raise ScheduleError("E401", "enable_cpu_cache_flush is True", help="caches are not flushed between calls")


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


class Runner(metaclass=Part):
    """Takes times of saved programs."""

    what, usual = "runner", "local"

    @abstractmethod
    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[Any]:
        """A future for each program, with ``done()`` and ``result()``."""


class LocalRunner(Runner, names=("local",)):
    """Runs in one worker process of this machine, one candidate after the other, or in the workers of ``executor``.

    ``timeout_sec``: seconds that one candidate may take (0: no limit). ``cooldown_sec``: pause after each. ``threads``: threads of
    parallel loops; None: as many as here.
    """

    def __init__(
        self, timeout_sec: float = 10.0, evaluator_config: EvaluatorConfig | None = None, cooldown_sec: float = 0.0, *,
        executor: Executor | None = None, threads: int | None = None,
    ) -> None:  # fmt: skip
        check_numbers(0, timeout_sec=timeout_sec, cooldown_sec=cooldown_sec)
        check_numbers(1, threads=threads)
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or EvaluatorConfig()
        self.cooldown_sec = cooldown_sec
        self.threads = threads
        self.executor: Executor = executor or LocalWorkers(1, timeout_sec, environment=ENVIRONMENT)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture(future.done, partial(self._result, future)) for future in map(self._submit, runner_inputs)]

    def _submit(self, one: RunnerInput) -> Future[Run]:
        config = self.evaluator_config
        turns = Turns(config.number, config.repeat, config.min_repeat_ms)
        info, other = [tuple([(a.dtype, a.size) for a in infos]) for infos in (one.args_info, one.other_args_info)]
        default, candidate = [
            (Path(part.artifact_path).read_bytes(), tuple(part.packed.items())) for part in (one.reference or one, one)
        ]
        threads = self.threads or num_threads()
        kind = one.device_type  # TVM says it by the kind of target
        kind = kind if kind in DEVICE_KINDS else backend_of(make_target(kind)).runtime.device.name
        return submit(self.executor, run_program, default, candidate, info, turns, threads, other, kind)

    def _result(self, future: Future[Run]) -> RunnerResult:
        found = wait_for(future, self.timeout_sec)
        time.sleep(self.cooldown_sec)
        if isinstance(found, str):
            return RunnerResult(None, found)
        reference, secs, error = found
        return RunnerResult(secs, error, None if secs is None else reference)

    def close(self) -> None:
        """End the workers."""
        self.executor.shutdown(wait=False, cancel_futures=True)


create = Runner.create
PyRunner = Runner

__all__ = [
    "EvaluatorConfig", "LocalRunner", "PyRunner", "Runner", "RunnerFuture", "RunnerInput", "RunnerResult", "create",
]  # fmt: skip

__getattr__ = absent_names(__name__, {
    "RPCRunner": "other machines measure from a queue they share: ms.MeasureQueue and ms.work_off (docs/search.md)",
    "RPCConfig": "other machines measure from a queue they share: ms.MeasureQueue and ms.work_off (docs/search.md)",
    "LocalRunnerFuture": "RunnerFuture",
    "PyRunnerFuture": "RunnerFuture",
})  # fmt: skip
