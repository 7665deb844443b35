"""``Builder``: candidates to saved programs. ``LocalBuilder`` builds in worker processes, or in those of any executor.

Not here: the processes (`meta_schedule/workers/pool.py`), what they do (`meta_schedule/workers/jobs.py`).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any

from ..ffi.targets.target import Target, target as make_target
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.pack import NotPackable, pack
from ..support.errors import ScheduleError, UnityError
from ..support.lazy import absent_names
from ..transform.default_schedule.packing import Packing
from .core.part import Part, check_numbers
from .core.tune_context import one_program
from .workers.jobs import build_program
from .workers.pool import LocalWorkers

ENVIRONMENT = {"UNITY_CACHE": "off", "UNITY_EXPLAIN": ""}
"""Options of workers: candidates are not cached, and nothing is said of how each is built."""


@dataclass(slots=True, frozen=True)
class BuilderInput:
    """A scheduled module of one program. ``params``: parameters that it takes packed, by position."""

    mod: IRModule | PrimFunc
    target: Target | str | None = None
    params: dict[int, Packing] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class BuilderResult:
    """The file of a saved program, or why there is none."""

    artifact_path: str | None
    error_msg: str | None = None


class Builder(metaclass=Part):
    """Makes saved programs of candidates."""

    what, usual = "builder", "local"

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """The results, in order. A candidate that fails has a message and no file."""


class LocalBuilder(Builder, names=("local",)):
    """Builds in worker processes of this machine, or in those of ``executor``.

    ``timeout_sec``: seconds that one candidate may take (0: no limit). Files lie in a temporary folder until ``close``.
    """

    def __init__(
        self, *, max_workers: int | None = None, timeout_sec: float = 30.0, executor: Executor | None = None
    ) -> None:
        check_numbers(1, max_workers=max_workers)
        check_numbers(0, timeout_sec=timeout_sec)
        self.timeout_sec = timeout_sec
        self.executor: Executor = executor or LocalWorkers(max_workers, timeout_sec, environment=ENVIRONMENT)
        self._folder = tempfile.TemporaryDirectory(prefix="unity-tune-")
        self._count = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [self._result(future) for future in [self._submit(one) for one in build_inputs]]

    def _submit(self, one: BuilderInput) -> Future[bytes] | str:
        program = next(iter(one_program(one.mod).prim_funcs().values()))
        try:
            return submit(self.executor, build_program, pack(program), str(make_target(one.target)))
        except NotPackable as error:
            return f"the program cannot be sent to a worker: it has {error}"

    def _result(self, future: Future[bytes] | str) -> BuilderResult:
        data = future if isinstance(future, str) else wait_for(future, self.timeout_sec)
        if isinstance(data, str):
            return BuilderResult(None, data)
        self._count += 1
        path = os.path.join(self._folder.name, f"{self._count}.unity")
        with open(path, "wb") as file:
            file.write(data)
        return BuilderResult(path)

    def close(self) -> None:
        """End the workers and remove the files."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(OSError):
            self._folder.cleanup()


def submit(executor: Executor, fn: Callable[..., Any], *args: Any) -> Future[Any]:
    """A call in a worker. Raises ScheduleError E463 where the executor takes none: it was shut down, or its processes broke it."""
    try:
        return executor.submit(fn, *args)
    except UnityError:
        raise
    except Exception as error:
        raise ScheduleError(
            "E463", f"the executor {type(executor).__name__} takes no call: {type(error).__name__}: {error}",
            help="what was measured is in the database: resume=True goes on; LocalWorkers replace processes that die",
        ) from error  # fmt: skip


def wait_for(future: Future[Any], seconds: float) -> Any:
    """The result of a call in a worker; the text of its error where it failed. ``LocalWorkers`` keep the time themselves; with
    another executor a call fails that runs at the end of one period of ``seconds`` and has not ended with the next."""
    period = None if isinstance(getattr(future, "executor", None), LocalWorkers) else seconds or None
    running = False
    while True:
        try:
            return future.result(period)
        except FutureTimeout:
            if running:
                return f"it took more than {seconds:g} s"
            running = future.running()
        except UnityError as error:
            return error.message
        except Exception as error:  # an executor gives whatever the call raised, or that its worker died
            return f"{type(error).__name__}: {error}"


create = Builder.create
PyBuilder = Builder

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create", "submit", "wait_for"]

__getattr__ = absent_names(__name__, {
    "RPCBuilder": "other machines measure from a queue they share: ms.MeasureQueue and ms.work_off (docs/search.md)",
})  # fmt: skip
