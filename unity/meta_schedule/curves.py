"""A plot of a tuning: for each task the gain of the best candidate so far over its trials, drawn as SVG from a database.

Here: the curves of a database, and their picture. Not here: the table (`report.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from ..ir.stmt import Block
from ..ir.walk import collect
from ..support.errors import using
from .database import Database
from .database.record import TRIAL, TuningRecord, fastest

WIDTH, HEIGHT, MARGIN = 360, 150, 46
"""Points of the picture of one task, and around its curve."""
COLUMNS = 2
"""Tasks side by side."""


@dataclass(slots=True, frozen=True)
class Curve:
    """A task: a name from its blocks and checksum, the seconds of the default build, and the best seconds after each trial, which
    are infinite as long as none ran."""

    name: str
    default: float
    best: list[float]

    @property
    def gains(self) -> list[float]:
        """Time of the default by that of the best so far, the default included."""
        return [self.default / min(self.default, secs) for secs in self.best]


def curves_of(database: Database) -> list[Curve]:
    """The curves of a database, one for each program and machine, in the order of their first trials."""
    tasks: dict[tuple[str, str], list[TuningRecord]] = {}
    for record in database.get_all_tuning_records():
        if record.verdict == TRIAL:
            tasks.setdefault((record.workload.shash, record.features), []).append(record)
    return [_curve(records) for records in tasks.values()]


def _curve(records: Sequence[TuningRecord]) -> Curve:
    best: list[float] = []
    for record in records:
        best.append(min([record.seconds, *best[-1:]]))
    workload = records[0].workload
    sums = [block.name for block in collect(workload.func.body, Block) if block.init is not None]
    blocks = sums or [block.name for block in collect(workload.func.body, Block) if block.iter_vars]
    default = min([fastest(record.default_secs) for record in records])
    return Curve(f"{'+'.join(blocks)} {workload.shash[:8]}", default, best)


def plot(database: Database, path: str | Path) -> int:
    """Draw the curves of a database into an SVG file; returns how many tasks it shows. Tasks whose default never ran have none.

    Raises ScheduleError E461 for a file that cannot be written.
    """
    curves = [curve for curve in curves_of(database) if math.isfinite(curve.default)]
    with using(path):
        Path(path).write_text(picture(curves), encoding="utf-8")
    return len(curves)


def picture(curves: Sequence[Curve]) -> str:
    """The text of an SVG picture of curves."""
    rows = -(-len(curves) // COLUMNS)
    size = f'width="{WIDTH * COLUMNS}" height="{HEIGHT * max(1, rows)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    for index, curve in enumerate(curves):
        down, right = divmod(index, COLUMNS)
        parts.append(f'<g transform="translate({right * WIDTH} {down * HEIGHT})">{_panel(curve)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(curve: Curve) -> str:
    """Axes, the line of the default, and the steps of one task."""
    gains = curve.gains
    top = max(1.1, *gains)
    left, right, upper, lower = MARGIN, WIDTH - 12, 24, HEIGHT - 26
    across = (right - left) / max(1, len(gains))
    heights = [f"{lower - (lower - upper) * (gain - 1) / (top - 1):.1f}" for gain in gains]
    steps = [f"H{left + k * across:.1f}V{height}" for k, height in enumerate(heights)]
    texts = [
        (left, 14, "start", f"{curve.name}: {curve.default * 1e6:.1f} us by default, x {gains[-1]:.2f}"),
        (left - 6, upper + 4, "end", f"x {top:.2f}"),
        (left - 6, lower + 4, "end", "x 1"),
        (right, lower + 16, "end", f"{len(gains)} trials"),
    ]
    return "".join([
        f'<path d="M{left} {upper}V{lower}H{right}" fill="none" stroke="#999"/>',
        f'<path d="M{left} {lower}{"".join(steps)}H{right}" fill="none" stroke="#06c" stroke-width="2"/>',
        *[f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>' for x, y, anchor, text in texts],
    ])  # fmt: skip


__all__ = ["Curve", "curves_of", "picture", "plot"]
