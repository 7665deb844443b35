"""The measured page of single operators: what is slower than 0.9 of torch stands first, each row with a reason from the list."""

from __future__ import annotations

from pathlib import Path

from benchmarks.operators.reasons import REASONS, SLOW

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operator_speed.md"
CLEARLY_FASTER = 1.15
"""Ratio from which on a reason has nothing left to excuse, whatever the noise of a run."""


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| operator |")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def test_every_slow_operator_has_a_reason() -> None:
    first, *groups = PAGE.read_text().split("\n## ")[1:]
    rows = [row for group in groups for row in _rows(group)]
    assert len(rows) >= 700
    assert not [row[0] for row in rows if row[1] == "fails"]
    found = {row[0] for row in rows if float(row[3]) < SLOW}
    assert found == {row[0] for row in _rows(first)}
    assert found <= set(REASONS)
    assert {row[0]: row[4] for row in _rows(first)} == {name: REASONS[name] for name in found}


def test_no_reason_is_left_over() -> None:
    ratios = {row[0]: float(row[3]) for row in _rows(PAGE.read_text()) if len(row) >= 4}
    assert not [name for name in REASONS if ratios[name] >= CLEARLY_FASTER]
