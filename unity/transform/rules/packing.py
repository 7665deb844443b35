"""Packed weights: a constant operand laid out once, at build, as its kernel reads it.

``Packing`` says the layout as data: outer axes, blocks of the column axis, inner axes, one block. Invariant: packing the array
with numpy and the copying block that a schedule made of it give the same elements; padding is zero.
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
    """Axes of the array: ``outer`` first, then blocks of ``block`` along axis ``columns``, then ``inner``, then one block."""

    outer: tuple[int, ...]
    columns: int
    inner: tuple[int, ...]
    block: int

    def indices(self, axes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where the element at an index of the array stands in the packed array."""
        column = axes[self.columns]
        size = const(self.block, dtype_of(column))
        return (
            *[axes[k] for k in self.outer], floordiv(column, size), *[axes[k] for k in self.inner], floormod(column, size)
        )  # fmt: skip

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the packed array."""
        blocks = -(-shape[self.columns] // self.block)
        return (*[shape[k] for k in self.outer], blocks, *[shape[k] for k in self.inner], self.block)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """The packed array, compact."""
        missing = -array.shape[self.columns] % self.block
        ordered = array.transpose(*self.outer, self.columns, *self.inner)
        place = len(self.outer)
        if missing:
            ordered = np.pad(ordered, [(0, missing if k == place else 0) for k in range(ordered.ndim)])
        blocks = ordered.shape[place] // self.block
        split = ordered.reshape(*ordered.shape[:place], blocks, self.block, *ordered.shape[place + 1 :])
        return compact(np.moveaxis(split, place + 1, -1))


def block_name(stmt: Stmt) -> str | None:
    """Name of the block in a nest of loops, None where there is no single one."""
    while type(stmt) is For:
        stmt = stmt.body
    return stmt.block.name if type(stmt) is BlockRealize else None
