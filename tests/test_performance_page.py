"""The measured page: nothing that is measured is slower than the slowest library, but for what is listed here."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
EXCEPTIONS: frozenset[str] = frozenset()
"""Names of workloads that are slower than every library."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def _seconds(cell: str) -> float | None:
    match = re.fullmatch(r"([\d.]+) (us|ms|s)", cell)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _slowest() -> set[str]:
    """Workloads on which unity takes longer than every library that ran."""
    found, rows, runtimes = set(), 0, 0
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[:2] == ["", "unity"]:
            runtimes = cells.index("vs torch") - 1
        elif line.startswith("| ") and runtimes:
            own, *peers = [_seconds(cell) for cell in cells[1 : 1 + runtimes]]
            known = [seconds for seconds in peers if seconds is not None]
            assert own is not None and known, line
            rows += 1
            if own > max(known):
                found.add(re.sub(r" \(.*\)", "", cells[0]))
    assert rows >= 20
    return found


def test_nothing_is_slower_than_the_slowest_library() -> None:
    assert _slowest() == EXCEPTIONS
