"""Times on a device by its events, several ways of doing the same in turn. Needs `unity/ffi/cuda` alone."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Mapping
from ctypes import c_float
from typing import Any

Run = Callable[[], Any]


class Clock:
    """Seconds between two events on the current stream of a context, which is torch's where torch uses the device."""

    def __init__(self, context: Any) -> None:
        self.context = context
        with context.current("the clock"):
            self.events = [context.driver.get("cuEventCreate", 0) for _ in range(2)]

    def seconds(self, run: Run, calls: int) -> float:
        """Seconds of one of so many calls, one behind the other."""
        context, (start, end), taken = self.context, self.events, c_float()
        with context.current("the clock"):
            context.driver.call("cuEventRecord", start, context.stream())
            for _ in range(calls):
                run()
            context.driver.call("cuEventRecord", end, context.stream())
            context.driver.call("cuEventSynchronize", end)
            context.driver.call("cuEventElapsedTime", ctypes.byref(taken), start, end)
        context.raise_failed_checks()
        return taken.value / 1e3 / calls


def interleaved(clock: Clock, runs: Mapping[str, Run], budget: float, rounds: int = 11) -> dict[str, float]:
    """Median seconds of a call of each: all in turn in each round, about ``budget`` seconds together."""
    once = {name: max(clock.seconds(run, 1), 1e-7) for name, run in runs.items()}  # also a first call
    once = {name: max(clock.seconds(run, 1), 1e-7) for name, run in runs.items()}
    calls = {name: max(1, min(1000, int(budget / rounds / len(runs) / once[name]))) for name in runs}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(clock.seconds(run, calls[name]))
    return {name: statistics.median(values) for name, values in taken.items()}
