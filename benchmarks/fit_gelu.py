"""Coefficients of the tail of the normal distribution in ``unity/op/nn/activations.py``: python -m benchmarks.fit_gelu

log(erfc(x / sqrt(2))) / x on [0, 6.5] by least squares whose weights are raised where the error is largest (Lawson 1961), each
error counted by what it adds to gelu.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import chebyshev, polynomial

END, DEGREE, ROUNDS = 6.5, 9, 60


def fitted() -> np.ndarray:
    """Coefficients, constant term first."""
    x = np.linspace(1e-4, END, 6000)
    tail = np.array([math.erfc(v / math.sqrt(2)) for v in x])
    wanted = np.log(tail) / x
    counts = x * tail * np.maximum(x, 1) + 1e-4 * x
    powers, weights = chebyshev.chebvander(2 * x / END - 1, DEGREE), np.ones_like(x)
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) * counts
        found = np.linalg.lstsq(powers * scale[:, None], wanted * scale, rcond=None)[0]
        error = np.abs((powers @ found - wanted) * counts)
        weights = weights * (error / error.max() + 1e-3)
        weights /= weights.max()
    made, power = np.zeros(1), np.ones(1)
    for coefficient in chebyshev.cheb2poly(found):
        made = polynomial.polyadd(made, coefficient * power)
        power = polynomial.polymul(power, np.array([-1, 2 / END]))
    return made


if __name__ == "__main__":
    print(fitted().tolist())
