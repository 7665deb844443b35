"""Error of a build with reduced precision against float32: on the example or calibration inputs.

Invariant: compared in float64, elements that are NaN or infinite on both sides in the same way count as equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.tensor import Tensor


@dataclass(slots=True, frozen=True)
class Accuracy:
    """Largest absolute error, relative error (norm of the difference over the norm of the reference) and cosine, over all
    results. ``precision`` is what was asked for, ``elements`` how many numbers were compared."""

    precision: str
    max_abs: float
    relative: float
    cosine: float
    elements: int

    def __str__(self) -> str:
        return (
            f"{self.precision} against float32: max abs error {self.max_abs:.3g}, relative error {self.relative:.3g}, "
            f"cosine {self.cosine:.6f} ({self.elements} elements)"
        )


def leaves(value: Any) -> list[np.ndarray]:
    """The tensors of a result (tuples, lists and dicts of tensors), as arrays; integers and other values are left out."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if hasattr(value, "detach"):
        value = value.detach().float() if value.is_floating_point() else value
    if not hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        return []
    array = value.numpy() if hasattr(value, "numpy") else value
    return [np.asarray(array, "float64")] if np.asarray(array).dtype.kind in "fV" else []


def compare(precision: str, pairs: Iterable[tuple[Any, Any]]) -> Accuracy:
    """The accuracy of results against references: pairs of (reference, result) as calls gave them."""
    worst, square, reference_square, result_square, product, count = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    for expected, found in pairs:
        for a, b in zip(leaves(expected), leaves(found), strict=True):
            count += a.size
            with np.errstate(invalid="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                gap = np.where(same, 0.0, a - b)
            a, b = (np.where(same & ~np.isfinite(x), 0.0, x) for x in (a, b))
            worst = max(worst, float(np.abs(gap).max(initial=0.0)))
            square += float((gap * gap).sum())
            reference_square += float((a * a).sum())
            result_square += float((b * b).sum())
            product += float((a * b).sum())
    norm = np.sqrt(reference_square)
    relative = np.sqrt(square) / norm if norm else float(square != 0.0)
    both = norm * np.sqrt(result_square)
    cosine = product / both if both else float(norm == np.sqrt(result_square))
    return Accuracy(precision, worst, float(relative), float(cosine), count)


def as_inputs(inputs: Any) -> tuple[Any, ...]:
    """Example inputs as the arguments of one call: a single tensor stands for itself."""
    return tuple(inputs) if isinstance(inputs, Sequence) and not isinstance(inputs, str) else (inputs,)


def copies(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs for one call of several, which may write into them: tensors are copied."""
    return tuple([v.clone() if hasattr(v, "clone") else np.array(v) if isinstance(v, np.ndarray) else
                  Tensor(v.numpy().copy()) if isinstance(v, Tensor) else v for v in inputs])  # fmt: skip
