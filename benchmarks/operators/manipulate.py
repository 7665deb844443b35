"""Manipulation: transposes, joins, slices, padding, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, floats, integers, of_floats

N, S = 1024, 32
SHAPED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "transpose": (lambda x: x.t().contiguous(), [(N, N)], [(S, S)]),
    "permute heads": (lambda x: x.permute(0, 2, 1, 3).contiguous(), [(8, 128, 16, 64)], [(1, 8, 4, 16)]),
    "permute 2 1 0": (lambda x: x.permute(2, 1, 0).contiguous(), [(64, 128, 128)], [(8, 8, 16)]),
    "NCHW to NHWC": (lambda x: x.permute(0, 2, 3, 1).contiguous(), [(8, 128, 32, 32)], [(1, 8, 8, 8)]),
    "NHWC to NCHW": (lambda x: x.permute(0, 3, 1, 2).contiguous(), [(8, 32, 32, 128)], [(1, 8, 8, 8)]),
    "concat, axis 0": (lambda a, b: torch.cat([a, b], 0), [(512, N)] * 2, [(16, S)] * 2),
    "concat, axis 1": (lambda a, b: torch.cat([a, b], 1), [(N, 512)] * 2, [(S, 16)] * 2),
    "stack, axis 1": (lambda a, b: torch.stack([a, b], 1), [(N, 512)] * 2, [(S, 16)] * 2),
    "stack, last axis": (lambda a, b: torch.stack([a, b], -1), [(N, 512)] * 2, [(S, 16)] * 2),
    "split and add": (lambda x: torch.add(*x.chunk(2, -1)), [(N, N)], [(S, S)]),
    "slice by 2": (lambda x: x[:, ::2].contiguous(), [(N, N)], [(S, S)]),
    "flip, axis 0": (lambda x: x.flip(0), [(N, N)], [(S, S)]),
    "flip, axis 1": (lambda x: x.flip(1), [(N, N)], [(S, S)]),
    "roll, axis 0": (lambda x: x.roll(3, 0), [(N, N)], [(S, S)]),
    "roll, axis 1": (lambda x: x.roll(3, 1), [(N, N)], [(S, S)]),
    "diff, axis 1": (lambda x: torch.diff(x, dim=1), [(N, N)], [(S, S)]),
    "repeat": (lambda x: x.repeat(2, 2), [(512, 512)], [(16, 16)]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), [(N, 512)], [(S, 16)]),
    "broadcast_to": (lambda x: x.expand(N, -1).contiguous(), [(N,)], [(S,)]),
    "tril": (torch.tril, [(N, N)], [(S, S)]),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), [(8, 128, 32, 32)], [(1, 8, 8, 8)]),
    "pad, reflected": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), [(8, 128, 32, 32)], [(1, 8, 8, 8)]),
    "unfold": (lambda x: F.unfold(x, 3), [(2, 32, 32, 32)], [(1, 4, 8, 8)]),
    "fold": (lambda x: F.fold(x, (16, 16), 2, stride=2), [(16, 256, 64)], [(1, 16, 64)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [(4, 64, 64, 64)], [(1, 8, 8, 8)]),
    "glu": (F.glu, [(N, N)], [(S, S)]),
    "rotary": (
        lambda x, c, s: x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s,
        [(1, 12, 128, 64), (128, 64), (128, 64)],
        [(1, 2, 8, 64), (8, 64), (8, 64)],
    ),
}


def _by_index(name: str, fn: Callable[..., Any], indices: int, updates: bool) -> Case:
    """Square data, ``indices`` axes of indices, updates of the shape of the data."""

    def made(n: int) -> Any:
        return lambda: (floats(n, n), integers(n, *[n] * indices), *([floats(n, n)] if updates else []))

    return Case(name, "manipulation", fn, made(N), made(S))


CASES = [
    *[of_floats("manipulation", name, fn, large, small) for name, (fn, large, small) in SHAPED.items()],
    _by_index("take, axis 0", lambda x, i: x.index_select(0, i), 1, False),
    _by_index("take, axis 1", lambda x, i: x.index_select(1, i), 1, False),
    _by_index("gather, axis 0", lambda x, i: x.gather(0, i), 2, False),
    _by_index("gather, axis 1", lambda x, i: x.gather(1, i), 2, False),
    _by_index("scatter", lambda x, i, y: x.scatter(1, i, y), 2, True),
    _by_index("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), 2, True),
    _by_index("index_add", lambda x, i, y: x.index_add(0, i, y), 1, True),
    _by_index("index_put", lambda x, i, y: x.index_put((i,), y), 1, True),
    Case(
        "embedding",
        "manipulation",
        lambda x, i: F.embedding(i, x),
        lambda: (floats(5000, 256), integers(5000, 4096)),
        lambda: (floats(50, 32), integers(50, 32)),
    ),
    Case(
        "embedding_bag",
        "manipulation",
        lambda x, i: F.embedding_bag(i, x),
        lambda: (floats(5000, 64), integers(5000, 512, 32)),
        lambda: (floats(50, 32), integers(50, 8, 4)),
    ),
    Case(
        "one_hot",
        "manipulation",
        lambda i: F.one_hot(i, 256),
        lambda: (integers(256, 4096),),
        lambda: (integers(32, 32),),
    ),
    Case(
        "bincount",
        "manipulation",
        lambda i: torch.bincount(i, minlength=256),
        lambda: (integers(256, 1 << 20),),
        lambda: (integers(256, 1024),),
    ),
    Case(
        "masked_fill, given mask",
        "manipulation",
        lambda x, m: x.masked_fill(m, 0.0),
        lambda: (floats(N, N), floats(N, N) > 0),
        lambda: (floats(S, S), floats(S, S) > 0),
    ),
    Case(
        "where, given mask",
        "manipulation",
        torch.where,
        lambda: (floats(N, N) > 0, floats(N, N), floats(N, N)),
        lambda: (floats(S, S) > 0, floats(S, S), floats(S, S)),
    ),
]
