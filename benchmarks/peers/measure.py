"""How it is measured: all runtimes of one workload in one process, outputs checked, bursts of calls in turn, medians.

The same for every runtime: a burst begins when the threads of the one before sleep (pools of threads spin for a while after their
last region, on the core that the next runtime needs), with one call that is not counted (its weights come back into cache, its
threads awake). With several threads unity is also measured with one, in the same turns: its ``alone`` seconds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

import unity

from .runtimes import RUNTIMES, Run
from .workloads import Workload


@dataclass(slots=True)
class Result:
    """One workload: seconds per call and to build by runtime; ``failed`` says why a runtime has none; ``alone`` is unity with one
    thread in the run with several, 0 where that was not measured."""

    workload: str
    group: str
    flops: int
    threads: int
    seconds: dict[str, float]
    build: dict[str, float]
    failed: dict[str, str]
    alone: float = 0.0

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def _array(value: Any) -> np.ndarray:
    while isinstance(value, (tuple, list)):
        value = value[0]
    return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


PAUSE = 2e-3
"""Seconds between two looks at what the other threads do."""
PATIENCE = 0.25
"""Seconds that a burst waits for them at most."""


def _quiet() -> None:
    """Return when the other threads of the process sleep: while this one does, the process uses next to no processor time."""
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - used < PAUSE / 10:
            return


def _burst(run: Run, inputs: tuple[torch.Tensor, ...], calls: int) -> float:
    """Seconds per call of a burst."""
    _quiet()
    run(*inputs)
    return _time(run, inputs, calls)


def _time(run: Run, inputs: tuple[torch.Tensor, ...], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        run(*inputs)
    return (time.perf_counter() - begin) / calls


def measure(workload: Workload, names: Sequence[str], threads: int, rounds: int, budget: float) -> Result:
    """Build and time one workload. ``budget`` is about how many seconds each runtime may take for its calls; one whose first
    call takes longer is not called again."""
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    found = Result(workload.name, workload.group, workload.flops, threads, {}, {}, {})
    with torch.no_grad():
        model, inputs = workload.make()
        model = model.eval()
        expected = _array(model(*inputs))
        ready: dict[str, tuple[Run, int]] = {}
        for runtime in RUNTIMES:
            if runtime.name not in names or not runtime.installed:
                continue
            try:
                begin = time.perf_counter()
                run = runtime.build(model, inputs, threads)
                called = time.perf_counter()
                got = _array(run(*inputs))
                first = time.perf_counter() - called
                found.build[runtime.name] = time.perf_counter() - begin
                scale = float(np.abs(expected).max()) or 1.0
                np.testing.assert_allclose(got, expected, rtol=workload.tolerance, atol=workload.tolerance * scale)
            except Exception as problem:  # a peer that fails is a row of the table
                lines = str(problem).strip().splitlines() or [""]
                found.failed[runtime.name] = f"{type(problem).__name__}: {lines[0][:120]}"
                continue
            if first > budget:  # one call is what there is time for
                found.seconds[runtime.name] = first
                continue
            once = min([_time(run, inputs, 1) for _ in range(2)])
            calls = max(1, min(10_000, int(budget / rounds / max(once, 1e-7))))
            ready[runtime.name] = (run, calls)
        samples: dict[str, list[float]] = {name: [] for name in ready}
        alone: list[float] = []
        for _ in range(rounds):
            for name, (run, calls) in ready.items():
                samples[name].append(_burst(run, inputs, calls))
                if name == "unity" and threads > 1:
                    unity.set_num_threads(1)
                    alone.append(_burst(run, inputs, calls))
                    unity.set_num_threads(threads)
        found.seconds |= {name: statistics.median(times) for name, times in samples.items()}
        found.alone = statistics.median(alone) if alone else 0.0
    return found
