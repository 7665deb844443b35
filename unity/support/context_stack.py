"""``ContextStack``: what is in force inside a ``with``: targets, pass contexts, progress, collectors. One mechanism for all.

Each thread and each asynchronous task has its own. Not here: the values, which are entered by the files that define them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

_T = TypeVar("_T")


class ContextStack(Generic[_T]):
    """Values entered by ``with``, the innermost last."""

    __slots__ = ("_values",)

    def __init__(self, name: str) -> None:
        self._values: ContextVar[tuple[_T, ...]] = ContextVar(name, default=())

    @property
    def values(self) -> tuple[_T, ...]:
        """All values in force."""
        return self._values.get()

    @property
    def top(self) -> _T | None:
        """The innermost value; None where there is none."""
        values = self._values.get()
        return values[-1] if values else None

    def push(self, value: _T) -> None:
        """Enter a value: for ``__enter__``."""
        self._values.set((*self._values.get(), value))

    def pop(self) -> None:
        """Leave the innermost value: for ``__exit__``."""
        self._values.set(self._values.get()[:-1])

    @contextmanager
    def inside(self, value: _T) -> Iterator[_T]:
        """A context in which a value is in force."""
        self.push(value)
        try:
            yield value
        finally:
            self.pop()
