"""Images whose channels come last, as bulk copies read them under the window of a convolution (im2col).

Rows of a tile are positions of the window, one after another through the rows of an image and through the images, as the output
lies in memory: a row of the output may end anywhere in a tile. A stage has some channels of one pixel of the window. What it
sees outside of an image, and what is behind the last channel, comes as zeros; steps and dilation of the window cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....arith import Analyzer
from .....ir.analysis.asynchronous import CORNER_BITS, MOST_PIXELS
from .....ir.build import add, ceildiv, conjuncts, const, is_int, mul, sub
from .....ir.expr import IntImm, Var
from .....ir.scalar import GE, GT, LE, LT, BufferLoad, IterVar
from .....ir.types import Expr
from .....ir.walk import substitute, used_vars
from ....tir.analysis.loop_nests import slope
from ...common.choices import choose_whether
from ...nest_building import INT
from ..common.stages import is_multiple, size_of
from .product import Product, extent_of, unravel
from .tensor_views import ROW_BYTES, KTiles, TensorView, indices_of, tensor_of
from .tile_sides import Side, split_guards, sum_of

MOST_STRIDE = 8


@dataclass(slots=True, frozen=True)
class _Axis:
    """An axis of an image: the iterator of the output along it, the first position of the window, how far its last position is
    from the last pixel, from one position to the next, and from one pixel of the window to the next by iterators of steps."""

    row: IterVar | None
    lower: int
    upper: int
    stride: int
    dilations: tuple[tuple[Var, int], ...]


@dataclass(slots=True, frozen=True)
class ImageView:
    """Images in global memory: the size of each axis, the iterator that counts images, the window along their axes."""

    data: Var
    sizes: tuple[Expr, ...]
    image: IterVar | None
    axes: tuple[_Axis, ...]
    k_tiles: KTiles
    copy = "ptx_cp_async_bulk_tensor_im2col"

    def box(
        self, product: Product, side: Side, batch: Expr, first: Expr, size: int, k_tile: Expr, steps: int
    ) -> list[Expr]:
        """Arguments of the copy of ``size`` positions from ``first`` on, and of as many channels of a stage."""
        outer, channel = self.k_tiles.start_of(k_tile)
        at, pixel = unravel(side.axes, first), unravel(self.k_tiles.outer, outer)
        corner = [at[self.image.var] if self.image is not None else const(0, INT)]
        corner += [
            add(mul(at[axis.row.var], axis.stride), axis.lower) if axis.row is not None else const(axis.lower, INT)
            for axis in self.axes
        ]
        corners = [[const(n, INT) for n in (axis.lower, axis.upper, axis.stride)] for axis in self.axes]
        offsets = [sum_of(*[mul(pixel[var], each) for var, each in axis.dilations]) for axis in self.axes]
        sizes = (const(size, INT), const(steps, INT), *self.sizes)
        return [*sizes, *corner, channel, *[n for row in zip(*corners) for n in row], *offsets]


View = TensorView | ImageView


def views_of(product: Product, sides: Sequence[Side]) -> list[View] | str:
    """Both operands as tensors that bulk copies read, or why one of them is none."""
    reasons: list[str] = []
    for count in range(len(product.steps)):
        k_tiles = KTiles(product.steps[:count], product.steps[count:], sides[0].steps)
        found = [_view_of(product, side, k_tiles) for side in sides]
        views = [view for view in found if not isinstance(view, str)]
        if len(views) == len(sides) and not k_tiles.is_full:
            found = [
                f"has {size_of([extent_of(k_tiles.inner)])} neighbours for {k_tiles.size} steps of a stage",
                *views[1:],
            ]
        elif len(views) == len(sides):
            return views
        reasons = [f"{side.buffer.name} {view}" for side, view in zip(sides, found) if isinstance(view, str)]
    return ", ".join(reasons)


def k_tile_count(product: Product, views: Sequence[View] | str, steps: int) -> Expr:
    """So many stages have the steps of a product: those of its views, or where threads copy all that are not empty."""
    return views[0].k_tiles.count if views and not isinstance(views, str) else ceildiv(extent_of(product.steps), steps)


def _view_of(product: Product, side: Side, k_tiles: KTiles) -> View | str:
    made = tensor_of(product, side, k_tiles)
    if not isinstance(made, str):
        return made
    image = _image_of(product, side, k_tiles)
    if not isinstance(image, ImageView):
        return made if image is None else image
    return image if choose_whether(product.stage.block, "im2col", True) else "is an image"


def _image_of(product: Product, side: Side, k_tiles: KTiles) -> ImageView | str | None:
    """An operand as images under a window; None if it is none, or the reason why bulk copies do not take it."""
    load, guards = split_guards(side.value)
    conditions = [part for guard in guards for part in conjuncts(guard)]
    if type(load) is not BufferLoad or load.buffer.scope != "global" or load.buffer.strides or product.batch:
        return None
    indices, sizes = indices_of(product, load), load.buffer.shape
    if (
        not 3 <= len(indices) <= 5
        or load.buffer.elem_offset is not None
        or len(k_tiles.inner) != 1
        or not side.by_steps
    ):
        return None
    equal, channels, rows = Analyzer().can_prove_equal, k_tiles.inner[0], list(side.axes)
    if side.transposed or indices[-1] is not channels.var or not equal(sizes[-1], extent_of(k_tiles.inner)):
        return None
    image = rows.pop(0) if rows[0].var is indices[0] else None
    if not (equal(sizes[0], extent_of([image])) if image is not None else is_int(indices[0], 0)):
        return None
    axes: list[_Axis] = []
    for index, size in zip(indices[1:-1], sizes[1:-1]):
        axis = _axis(index, size, rows[:1], k_tiles.outer, CORNER_BITS[len(indices) - 2])
        if axis is None:
            return None
        if axis.row is not None:
            rows.pop(0)
        axes.append(axis)
    if rows or not all([_is_border(product, cond, indices[1:-1], sizes[1:-1]) for cond in conditions]):
        return None
    item, length = load.buffer.dtype.itemsize, sizes[-1]
    if type(length) is not IntImm or side.size > MOST_PIXELS:
        return "has a number of channels that is not known"
    if not is_multiple(length, ROW_BYTES // item):
        return f"has {length.value} channels"
    return ImageView(load.buffer.data, tuple(sizes), image, tuple(axes), k_tiles)


def _axis(index: Expr, size: Expr, rows: Sequence[IterVar], steps: Sequence[IterVar], bits: int) -> _Axis | None:
    """The window along an axis of a given size, from the index: a multiple of the next row, of steps, and a constant."""
    row = rows[0] if rows and rows[0].var in used_vars(index) else None
    used = [axis for axis in steps if axis.var in used_vars(index)]
    stride = 1 if row is None else slope(index, row.var)
    each = [slope(index, axis.var) for axis in used]
    moving = [*([row] if row is not None else []), *used]
    first = Analyzer().simplify(substitute(index, {axis.var: const(0, INT) for axis in moving}))
    reach = [extent_of([axis]) for axis in used]
    if stride is None or not 1 <= stride <= MOST_STRIDE or type(first) is not IntImm:
        return None
    pairs = [(axis.var, by) for axis, by in zip(used, each) if by is not None and by >= 0]
    counts = [extent.value for extent in reach if type(extent) is IntImm]
    if len(pairs) != len(used) or len(counts) != len(used):
        return None
    span = sum([by * (count - 1) for (_, by), count in zip(pairs, counts)])
    last = add(first, mul(sub(extent_of([row]), 1), stride)) if row is not None else first
    upper = Analyzer().simplify(sub(last, sub(size, 1)))
    limit = range(-1 << bits - 1, 1 << bits - 1)
    if type(upper) is not IntImm or span >= len(limit) or first.value not in limit or upper.value not in limit:
        return None
    return _Axis(row, first.value, upper.value, stride, tuple(pairs))


def _is_border(product: Product, condition: Expr, indices: Sequence[Expr], sizes: Sequence[Expr]) -> bool:
    """True if a condition says no more than that one of the indices is inside of an image."""
    if not isinstance(condition, (GE, GT, LE, LT)):
        return False
    more, less = (condition.a, condition.b) if isinstance(condition, (GE, GT)) else (condition.b, condition.a)
    units = [axis for axis in product.stage.block.iter_vars if is_int(axis.domain.extent, 1)]
    over = substitute(sub(more, less), {axis.var: const(0, INT) for axis in units})
    over = sub(over, 1) if isinstance(condition, (GT, LT)) else over
    limits = [limit for index, size in zip(indices, sizes) for limit in (index, sub(sub(size, 1), index))]
    return any([Analyzer().can_prove_equal(over, limit) for limit in limits])
