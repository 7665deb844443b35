"""``vm.profile``: where the time of one function goes, kernel by kernel.

The function runs in the bytecode interpreter, so that every call can be timed; a kernel's time includes one call through
ctypes (about a microsecond). Work comes from the formulas that the compiler stored beside the kernels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ffi.abi import evaluate
from .interpreter.interpret import Interpreter
from .roofline import Roofline, machine_roofline


@dataclass(slots=True, frozen=True)
class CallRecord:
    """One call: ``kind`` is ``kernel`` or ``packed``; times in seconds, ``start`` from the beginning of the run."""

    name: str
    kind: str
    place: str
    start: float
    seconds: float
    flops: int
    moved: int


@dataclass(slots=True, frozen=True)
class ProfileRow:
    """Calls of one kernel from one place of the script; ``seconds`` is the mean of a run."""

    name: str
    place: str
    calls: int
    seconds: float
    share: float
    flops: int
    moved: int
    roofline: float

    @property
    def gflops(self) -> float:
        """10^9 floating-point operations per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """10^9 bytes of compulsory traffic per second."""
        return self.moved / self.seconds / 1e9 if self.seconds else 0.0


class Profile:
    """Rows, dearest first; ``str(profile)`` is a table, ``save_trace`` a timeline."""

    def __init__(
        self, function: str, runs: Sequence[Sequence[CallRecord]], wall: Sequence[float], peak: Roofline | None
    ) -> None:
        self.function = function
        self.runs = tuple([tuple(run) for run in runs])
        self.wall = tuple(wall)
        self.peak = peak
        self.rows = self._rows()

    @property
    def seconds(self) -> float:
        """Mean time of a run inside kernels and registered functions."""
        return sum([record.seconds for run in self.runs for record in run]) / len(self.runs)

    def _rows(self) -> tuple[ProfileRow, ...]:
        groups: dict[tuple[str, str], list[CallRecord]] = {}
        for run in self.runs:
            for record in run:
                groups.setdefault((record.name, record.place), []).append(record)
        total = self.seconds or 1.0
        rows = []
        for (name, place), records in groups.items():
            count = len(self.runs)
            seconds = sum([r.seconds for r in records]) / count
            flops, moved = sum([r.flops for r in records]) // count, sum([r.moved for r in records]) // count
            bound = self.peak.seconds(flops, moved) / seconds if seconds and self.peak else 0.0
            rows.append(ProfileRow(name, place, len(records) // count, seconds, seconds / total, flops, moved, bound))
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def __str__(self) -> str:
        head = ("kernel", "calls", "us", "share", "GFLOP/s", "GB/s", "of roofline", "from")
        cells = [head]
        for row in self.rows:
            worked = row.flops or row.moved
            cells.append(
                (row.name, str(row.calls), f"{row.seconds * 1e6:.1f}", f"{row.share:.1%}",
                 f"{row.gflops:.1f}" if row.flops else "-", f"{row.bandwidth:.1f}" if row.moved else "-",
                 f"{row.roofline:.0%}" if worked and self.peak else "-", row.place)
            )  # fmt: skip
        width = [max([len(line[k]) for line in cells]) for k in range(len(head))]
        lines = []
        for line in cells:
            parts = [
                line[k].ljust(width[k]) if k in (0, len(head) - 1) else line[k].rjust(width[k])
                for k in range(len(head))
            ]
            lines.append("  ".join(parts).rstrip())
        lines.append(
            f"{self.function}: {self.seconds * 1e6:.1f} us in kernels, mean of {len(self.runs)} runs{self._peak_text()}"
        )
        return "\n".join(lines)

    def _peak_text(self) -> str:
        peak = self.peak
        if peak is None:
            return ""
        return f"; roofline {peak.flops / 1e9:.0f} GFLOP/s ({peak.threads} threads), {peak.bandwidth / 1e9:.0f} GB/s"

    def trace(self) -> dict[str, Any]:
        """The last run in the Trace Event Format that Chrome's ``about:tracing`` and Perfetto read (times in microseconds)."""
        events = [
            {
                "name": r.name, "cat": r.kind, "ph": "X", "ts": r.start * 1e6, "dur": r.seconds * 1e6, "pid": 0, "tid": 0,
                "args": {"from": r.place, "flops": r.flops, "bytes": r.moved},
            }
            for r in self.runs[-1]
        ]  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"function": self.function}}

    def save_trace(self, path: str | Path) -> None:
        """Write ``trace()`` as JSON."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")


class ProfilingInterpreter(Interpreter):
    """An interpreter that writes down every call that leaves the bytecode."""

    def __init__(self, of: Interpreter) -> None:
        super().__init__(of.program, of.kernels, of.placement, of.constants)
        self.records: list[CallRecord] = []
        self.origin = 0.0

    def call_row(self, row: int, args: list[Any], depth: int) -> Any:
        """Call a row of the function table; kernels and registered functions are timed."""
        entry = self.program.table[row]
        if entry.kind not in ("kernel", "packed"):
            return super().call_row(row, args, depth)
        place = self.program.place(self.place)
        flops, moved = 0, 0
        if entry.kind == "kernel" and entry.name in self.program.costs:
            symbols = [int(v) for v in args[len(self.program.kernels[entry.name].params) :]]
            flops, moved = [evaluate(dim, symbols) for dim in self.program.costs[entry.name]]
        begin = time.perf_counter()
        result = super().call_row(row, args, depth)
        self.placement.device.sync()
        seconds = time.perf_counter() - begin
        self.records.append(CallRecord(entry.name, entry.kind, place, begin - self.origin, seconds, flops, moved))
        return result

    def record(self, name: str, args: tuple[Any, ...]) -> tuple[list[CallRecord], float]:
        """One run: its calls and its wall time in seconds."""
        self.records = []
        self.origin = time.perf_counter()
        self.run(name, args)
        return self.records, time.perf_counter() - self.origin


def profile(of: Interpreter, name: str, args: tuple[Any, ...], runs: int) -> Profile:
    """Run a function of an interpreter's program once to warm up and ``runs`` times with the clock; a device is waited for behind
    every kernel."""
    interpreter = ProfilingInterpreter(of)
    interpreter.record(name, args)
    recorded = [interpreter.record(name, args) for _ in range(runs)]
    return Profile(name, [r for r, _ in recorded], [w for _, w in recorded],
                   None if of.placement.own_memory else machine_roofline())  # fmt: skip
