"""``LocalWorkers``: an executor of processes that survive what they run. A call that crashes or hangs fails alone.

They are forked from one that has the compiler imported (`fork_server.py`) and stay warm between calls; one that died or was
killed for its time is replaced. Any other ``concurrent.futures.Executor`` can stand in its place.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...ffi.native.pool import default_threads
from ...support.errors import UnityError
from .fork_server import _SIZE, receive, send

MEMORY = 8 << 30
"""Bytes that a worker may take, beside what the machine has less."""
START_SECONDS = 120.0


class WorkerError(UnityError):
    """A call in a worker process that failed: the text of its error, or how the process ended."""


class _ForkServer:
    """The process that workers are forked from, started when the first is needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.owner = 0

    def worker(self) -> _Worker:
        """A new worker. Raises WorkerError E463 where processes cannot be started."""
        with self.lock:
            for _ in range(2):
                try:
                    return self._fork()
                except OSError:  # the fork server was killed: another one
                    self.close()
        raise WorkerError("E463", "worker processes cannot be started")

    def _fork(self) -> _Worker:
        if self.control is None or self.owner != os.getpid() or self.process is None or self.process.poll() is not None:
            self._start()
        assert self.control is not None
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [b"w"], [theirs.fileno()])
        data = self.control.recv(_SIZE.size)
        if len(data) < _SIZE.size:
            ours.close()
            raise OSError("the fork server ended")
        return _Worker(ours, _SIZE.unpack(data)[0])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(START_SECONDS)
        command = [sys.executable, "-m", fork_server_module(), str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([part for part in sys.path if part])}
        with theirs:
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True, env=environment
            )
        self.control, self.owner = ours, os.getpid()

    def close(self) -> None:
        """End it and its workers."""
        if self.control is not None:
            self.control.close()
        if self.process is not None and self.owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.control = self.process = None


def fork_server_module() -> str:
    """The name of the module that the fork server runs."""
    return f"{__package__}.fork_server"


_FORK_SERVER = _ForkServer()


@dataclass(slots=True)
class _Worker:
    """One worker process and the channel to it."""

    channel: socket.socket
    process: int

    def call(self, message: Any, seconds: float) -> Any:
        """The answer to a message. Raises WorkerError E463 where the process died or took too long."""
        try:
            self.channel.settimeout(seconds or None)
            send(self.channel, message)
            return receive(self.channel)
        except TimeoutError:
            raise WorkerError("E463", f"it took more than {seconds:g} s") from None
        except (EOFError, OSError, pickle.UnpicklingError):
            raise WorkerError("E463", "its process died") from None

    def kill(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.process, signal.SIGKILL)
        self.channel.close()


class LocalWorkers(Executor):
    """Worker processes of this machine as an ``Executor``: ``submit(function, *args)`` of importable functions and plain data.

    ``timeout_sec``: seconds of one call (0: no limit); ``memory``: bytes of address space of a worker; ``environment``: options of
    the package that calls run under, beside those of the process that started first. A call that fails, dies or
    takes too long gives a WorkerError E463 as the future's exception.
    """

    def __init__(
        self, max_workers: int | None = None, timeout_sec: float = 30.0, memory: int = MEMORY,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.max_workers = max_workers or default_threads()
        self.timeout_sec = timeout_sec
        self.memory = memory
        self.environment = dict(environment or {})
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(self.max_workers, thread_name_prefix="unity-workers")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a worker; keyword arguments are not sent."""
        if kwargs:
            raise TypeError("LocalWorkers.submit takes positional arguments alone")
        future = self._threads.submit(self._call, fn, args)
        future.executor = self  # type: ignore[attr-defined] # the time of the call is kept here
        return future

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _FORK_SERVER.worker()
        try:
            fine, value = worker.call((fn, args, self.memory, self.environment), self.timeout_sec)
        except BaseException:
            worker.kill()
            raise
        self._idle.put(worker)
        if not fine:
            raise WorkerError("E463", value)
        return value

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers that have nothing to do, and the others when they have done it."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().kill()


__all__ = ["LocalWorkers", "WorkerError"]
