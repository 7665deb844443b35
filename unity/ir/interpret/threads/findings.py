"""Findings of the run of a kernel (errors of the program, collected) and its traffic per access site."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....support.errors import InterpreterError, Note
from ....support.source import Span
from .lanes import ThreadId


class Finding(InterpreterError):
    """A fault found while a kernel ran: its first occurrence, and how often it happened.

    ``kind`` is "race", "barrier", "bounds", "uninitialised", "collective", "alignment"; ``buffer``, ``cell`` and ``threads``
    say where and who, as far as they apply.
    """

    def __init__(
        self,
        code: str,
        kind: str,
        message: str,
        span: Span | None,
        notes: list[Note] | None = None,
        help: str | None = None,
        buffer: str | None = None,
        cell: tuple[int, ...] | None = None,
        threads: tuple[ThreadId, ...] = (),
    ) -> None:
        super().__init__(code, message, span, notes or [], help)
        self.kind, self.buffer, self.cell, self.threads = kind, buffer, cell, threads
        self.count = 1

    @property
    def line(self) -> int | None:
        """Line of the script, where it is known."""
        return self.span.line if self.span is not None else None

    def __str__(self) -> str:
        text = self.render()
        return text if self.count == 1 else f"{text}\nnote: {self.count} times in all"


@dataclass(slots=True, eq=False)
class Site:
    """One access in the program text with the traffic it caused.

    ``requests`` counts warps executing it, ``transactions`` what the memory did for them (32-byte segments of global memory,
    passes over the banks of shared memory), ``ideal`` the least number that could have served the same bytes, ``worst`` the
    largest number for one request. ``collective`` accesses are made by a warp as a whole.
    """

    number: int
    buffer: str
    kind: str
    scope: str
    span: Span | None
    atomic: bool = False
    collective: bool = False
    requests: int = 0
    transactions: int = 0
    ideal: int = 0
    worst: int = 0

    @property
    def line(self) -> int | None:
        """Line of the script, where it is known."""
        return self.span.line if self.span is not None else None

    @property
    def excess(self) -> int:
        """Transactions beyond the least number."""
        return self.transactions - self.ideal

    def __str__(self) -> str:
        prefix = f"line {self.line}: " if self.line is not None else ""
        what = "bank passes" if self.scope.startswith("shared") else "32-byte transactions"
        return (
            f"{prefix}{self.kind} of {self.buffer} ({self.scope}): {self.transactions} {what} for {self.requests} requests,"
            f" {self.ideal} would do, worst request {self.worst}"
        )


@dataclass(slots=True)
class Log:
    """Findings of one run, joined by place, and the access sites; ``traffic``: their traffic is counted."""

    traffic: bool = True
    findings: dict[object, Finding] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    launches: int = 0
    barriers: int = 0

    def site(
        self, buffer: str, kind: str, scope: str, span: Span | None, atomic: bool = False, collective: bool = False
    ) -> Site:
        """A new access site."""
        made = Site(len(self.sites), buffer, kind, scope, span, atomic, collective)
        self.sites.append(made)
        return made

    def add(self, key: object, finding: Finding, count: int) -> None:
        """Record a finding that is not known."""
        self.findings[key] = finding
        finding.count = count

    def known(self, key: object, count: int) -> bool:
        """Count a finding that is known already; False when it is new."""
        found = self.findings.get(key)
        if found is not None:
            found.count += count
        return found is not None
