"""Fits the polynomial coefficients of `unity/target/llvm/math/coefficients.py` and prints that file.

Each row names a function g, an interval and the degree for float32 and float64. g is interpolated at Chebyshev nodes in
high precision, which is within a small factor of the best polynomial; the degrees leave room for that factor.
Run: ``python benchmarks/fit_math_polynomials.py > unity/target/llvm/math/coefficients.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 60

Function = Callable[[mp.mpf], mp.mpf]


def chebyshev_fit(g: Function, low: float, high: float, degree: int) -> list[mp.mpf]:
    """Coefficients, constant term first, of the polynomial equal to g at the Chebyshev nodes of [low, high]."""
    count = degree + 1
    low_mp, high_mp = mp.mpf(low), mp.mpf(high)
    nodes = [
        (low_mp + high_mp) / 2 + (high_mp - low_mp) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count))
        for i in range(count)
    ]
    matrix = mp.matrix(count, count)
    right = mp.matrix(count, 1)
    for i, node in enumerate(nodes):
        right[i] = g(node)
        for j in range(count):
            matrix[i, j] = node**j
    solution = mp.lu_solve(matrix, right)
    return [solution[i] for i in range(count)]


def largest_error(g: Function, coefficients: list[float], low: float, high: float, weight: Function) -> float:
    """Largest weighted difference between g and the polynomial on a grid."""
    worst = mp.mpf(0)
    for i in range(201):
        x = mp.mpf(low) + (mp.mpf(high) - mp.mpf(low)) * i / 200
        value = mp.polyval([mp.mpf(c) for c in reversed(coefficients)], x)
        worst = max(worst, abs((value - g(x)) * weight(x)))
    return float(worst)


def _series(g: Function, at_zero: mp.mpf) -> Function:
    """g with its limit at zero filled in (and evaluated with a tiny step where the formula cancels)."""
    return lambda x: at_zero if abs(x) < mp.mpf(10) ** -40 else g(x)


def _root(g: Function) -> Function:
    """A function of z = x*x given as a function of x."""
    return lambda z: g(mp.sqrt(z))


# name: (meaning, g, low, high, degree float32, degree float64, weight of the error in the final result)
third, fifth = mp.mpf(1) / 3, mp.mpf(1) / 5
ROWS: dict[str, tuple[str, Function, float, float, int | None, int | None, Function]] = {
    "EXP": (
        "exp(r) = 1 + r + r^2 * EXP(r), |r| <= ln(2)/2",
        _series(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf(1) / 2), -0.348, 0.348, 4, 10, lambda r: r,
    ),
    "LOG": (
        "log(1 + f) = f + f^2 * LOG(f), 1 + f within [sqrt(1/2), sqrt(2)]",
        _series(lambda f: (mp.log1p(f) - f) / f**2, -mp.mpf(1) / 2), -0.2930, 0.4143, 8, None, lambda f: f,
    ),
    "LOG_RATIO": (
        "log((1 + s) / (1 - s)) = s * (2 + z * LOG_RATIO(z)), z = s^2",
        _root(_series(lambda s: (mp.log((1 + s) / (1 - s)) / s - 2) / s**2, 2 * third)), 0.0, 0.02945, None, 6, lambda z: z,
    ),
    "LOG_RATIO_SHORT": (
        "the same for results that are rounded to float32",
        _root(_series(lambda s: (mp.log((1 + s) / (1 - s)) / s - 2) / s**2, 2 * third)),
        0.0, 0.02945, None, 3, lambda z: z,
    ),
    "LOG_TAIL": (
        "log((1 + s) / (1 - s)) = 2 * s * (1 + z / 3 + z^2 * LOG_TAIL(z)), z = s^2",
        _root(_series(lambda s: (mp.log((1 + s) / (1 - s)) / (2 * s) - 1 - s**2 / 3) / s**4, fifth)),
        0.0, 0.02945, None, 8, lambda z: z**2,
    ),
    "SIN": (
        "sin(r) = r + r * z * SIN(z), z = r^2, |r| <= pi/4",
        _root(_series(lambda r: (mp.sin(r) / r - 1) / r**2, -mp.mpf(1) / 6)), 0.0, 0.63, 3, 6, lambda z: z,
    ),
    "COS": (
        "cos(r) = 1 - z / 2 + z^2 * COS(z), z = r^2, |r| <= pi/4",
        _root(_series(lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, mp.mpf(1) / 24)), 0.0, 0.63, 3, 6, lambda z: z**2,
    ),
    "ATAN": (
        "atan(x) = x + x * z * ATAN(z), z = x^2, |x| <= tan(pi/8)",
        _root(_series(lambda x: (mp.atan(x) / x - 1) / x**2, -third)), 0.0, 0.1717, 4, 11, lambda z: z,
    ),
    "ASIN": (
        "asin(x) = x + x * z * ASIN(z), z = x^2, |x| <= 1/2",
        _root(_series(lambda x: (mp.asin(x) / x - 1) / x**2, mp.mpf(1) / 6)), 0.0, 0.25, 5, 13, lambda z: z,
    ),
    "TANH": (
        "tanh(x) = x + x * z * TANH(z), z = x^2, |x| <= 0.65",
        _root(_series(lambda x: (mp.tanh(x) / x - 1) / x**2, -third)), 0.0, 0.4226, 6, None, lambda z: z,
    ),
    "ERF": (
        "erf(x) = x + x * ERF(z), z = x^2, |x| <= 1",
        _root(_series(lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1)), 0.0, 1.0, 6, 12, lambda z: mp.mpf(1),
    ),
    "ERFC_LOG": (
        "1 - erf(x) = exp(x * ERFC_LOG(x)), 1 <= x; the polynomial falls without end beyond 3",
        lambda x: mp.log(mp.erfc(x)) / x, 0.95, 3.0, 6, None, lambda x: x * mp.erfc(x),
    ),
    "ERFC": (
        "1 - erf(x) = exp(-x^2) * ERFC(u), u = 1 / (1 + x), 1 <= x <= 6",
        lambda u: mp.erfc(1 / u - 1) * mp.exp((1 / u - 1) ** 2), 0.14, 0.5, None, 18,
        lambda u: mp.exp(-((1 / u - 1) ** 2)),
    ),
}  # fmt: skip

HEADER = '''"""Polynomial coefficients of the math library, constant term first, per float type.

Printed by ``benchmarks/fit_math_polynomials.py``; edit that file, not this one. The comment above each row says what the
polynomial stands for and the largest error of the final result that comes from it (absolute or relative, as fits).
"""

from __future__ import annotations

POLYNOMIALS: dict[str, dict[str, tuple[float, ...]]] = {'''


def main() -> None:
    """Print the coefficients file."""
    print(HEADER)
    for name, (meaning, g, low, high, degree32, degree64, weight) in ROWS.items():
        print(f"    # {meaning}")
        entries = []
        for kind, degree in (("f32", degree32), ("f64", degree64)):
            if degree is None:
                continue
            top = low
            fitted = chebyshev_fit(g, top, high, degree)
            values = [float(np.float32(float(c))) if kind == "f32" else float(c) for c in fitted]
            error = largest_error(g, values, top, high, weight)
            print(f"    # {kind}: degree {degree}, error {error:.1e}")
            entries.append((kind, values))
        print(f'    "{name}": {{')
        for kind, values in entries:
            print(f'        "{kind}": (')
            for value in values:
                print(f"            {value!r},")
            print("        ),")
        print("    },")
    print("}")


if __name__ == "__main__":
    main()
