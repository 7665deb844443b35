"""Deep trees: raise the recursion limit for the time of one walk.

Python-to-Python recursion needs no C stack, so 100,000 levels are safe as long as the walk recurses through loops and
list comprehensions, never through ``map`` or a generator. The limit is one for all threads of the process: it is raised by
the first walk that begins and put back by the last that ends. Where a C function evaluates the frames of Python (PEP 523;
``torch.compile`` leaves one behind after an error), every level does need C stack, and the limit stays where that suffices.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from .errors import VMError
from .forking import fork_lock

LIMIT = 100_000
ON_C_STACK = 8_000
"""The limit where every level needs C stack: some 400 bytes each, of 8 MB."""

_lock = fork_lock()
_walks: list[int] = []
"""Threads of the running walks, once per walk."""
_before: list[int] = []
"""The limit found by the first of the running walks; empty where none runs."""


def _in_child() -> None:
    """After a fork only the forking thread's walks go on."""
    _walks[:] = [thread for thread in _walks if thread == threading.get_ident()]
    _restore_limit()


def _restore_limit() -> None:
    if not _walks and _before:
        sys.setrecursionlimit(_before.pop())


os.register_at_fork(after_in_child=_in_child)


def _evaluator() -> tuple[ctypes._NamedFuncPointer, int, int] | None:
    """A function that gives the address of what evaluates frames, its argument, and Python's own; None where none is known."""
    api = ctypes.pythonapi
    if not hasattr(api, "_PyInterpreterState_GetEvalFrameFunc") or not hasattr(api, "_PyEval_EvalFrameDefault"):
        return None
    current = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyInterpreterState_Get", api))()
    function = api._PyInterpreterState_GetEvalFrameFunc
    function.restype, function.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    return function, current, ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value or 0


_EVALUATOR = _evaluator()


def on_c_stack() -> bool:
    """True if another function than Python's own evaluates frames."""
    if _EVALUATOR is None:
        return False
    function, interpreter, own = _EVALUATOR
    return bool(function(interpreter) != own)


def stack_bytes() -> int:
    """Size of this thread's C stack; 512 KiB, the least that systems give by themselves, where it is not known."""
    try:
        libc = ctypes.CDLL(None)
        attributes, start, size = ctypes.create_string_buffer(256), ctypes.c_void_p(), ctypes.c_size_t()
        if libc.pthread_getattr_np(ctypes.c_void_p(threading.get_ident()), attributes):
            return 512 << 10
        libc.pthread_attr_getstack(attributes, ctypes.byref(start), ctypes.byref(size))
        libc.pthread_attr_destroy(attributes)
    except (AttributeError, OSError):
        return 512 << 10
    return size.value


LEVEL_BYTES, RESERVED_BYTES = 3 << 10, 32 << 10
"""C stack of a level of ``outside_calls``, at most; what all other functions keep of it."""


class OutsideCalls(threading.local):
    """The calls of this thread that left compiled programs for functions of Python, which may call programs again: every level
    takes C stack, whatever Python's own limit says."""

    def __init__(self) -> None:
        self.depth = 0
        self.limit = max(4, (stack_bytes() - RESERVED_BYTES) // LEVEL_BYTES)

    @contextmanager
    def entered(self, name: str, levels: int = 1) -> Iterator[None]:
        """Around a call of function ``name``. Raises VMError E632 where the thread's stack ends."""
        if self.depth and self.depth + levels > self.limit:
            size = self.limit * LEVEL_BYTES >> 10
            raise VMError("E632", f"{name}: recursion too deep for a thread with some {size} KiB of stack")
        self.depth += levels
        try:
            yield
        finally:
            self.depth -= levels


outside_calls = OutsideCalls()


class _Inside(threading.local):
    """True in a thread while one of its walks has the limit raised."""

    walking = False


_inside = _Inside()


class _Deep:
    """The context of one walk."""

    __slots__ = ("limit", "outermost")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.outermost = False

    def __enter__(self) -> None:
        with _lock:
            found = sys.getrecursionlimit()
            if not _walks:
                _before.append(found)
            _walks.append(threading.get_ident())
            limit = min(self.limit, ON_C_STACK) if on_c_stack() else self.limit
            if found < limit:
                sys.setrecursionlimit(limit)
        self.outermost = not _inside.walking
        _inside.walking = True

    def __exit__(self, *_: object) -> None:
        if self.outermost:
            _inside.walking = False
        with _lock:
            _walks.remove(threading.get_ident())
            _restore_limit()


_NOTHING = nullcontext()
"""The context of a walk inside another one of its thread."""


def deep_recursion(limit: int = LIMIT) -> AbstractContextManager[None]:
    """Raise the recursion limit inside the context and put it back afterwards."""
    return _NOTHING if _inside.walking and limit <= LIMIT else _Deep(limit)
