"""Programs of views, writes through them and reads, drawn at random.

Drawn are writes that torch itself follows: none through windows that overlap or leave out elements, and none through ``as_strided``.
Operators are drawn from the tables below for the shape that a tensor has. Not here: the tests (``test_in_place.py``).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Step = Callable[[list[torch.Tensor]], None]


def views(rng: random.Random, x: torch.Tensor) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    """Views of a tensor, or of its elements in another shape."""
    axes, shape = x.dim(), list(x.shape)
    new = rng.randrange(axes + 1)
    made = [
        lambda t: t.unsqueeze(new), lambda t: t.squeeze(), lambda t: t.detach(), lambda t: t.view_as(t),
        lambda t: t.expand(t.shape), lambda t: t.reshape(-1), lambda t: t.contiguous(), lambda t: t.clone(),
    ]  # fmt: skip
    if axes == 0 or 0 in shape:
        return made
    a, b = rng.randrange(axes), rng.randrange(axes)
    n, order = shape[a], rng.sample(range(-axes, 0), axes)
    i, step, part = rng.randrange(-n, n), rng.randrange(1, 4), rng.choice([q for q in range(1, n + 1) if n % q == 0])
    start, length = rng.randrange(n), rng.randrange(1, n + 1)
    mixed = rng.sample(shape, axes)
    made += [
        lambda t: t.select(a, i), lambda t: t.narrow(a, start, min(length, n - start)), lambda t: t.transpose(a, b),
        lambda t: t[(slice(None),) * a + (slice(i, None, step),)], lambda t: t[..., i % shape[-1]], lambda t: t.permute(order),
        lambda t: t.unflatten(a, (part, -1)), lambda t: t.reshape(mixed), lambda t: t.movedim(a, b), lambda t: t.squeeze(a),
        lambda t: t.split(length, a)[0], lambda t: t.chunk(2, a)[-1], lambda t: t.unbind(a)[i], lambda t: t.unfold(a, part, part),
        lambda t: t.tensor_split(2, a)[i % 2], lambda t: t.flatten(min(a, b), max(a, b)),
    ]  # fmt: skip
    return made + ([lambda t: t.diagonal(step - 2, a, b)] if a != b else [])


def writes(rng: random.Random, x: torch.Tensor) -> list[Callable[[torch.Tensor, torch.Tensor], Any]]:
    """Writes to a tensor, with another one whose shape extends to its own."""
    number = rng.randrange(-2, 3) / 2
    made = [
        lambda t, o: t.add_(o), lambda t, o: t.mul_(o), lambda t, o: t.copy_(o), lambda t, o: t.sub_(o, alpha=2),
        lambda t, o: t.fill_(number), lambda t, o: t.zero_(), lambda t, o: t.relu_(), lambda t, o: t.clamp_(-1, number + 1),
        lambda t, o: t.masked_fill_(t > number, number), lambda t, o: torch.add(t, number, out=t), lambda t, o: t.neg_(),
        lambda t, o: t.addcmul_(o, t, value=0.5), lambda t, o: t.copy_(torch.arange(t.numel()).reshape(t.shape)),
    ]  # fmt: skip
    if x.dim() == 0 or 0 in x.shape:
        return made
    a = rng.randrange(x.dim())
    row, rows = rng.randrange(x.shape[a]), torch.tensor(rng.choices(range(x.shape[a]), k=2))
    whole = (slice(None),) * a

    def add_to_row(t: torch.Tensor, o: torch.Tensor) -> None:
        t[(*whole, row)] += number

    def swap_ends(t: torch.Tensor, o: torch.Tensor) -> None:
        first, last = t.select(a, 0), t.select(a, -1)
        kept = first.clone()
        first.copy_(last)
        last.copy_(kept)

    return [
        *made, add_to_row, swap_ends, lambda t, o: t.__setitem__(t > number, number), lambda t, o: t.cumsum_(a),
        lambda t, o: t.index_add_(a, rows, t.index_select(a, rows)), lambda t, o: t.index_fill_(a, rows, number),
        lambda t, o: t.__setitem__((*whole, rows), number), lambda t, o: t.__setitem__((*whole, slice(1, None, 2)), number),
        lambda t, o: t.scatter_(a, torch.zeros_like(t.narrow(a, 0, 1), dtype=torch.int64), t.narrow(a, 0, 1) * 0.5),
    ]  # fmt: skip


READS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t * 2,
    lambda t: t.tanh(),
    lambda t: t.sum(),
    lambda t: t + t,
]
SHAPES = ((4, 4), (3, 5), (2, 3, 4), (2, 2, 3, 2), (6,), (4, 1, 3))


class Drawn(torch.nn.Module):
    """Steps with tensors numbered in the order in which they are made: two of the program's own, or its input and its buffer."""

    def __init__(self, seed: int, *, own: bool, length: int = 10) -> None:
        super().__init__()
        rng = random.Random(seed)
        shape = rng.choice(SHAPES)
        self.own, self.steps = own, list[Step]()
        self.x = torch.linspace(-1, 1.5, torch.Size(shape).numel()).reshape(shape)
        self.register_buffer("state", torch.ones(shape))
        values = self.first(self.x.clone())
        while len(self.steps) < length:
            at, kind = rng.randrange(len(values)), rng.choice("vvvwwwr")
            x = values[at]
            if kind == "w":
                other = rng.choice([i for i, v in enumerate(values) if _extends(v, x)])
                write = rng.choice(writes(rng, x))
                step: Step = partial(_write, write, at, other)
            else:
                step = partial(_append, rng.choice(views(rng, x) if kind == "v" else READS), at)
            with contextlib.suppress(RuntimeError):  # a view without strides
                step(values)
                self.steps.append(step)
        self.given = rng.sample(range(len(values)), 3)
        self.state.fill_(1)

    def first(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The tensors that the steps begin with."""
        return [x * 1, self.state.clone()] if self.own else [x, self.state]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = self.first(x)
        for step in self.steps:
            step(values)
        return (*[values[i] + 0 for i in self.given], *[v.sum() for v in values])


def _write(write: Any, at: int, other: int, values: list[torch.Tensor]) -> None:
    write(values[at], values[other].clone())  # torch reads parts of what it writes in no order


def _append(function: Any, at: int, values: list[torch.Tensor]) -> None:
    values.append(function(values[at]))


def _extends(source: torch.Tensor, target: torch.Tensor) -> bool:
    sizes = zip(reversed(source.shape), reversed(target.shape), strict=False)
    return source.dim() <= target.dim() and all([a in (1, b) for a, b in sizes])
