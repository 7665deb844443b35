"""The process's thread pool: compiled once, callable from generated code and through ctypes.

The caller of a region works too, beside ``threads - 1`` workers. A second region, nested or from another thread, runs
serially in its caller. After ``fork`` the child begins with no workers and starts its own when needed.
Not here: the pool's code (``pool_ir.py``), what a chunk does, and how loops are cut into chunks.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
from functools import cache
from pathlib import Path

from ...support.errors import FFIError
from ...support.forking import fork_lock
from ...support.options import int_option
from ..machine_code.engine import Engine
from ..machine_code.llvm import CompileOptions
from .pool_ir import MAX_WORKERS, pool_ir

OPTIONS = CompileOptions()
PARALLEL_FOR = "unity_parallel_for"
"""Symbol ``i32 unity_parallel_for(ptr fn, ptr ctx, i64 total, i64 chunk)`` for generated code to call."""

SET_THREADS = "unity_pool_set_threads"
"""Symbol ``void unity_pool_set_threads(i32 threads)``: stop the workers, and start ``threads - 1`` at the next region."""

ChunkFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""ctypes type of a chunk function ``i32 fn(ptr ctx, i64 begin, i64 end)``; 0 means success."""

ParallelFor = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""ctypes type of ``unity_parallel_for``; it releases Python's lock."""


CGROUP = Path("/sys/fs/cgroup")


def processor_limit() -> int:
    """Whole processors that the control group (a container) grants; 0 where it sets no limit."""
    try:
        if (CGROUP / "cpu.max").exists():
            quota, period = (CGROUP / "cpu.max").read_text().split()
        else:
            quota, period = [(CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
        return max(1, math.ceil(int(quota) / int(period))) if int(quota) > 0 and int(period) > 0 else 0
    except (OSError, ValueError):  # no such files, or "max"
        return 0


def processors() -> int:
    """Processors this process may use: those of its affinity, at most as many as its container grants."""
    cores = len(os.sched_getaffinity(0))
    return min(cores, processor_limit() or cores)


def default_threads() -> int:
    """Threads of a parallel loop: ``UNITY_NUM_THREADS``, else one per processor."""
    return int_option("UNITY_NUM_THREADS") or min(processors(), MAX_WORKERS + 1)


class _Pool:
    """The process's pool: its code and its thread count."""

    def __init__(self) -> None:
        self.engine = Engine().add_ir(pool_ir(), OPTIONS)
        self.address = self.engine.address(PARALLEL_FOR)
        self.set_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.engine.address(SET_THREADS))
        self.threads = 0
        atexit.register(_stop)


_LOCK = fork_lock()
_pool = cache(_Pool)


def ensure_pool(num_threads: int | None = None) -> int:
    """Address of ``unity_parallel_for``; the pool is compiled at the first call and lives as long as the process.

    ``i32 unity_parallel_for(fn, ctx, total, chunk)`` calls ``i32 fn(ptr ctx, i64 begin, i64 end)`` over [0, total) in
    pieces of ``chunk`` (more where there would be over 4,095 pieces), in any order and on any thread, and returns 0 or
    the first status other than 0; after one, pieces not yet begun are left out. A thread takes neighbouring pieces, and when it
    has done its part, pieces of others' parts. With one thread, one piece, or a pool that is busy, it calls ``fn`` once with the
    whole range.

    ``num_threads`` changes the number of threads, the caller included; not to be called from inside a region.
    Raises: FFIError E730 on an unsupported system, E731 for a count outside 1 to 256.
    """
    if num_threads is not None and type(num_threads) is not int:
        raise FFIError("E731", f"the number of threads must be an integer, got {num_threads!r}")
    with _LOCK:
        pool = _pool()
        threads = num_threads if num_threads is not None else pool.threads or default_threads()
        if not 1 <= threads <= MAX_WORKERS + 1:
            raise FFIError("E731", f"the number of threads must be from 1 to {MAX_WORKERS + 1}, got {threads}")
        if threads != pool.threads:
            pool.set_threads(threads)
            pool.threads = threads
        return pool.address


def num_threads() -> int:
    """Return the number of threads of a parallel loop, the caller included."""
    ensure_pool()
    return _pool().threads


def set_num_threads(count: int) -> None:
    """Run parallel loops of this process on ``count`` threads, the caller included; 1 runs them serially.

    Must not be called inside a parallel loop. Raises FFIError E731 for anything but an integer from 1 to 256.
    """
    if count is None:
        raise FFIError("E731", "the number of threads must be an integer, got None")
    ensure_pool(count)


def pool_symbols() -> dict[str, int]:
    """External names generated code may call, with their addresses: what an `Engine` is given as ``symbols``."""
    return {PARALLEL_FOR: ensure_pool()}


def _stop() -> None:
    """At exit: join the workers before their code goes away."""
    ensure_pool(1)
