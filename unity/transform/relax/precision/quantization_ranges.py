"""Ranges of data for 8-bit integers, from what was seen on calibration inputs: which part of it the 255 steps shall cover.

``minmax``: all of it. ``percentile``: all but the outermost 1 in 10,000 elements on each side. ``mse``: the part with the least
square error of rounding and clipping. The latter two look at samples, at most ``SAMPLE`` elements of each site and input.
Not here: how data is observed or quantised (``quantize_products.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....support.errors import PassError

SAMPLE = 1 << 14
TAIL = 1e-4
"""Share of elements on each side that ``percentile`` leaves out."""
SHARES = np.linspace(1.0, 0.3, 29)
"""Shares of the whole range that ``mse`` tries."""
STEPS = 255


@dataclass(slots=True, frozen=True)
class Grid:
    """An affine map of float32 to 0..255: ``round(x / scale) + zero``."""

    scale: float
    zero: int

    @classmethod
    def of(cls, low: float, high: float) -> Grid:
        """The map of a range that holds zero."""
        scale = max((high - low) / STEPS, float(np.finfo("float32").tiny))
        return cls(scale, int(np.clip(np.rint(-low / scale), 0, STEPS)))

    def rounded(self, data: np.ndarray) -> np.ndarray:
        """The values that the data stands for once it is quantised."""
        whole = np.clip(np.rint(data / self.scale) + self.zero, 0, STEPS)
        return (whole - self.zero) * self.scale  # type: ignore[no-any-return]


@dataclass(slots=True)
class Seen:
    """Statistics of the data of a site."""

    low: float = 0.0
    high: float = 0.0
    samples: list[np.ndarray] = field(default_factory=list)

    def add(self, low: float, high: float, data: Any = None) -> None:
        """The least and the largest element on one more input; ``data`` itself where samples are wanted.

        Raises PassError E987 for data without a finite range.
        """
        if not (np.isfinite(low) and np.isfinite(high)) or low > high:
            raise PassError("E987", "the data of a product is empty, infinite or NaN on a calibration input")
        self.low, self.high = min(self.low, low), max(self.high, high)
        if data is not None:
            flat = np.asarray(data).reshape(-1)
            self.samples.append(flat[:: max(1, flat.size // SAMPLE) | 1].astype("float64"))


def _minmax(seen: Seen) -> tuple[float, float]:
    return seen.low, seen.high


def _percentile(seen: Seen) -> tuple[float, float]:
    low, high = np.quantile(np.concatenate(seen.samples), (TAIL, 1 - TAIL))
    return min(float(low), 0.0), max(float(high), 0.0)


def _mse(seen: Seen) -> tuple[float, float]:
    data = np.concatenate(seen.samples)
    errors = [np.square(Grid.of(seen.low * s, seen.high * s).rounded(data) - data).sum() for s in SHARES]
    best = float(SHARES[int(np.argmin(errors))])
    return seen.low * best, seen.high * best


METHODS: dict[str, Callable[[Seen], tuple[float, float]]] = {"minmax": _minmax, "percentile": _percentile, "mse": _mse}
"""Ways to choose a range by name."""


def range_method(name: str) -> Callable[[Seen], tuple[float, float]]:
    """The way to choose ranges of this name. Raises PassError E987."""
    if name not in METHODS:
        raise PassError("E987", f"unknown way to choose ranges: {name!r}", help=f"known: {', '.join(METHODS)}")
    return METHODS[name]


def ranges_of(seen: Sequence[Seen], method: str = "mse") -> list[tuple[float, float]]:
    """The range of each site."""
    choose = range_method(method)
    return [choose(site) for site in seen]
