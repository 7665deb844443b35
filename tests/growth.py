"""Growth of CPU time with size: what no machine's speed decides. A busy one may spoil a measurement, not three in a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def cpu_seconds(run: Callable[[], Any]) -> float:
    """CPU time of this process."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def assert_grows_at_most(limit: float, short: Callable[[], Any], long: Callable[[], Any]) -> None:
    """``long`` takes at most so many times what ``short`` takes."""
    ratios: list[float] = []
    while len(ratios) < 3 and (not ratios or ratios[-1] >= limit):
        ratios.append(cpu_seconds(long) / cpu_seconds(short))
    assert ratios[-1] < limit, ratios
