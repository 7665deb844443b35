"""A profile as a roofline plot: every kernel at its arithmetic intensity and speed, under what the machine can do.

Source of the model: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.optional import require
from .roofline import Roofline

if TYPE_CHECKING:
    from .profile import ProfileRow

LABELLED = 8
"""Kernels whose names stand in the plot: the dearest."""


def plot_roofline(function: str, rows: Sequence[ProfileRow], peak: Roofline, path: str | Path | None) -> Any:
    """A ``matplotlib.figure.Figure``: operations per byte against GFLOP/s, both logarithmic; areas say shares of the time.

    Kernels without floating-point operations (copies, gathers) have no place in it. Saved where ``path`` says, in the format
    of its ending. Raises MissingExtraError E002 without matplotlib.
    """
    figure = require("matplotlib.figure").Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    shown = [row for row in rows if row.flops and row.moved and row.seconds]
    ridge = peak.flops / peak.bandwidth
    intensities = [row.flops / row.moved for row in shown]
    left, right = min([ridge / 64, *intensities]) / 2, max([ridge * 16, *intensities]) * 2
    axes.plot(
        [left, ridge, right], [left * peak.bandwidth / 1e9, peak.flops / 1e9, peak.flops / 1e9], "k-", linewidth=1
    )
    axes.scatter(intensities, [row.gflops for row in shown], s=[20 + 600 * row.share for row in shown], alpha=0.5)
    for row, intensity in list(zip(shown, intensities))[:LABELLED]:
        axes.annotate(f"{row.name} ({row.share:.0%})", (intensity, row.gflops), fontsize=8)
    axes.set(
        title=f"{function}: {peak.flops / 1e9:.0f} GFLOP/s ({peak.threads} threads), {peak.bandwidth / 1e9:.0f} GB/s",
        xlabel="floating-point operations per byte", ylabel="GFLOP/s", xlim=(left, right),
    )  # fmt: skip
    axes.grid(which="both", alpha=0.2)
    if path is not None:
        figure.savefig(path)
    return figure
