"""The default order of graph passes: from operators to calls with explicit outputs, ready for bytecode.

Afterwards a graph function holds only calls of tensor programs by GlobalVar with explicit outputs, memory operators,
R.call_packed, calls of graph functions, views, shape and tuple operators, conditionals, match_cast, closures and leaves; no
dataflow blocks.
"""

from __future__ import annotations

from ..base import Pipeline
from .attach_global_symbol import attach_global_symbol
from .legalize_ops import legalize_ops
from .lower_call_dps import lower_call_dps
from .to_non_dataflow import to_non_dataflow

DEFAULT_PIPELINE = Pipeline((
    legalize_ops,
    to_non_dataflow,
    lower_call_dps,
    attach_global_symbol,
))  # fmt: skip
