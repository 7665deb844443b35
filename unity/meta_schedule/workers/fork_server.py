"""The process that worker processes are forked from: ``python -m unity.meta_schedule.workers.fork_server CHANNEL``.

It imports the compiler once, and forks a worker for every socket that it is sent, so that a worker that was killed is replaced in
milliseconds. It runs nothing itself and has no threads. Not here: the other side (`pool.py`). Invariant: when the process that
started it ends, in whatever way, it ends too and kills its workers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ...support.errors import UnityError
from ...vm import build, load  # noqa: F401 - what workers need, imported before they are forked

_SIZE = struct.Struct("<Q")


def send(channel: socket.socket, message: Any) -> None:
    """Write a message: its length and its pickle."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    channel.sendall(_SIZE.pack(len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """The next message. Raises EOFError where the other side has ended."""
    (size,) = _SIZE.unpack(_exactly(channel, _SIZE.size))
    return pickle.loads(_exactly(channel, size))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def serve(channel: socket.socket) -> None:
    """A worker: calls that come in, results or the text of an error that go out, until the other side ends."""
    while True:
        try:
            function, args, memory, environment = receive(channel)
        except (EOFError, OSError):
            return
        os.environ.update(environment)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        answer = _answer(function, args)
        try:
            send(channel, answer)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            send(channel, (False, f"the result cannot be sent: {error}"))


def _answer(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*args)
    except UnityError as error:
        return False, f"[{error.code}] {error.message}"
    except MemoryError:
        return False, "it needs more memory than the limit"
    except Exception as error:  # a candidate may fail in any way
        return False, "".join(traceback.format_exception_only(error)).strip()


def main(channel: int) -> None:
    """Fork a worker for each socket that comes; end with the process that sends them."""
    control = socket.socket(fileno=channel)
    gc.freeze()  # what is imported stays: collections in workers pass over it, and pages stay shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that measures
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers that end leave nothing behind
    while True:
        try:
            data, sockets, _, _ = socket.recv_fds(control, 1, 1)
        except OSError:
            break
        if not data or not sockets:
            break
        worker = socket.socket(fileno=sockets[0])
        process = os.fork()
        if process == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            with contextlib.suppress(BrokenPipeError):
                serve(worker)
            os._exit(0)
        worker.close()
        control.sendall(_SIZE.pack(process))
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))


__all__ = ["main", "receive", "send"]
