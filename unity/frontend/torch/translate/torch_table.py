"""The whole table of torch operators: importing this module fills ``ATEN``. One entry per overload name."""

from __future__ import annotations

from ..context.context import ATEN
from ..operators import (  # noqa: F401 - they fill the table
    bags,
    index,
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
    view,
    window,
)  # fmt: skip


def supported() -> list[str]:
    """Names of all torch operators with a translation, sorted."""
    return sorted(ATEN)


__all__ = ["ATEN", "supported"]
