"""How it is measured: both in one process on one thread, outputs checked, calls interleaved, medians of processor time."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import unity

from .case import Case, Inputs, seed

_SMALL_FLOATS = (torch.float16, torch.bfloat16)
_EQUALS = 1e-3
"""Share of indices that may differ: equal elements may change places."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call, or why there are none; ``rows`` are the graph operators the torch function became."""

    case: str
    group: str
    size: str
    ours: float
    torch: float
    rows: tuple[str, ...]
    failed: str = ""

    @property
    def ratio(self) -> float:
        """How many times faster than torch."""
        return self.torch / self.ours if self.ours else 0.0


class _Model(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.fn(*inputs)


def _differs(got: Any, expected: Any) -> str:
    """What is wrong with a result, or nothing."""
    if not isinstance(expected, torch.Tensor):
        found = (
            [_differs(g, e) for g, e in zip(got, expected)]
            if len(got) == len(expected)
            else ["other number of results"]
        )
        return next((text for text in found if text), "")
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype} of {tuple(got.shape)} instead of {expected.dtype} of {tuple(expected.shape)}"
    if not expected.is_floating_point():
        return "" if float((got != expected).double().mean()) <= _EQUALS else "other values"
    tolerance = 2e-2 if expected.dtype in _SMALL_FLOATS else 1e-3
    near = np.isclose(got.double(), expected.double(), rtol=tolerance, atol=tolerance / 10, equal_nan=True)
    return "" if near.all() else f"{(~near).sum()} of {near.size} values differ"


def _time(run: Callable[..., Any], inputs: Inputs, calls: int) -> float:
    begin = time.process_time()
    for _ in range(calls):
        run(*inputs)
    return (time.process_time() - begin) / calls


def measure(case: Case, size: str, budget: float) -> Timing:
    """Build and time one case, for about ``budget`` seconds of calls."""
    seed()
    inputs = getattr(case, size)()
    model = _Model(case.fn).eval()
    try:
        with torch.no_grad():
            expected = model(*inputs)
            compiled = unity.compile(model, example_inputs=inputs)
            wrong = _differs(compiled(*inputs), expected)
            if wrong:
                return Timing(case.name, case.group, size, 0.0, 0.0, (), wrong)
            once = max(_time(model, inputs, 2) + _time(compiled, inputs, 2), 1e-6)
            rounds = max(5, min(25, int(budget / once)))
            calls = max(1, int(budget / once / rounds))
            samples = [(_time(model, inputs, calls), _time(compiled, inputs, calls)) for _ in range(rounds)]
    except Exception as problem:  # what fails is a row of the table
        first = (str(problem).strip().splitlines() or [""])[0]
        return Timing(case.name, case.group, size, 0.0, 0.0, (), f"{type(problem).__name__}: {first[:120]}")
    theirs, ours = [statistics.median(column) for column in zip(*samples)]
    rows = tuple(sorted(set(re.findall(r"R\.[\w.]+(?=\()", compiled.script()))))
    return Timing(case.name, case.group, size, ours, theirs, rows)
