"""A random case in a process of its own: what it damages or takes is gone with it."""

from __future__ import annotations

import os
import random
import resource
import signal
import traceback
from collections.abc import Callable

from fuzz import SEED


def apart(outcome: Callable[[random.Random], str], case: int, seconds: int = 0, memory: int | None = None) -> str:
    """The outcome of a case, one line; several where it ends otherwise. ``seconds``, 0 for any, and ``memory``, in bytes: limits."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        try:
            os.write(writer, outcome(random.Random(f"{SEED}.{case}")).encode())
        except BaseException:
            os.write(writer, f"case {case} of seed {SEED}\n{traceback.format_exc()[-4000:]}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return said or f"case {case} of seed {SEED}\nends with {status}"
