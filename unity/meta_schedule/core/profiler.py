"""``Profiler``: where the time of a search goes, by name.

The loop of a search notes its parts ("begin", "search", "build", "run", "callbacks", "verdicts") with ``Profiler.timeit``. A part
inside a part, or beside one, counts as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...support.context_stack import ContextStack


class Profiler:
    """Adds up the seconds of parts while it is in force: ``with ms.Profiler() as profiler: ms.tune_tir(...)``."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    def __enter__(self) -> Profiler:
        _PROFILERS.push(self)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._add("Total", time.perf_counter() - self._start)
        _PROFILERS.pop()

    def _add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def get(self) -> dict[str, float]:
        """Seconds by name; "Total" once the profiler has ended."""
        return dict(self.seconds)

    def table(self) -> str:
        """The names with their seconds and shares, the longest first."""
        whole = self.seconds.get("Total") or sum(self.seconds.values()) or 1.0
        rows = sorted(self.seconds.items(), key=lambda item: -item[1])
        width = max([len(name) for name, _ in rows], default=0)
        return "\n".join([f"{name:{width}}  {seconds:9.3f} s  {seconds / whole:6.1%}" for name, seconds in rows])

    @staticmethod
    def current() -> Profiler | None:
        """The profiler in force."""
        return _PROFILERS.top

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Count the time of a ``with``, or of a function that it decorates, under a name."""
        found = _PROFILERS.top
        start = time.perf_counter()
        try:
            yield
        finally:
            if found is not None:
                found._add(name, time.perf_counter() - start)


_PROFILERS: ContextStack[Profiler] = ContextStack("profiler")

__all__ = ["Profiler"]
