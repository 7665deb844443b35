"""A contraction on whole tiles: rows and columns rounded up, its result in a buffer of its own, its weights in panels.

Rewrite: ``C[i, j] += A[i, k] * B[k, j]`` over M x N -> the same over M' x N' (multiples of the tile) into ``C_tile``, reading
``A[min(i, M - 1), k]`` and ``B_packed[j // tile, k, j % tile]`` (beyond N zero or the last column); ``C`` is computed from
``C_tile`` over M x N by the block that consumed ``C``, or by a copy. Values beyond M x N are never used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...arith import Analyzer
from ...ir.buffer import Buffer, Range, make_buffer
from ...ir.build import (
    add,
    buffer_load,
    ceildiv,
    const,
    dtype_of,
    floordiv,
    floormod,
    if_then_else,
    lt,
    minimum,
    mul,
    sub,
)
from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import AllocBuffer, BufferStore, Stmt, seq, statements_of
from ...ir.types import Expr
from ...ir.walk import rewrite, substitute
from ..infra.backend import Machine
from ..tir.analysis.loop_nests import cell_nest, slope
from .amx_tiles import row_step
from .base import PARALLEL_CELLS
from .common.tile_shape import UNKNOWN
from .contraction import Contraction, is_parameter, steps_of
from .nest_building import iterator, nest_of, nest_over
from .nests.transposed import transposed
from .packing import Packing, block_name


@dataclass(slots=True, frozen=True)
class Padded:
    """The program on whole tiles; ``after`` names the block that computes the result from the tile, ``copy`` the one that fills
    the panels (None where the weights come packed or stay as they are)."""

    func: PrimFunc
    after: str
    copy: str | None


def pad_to_tiles(
    fn: PrimFunc,
    contraction: Contraction,
    after: str | None,
    row: IterVar | None,
    rows: int,
    layout: Packing | None,
    constant: bool,
    whole_rows: bool = False,
) -> Padded:
    """Round a contraction up to tiles. ``layout`` packs the weights; with ``constant`` the parameter itself comes packed.

    Rows beyond the last repeat it; with ``whole_rows`` (rows lie along one axis of the data) they are read from a copy of the data
    with as much behind that axis, so that tiles of rows are regular in memory; so are rows that are not neighbours.
    """
    tiles = _Tiles(contraction, row, rows, layout)
    tile_buffer, panels = tiles.buffer(), tiles.panels()
    beside = row is not None and whole_rows and (tiles.clamp() or _strided(contraction, row))
    lines = _Lines.of(contraction, row, rows) if row is not None and beside else None
    nest = tiles.nest(tile_buffer, panels, lines)
    statements = statements_of(fn.body)
    made: list[Stmt] = []
    copy = None
    buffer_map = fn.buffer_map
    for stmt in statements:
        if block_name(stmt) != contraction.block.name:
            made.append(stmt)
            continue
        if panels is not None and layout is not None:
            if constant:
                place = is_parameter(fn, contraction.weights.buffer)
                assert place is not None
                buffer_map = {**buffer_map, fn.params[place]: panels}
            else:
                copy = f"{panels.name}"
                made.append(_copy(contraction, layout, panels))
        if lines is not None:
            made.append(lines.fill())
        made.append(nest)
        if after is None:
            out = contraction.output
            made.append(nest_over(f"{out.name}_out", out, lambda cell: buffer_load(tile_buffer, *cell)))
    if after is not None:
        made = [
            _reading(stmt, contraction.output, tile_buffer) for stmt in made if not _allocates(stmt, contraction.output)
        ]
    own = [tile_buffer] if constant or panels is None else [tile_buffer, panels]
    own += [lines.copy] if lines is not None else []
    body = seq(*[AllocBuffer(b) for b in own], *made)
    return Padded(replace(fn, buffer_map=buffer_map, body=body), after or f"{contraction.output.name}_out", copy)


def _round_up(extent: Expr, size: int) -> Expr:
    return Analyzer().simplify(mul(ceildiv(extent, size), size))


def _strided(contraction: Contraction, row: IterVar) -> bool:
    found = row_step(contraction.data, row)
    return found is not None and found[1] > 1


@dataclass(slots=True, frozen=True)
class _Tiles:
    """A contraction in tiles of ``rows`` and of the columns of a panel."""

    contraction: Contraction
    row: IterVar | None
    rows: int
    layout: Packing | None

    def extent(self, axis: IterVar) -> Expr:
        """The extent of an iterator in whole tiles."""
        extent, layout = axis.domain.extent, self.layout
        if axis is self.row:
            return _round_up(extent, self.rows)
        return _round_up(extent, layout.block) if axis is self.contraction.columns and layout is not None else extent

    def buffer(self) -> Buffer:
        """The result of whole tiles."""
        output, axes = self.contraction.output, {axis.var: axis for axis in self.contraction.block.iter_vars}
        cells = zip(self.contraction.cell, output.shape)
        shape = [self.extent(axes[e]) if isinstance(e, Var) else n for e, n in cells]
        return make_buffer(f"{output.name}_tile", output.dtype, shape, "local")

    def panels(self) -> Buffer | None:
        """The weights in panels."""
        layout, weights = self.layout, self.contraction.weights.buffer
        if layout is None:
            return None
        columns = weights.shape[layout.columns]
        blocks = floordiv(_round_up(columns, layout.block), const(layout.block, dtype_of(columns)))
        inner, tail = [weights.shape[k] for k in layout.inner], [const(layout.block, dtype_of(columns))]
        if layout.group > 1:
            group = const(layout.group, dtype_of(inner[-1]))
            inner[-1] = Analyzer().simplify(floordiv(inner[-1], group))
            tail.append(group)
        sizes = (*[weights.shape[k] for k in layout.outer], Analyzer().simplify(blocks), *inner, *tail)
        return make_buffer(f"{weights.name}_packed", weights.dtype, sizes, "global")

    def clamp(self) -> dict[Var, Expr]:
        """The expression for the row variable where tiles reach beyond the last row; empty where none does."""
        row = self.row
        if row is None or Analyzer().can_prove_equal(self.extent(row), row.domain.extent):
            return {}
        return {row.var: minimum(row.var, sub(row.domain.extent, const(1, dtype_of(row.var))))}

    def nest(self, tile: Buffer, panels: Buffer | None, lines: _Lines | None) -> Stmt:
        """The contraction over whole tiles."""
        contraction, layout, clamp = self.contraction, self.layout, self.clamp()
        axes = [
            IterVar(axis.var, Range(const(0, dtype_of(axis.var)), self.extent(axis)), axis.kind)
            for axis in contraction.block.iter_vars
        ]

        def load(node: BufferLoad) -> BufferLoad:
            if node.buffer is contraction.weights.buffer and panels is not None and layout is not None:
                return BufferLoad(panels, layout.indices(node.indices), node.ty)
            if node.buffer is contraction.data.buffer and lines is not None:
                return lines.load(node)
            if node.buffer is contraction.data.buffer and clamp:
                return BufferLoad(node.buffer, tuple([substitute(e, clamp) for e in node.indices]), node.ty)
            return node

        moved = {contraction.output: tile, contraction.output.data: tile.data}
        body = substitute(rewrite(contraction.block.body, {BufferLoad: load}), moved)
        assert contraction.block.init is not None
        return nest_of(contraction.block.name, axes, body, substitute(contraction.block.init, moved))


@dataclass(slots=True, frozen=True)
class _Lines:
    """A copy of the data in which rows are neighbours and those that fill the last tile exist. Rows lie along ``axis`` of the
    data, ``step`` apart: with a step beyond one the copy has an axis of that length before it, for the elements in between."""

    data: Buffer
    copy: Buffer
    row: IterVar
    axis: int
    step: int

    @classmethod
    def of(cls, contraction: Contraction, row: IterVar, rows: int) -> _Lines:
        """The copy for tiles of ``rows``."""
        data, found = contraction.data.buffer, row_step(contraction.data, row)
        assert found is not None, "tiles take rows along one axis"
        axis, step = found
        extent = row.domain.extent
        more = mul(sub(_round_up(extent, rows), extent), const(step, dtype_of(extent)))
        long = Analyzer().simplify(add(data.shape[axis], more))
        parts = [long] if step == 1 else [const(step, dtype_of(long)), Analyzer().simplify(ceildiv(long, step))]
        shape = (*data.shape[:axis], *parts, *data.shape[axis + 1 :])
        return cls(data, make_buffer(f"{data.name}_rows", data.dtype, shape, "global"), row, axis, step)

    def load(self, node: BufferLoad) -> BufferLoad:
        """The same element of the copy."""
        before, index, behind = node.indices[: self.axis], node.indices[self.axis], node.indices[self.axis + 1 :]
        parts = [index]
        if self.step > 1:
            step = const(self.step, dtype_of(index))
            rest = Analyzer().simplify(substitute(index, {self.row.var: const(0, dtype_of(self.row.var))}))
            parts = [floormod(rest, step), add(self.row.var, floordiv(rest, step))]
        return BufferLoad(self.copy, (*before, *parts, *behind), node.ty)

    def fill(self) -> Stmt:
        """The nest that makes the copy: what lies beyond the data is the last of the axis."""

        def element(cell: tuple[Expr, ...]) -> Expr:
            place, count = cell[self.axis], 1
            if self.step > 1:
                place, count = add(mul(cell[self.axis + 1], const(self.step, dtype_of(place))), place), 2
            last = sub(self.data.shape[self.axis], const(1, dtype_of(self.data.shape[self.axis])))
            return buffer_load(self.data, *cell[: self.axis], minimum(place, last), *cell[self.axis + count :])

        return nest_over(self.copy.name, self.copy, element)


def _copy(contraction: Contraction, layout: Packing, panels: Buffer) -> Stmt:
    """Fill the panels, the columns of a panel innermost; behind the last zeros, or it again where columns lie along the steps."""
    source = contraction.weights.buffer
    axes = [iterator(f"p{k}", n) for k, n in enumerate(panels.shape)]
    cell: list[Expr] = [const(0, dtype_of(n)) for n in source.shape]
    outer, block, inner, lane = _parts(axes, layout)
    for axis, k in zip((*outer, *inner), (*layout.outer, *layout.inner)):
        cell[k] = axis.var
    if layout.group > 1:
        depth = layout.inner[-1]
        cell[depth] = add(mul(cell[depth], const(layout.group, dtype_of(cell[depth]))), axes[-1].var)
    column = add(mul(block.var, const(layout.block, dtype_of(block.var))), lane.var)
    cell[layout.columns] = column
    columns = source.shape[layout.columns]
    in_squares = is_turned(contraction, layout)
    is_part = not Analyzer().can_prove_equal(_round_up(columns, layout.block), columns)
    if is_part and in_squares:
        cell[layout.columns] = minimum(column, sub(columns, const(1, dtype_of(columns))))
    value: Expr = buffer_load(source, *cell)
    if is_part and not in_squares:
        value = if_then_else(lt(column, columns), value, const(0, source.dtype))
    return nest_of(panels.name, axes, BufferStore(panels, value, tuple([axis.var for axis in axes])))


def is_turned(contraction: Contraction, layout: Packing) -> bool:
    """True if panels have the elements of a step side by side, where the weights have those of a column."""
    return layout.group == 1 and slope(contraction.weights.indices[-1], contraction.columns.var) != 1


def in_squares(fn: PrimFunc, copy: str, machine: Machine) -> PrimFunc | None:
    """A program whose ``copy`` of an operand into panels goes through registers in squares; None where it is too small for that."""
    statements = list(statements_of(fn.body))
    at = [block_name(stmt) for stmt in statements].index(copy)
    nest = cell_nest(statements[at])
    is_large = nest is not None and steps_of(nest.block.iter_vars, UNKNOWN) >= PARALLEL_CELLS
    squares = None if nest is None else transposed(nest.loops, nest, machine.vector_bytes, is_large)
    if squares is None:
        return None
    return replace(fn, body=seq(*statements[:at], squares, *statements[at + 1 :]))


def _parts(axes: Sequence[IterVar], layout: Packing) -> tuple[list[IterVar], IterVar, list[IterVar], IterVar]:
    count, last = len(layout.outer), -1 if layout.group == 1 else -2
    return list(axes[:count]), axes[count], list(axes[count + 1 : last]), axes[last]


def _allocates(stmt: Stmt, buffer: Buffer) -> bool:
    return type(stmt) is AllocBuffer and stmt.buffer is buffer


def _reading(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    """A statement that reads ``new`` for ``old``."""
    made: Stmt = substitute(stmt, {old: new, old.data: new.data})
    return made
