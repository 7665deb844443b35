"""Packed weights: a constant operand laid out once, at build, as its kernel reads it.

``Packing`` says the layout as data: outer axes, blocks of the column axis, inner axes, one block; with a group, neighbours along
the last inner axis lie side by side (for instructions that add their products). Invariant: packing the array with numpy and the
copying block that a schedule made of it give the same elements; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ffi.native.compact import compact, copy_into, empty
from ...ir.build import const, dtype_of, floordiv, floormod
from ...ir.stmt import BlockRealize, For, Stmt
from ...ir.types import Expr


@dataclass(slots=True, frozen=True)
class Packing:
    """Axes of the array: ``outer`` first, then blocks of ``block`` along axis ``columns``, then ``inner``, then one block.

    With ``group`` > 1 the last inner axis (a multiple of it) is split: its groups stand before the block, one group behind.
    With ``fused`` the last of the inner axes, as many, are one of ``depth`` elements, zeros behind theirs.
    """

    outer: tuple[int, ...]
    columns: int
    inner: tuple[int, ...]
    block: int
    group: int = 1
    fused: int = 0
    depth: int = 0

    def indices(self, axes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The position in the packed array of the element at an index of the array."""
        assert not self.fused, "read of lines"
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
        if self.fused:
            inner[-self.fused :] = [self.depth]
        if self.group > 1:
            inner[-1] //= self.group
        tail = (self.group,) if self.group > 1 else ()
        return (*[shape[k] for k in self.outer], blocks, *inner, self.block, *tail)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """The packed array, compact. Padding costs no copy of the whole."""
        if self.fused:
            return self._lines(array)
        columns = array.shape[self.columns]
        whole = columns - columns % self.block
        if whole == columns:
            return compact(self._view(array, self.block))
        made = empty(self.shape(array.shape), array.dtype)
        before: tuple[Any, ...] = (slice(None),) * len(self.outer)
        part: list[Any] = [slice(None)] * array.ndim
        rest = list(part)
        part[self.columns], rest[self.columns] = slice(0, whole), slice(whole, columns)
        if whole:
            copy_into(made[(*before, slice(0, -1))], self._view(array[tuple(part)], self.block))
        made[(*before, -1)] = 0
        tail = made[(*before, slice(-1, None))]
        lanes = slice(0, columns - whole)
        inside = tail[..., lanes, :] if self.group > 1 else tail[..., lanes]
        copy_into(inside, self._view(array[tuple(rest)], columns - whole))
        return made

    def _lines(self, array: np.ndarray) -> np.ndarray:
        """The packed array by way of the one with joined axes."""
        ordered = array.transpose(*self.outer, self.columns, *self.inner)
        shape = ordered.shape[: -self.fused]
        lines = np.zeros((*shape, self.depth), array.dtype)
        flat = ordered.reshape(*shape, -1)
        lines[..., : flat.shape[-1]] = flat
        count = len(self.outer)
        return Packing(tuple(range(count)), count, tuple(range(count + 1, lines.ndim)), self.block, self.group).pack(
            lines
        )

    def _view(self, array: np.ndarray, block: int) -> np.ndarray:
        """The array in packed order, where blocks of its columns have no rest."""
        ordered = array.transpose(*self.outer, self.columns, *self.inner)
        place = len(self.outer)
        blocks = ordered.shape[place] // block
        split = ordered.reshape(*ordered.shape[:place], blocks, block, *ordered.shape[place + 1 :])
        moved = np.moveaxis(split, place + 1, -1)
        if self.group > 1:
            *head, depth, last = moved.shape
            moved = np.moveaxis(moved.reshape(*head, depth // self.group, self.group, last), -2, -1)
        return moved


def block_name(stmt: Stmt) -> str | None:
    """Name of the block in a nest of loops, None where there is no single one."""
    while type(stmt) is For:
        stmt = stmt.body
    return stmt.block.name if type(stmt) is BlockRealize else None
