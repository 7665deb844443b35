"""The progress of a tuning while it runs, and its table at the end. Not here: what is measured (`tuning_loop.py`)."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from ..support.progress import WIPE, wanted
from .task_record import TaskRecord


@dataclass(slots=True, frozen=True)
class Row:
    """A task at the end: seconds of the default and of what builds will take, trials, a remark, candidates that failed."""

    name: str
    weight: float
    default: float
    best: float
    trials: int
    remark: str = ""
    failures: int = 0

    @property
    def gain(self) -> float:
        """Time of the default by that of the best."""
        return self.default / self.best if math.isfinite(self.best) else 1.0


class TuneProgress:
    """A line on a terminal: tasks, trials, the time of all tasks, the gain over the default, the expected end."""

    def __init__(self, tasks: Sequence[TaskRecord], trials: int, stream: TextIO | None = None) -> None:
        self.tasks, self.trials = tasks, trials
        self.stream = stream or sys.stderr
        self.shown = wanted(self.stream)
        self.start = time.monotonic()
        self.before = sum([task.trials for task in tasks])

    def __enter__(self) -> TuneProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.stream.write(WIPE)
            self.stream.flush()

    def line(self) -> str:
        """The line as it stands."""
        done = sum([task.trials for task in self.tasks]) - self.before
        known = [task for task in self.tasks if math.isfinite(task.default_secs)]
        default, best = [
            sum([t.task_weight * getattr(t, name) for t in known]) for name in ("default_secs", "best_secs")
        ]
        closed = len([task for task in self.tasks if task.is_terminated])
        text = f"tuning: {len(self.tasks)} tasks ({closed} ended), trial {done} of {self.trials}"
        if best > 0:
            text += f", {best * 1e6:.1f} us, {default / best:.2f} times as fast as the default"
        if done:
            spent = time.monotonic() - self.start
            text += f", {spent * max(0, self.trials - done) / done:.0f} s left"
        return text

    def show(self) -> None:
        """Write the line anew."""
        if self.shown:
            self.stream.write(f"{WIPE}{self.line()}")
            self.stream.flush()

    def say(self, text: str) -> None:
        """Write a sentence of its own."""
        self.stream.write(f"{WIPE if self.shown else ''}{text}\n")
        self.stream.flush()


def table(rows: Sequence[Row], others: dict[str, str] | None = None) -> str:
    """The table at the end: task, weight, default, best, gain, share of the time that all tasks take now, trials, remark."""
    total = sum([row.weight * row.best for row in rows if math.isfinite(row.best)])
    cells = [("task", "weight", "default us", "best us", "gain", "share", "trials", "")]
    for row in rows:
        finite = math.isfinite(row.best)
        share = f"{row.weight * row.best / total:.1%}" if finite and total else "-"
        default, best = [f"{secs * 1e6:.1f}" if math.isfinite(secs) else "-" for secs in (row.default, row.best)]
        remark = ", ".join(filter(None, [row.remark, f"{row.failures} failed" if row.failures else ""]))
        cells.append((row.name, f"{row.weight:g}", default, best, f"{row.gain:.2f}", share, str(row.trials), remark))
    widths = [max([len(line[k]) for line in cells]) for k in range(7)]
    lines = []
    for line in cells:
        numbers = [cell.rjust(width) for cell, width in zip(line[1:7], widths[1:])]
        lines.append("  ".join([line[0].ljust(widths[0]), *numbers, line[7]]).rstrip())
    before = sum([row.weight * row.default for row in rows if math.isfinite(row.default)])
    if total:
        lines.append(
            f"all tasks: {before * 1e6:.1f} us by default, {total * 1e6:.1f} us now, {before / total:.2f} times as fast"
        )
    lines += [f"{name}: not tuned: {reason}" for name, reason in (others or {}).items()]
    return "\n".join(lines)


__all__ = ["Row", "TuneProgress", "table"]
