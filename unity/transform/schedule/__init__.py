"""Schedules: transform tensor programs by hand, step by step, each step checked.

``Schedule`` is the handle; ``core`` the program that is scheduled, the table of primitives and the errors. ``primitives`` has one
file a family; ``preconditions`` what they ask before they rewrite, ``rewrites`` how; ``traces`` the record. Importing this package
registers every primitive.
"""

from ...support.errors import ScheduleError
from .core.refuse import Refused, picture, refuse
from .core.registry import ROWS, Row, Sampled, primitive
from .core.sref import Sref
from .core.state import ScheduleState
from .primitives import (
    annotations,
    block_layout,
    blockize,
    cache,
    compute_location,
    inline,
    layout,
    location,
    loop_kinds,
    loop_parts,
    order,
    padding,
    query,
    reduction,
    reindex,
    rfactor,
    sampling,
    split_fuse,
    storage,
    tensorize,
)
from .schedule import Schedule, install
from .traces.trace import Instruction, Trace
from .traces.values import BlockRV, ExprRV, LoopRV, SBlockRV

FAMILIES = (
    query,
    sampling,
    location,
    split_fuse,
    loop_parts,
    order,
    loop_kinds,
    cache,
    reindex,
    compute_location,
    inline,
    reduction,
    rfactor,
    blockize,
    tensorize,
    layout,
    block_layout,
    padding,
    storage,
    annotations,
)
"""The modules whose primitives make the table, in the order of the docs page."""

install()

__all__ = [
    "FAMILIES", "ROWS", "BlockRV", "ExprRV", "Instruction", "LoopRV", "Refused", "Row", "SBlockRV", "Sampled", "Schedule",
    "ScheduleError", "ScheduleState", "Sref", "Trace", "picture", "primitive", "refuse",
]  # fmt: skip
