"""Packed weights: a constant operand laid out once, at build, as its kernel reads it.

``Packing`` says the layout as data: outer axes, blocks of the column axis, inner axes, one block; with a group, neighbours along
the last inner axis lie side by side (for instructions that add their products). Invariant: packing the array with numpy and the
copying block that a schedule made of it give the same elements; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ffi.compact import compact
from ...ir.build import const, dtype_of, floordiv, floormod
from ...ir.stmt import BlockRealize, For, Stmt
from ...ir.types import Expr


@dataclass(slots=True, frozen=True)
class Packing:
    """Axes of the array: ``outer`` first, then blocks of ``block`` along axis ``columns``, then ``inner``, then one block.

    With ``group`` > 1 the last inner axis (a multiple of it) is split: its groups stand before the block, one group behind.
    """

    outer: tuple[int, ...]
    columns: int
    inner: tuple[int, ...]
    block: int
    group: int = 1

    def indices(self, axes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where the element at an index of the array stands in the packed array."""
        column = axes[self.columns]
        size = const(self.block, dtype_of(column))
        outer, inner = [axes[k] for k in self.outer], [axes[k] for k in self.inner]
        last: list[Expr] = []
        if self.group > 1:
            group = const(self.group, dtype_of(inner[-1]))
            last = [floormod(inner[-1], group)]
            inner[-1] = floordiv(inner[-1], group)
        return (*outer, floordiv(column, size), *inner, floormod(column, size), *last)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the packed array."""
        blocks = -(-shape[self.columns] // self.block)
        inner = [shape[k] for k in self.inner]
        if self.group > 1:
            inner[-1] //= self.group
        tail = (self.group,) if self.group > 1 else ()
        return (*[shape[k] for k in self.outer], blocks, *inner, self.block, *tail)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """The packed array, compact."""
        missing = -array.shape[self.columns] % self.block
        ordered = array.transpose(*self.outer, self.columns, *self.inner)
        place = len(self.outer)
        if missing:
            ordered = np.pad(ordered, [(0, missing if k == place else 0) for k in range(ordered.ndim)])
        blocks = ordered.shape[place] // self.block
        split = ordered.reshape(*ordered.shape[:place], blocks, self.block, *ordered.shape[place + 1 :])
        moved = np.moveaxis(split, place + 1, -1)
        if self.group > 1:
            *head, depth, block = moved.shape
            moved = np.moveaxis(moved.reshape(*head, depth // self.group, self.group, block), -2, -1)
        return compact(moved)


def block_name(stmt: Stmt) -> str | None:
    """Name of the block in a nest of loops, None where there is no single one."""
    while type(stmt) is For:
        stmt = stmt.body
    return stmt.block.name if type(stmt) is BlockRealize else None
