"""The whole table of torch operators: importing this module fills ``ATEN``. One entry per overload name."""

from __future__ import annotations

from ..context.context import ATEN
from ..operators import (
    columns,
    complex_math,
    complex_products,
    counts,
    fourier,
    index,
    linalg,
    loss,
    math,
    memory,
    nn,
    norm,
    pad,
    reduce,
    resize,
    rnn,
    rows,
    scatter,
    shape,
    special,
    spectral,
    unique,
    view,
    window,
)

SOURCES = (
    columns, complex_math, complex_products, counts, fourier, index, linalg, loss, math, memory, nn, norm, pad,
    reduce, resize, rnn, rows, scatter, shape, special, spectral, unique, view, window,
)  # fmt: skip
"""The files the table is made of."""


def supported() -> list[str]:
    """Names of all torch operators with a translation, sorted."""
    return sorted(ATEN)


__all__ = ["ATEN", "SOURCES", "supported"]
