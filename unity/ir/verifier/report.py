"""Collecting violations with the path that leads to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...support.errors import Note, VerifyError
from ...support.source import Span

MAX_ERRORS = 100
"""A broken module is reported with at most this many violations."""


class Report:
    """Violations found so far and where the walk stands."""

    def __init__(self) -> None:
        self.errors: list[VerifyError] = []
        self.path: list[str] = []

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """One step down the path for the time of the context."""
        self.path.append(step)
        try:
            yield
        finally:
            self.path.pop()

    def add(self, code: str, message: str, at: object, help: str | None = None) -> None:
        """Record a violation at the present path, and at the place of a node."""
        if len(self.errors) < MAX_ERRORS:
            place = at if isinstance(at, Span) else getattr(at, "span", None)
            notes = [Note(f"in {'.'.join(self.path)}")] if self.path else []
            self.errors.append(VerifyError(code, message, place, notes, help))
