"""Why an operator is slower than 0.9 of torch: one line for each row of the page that is. A row without one is a defect to mend."""

from __future__ import annotations

SLOW = 0.9
"""Share of torch's speed below which a row needs a reason."""
REASONS: dict[str, str] = {
    "bincount, small": "the size of the result depends on the data: the call goes back into torch",
    "bfloat16 gelu, large": "computed in float32 with float32's polynomials, then rounded: a fifth more work than float32",
    "broadcast_to, large": "stores alone: each row is a call of memcpy for 4 KB",
    "concat, axis 0, large": "a copy of 4 MB, bound by memory: 0.8 to 1.1 from run to run",
    "bfloat16 softmax, small": "numpy has no bfloat16: results go to torch as integers, two views more than for float32",
    "bfloat16 exp, small": "numpy has no bfloat16: results go to torch as integers, two views more than for float32",
    "gather, axis 1, large": "gathered reads of single elements, bound by memory: 0.9 to 1.1 from run to run",
    "take, axis 1, large": "gathered reads of single elements; the indices are checked in a pass of their own",
    "scatter, large": "the places to write are checked in a pass of their own, as torch checks them while it writes",
}
"""``"case, size"`` -> what limits it."""
