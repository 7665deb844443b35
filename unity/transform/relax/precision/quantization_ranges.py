"""Ranges of data for 8-bit integers, from what was seen on calibration inputs: which part of it the 255 steps shall cover.

The part with the least square error of rounding and clipping, on at most ``SAMPLE`` elements of each site and input.
Not here: how data is observed or quantised (``quantize_products.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....support.errors import PassError

SAMPLE = 1 << 14
SHARES = np.linspace(1.0, 0.3, 29)
"""Shares of the whole range that are tried."""
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

    def add(self, low: float, high: float, data: Any) -> None:
        """The least and the largest element on one more input, and ``data`` itself. Raises PassError E987 for data without a
        finite range."""
        if not (np.isfinite(low) and np.isfinite(high)) or low > high:
            raise PassError("E987", "the data of a product is empty, infinite or NaN on a calibration input")
        self.low, self.high = min(self.low, low), max(self.high, high)
        flat = np.asarray(data).reshape(-1)
        self.samples.append(flat[:: max(1, flat.size // SAMPLE) | 1].astype("float64"))

    def span(self) -> tuple[float, float]:
        """The range with the least square error."""
        data = np.concatenate(self.samples)
        errors = [np.square(Grid.of(self.low * s, self.high * s).rounded(data) - data).sum() for s in SHARES]
        best = float(SHARES[int(np.argmin(errors))])
        return self.low * best, self.high * best
