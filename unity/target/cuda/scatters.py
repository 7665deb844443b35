"""Scatters on CUDA devices: a thread for each update, with what one update after another gives, in every bit.

Sums of integers are atomic additions. Otherwise updates are sorted by the element that they name, stably: those of one element are
neighbours, in order. The last of them is stored; or the thread of the first combines all of them with the element.
Where slices or lines are many, a thread for each column goes through updates as they are, unless it would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import te
from ...ir import build
from ...ir.buffer import Buffer, make_buffer
from ...ir.build import int_value
from ...ir.expr import Call, Var
from ...ir.stmt import AllocBuffer, Bind, BufferStore, Evaluate, IfThenElse, Stmt, While, seq
from ...ir.types import Expr, prim_type
from ...op.common.loop_nests import read, serial_loop
from ...op.common.type_rules import ONE, ZERO, axis_attr, product
from ...op.manipulate.gather import (
    ALONG_AXIS,
    BY_TENSORS,
    COMBINE,
    TUPLES,
    Target,
    Way,
    lower_scatter,
    reduction_of,
    region_of,
    tensors_of,
    write_scatter,
)
from ...op.manipulate.manipulate import ravel, unravel
from .sorting import order_of

COLUMNS = 32
"""Columns of slices for which a thread each is enough, with few updates or where no update waits for another one."""
IN_TURN = 64
"""Updates that a thread combines one after another in less time than sorting takes."""


def _scatter(way: Way, call: Call, data: te.Tensor, indices: Any, updates: te.Tensor) -> te.Tensor:
    region, how, lead = region_of(way, call), reduction_of(call), _lead(way, tensors_of(indices))
    if how == "add" and data.data_type.is_integral and not data.data_type.is_bool:
        return write_scatter(way, call, data, indices, updates, partial(_add, region))
    axis = axis_attr(call, lead) if way is ALONG_AXIS else 0
    own = 1 if way is ALONG_AXIS else lead
    columns, each = (region[:axis], region[axis:]) if axis else (region[own:], region[:own])
    few = how == "update" or not _exceeds(product(each), IN_TURN)
    in_turn = _exceeds(product(columns), COLUMNS - 1) and few
    if in_turn or int_value(product(region[:lead])) in (0, 1):
        return lower_scatter(way, call, data, indices, updates)
    return _sorted(way, call, data, indices, updates)


def _lead(way: Way, tensors: list[te.Tensor]) -> int:
    """The number of axes of the region at whose positions an index stands."""
    return max([t.ndim for t in tensors]) - (way is TUPLES)


def _exceeds(size: Expr, most: int) -> bool:
    known = int_value(size)
    return known is None or known > most


def _parallel(shape: Sequence[Expr], body: Callable[[Var], Stmt]) -> Stmt:
    return serial_loop(product(shape), body, "n", "parallel")


def _position(flat: Expr, shape: Sequence[Expr]) -> list[Expr]:
    return [te.to_scalar(i, "int64") for i in unravel(te.Value(flat), shape)]


def _add(region: Sequence[Expr], out: Buffer, target: Target) -> Stmt:
    """Atomic additions, whose order no sum of integers shows."""

    def add(n: Var) -> Stmt:
        index, value = target(_position(n, region))
        address = build.intrinsic("address_of", read(out, index))
        return Evaluate(build.intrinsic("atomic_add", address, value, dtype=out.dtype))

    return _parallel(region, add)


def _sorted(way: Way, call: Call, data: te.Tensor, indices: Any, updates: te.Tensor) -> te.Tensor:
    region, tensors, how = region_of(way, call), tensors_of(indices), reduction_of(call)
    lead = _lead(way, tensors)
    named, columns = region[:lead], region[lead:]
    count = product(named)

    def key(_: te.Value, n: te.Value) -> te.Value:
        i = [*unravel(n, named), *[te.const(0, "int64") for _ in columns]]
        found = way.place(call, data.shape, [t.shape for t in tensors], lambda t, index: tensors[t][index], i)
        return te.Value(te.to_scalar(ravel(found, data.shape))).astype(kind)

    cells = int_value(product(data.shape))
    kind = "int64" if cells is None or cells >= 1 << 31 else "int32"
    keys = te.compute((ONE, count), key, "keys")

    def write(out: Buffer, target: Target, keys: Buffer, order: Buffer) -> Stmt:
        def update(at: Expr, column: Sequence[Expr]) -> tuple[tuple[Expr, ...], Expr]:
            return target([*_position(at, named), *column])

        def element(n: Var) -> Stmt:
            place, own = build.index_var("place"), Var("own", prim_type(keys.dtype))
            column = _position(n % product(columns), columns)

            def names_own(other: Expr) -> Expr:
                inside = build.maximum(build.minimum(other, count - 1), ZERO)
                same = build.eq(read(keys, (ZERO, read(order, (ZERO, inside)))), own)
                return build.logical_and(build.logical_and(build.ge(other, ZERO), build.lt(other, count)), same)

            def store(n: Expr) -> Stmt:
                index, value = update(read(order, (ZERO, n)), column)
                return BufferStore(out, COMBINE[how](read(out, index), value), index)

            if how == "update":
                work, neighbour = store(place), place + 1
            else:
                work, neighbour = _each(place, names_own, store), place - 1
            return seq(
                Bind(place, n // product(columns)),
                Bind(own, read(keys, (ZERO, read(order, (ZERO, place))))),
                IfThenElse(build.logical_not(names_own(neighbour)), work),
            )

        return _parallel([count, *columns], element)

    return write_scatter(way, call, data, indices, updates, write, keys, order_of(keys))


def _each(first: Expr, belongs: Callable[[Expr], Expr], work: Callable[[Expr], Stmt]) -> Stmt:
    """Work at a position and at those after it that belong to it, in order."""
    at = make_buffer("at", "int64", (1,))
    here = read(at, (ZERO,))
    return seq(
        AllocBuffer(at),
        BufferStore(at, first, (ZERO,)),
        While(belongs(here), seq(work(here), BufferStore(at, here + 1, (ZERO,)))),
    )


LOWERINGS: dict[str, Callable[..., Any]] = {
    "R.scatter_elements": partial(_scatter, ALONG_AXIS),
    "R.scatter_nd": partial(_scatter, TUPLES),
    "R.index_put": partial(_scatter, BY_TENSORS),
}
"""Lowerings of scatters by operator."""
