"""The table of a build: which kernel computes each product and convolution, how long it takes, and why.

Here the rows and their text; how they come about: ``frontend/choose/choose.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..support.errors import VMError


@dataclass(slots=True, frozen=True)
class Choice:
    """One row of the table. ``seconds`` is nan where a candidate was not run; ``chosen``: it computes the call."""

    op: str
    shape: str
    candidate: str
    seconds: float
    reason: str
    chosen: bool


class Choices:
    """The table of a build: iterate over its rows, print it. Rows of the default are estimated when first asked for."""

    def __init__(self, make: Callable[[], tuple[Choice, ...]]) -> None:
        self._make = make
        self._rows: tuple[Choice, ...] | None = None

    @property
    def rows(self) -> tuple[Choice, ...]:
        """All rows."""
        if self._rows is None:
            self._rows = self._make()
        return self._rows

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = [("", "operator", "shape", "candidate", "microseconds", "reason")]
        for row in self.rows:
            took = "-" if row.seconds != row.seconds else f"{row.seconds * 1e6:.1f}"
            table.append(
                ("*" if row.chosen else "", row.op.removeprefix("R."), row.shape, row.candidate, took, row.reason)
            )
        widths = [max([len(line[k]) for line in table]) for k in range(5)]
        lines = [
            "  ".join([*[cell.ljust(width) for cell, width in zip(line, widths)], line[5]]).rstrip() for line in table
        ]
        return "\n".join(lines)


def explain_choices(compiled: Any) -> str:
    """Return the table of kernel choices of a build as text: operator, shape, candidate, microseconds, reason; ``*`` marks the
    choice.

    ``compiled``: the result of ``unity.compile``. A loaded file has no table, and the text is empty. Raises VMError E695.
    """
    executable = getattr(compiled, "executable", compiled)
    if not hasattr(executable, "choices"):
        raise VMError(
            "E695", f"explain_choices takes what unity.compile gave, got {type(compiled).__name__}",
            help="unity.explain_choices(unity.compile(mod))",
        )  # fmt: skip
    return "" if executable.choices is None else str(executable.choices)
