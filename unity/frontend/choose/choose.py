"""``unity.compile(..., choose=...)``: which kernel computes each product and convolution, and why.

``analytic`` (the default) keeps our schedules and estimates their time from the machine's roofline. ``measured`` builds every
candidate for a call - our schedule, and the library kernels registered for the operator (``ffi/library.py``) - and times it alone
(`alone.py`); then decisions about the graph are tried in the whole program (`whole.py`).
``measured+winograd`` has Winograd's algorithm among the candidates for convolutions (``candidates.py``).
A symbolic dimension is measured at several sizes (``BUCKETS``), and the winner of the first size that is not smaller computes a
call (of the last one for larger ones); with several symbols one kernel is kept for all sizes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ffi.dtype import DataType
from ...ffi.library import KERNELS, Anchor
from ...ffi.native.pool import num_threads
from ...ir.module import IRModule
from ...op.common.table import R
from ...support.errors import FrontendError
from ...transform.relax.algebra.canonicalize import canonicalize
from ...vm.choices import Choice, Choices
from ...vm.roofline import machine_roofline
from ..entry import BuildOptions
from ..precision.precision import PREPARE
from .alone import OURS, Measured, kernel_name, measure_site
from .anchors import BUCKETS, Key, sites_of, text_of
from .candidates import LAYOUT, TILES
from .whole import Point, Result, decide

WAYS = ("analytic", "measured", "measured+winograd")
"""The values of ``choose``."""
KNOWN: dict[Key, Measured] = {}
"""The measurements of calls alone in this process, by call, target, threads and candidates."""


def choose_measured(mod: IRModule, how: BuildOptions) -> tuple[IRModule, Point, Choices]:
    """The module with calls of other kernels where they are faster, the decisions that its passes take, and the table.

    Raises FrontendError E981 for an unknown way.
    """
    if how.choose not in WAYS:
        raise FrontendError("E981", f"unknown choose={how.choose!r}", help=f"known: {', '.join(WAYS)}")
    winograd = how.choose == "measured+winograd"
    for step in (*PREPARE, *(LAYOUT if winograd else (canonicalize,))):
        mod = step(mod)
    measured: dict[Key, Measured] = {}
    for key, site in sites_of(mod).items():
        whole = (*key, str(how.target), num_threads(), winograd, tuple(KERNELS.items()))
        if whole not in KNOWN:
            KNOWN[whole] = measure_site(site, how.target, TILES if winograd else ())
        measured[key] = KNOWN[whole]
    found = decide(mod, how, measured)
    rows = tuple([row for key in measured for row in _rows(key, measured[key], found)] + list(found.rows))
    return found.point.module(mod), found.point, Choices(lambda: rows)


def _rows(key: Key, measured: Measured, found: Result) -> list[Choice]:
    """The table of a site: what was measured alone, and what computes it."""
    kernels = found.point.kernels.get(key, (None,) * len(measured.kernels))
    each = len(measured.rows) // len(kernels)
    return [
        replace(row, chosen=row.candidate == kernel_name(kernels[k // each])) for k, row in enumerate(measured.rows)
    ]


def _work(anchor: Anchor) -> tuple[float, float]:
    """Operations and bytes of a call: every result is a sum of products along the reduced axes."""
    out = float(np.prod(anchor.out_shape, dtype="float64"))
    depth = anchor.shapes[0][-1] if anchor.op == R.matmul.name else np.prod(anchor.shapes[-1], dtype="float64") / max(
        1, anchor.shapes[-1][0])  # fmt: skip
    tensors = [*zip(anchor.shapes, anchor.dtypes), (anchor.out_shape, anchor.out_dtype)]
    return 2.0 * out * float(depth), float(
        sum([np.prod(s, dtype="float64") * DataType(d).itemsize for s, d in tensors])
    )


def analytic_choices(mod: IRModule) -> tuple[Choice, ...]:
    """The table of the default: our schedules, at the time the roofline allows."""
    for step in PREPARE:
        mod = step(mod)
    roofline, rows = machine_roofline(), []
    for site in sites_of(mod).values():
        for size in BUCKETS if site.symbolic else (1,):
            anchor = site.anchor(size)
            assert anchor is not None
            flops, moved = _work(anchor)
            bound = "arithmetic" if flops / roofline.flops > moved / roofline.bandwidth else "memory"
            reason = f"estimated, bound by {bound}; a library would add a call and computes what follows apart"
            rows.append(Choice(anchor.op, text_of(anchor), OURS, roofline.seconds(flops, moved), reason, True))
    return tuple(rows)
