"""The whole table of torch operators: importing this module fills ``ATEN``. One entry per overload name."""

from __future__ import annotations

from . import (
    aten_factors,
    aten_index,
    aten_linalg,
    aten_loss,
    aten_math,
    aten_nn,
    aten_norm,
    aten_reduce,
    aten_resize,
    aten_rnn,
    aten_scatter,
    aten_shape,
    aten_special,
    aten_unique,
    aten_view,
    aten_window,
)
from .context import ATEN

SOURCES = (
    aten_factors, aten_index, aten_linalg, aten_loss, aten_math, aten_nn, aten_norm, aten_reduce, aten_resize, aten_rnn,
    aten_scatter, aten_shape, aten_special, aten_unique, aten_view, aten_window,
)  # fmt: skip
"""The files the table is made of."""


def supported() -> list[str]:
    """Names of all torch operators with a translation, sorted."""
    return sorted(ATEN)


__all__ = ["ATEN", "SOURCES", "supported"]
