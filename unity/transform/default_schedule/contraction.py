"""The form of a contraction: ``C[spatial] += A[..] * B[..]`` as a reduction block, its iterators sorted by the operands they
select.

Matrix products (batched, transposed), convolutions and their channels-last forms are contractions. Not here: schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.analysis.reductions import element_of, reduction_operand
from ...ir.buffer import Buffer
from ...ir.build import int_value
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.scalar import Add, BufferLoad, IterVar, Mul
from ...ir.stmt import Block, BufferStore
from ...ir.types import Expr
from ...ir.walk import free_vars


@dataclass(slots=True, frozen=True)
class Contraction:
    """The operands and the iterators of a contraction block, in the block's order.

    ``weights`` is the operand that no row selects: its elements are selected by batch, columns and reductions alone, each by one
    plain iterator. ``columns`` is the iterator of the last axis of the output, along which vectors run.
    """

    block: Block
    output: Buffer
    data: BufferLoad
    weights: BufferLoad
    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: IterVar
    reductions: tuple[IterVar, ...]

    @property
    def cell(self) -> tuple[Expr, ...]:
        """Indices of the element that a step adds to."""
        store = self.block.body
        assert isinstance(store, BufferStore)
        return store.indices

    @property
    def types(self) -> tuple[str, str, str]:
        """Element types of data, weights and output."""
        return self.data.buffer.dtype.name, self.weights.buffer.dtype.name, self.output.dtype.name

    @property
    def is_contiguous(self) -> bool:
        """True if the innermost reduction walks along the last axis of the data, element by element."""
        indices = self.data.indices
        return bool(indices) and indices[-1] is self.reductions[-1].var and not self.data.buffer.strides

    @property
    def weight_order(self) -> tuple[Var, ...]:
        """Iterators that select the axes of the weights, axis by axis (None stands for axes of one element)."""
        return tuple([index for index in self.weights.indices if isinstance(index, Var)])


def contraction_of(block: Block, anywhere: bool = False) -> Contraction | str:
    """A block as a contraction, or why it is none; ``anywhere``: its columns may be any axis of the output."""
    store = block.body
    if type(store) is not BufferStore or store.predicate is not None or block.init is None:
        return "no reduction of one store"
    if type(block.init) is not BufferStore or not isinstance(store.value, Add):
        return "no sum"
    term = reduction_operand(store)
    if term is None:
        return "no sum into one buffer"
    if not isinstance(term, Mul):
        return "no sum of products"
    left, right = element_of(term.a), element_of(term.b)
    if left is None or right is None:
        return "no product of two elements"
    for data, weights in ((left, right), (right, left)):
        found = _sorted(block, store, data, weights, anywhere)
        if isinstance(found, Contraction):
            return found
    return found


def _sorted(
    block: Block, store: BufferStore, data: BufferLoad, weights: BufferLoad, anywhere: bool
) -> Contraction | str:
    axes = {axis.var: axis for axis in block.iter_vars}
    if not all([isinstance(e, Var) or type(e) is IntImm for e in (*store.indices, *weights.indices)]):
        return "an index of the output or of an operand is computed"
    cells = [e for e in store.indices if isinstance(e, Var)]
    used = [e for e in weights.indices if isinstance(e, Var)]
    if len(set(cells)) != len(cells) or len(set(used)) != len(used) or any([v not in axes for v in (*cells, *used)]):
        return "an iterator selects two axes"
    of_data = {v for e in data.indices for v in free_vars(e) if v in axes}
    batch, rows, columns, reductions = [], [], [], []
    for axis in block.iter_vars:
        in_data, in_weights = axis.var in of_data, axis.var in used
        if axis.kind == "R":
            if not (in_data and in_weights):
                return f"reduction iterator {axis.var.name} selects one operand only"
            reductions.append(axis)
        elif in_data and in_weights:
            batch.append(axis)
        elif in_weights:
            columns.append(axis)
        else:
            rows.append(axis)
    if len(columns) != 1 or not reductions:
        return "not one axis of columns"
    last = store.indices[-1]
    if columns[0].var is not last and not anywhere:
        return "vectors would not be contiguous in the output"
    return Contraction(
        block, store.buffer, data, weights, tuple(batch), tuple(rows), columns[0], tuple(_inner_last(reductions, data))
    )


def _inner_last(axes: Sequence[IterVar], data: BufferLoad) -> list[IterVar]:
    """Reductions with the one that walks the data contiguously innermost."""
    place = {v: k for k, e in enumerate(data.indices) for v in free_vars(e)}
    return sorted(axes, key=lambda axis: place.get(axis.var, -1))


def extent_of(axis: IterVar) -> int | None:
    """Extent of an iterator, None where it is symbolic."""
    return int_value(axis.domain.extent)


def steps_of(axes: Iterable[IterVar], unknown: int = 1) -> int:
    """Steps of iterators together; a symbolic extent counts as ``unknown``."""
    return math.prod([extent_of(axis) or unknown for axis in axes])


def is_parameter(fn: PrimFunc, buffer: Buffer) -> int | None:
    """Position of the parameter a buffer is, None for a buffer of the program's own."""
    for number, param in enumerate(fn.params):
        if fn.buffer_map.get(param) is buffer:
            return number
    return None
