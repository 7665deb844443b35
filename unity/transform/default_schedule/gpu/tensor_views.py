"""The operands of a product as tensors that bulk copies take boxes of: sizes, and what selects along each axis.

A tensor map has up to five axes. Each iterator of the batch has one of its own; those that count rows, columns or steps are one
axis together, where they are neighbours in memory. Rows of a tensor are multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....arith import Analyzer
from ....ir.build import is_int, maximum
from ....ir.expr import IntImm, Var
from ....ir.scalar import BufferLoad, IterVar
from ....ir.types import Expr
from .product import Product, extent_of, is_multiple
from .tile_sides import Side

MOST_AXES = 5
ROW_BYTES = 16


@dataclass(slots=True, frozen=True)
class TensorView:
    """A tensor in global memory: of each axis the size, and the iterators that select along it."""

    data: Var
    sizes: tuple[Expr, ...]
    axes: tuple[tuple[IterVar, ...], ...]

    def each(self, selected: Expr, steps: Expr, others: Sequence[Expr], what: Product, side: Side) -> tuple[Expr, ...]:
        """An expression for each axis: that of the operand's rows or columns, that of its steps, those of the batch in order."""
        batch = dict(zip(what.batch, others))
        return tuple([
            selected if axes == side.axes else steps if axes == what.steps else batch[axes[0]] for axes in self.axes
        ])  # fmt: skip


def view_of(what: Product, side: Side) -> TensorView | str:
    """An operand as such a tensor, or the reason why it is none."""
    load = side.value
    if type(load) is not BufferLoad or load.buffer.scope != "global":
        return "is computed while it is copied"
    if load.buffer.strides or load.buffer.elem_offset is not None:
        return "is no compact tensor"
    axes: list[tuple[IterVar, ...]] = []
    rest = [(index, size) for index, size in zip(load.indices, load.buffer.shape) if not is_int(size, 1)]
    while rest:
        runs = [(axis,) for axis in what.batch] + [side.axes, what.steps]
        run = next((run for run in runs if run[0].var is rest[0][0]), ())
        if not run or not _counts(run, rest[: len(run)]):
            return "has its elements in another order"
        axes.append(run)
        rest = rest[len(run) :]
    if len(axes) != len(what.batch) + 2:
        return "does not depend on all iterators"
    sizes = [extent_of(run) for run in axes]
    row, item = sizes[-1], load.buffer.dtype.itemsize
    if side.turned or axes[-1] not in (side.axes, what.steps) or (axes[-1] == what.steps) != side.by_steps:
        return "lies across"
    if len(axes) > MOST_AXES:
        return f"has {len(axes)} axes"
    if not is_multiple(row, ROW_BYTES // item):
        return f"has rows of {f'{row.value * item} bytes' if type(row) is IntImm else 'a length that is not known'}"
    if type(extent_of(what.steps)) is not IntImm:  # of no steps nothing is copied, but a tensor map has elements
        least = ROW_BYTES // item if axes[-1] == what.steps else 1
        sizes = [maximum(size, least) if run == what.steps else size for run, size in zip(axes, sizes)]
    return TensorView(load.buffer.data, tuple(sizes), tuple(axes))


def _counts(run: tuple[IterVar, ...], places: Sequence[tuple[Expr, Expr]]) -> bool:
    """True if iterators count through axes of a tensor."""
    if len(places) < len(run):
        return False
    same = Analyzer().can_prove_equal
    return all([
        index is axis.var and axis.dom is not None and same(size, axis.dom.extent) for axis, (index, size) in zip(run, places)
    ])  # fmt: skip
