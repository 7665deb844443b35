"""Table entries: windows as columns, and back; convolutions whose number of groups only a call knows, as products with columns.
Not here: other convolutions, and pooling (``window``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from .... import op
from ....ir.build import int_value
from ....ir.expr import IntImm
from ....ir.types import Expr
from ....op.common.type_rules import product
from ..context.context import Args, Context, aten, pair, rank_of, refuse, shape_of, to_dim
from .shape import cut, swap

_TRANSPOSED = {1: op.nn_conv1d_transpose, 2: op.nn_conv2d_transpose, 3: op.nn_conv3d_transpose}


def _places(size: Expr, kernel: int, stride: int, border: int, gap: int) -> Expr:
    """The number of windows along an axis."""
    last = size + 2 * border - (gap * (kernel - 1) + 1)
    return (last if stride == 1 else last // stride) + 1


def _windows(c: Context, x: Expr, kernel: Sequence[int], stride: Sequence[int], border: Sequence[int],
             gap: Sequence[int]) -> Expr:  # fmt: skip
    """(batch, channels, places of the kernel, windows...): every place as a strided part of the padded image, stacked."""
    sizes = [_places(*values) for values in zip(shape_of(x)[2:], kernel, stride, border, gap)]
    padded = c.emit(op.nn_pad(x, pad_width=(0, 0, 0, 0, *[b for b in border for _ in (0, 1)])))
    parts = []
    for places in itertools.product(*[range(k) for k in kernel]):
        part: Expr = padded
        for axis, size in enumerate(sizes):
            part = cut(part, axis + 2, places[axis] * gap[axis], size, stride[axis])
        parts.append(part)
    return op.stack(parts, axis=2)


def _sum_of_windows(c: Context, columns: Expr, size: Sequence[Expr], kernel: Sequence[int], stride: Sequence[int],
                    border: Sequence[int], gap: Sequence[int]) -> Expr:  # fmt: skip
    """Columns (batch, places of the kernel, windows...) added up in their places: a transposed convolution whose kernel puts each
    column's elements back into its window. Sizes that only a call knows are cut from the largest ones."""
    grid = shape_of(columns)[2:]
    count = int(np.prod(kernel))
    weight = op.constant(np.eye(count, dtype=c.numpy_dtype).reshape(count, 1, *kernel))
    extra = []
    for s, n, k, t, b, g in zip(size, grid, kernel, stride, border, gap):
        covered = (n - 1) * t + (g * (k - 1) + 1 - 2 * b)
        rest = s - covered
        extra.append(int_value(rest, t - 1))
    made: Expr = _TRANSPOSED[len(grid)](
        columns, weight, strides=tuple(stride), padding=tuple(border) * 2, output_padding=tuple(extra),
        dilation=tuple(gap),
    )  # fmt: skip
    for axis, wanted in enumerate(size):
        made = cut(made, axis + 2, 0, wanted)
    return made


@aten("im2col.default")
def _im2col(c: Context, a: Args) -> Expr:
    x = a.self if rank_of(a.self) == 4 else c.reshape(a.self, [1, *shape_of(a.self)])
    return c.reshape(_windows(c, x, *[pair(v, 2) for v in (a.kernel_size, a.stride, a.padding, a.dilation)]))


@aten("col2im.default")
def _col2im(c: Context, a: Args) -> Expr:
    kernel, stride, border, gap = [pair(v, 2) for v in (a.kernel_size, a.stride, a.padding, a.dilation)]
    size = [to_dim(s) for s in a.output_size]
    columns = a.self if rank_of(a.self) == 3 else c.reshape(a.self, [1, *shape_of(a.self)])
    count = kernel[0] * kernel[1]
    batch, lines, _ = shape_of(columns)
    grid = [_places(*values) for values in zip(size, kernel, stride, border, gap)]
    apart = c.reshape(columns, [batch * (lines // count), count, *grid])
    return c.reshape(_sum_of_windows(c, apart, size, kernel, stride, border, gap))


def grouped(c: Context, x: Expr, weight: Expr, groups: Expr, stride: Sequence[int], border: Sequence[int],
            gap: Sequence[int], transposed: bool) -> Expr:  # fmt: skip
    """A convolution with a symbolic number of groups: products of each group's weights with its windows. Raises Gap."""
    batch, channels, *spans = shape_of(x)
    kernel = [k.value for k in shape_of(weight)[2:] if type(k) is IntImm]
    refuse(len(kernel) != len(spans), "a kernel whose size only a call knows")
    count = int(np.prod(kernel))
    rows, columns = shape_of(weight)[:2]
    inner, outer = channels // groups, c.shape[1] // groups
    if not transposed:
        windows = c.emit(_windows(c, x, kernel, stride, border, gap))
        grid = shape_of(windows)[3:]
        lines = c.reshape(windows, [batch, groups, inner * count, product(grid)])
        made = op.matmul(c.reshape(weight, [groups, outer, columns * count]), lines)
        return c.reshape(made, [batch, c.shape[1], *grid])
    matrix = swap(c.reshape(weight, [groups, rows // groups, columns * count]), 1, 2)
    made = op.matmul(matrix, c.reshape(x, [batch, groups, inner, product(spans)]))
    apart = c.reshape(made, [batch * (groups * columns), count, *spans])
    summed = _sum_of_windows(c, apart, c.shape[2:], kernel, stride, border, gap)
    return c.reshape(summed, c.shape)
