"""A product seen another way: its operands exchanged, or its sum in pieces that blocks of their own compute and a last nest joins.

Rewrite: ``C[i, j] += A[i, k] * B[k, j]`` in two pieces -> ``P[p, i, j] += A[i, p * half + k] * B[p * half + k, j]``, then ``C[i, j]
= P[0, i, j] + P[1, i, j]`` with all that is made of C. Not here: the kernel that computes a piece (`warpgroup_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replace_fields

from .....ir.buffer import Buffer
from .....ir.build import add, buffer_load, const
from .....ir.expr import Var
from .....ir.node import replace
from .....ir.scalar import BufferLoad, IterVar
from .....ir.stmt import Stmt
from .....ir.types import Expr
from .....ir.walk import substitute
from ..common.nests import INT, buffer_of, iterators_of, nest_of
from .product import Product, output_at, stored, values_at


def exchanged(what: Product) -> Product:
    """The product of the operands the other way round, whose rows are the columns."""
    return replace_fields(what, rows=what.columns, columns=what.rows, left=what.right, right=what.left)


def as_read(what: Product) -> Product:
    """The product with its rows, and its columns but the last, in the order in which their operands have them: a permuted operand
    is then one matrix, and what is permuted is where rows of the result are written."""
    rows, columns = _ordered(what.rows, what.left), _ordered(what.columns, what.right)
    columns = columns if columns[-1] is what.columns[-1] else what.columns
    return replace_fields(what, rows=rows, columns=columns)


def _ordered(axes: tuple[IterVar, ...], operand: Expr) -> tuple[IterVar, ...]:
    load = stored(operand)
    indices = load.indices if isinstance(load, BufferLoad) else ()
    place = {index: number for number, index in enumerate(indices) if isinstance(index, Var)}
    return tuple(sorted(axes, key=lambda axis: place[axis.var])) if all([axis.var in place for axis in axes]) else axes


def in_pieces(what: Product, pieces: int) -> tuple[Product, Buffer]:
    """The product that computes the pieces of a sum, with an iterator of the batch for them, and the buffer that it writes."""
    piece = iterators_of("piece", [const(pieces, INT)], "S")[0]
    whole = what.store.buffer
    parts = buffer_of(f"{what.name}_pieces", whole.dtype.name, (const(pieces, INT), *whole.shape), "global")
    store = replace(what.store, buffer=parts, indices=(piece.var, *what.store.indices))
    return replace_fields(what, store=store, batch=(piece, *what.batch), after=None), parts


def joined(what: Product, parts: Buffer, pieces: int) -> Stmt:
    """The nest that adds the pieces in order, and writes what is made of the sums."""
    axes = _axes_in_order(what)
    made = iterators_of(
        " ".join([f"i{n}" for n in range(len(axes))]), [_extent(axis) for axis in axes], "S" * len(axes)
    )
    values: dict[Var, Expr] = {axis.var: new.var for axis, new in zip(axes, made)}
    places = [substitute(index, values_at(what, values)) for index in what.store.indices]
    total: Expr = buffer_load(parts, const(0, INT), *places)
    for piece in range(1, pieces):
        total = add(total, buffer_load(parts, const(piece, INT), *places))
    name = f"{what.name}_joined" if what.after is None else what.after.name
    return nest_of(name, made, output_at(what, values, total))


def _axes_in_order(what: Product) -> Sequence[IterVar]:
    """The iterators of the output in the order of its axes."""
    every = {axis.var: axis for axis in (*what.batch, *what.rows, *what.columns)}
    return [every[index] for index in what.store.indices if isinstance(index, Var) and index in every]


def _extent(axis: IterVar) -> Expr:
    assert axis.dom is not None
    return axis.dom.extent
