"""Methods of TVM's ``Schedule`` that are not here, and what to write instead.

Not here: primitives. Invariant: no name of this table is a primitive.
"""

from __future__ import annotations

INSTEAD = {
    "cache_index": "common subexpressions are computed once by the lowering",
    "cache_inplace": "`cache_read`, then `cache_write`",
    "read_at": "`cache_read` with `compute_at`, then `fuse`, `split` and `bind`",
    "write_at": "`cache_write` with `reverse_compute_at`, then `fuse`, `split` and `bind`",
    "rolling_buffer": "`compute_at`; the buffer then shrinks to what one iteration needs, cells that two iterations share are "
    "computed again",
    "fuse_reduction_epilogue": "`reverse_compute_at` of the epilogue: folding it into the reduction changes results",
    "unsafe_hide_buffer_access": "regions are declared with `T.reads` / `T.writes` in the program",
    "annotate_buffer_access": "regions are declared with `T.reads` / `T.writes` in the program",
}
"""By name: what serves in its place."""
