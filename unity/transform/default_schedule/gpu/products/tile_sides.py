"""The operands of a product as tiles in shared memory: the elements of a tile, and the width of vector accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .....arith import Analyzer
from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, const, dtype_of, eq, floormod, if_then_else, logical_and, lt, mul, sub
from .....ir.expr import Call, IntImm, Var
from .....ir.scalar import BufferLoad, IterVar
from .....ir.stmt import BufferStore
from .....ir.types import Expr, prim_type
from .....ir.walk import substitute, used_vars
from ....tir.analysis.loop_nests import is_choice, slope
from ...nest_building import INT
from ..common.stages import is_multiple
from .product import Product, contiguous_along, extent_of, iterator_values, stored, unravel

CHUNK_BYTES = 16
"""Bytes of a row of an 8x8 matrix in shared memory."""
LINES = 8
"""Rows of such a matrix."""


@dataclass(slots=True, frozen=True)
class Side:
    """An operand. ``axes`` are the iterators of its rows or columns; a tile has ``size`` of them and ``steps`` of the sum.
    ``by_steps``: steps are contiguous in the tile. ``transposed``: they are not in memory, so that the fill transposes. ``width``:
    elements that a thread stores at once."""

    value: Expr
    axes: tuple[IterVar, ...]
    size: int
    steps: int
    by_steps: bool
    transposed: bool
    width: int
    buffer: Buffer

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK_BYTES // self.buffer.dtype.itemsize

    @property
    def single(self) -> int:
        """Elements that a thread reads one by one for each that it stores; 0 where it copies vectors."""
        return self.width if self.transposed else int(self.width == 1)

    @property
    def length(self) -> int:
        """Extent of a tile along its contiguous axis."""
        return self.steps if self.by_steps else self.size

    @property
    def lines(self) -> int:
        """Extent of a tile along the other axis."""
        return self.size if self.by_steps else self.steps

    @property
    def copied_bytes(self) -> int:
        """Bytes that a thread copies at once; an element where memory is read across."""
        return self.buffer.dtype.itemsize * (1 if self.transposed else self.width)

    @property
    def bytes(self) -> int:
        """Bytes of the tile in shared memory."""
        rows, row = self.buffer.shape
        assert type(rows) is IntImm and type(row) is IntImm
        return rows.value * row.value * self.buffer.dtype.itemsize


def side_of(product: Product, name: str, value: Expr, axes: tuple[IterVar, ...], size: int, steps: int) -> Side:
    """An operand with a buffer for its tile. The instruction converts the elements; it transposes only those of 16 bits."""
    contiguous = contiguous_along(value, product.steps, axes)
    value = stored(value)
    dtype = dtype_of(value)
    chunk = CHUNK_BYTES // dtype.itemsize
    by_steps = contiguous or dtype.itemsize != 2
    length, lines = (steps, size) if by_steps else (size, steps)
    free = max(1, LINES // (length // chunk))
    shape = [const(length // chunk, INT), const((lines + free) * chunk, INT)]
    buffer = make_buffer(f"{product.name}_{name}", dtype.name, shape, "shared.dyn")
    side = Side(value, axes, size, steps, by_steps, by_steps and not contiguous, 1, buffer)
    return replace(side, width=vectors_of(product, side))


def vectors_of(product: Product, side: Side) -> int:
    """Elements of an operand that a thread stores at once: whole vectors of memory, or gathered ones."""
    widths = [side.chunk >> k for k in range(side.chunk.bit_length() - 1)]
    return next((width for width in widths if _is_vector(product, side, width)), 1)


def element_at(product: Product, side: Side, batch: Expr, groups: Expr, line: Expr, lane: Expr | None) -> Expr:
    """An element of an operand, zero past the ends. ``groups`` counts vectors along memory, ``lane`` is the position in one,
    ``line`` counts across memory."""
    along, across = (product.steps, side.axes) if side.by_steps else (side.axes, product.steps)
    if side.transposed:
        by_lane = unravel(along, sum_of(mul(groups, side.width), lane))
    else:
        by_lane = unravel(along, groups, side.width, lane)
    values = {**unravel(product.batch, batch), **by_lane, **unravel(across, line)}
    element, conditions = split_guards(substitute(side.value, iterator_values(product, values)))
    ends = [
        *bound_checks(
            sum_of(mul(groups, side.width), lane if side.transposed else None), extent_of(along), side.length
        ),
        *bound_checks(line, extent_of(across), side.lines),
    ]
    guard = all_of([*ends, *conditions])
    return element if guard is None else if_then_else(guard, element, const(0, dtype_of(element)))


def _is_vector(product: Product, side: Side, width: int) -> bool:
    """True if ``width`` contiguous elements of the tile are one aligned vector in memory, or are gathered."""
    along = product.steps if side.by_steps else side.axes
    if side.transposed or not last_divides(along, width):
        return side.transposed
    lane, group = Var("lane", prim_type(INT)), Var("group", prim_type(INT))
    element, conditions = split_guards(substitute(side.value, unravel(along, group, width, lane)))
    if type(element) is not BufferLoad or element.buffer.scope != "global":
        return False
    return is_aligned_vector(element, lane, width) and not any([lane in used_vars(cond) for cond in conditions])


def last_divides(axes: Sequence[IterVar], width: int) -> bool:
    """True if the extent of the last iterator is a known multiple of the width."""
    return bool(axes) and is_multiple(axes[-1].domain.extent, width)


def is_aligned_vector(access: BufferLoad | BufferStore, lane: Var, width: int) -> bool:
    """True if the lanes access contiguous elements, aligned to the width."""
    buffer, indices = access.buffer, access.indices
    if not indices or buffer.strides or buffer.elem_offset is not None or slope(indices[-1], lane) != 1:
        return False
    row = buffer.shape[-1]
    if len(indices) > 1 and not is_multiple(row, width):
        return False
    if any([lane in used_vars(index) for index in indices[:-1]]):
        return False
    first = sub(indices[-1], lane)
    return Analyzer().can_prove(eq(floormod(first, const(width, INT)), const(0, INT)))


def split_guards(value: Expr) -> tuple[Expr, list[Expr]]:
    """A value without its ``if_then_else(.., 0)``, and the conditions of these."""
    conditions: list[Expr] = []
    while isinstance(value, Call) and is_choice(value) and getattr(value.args[2], "value", None) == 0:
        condition, value = value.args[0], value.args[1]
        conditions.append(condition)
    return value, conditions


def bound_checks(at: Expr, extent: Expr, size: int) -> list[Expr]:
    """The condition that an index is below the extent; empty if tiles divide the extent."""
    return [] if is_multiple(extent, size) else [lt(at, extent)]


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The conjunction of conditions; None if there are none."""
    found: Expr | None = None
    for condition in conditions:
        found = condition if found is None else logical_and(found, condition)
    return found


def sum_of(*terms: Expr | None) -> Expr:
    """The sum of the terms that are not None."""
    total: Expr = const(0, INT)
    for term in terms:
        total = total if term is None else add(total, term)
    return total
