"""A product seen another way: its operands swapped, or its sum in pieces that blocks of their own compute and a last nest joins.

Rewrite: ``C[i, j] += A[i, k] * B[k, j]`` in two pieces -> ``P[p, i, j] += A[i, p * half + k] * B[p * half + k, j]``, then ``C[i, j]
= P[0, i, j] + P[1, i, j]`` with all that is made of C. Not here: the kernel that computes a piece (`warpgroup_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replace_fields

from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, buffer_load, const
from .....ir.expr import Var
from .....ir.node import replace
from .....ir.scalar import BufferLoad, IterVar
from .....ir.stmt import Stmt
from .....ir.types import Expr
from .....ir.walk import substitute
from ...nest_building import INT, iterators_of, nest_of
from .product import Product, iterator_values, output_at, stored


def swap_operands(product: Product) -> Product:
    """The product of the operands the other way round, whose rows are the columns."""
    return replace_fields(product, rows=product.columns, columns=product.rows, left=product.right, right=product.left)


def in_operand_order(product: Product) -> Product:
    """The product with its rows, and its columns but the last, in the order in which their operands have them: a permuted operand
    is then one matrix, and what is permuted is where rows of the result are written."""
    rows, columns = _ordered(product.rows, product.left), _ordered(product.columns, product.right)
    columns = columns if columns[-1] is product.columns[-1] else product.columns
    return replace_fields(product, rows=rows, columns=columns)


def _ordered(axes: tuple[IterVar, ...], operand: Expr) -> tuple[IterVar, ...]:
    load = stored(operand)
    indices = load.indices if isinstance(load, BufferLoad) else ()
    pos = {index: number for number, index in enumerate(indices) if isinstance(index, Var)}
    return tuple(sorted(axes, key=lambda axis: pos[axis.var])) if all([axis.var in pos for axis in axes]) else axes


def split_k(product: Product, pieces: int) -> tuple[Product, Buffer]:
    """The product that computes the pieces of a sum, with an iterator of the batch for them, and the buffer that it writes."""
    piece = iterators_of("piece", [const(pieces, INT)], "S")[0]
    whole = product.store.buffer
    parts = make_buffer(f"{product.name}_pieces", whole.dtype.name, (const(pieces, INT), *whole.shape), "global")
    store = replace(product.store, buffer=parts, indices=(piece.var, *product.store.indices))
    return replace_fields(product, store=store, batch=(piece, *product.batch), after=None), parts


def reduce_pieces(product: Product, parts: Buffer, pieces: int) -> Stmt:
    """The nest that adds the pieces in order, and writes what is made of the sums."""
    axes = _axes_in_order(product)
    names = " ".join([f"i{n}" for n in range(len(axes))])
    new_axes = iterators_of(names, [axis.domain.extent for axis in axes], "S" * len(axes))
    values: dict[Var, Expr] = {axis.var: new.var for axis, new in zip(axes, new_axes)}
    indices = [substitute(index, iterator_values(product, values)) for index in product.store.indices]
    total: Expr = buffer_load(parts, const(0, INT), *indices)
    for piece in range(1, pieces):
        total = add(total, buffer_load(parts, const(piece, INT), *indices))
    name = f"{product.name}_sum" if product.after is None else product.after.name
    return nest_of(name, new_axes, output_at(product, values, total))


def _axes_in_order(product: Product) -> Sequence[IterVar]:
    """The iterators of the output in the order of its axes."""
    every = {axis.var: axis for axis in (*product.batch, *product.rows, *product.columns)}
    return [every[index] for index in product.store.indices if isinstance(index, Var) and index in every]
