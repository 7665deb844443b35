"""Interrupts held back while foreign code holds state that an exception would tear: nothing here knows what that code is.

A ``KeyboardInterrupt`` can rise between any two bytecodes of the main thread, also between a C call that frees an object and
the note that it was freed. Within ``defer_interrupts`` the request is only written down; it is carried out at the end.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """SIGINT waits until the block has ended, then its handler runs. Only the main thread is ever interrupted."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if waiting:
            previous(*waiting[-1])
