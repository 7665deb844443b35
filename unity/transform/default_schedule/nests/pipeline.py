"""The passes that choose the loops of nests no rule took, in order: ``schedule_nests`` runs them at the end of scheduling."""

from __future__ import annotations

from ...infra.passes import Pipeline
from ...tir.expressions.simplify import bind_shared
from ...tir.loops.canonicalize_loop import canonicalize_loop
from .eager_choices import eager_choices
from .order_loops import order_loops
from .prefix_sums import prefix_sums
from .tile_reductions import tile_reductions
from .vectorize_reductions import vectorize_reductions

CPU_NESTS = Pipeline(
    (bind_shared, canonicalize_loop, eager_choices, tile_reductions, vectorize_reductions, prefix_sums, order_loops)
)
"""Those of processors. Programs that were scheduled stay as they are."""
