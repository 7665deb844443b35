"""Products and convolutions of unsigned by signed bytes with int32 sums: where their axes are, how a zero point leaves the sums.

``Site`` says of a call which axes are summed; ``summed`` computes ``sum of (data - zero) * weights`` in operators:
``S(data, weights) - zero * S(1, weights)``. What is summed innermost is filled up to groups of four, as instructions take it, and
the border of a convolution holds the zero point. Not here: which numbers the bytes stand for (``quantize_products``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ffi.tensor import Tensor
from ....ir.builder import make_call
from ....ir.expr import Call, Constant, IntImm, Op
from ....ir.relation import dims
from ....ir.types import Expr
from ....op.common.channels_last import rank_of
from ....op.common.table import R, constant
from ....op.common.type_rules import attr, int_attr, ints_attr
from ....op.elementwise.binary import multiply, subtract
from ....op.manipulate.create import astype
from ....op.manipulate.manipulate import reshape
from ....op.nn.attention import pad
from ....op.reduction.reduce import sum_

GROUP = 4
"""Neighbours along the reduction that one instruction takes."""
FEATURES = 16
"""Columns from which they fill a vector of sums."""
SPACE = {R.nn.conv1d.name: "W", R.nn.conv2d.name: "HW", R.nn.conv3d.name: "DHW"}
"""Spatial axes of convolutions."""


@dataclass(slots=True, frozen=True)
class Site:
    """Axes of a product with a matrix, or of a convolution without groups: ``columns`` of the weights are ``out_columns`` of the
    result; ``rows`` of the weights, innermost of what is summed, are ``data_rows`` of the data. ``sizes`` of the weights."""

    call: Call
    sizes: tuple[int, ...]
    columns: int
    rows: int
    data_rows: int
    out_columns: int

    @property
    def depth(self) -> int:
        """Terms of a sum."""
        return int(np.prod(self.sizes)) // max(1, self.sizes[self.columns])


def site_of(value: Expr) -> Site | None:
    """The axes of a call that can be computed of bytes; None for anything else."""
    if type(value) is not Call or type(value.op) is not Op:
        return None
    name = value.op.name
    if name != R.matmul.name and name not in SPACE:
        return None
    data, known = value.args[0], dims(value.args[1].ty)
    if known is None or not all([type(n) is IntImm for n in known]) or not dims(data.ty) or rank_of(value) < 1:
        return None
    sizes, rank = tuple([n.value for n in known if type(n) is IntImm]), rank_of(data)
    if name == R.matmul.name:
        return Site(value, sizes, 1, 0, rank - 1, rank - 1) if len(sizes) == 2 else None
    space = SPACE[name]
    layout, kernel = attr(value, "data_layout", "NC" + space), attr(value, "kernel_layout", "OI" + space)
    if int_attr(value, "groups", 1) != 1 or sizes[kernel.index("O")] < FEATURES:
        return None
    out = attr(value, "out_layout") or layout
    return Site(value, sizes, kernel.index("O"), kernel.index("I"), layout.index("C"), out.index("C"))


def number(value: float, dtype: str = "float32") -> Expr:
    """A scalar constant."""
    return constant(Tensor(np.array(value, dtype)))


def along_columns(site: Site) -> list[int]:
    """The shape with which one number for each column broadcasts to the result."""
    return [-1 if axis == site.out_columns else 1 for axis in range(rank_of(site.call))]


def summed(site: Site, data: Expr, weights: Expr, zero: int) -> Expr:
    """int32 sums of ``(data - zero) * weights``; data uint8, weights int8, both as the call of the site takes them. What is known
    of constant weights is computed here."""
    lacking = -site.sizes[site.rows] % GROUP
    attrs = {**site.call.attrs, "out_dtype": "int32"}
    pairs = {site.data_rows: (0, lacking)} if lacking else {}
    if zero:
        pairs |= _border(site)
        attrs |= {"padding": (0,) * (len(site.sizes) - 2)} if "padding" in attrs else {}
    if pairs:
        data = pad(data, pad_width=_widths(rank_of(data), pairs), pad_value=float(zero))
    widths = _widths(len(site.sizes), {site.rows: (0, lacking)})
    others = tuple([axis for axis in range(len(site.sizes)) if axis != site.columns])
    if type(weights) is Constant:
        array = weights.data.numpy()
        filled: Expr = constant(Tensor(np.pad(array, np.reshape(widths, (-1, 2))))) if lacking else weights
        sums = array.sum(others, dtype="int32") * np.int32(zero)
        shift: Expr = constant(Tensor(sums.reshape(along_columns(site))))
    else:
        filled = pad(weights, pad_width=widths, pad_value=0.0) if lacking else weights
        whole = sum_(astype(weights, dtype="int32"), axis=others, keepdims=False)
        shift = reshape(multiply(whole, number(zero, "int32")), along_columns(site))
    total: Expr = make_call(site.call.op, (data, filled), attrs, (), site.call.span)
    return subtract(total, shift) if zero else total


def _widths(rank: int, pairs: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    return tuple([n for axis in range(rank) for n in pairs.get(axis, (0, 0))])


def _border(site: Site) -> dict[int, tuple[int, int]]:
    """The widths that a convolution adds before and after the axes of its data."""
    space: Any = SPACE.get(site.call.op_name)
    if space is None:
        return {}
    border = ints_attr(site.call, "padding", None)
    border = border * len(space) if len(border) == 1 else border
    layout = attr(site.call, "data_layout", "NC" + space)
    return {layout.index(a): (b, e) for a, b, e in zip(space, border, border[-len(space) :]) if b or e}
