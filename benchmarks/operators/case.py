"""One timed operator: a torch function and its inputs in a large and a small size. Which there are: `elementwise.py` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Inputs = tuple[torch.Tensor, ...]
_generator = torch.Generator()


@dataclass(frozen=True, slots=True)
class Case:
    """``fn`` of what ``large()`` and ``small()`` make."""

    name: str
    group: str
    fn: Callable[..., Any]
    large: Callable[[], Inputs]
    small: Callable[[], Inputs]


def seed() -> None:
    """Begin the random inputs anew."""
    _generator.manual_seed(0)


def floats(*shape: int) -> torch.Tensor:
    """Normally distributed float32."""
    return torch.randn(*shape, generator=_generator)


def integers(below: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Integers from 0 up to ``below``."""
    return torch.randint(0, below, shape, generator=_generator).to(dtype)


def of_floats(
    group: str, name: str, fn: Callable[..., Any], large: Sequence[Sequence[int]], small: Sequence[Sequence[int]],
    dtype: torch.dtype = torch.float32,
) -> Case:  # fmt: skip
    """A case whose inputs are random floats of these shapes."""

    def made(shapes: Sequence[Sequence[int]]) -> Callable[[], Inputs]:
        return lambda: tuple([floats(*shape).to(dtype) for shape in shapes])

    return Case(name, group, fn, made(large), made(small))
