"""``unity.compile(..., choose=...)``: which kernel computes each product and convolution, and why.

``analytic`` (the default) keeps our schedules and estimates their time from the machine's roofline. ``measured`` tries the library
kernels registered for the operators (``ffi/library.py``), and other decisions about the graph, in the whole program (`whole.py`).
``measured+winograd`` has Winograd's algorithm among the candidates for convolutions (`sites.py`).
"""

from __future__ import annotations

from ...ir.module import IRModule
from ...support.errors import FrontendError
from ...transform.relax.algebra.canonicalize import canonicalize
from ...transform.relax.algebra.fold_constant import fold_constant
from ...transform.relax.layout.convert_layout import convert_layout
from ...vm.choices import Choice, Choices
from ..entry import BuildOptions
from ..precision.precision import PREPARE
from .sites import estimate, sites_of, text_of
from .whole import OURS, Point, decide

WAYS = ("analytic", "measured", "measured+winograd")
"""The values of ``choose``."""
LAYOUT = (convert_layout, fold_constant, canonicalize)
"""Passes after which convolutions stand as they are computed."""
ESTIMATED = (1, 16, 64, 256)
"""Sizes of symbolic dimensions for which the default is estimated."""


def choose_measured(mod: IRModule, how: BuildOptions) -> tuple[IRModule, Point, Choices]:
    """The module with calls of other kernels where it is faster with them, the decisions that its passes take, and the table.

    Raises FrontendError E981 for an unknown way.
    """
    if how.choose not in WAYS:
        raise FrontendError("E981", f"unknown choose={how.choose!r}", help=f"known: {', '.join(WAYS)}")
    winograd = how.choose == "measured+winograd"
    for step in (*PREPARE, *(LAYOUT if winograd else (canonicalize,))):
        mod = step(mod)
    point, rows = decide(mod, how, winograd)
    return point.module(mod), point, Choices(lambda: rows)


def analytic_choices(mod: IRModule) -> tuple[Choice, ...]:
    """The table of the default: our schedules, at the time the roofline allows."""
    for step in PREPARE:
        mod = step(mod)
    rows = []
    for site in sites_of(mod).values():
        for size in ESTIMATED if site.symbols else (1,):
            anchor = site.anchor(dict.fromkeys(site.symbols, size))
            assert anchor is not None
            seconds, bound = estimate(anchor)
            reason = f"estimated, bound by {bound}; a library would add a call and computes what follows apart"
            rows.append(Choice(anchor.op, text_of(anchor), OURS, seconds, reason, True))
    return tuple(rows)
