"""The operands of a product as tensors that bulk copies take boxes of: sizes, and what selects along each axis.

A tensor map has up to five axes. Each iterator of the batch has one of its own; those that count rows, columns or steps are one
axis together, where they are neighbours in memory. Rows of a tensor are multiples of 16 bytes. An image whose channels come last
is copied under the window of a convolution (`image_views.py`): a stage then has channels of one pixel of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .....arith import Analyzer
from .....ir.build import ceildiv, const, floordiv, floormod, is_int, maximum, mul
from .....ir.expr import IntImm, Var
from .....ir.scalar import BufferLoad, IterVar
from .....ir.types import Expr
from .....ir.walk import substitute
from ...nest_building import INT
from ..common.stages import is_multiple
from .product import Product, extent_of, unravel
from .tile_sides import Side

MOST_AXES = 5
ROW_BYTES = 16
FULL = 3
"""Steps of a stage, at most, for each that it has: else threads that copy read less."""
Run = tuple[IterVar, ...]


@dataclass(slots=True, frozen=True)
class KTiles:
    """The k-tiles of a product, one a stage: steps of ``inner`` by ``size``, for each value of ``outer``."""

    outer: Run
    inner: Run
    size: int

    @property
    def blocks(self) -> Expr:
        """Stages for a value of ``outer``."""
        return ceildiv(extent_of(self.inner), self.size)

    @property
    def is_full(self) -> bool:
        """True if most of a stage is steps of the product, and not behind the last one of ``inner``."""
        length = extent_of(self.inner)
        if not self.outer or type(length) is not IntImm:
            return not self.outer
        return -(-length.value // self.size) * self.size <= FULL * length.value

    @property
    def count(self) -> Expr:
        """Stages of the product."""
        return mul(extent_of(self.outer), self.blocks)

    def start_of(self, k_tile: Expr) -> tuple[Expr, Expr]:
        """The number of a stage's value of ``outer``, and its first step of ``inner``."""
        if not self.outer:
            return const(0, INT), mul(k_tile, self.size)
        return floordiv(k_tile, self.blocks), mul(floormod(k_tile, self.blocks), self.size)


@dataclass(slots=True, frozen=True)
class TensorView:
    """A tensor in global memory: of each axis the size, and the iterators that select along it."""

    data: Var
    sizes: tuple[Expr, ...]
    axes: tuple[Run, ...]
    k_tiles: KTiles
    copy = "ptx_cp_async_bulk_tensor"

    def box(
        self, product: Product, side: Side, batch: Expr, first: Expr, size: int, k_tile: Expr, steps: int
    ) -> list[Expr]:
        """Arguments of the copy of ``size`` rows or columns from ``first`` on, and of as many steps of a stage."""
        outer, inner = self.k_tiles.start_of(k_tile)
        single = {**unravel(product.batch, batch), **unravel(self.k_tiles.outer, outer)}

        def corner(run: Run) -> Expr:
            if run in (side.axes, self.k_tiles.inner):
                return first if run == side.axes else inner
            return outer if run == self.k_tiles.outer else single[run[0].var]

        lengths = {side.axes: size, self.k_tiles.inner: steps}
        box = [const(lengths.get(run, 1), INT) for run in self.axes]
        return [*self.sizes, *box, *[corner(run) for run in self.axes]]


def indices_of(product: Product, load: BufferLoad) -> list[Expr]:
    """The indices of an access; iterators that count to one are zero."""
    units = [axis for axis in product.stage.block.iter_vars if is_int(axis.domain.extent, 1)]
    zeros: dict[Var, Expr] = {axis.var: const(0, INT) for axis in units}
    return [Analyzer().simplify(substitute(index, zeros)) for index in load.indices]


def tensor_of(product: Product, side: Side, k_tiles: KTiles) -> TensorView | str:
    """An operand as a tensor of which a tile is a box, or the reason why it is none."""
    load = side.value
    if type(load) is not BufferLoad or load.buffer.scope != "global":
        return "is computed while it is copied"
    if load.buffer.strides or load.buffer.elem_offset is not None:
        return "is not a compact tensor"
    wanted = [run for run in (*[(axis,) for axis in product.batch], side.axes, k_tiles.inner, k_tiles.outer) if run]
    axes: list[Run] = []
    rest = [(index, size) for index, size in zip(indices_of(product, load), load.buffer.shape) if not is_int(size, 1)]
    while rest:
        runs = [*wanted, *[(axis,) for axis in k_tiles.outer]]
        run = next((run for run in runs if _counts(run, rest[: len(run)])), None)
        if run is None:
            return "has its elements in another order"
        axes.append(run)
        rest = rest[len(run) :]
    if {axis for run in axes for axis in run} != {axis for run in wanted for axis in run}:
        return "does not depend on all iterators"
    sizes = [extent_of(run) for run in axes]
    row, item = sizes[-1], load.buffer.dtype.itemsize
    inner = k_tiles.inner
    if side.transposed or axes[-1] not in (side.axes, inner) or (axes[-1] == inner) != side.by_steps:
        return "lies across"
    if len(axes) > MOST_AXES:
        return f"has {len(axes)} axes"
    if not is_multiple(row, ROW_BYTES // item):
        return f"has rows of {f'{row.value * item} bytes' if type(row) is IntImm else 'a length that is not known'}"
    if type(extent_of(inner)) is not IntImm:  # of no steps nothing is copied, but a tensor map has elements
        least = ROW_BYTES // item if axes[-1] == inner else 1
        sizes = [maximum(size, least) if run == inner else size for run, size in zip(axes, sizes)]
    return TensorView(load.buffer.data, tuple(sizes), tuple(axes), k_tiles)


def _counts(run: Run, indices: Sequence[tuple[Expr, Expr]]) -> bool:
    """True if iterators count through axes of a tensor."""
    if len(indices) < len(run):
        return False
    same = Analyzer().can_prove_equal
    pairs = zip(run, indices)
    return all([index is axis.var and same(size, axis.domain.extent) for axis, (index, size) in pairs])
