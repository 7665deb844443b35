"""Along an axis: reductions, scans, orders, softmax and norms of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, Inputs, floats, of_floats

LARGE, SMALL = (1024, 1024), (32, 32)
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": torch.prod,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "std": torch.std,
    "var_mean": lambda x, d: torch.var_mean(x, d),
    "max": torch.max,
    "min": torch.min,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "any": lambda x, d: (x > 3).any(d),
    "all": lambda x, d: (x > -3).all(d),
    "count_nonzero": lambda x, d: torch.count_nonzero(x, d),
    "norm 2": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "norm 1": lambda x, d: torch.linalg.vector_norm(x, 1, dim=d),
    "logsumexp": torch.logsumexp,
    "median": torch.median,
    "kthvalue": lambda x, d: torch.kthvalue(x, 3, d),
    "sum of bool": lambda x, d: (x > 0).sum(d),
}
LINES: dict[str, Callable[..., Any]] = {
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "sort": torch.sort,
    "stable argsort": lambda x, d: torch.argsort(x, dim=d, stable=True),
    "topk 5": lambda x, d: torch.topk(x, 5, d),
    "topk 100": lambda x, d: torch.topk(x, min(100, x.shape[d]), d),
    "normalize": lambda x, d: F.normalize(x, dim=d),
}
WHOLE = ("sum", "mean", "amax", "var", "argmax", "prod", "median")


def _along(name: str, fn: Callable[..., Any], group: str, axis: int) -> Case:
    return of_floats(group, f"{name}, axis {axis}", lambda x: fn(x, axis), [LARGE], [SMALL])


def _bools(name: str, fn: Callable[..., Any], most: float) -> Case:
    def made(shape: tuple[int, int]) -> Callable[[], Inputs]:
        return lambda: (floats(*shape) > most,)

    return Case(name, "reductions", fn, made(LARGE), made(SMALL))


MIDDLE = ([(64, 128, 128)], [(4, 8, 32)])
IMAGE = ([(8, 128, 32, 32)], [(1, 8, 8, 8)])
CASES = [
    *[_along(name, fn, "reductions", axis) for name, fn in REDUCTIONS.items() for axis in (0, 1)],
    *[of_floats("reductions", f"{name} of all", getattr(torch, name), [LARGE], [SMALL]) for name in WHOLE],
    of_floats("reductions", "sum, middle axis", lambda x: x.sum(1), *MIDDLE),
    of_floats("reductions", "amax, middle axis", lambda x: x.amax(1), *MIDDLE),
    of_floats("reductions", "mean of images", lambda x: x.mean((2, 3)), *IMAGE),
    of_floats("reductions", "var of channels", lambda x: x.var((0, 2, 3)), *IMAGE),
    _bools("any of bools, axis 1", lambda x: x.any(1), 5.0),
    _bools("all of bools, axis 0", lambda x: x.all(0), -5.0),
    _bools("any of all bools", torch.any, 9.0),
    *[_along(name, fn, "scans, orders, softmax", axis) for name, fn in LINES.items() for axis in (0, 1)],
    of_floats("scans, orders, softmax", "softmax, middle axis", lambda x: x.softmax(1), *MIDDLE),
    of_floats(
        "scans, orders, softmax",
        "searchsorted",
        lambda a, b: torch.searchsorted(a.sort()[0], b),
        [(4096,), (65536,)],
        [(32,), (32,)],
    ),
    of_floats(
        "scans, orders, softmax",
        "bucketize",
        lambda a: torch.bucketize(a, torch.linspace(-2, 2, 20)),
        [(1 << 20,)],
        [(1024,)],
    ),
]
