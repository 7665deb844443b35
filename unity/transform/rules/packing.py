"""Packed weights: a constant operand laid out once, at build, as its kernel reads it.

``Packing`` says the layout as data: outer axes, blocks of the column axis, inner axes, one block. Invariant: packing the array
with numpy and the copying block that a schedule made of it give the same elements; padding is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.build import const, dtype_of, floordiv, floormod
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.stmt import AllocBuffer, BlockRealize, For, SeqStmt, Stmt, seq
from ...ir.types import Expr
from ...support.errors import InternalError


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
        columns = shape[self.columns]
        block = min(self.block, columns)
        return (*[shape[k] for k in self.outer], -(-columns // block), *[shape[k] for k in self.inner], block)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """The packed array, compact."""
        block = min(self.block, array.shape[self.columns])
        missing = -array.shape[self.columns] % block
        ordered = array.transpose(*self.outer, self.columns, *self.inner)
        place = len(self.outer)
        if missing:
            ordered = np.pad(ordered, [(0, missing if k == place else 0) for k in range(ordered.ndim)])
        blocks = ordered.shape[place] // block
        split = ordered.reshape(*ordered.shape[:place], blocks, block, *ordered.shape[place + 1 :])
        return np.ascontiguousarray(np.moveaxis(split, place + 1, -1))


def take_packed(fn: PrimFunc, parameter: int, copy: str) -> PrimFunc:
    """The program that takes parameter number ``parameter`` packed: its copying block ``copy`` is gone.

    Raises InternalError E901 when the block does not stand by itself.
    """
    param = fn.params[parameter]
    kept: list[Stmt] = []
    packed = None
    statements = fn.body.stmts if type(fn.body) is SeqStmt else (fn.body,)
    for stmt in statements:
        if type(stmt) is AllocBuffer and stmt.buffer.name == copy:
            packed = stmt.buffer
        elif _block_name(stmt) != copy:
            kept.append(stmt)
    if packed is None or len(kept) != len(statements) - 2:
        raise InternalError("E901", f"the packing block {copy} does not stand by itself")
    return replace(fn, buffer_map={**fn.buffer_map, param: packed}, body=seq(*kept))


def _block_name(stmt: Stmt) -> str | None:
    while type(stmt) is For:
        stmt = stmt.body
    return stmt.block.name if type(stmt) is BlockRealize else None
