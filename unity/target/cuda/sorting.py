"""Sorting on CUDA devices: a thread for each element.

Short runs are sorted by counting: an element's place is the number of those that come before it. Then neighbouring runs become one,
time and again: an element goes as far to the right as there are elements of the other run before it, which bisection finds.
Sorted are keys, integers that order as the elements do, and the places they came from. All of it is stable, reads and writes what
neighbours read and write, and keeps nothing but a few numbers in a thread.

Source: Satish, Harris, Garland 2009, "Designing efficient sorting algorithms for manycore GPUs" (the merge of their section 5).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ... import te
from ...ir import build
from ...ir.buffer import Buffer
from ...ir.build import int_value
from ...ir.expr import Var
from ...ir.stmt import Stmt
from ...ir.types import Expr
from ...op.common.loop_nests import read
from ...op.common.type_rules import product, put_at
from ...op.manipulate.manipulate import ravel, unravel
from ...op.reduction.search import bisect
from ...op.reduction.sort_loops import ordered_key
from ...op.reduction.sorting import gather_axis, lower_argsort, lower_sort, lower_topk
from ...op.reduction.statistics import lower_median
from .program_text import statements

RUN = 32
"""Elements of the runs that counting sorts: those of a warp."""
TURNS = 16
"""Pairs of merges of a line of a length that is not known: more than memory holds."""


def _text(kind: str, place: str, turns: int, part: bool) -> str:
    """The program: ``sides`` and ``places`` are the keys and their places, from one side to the other and back. With ``part``, only
    the first ``kept`` elements of each run matter."""
    return f"""
@T.prim_func
def sort(p_keys: T.handle, p_order: T.handle):
    lines, length, kept = T.int64(), T.int64(), T.int64()
    keys = T.match_buffer(p_keys, (lines, length), "{kind}")
    order = T.match_buffer(p_order, (lines, kept), "int64")
    sides = T.alloc_buffer((2, lines, length), "{kind}")
    places = T.alloc_buffer((2, lines, length), "{place}")
    for line in T.parallel(lines):
        for n in T.parallel(length):
            rank = T.alloc_buffer((1,), "int64", scope="local")
            start: T.int64 = n // {RUN} * {RUN}
            key: T.{kind} = keys[line, n]
            rank[0] = T.int64(0)
            for j in range(T.min(length - start, {RUN})):
                other: T.{kind} = keys[line, start + j]
                rank[0] = rank[0] + T.Cast("int64", other < key or (other == key and start + j < n))
            sides[0, line, start + rank[0]] = key
            places[0, line, start + rank[0]] = T.Cast("{place}", n)
    for turn in range({turns}):
        if T.shift_left(T.int64({RUN}), turn * 2) < length:
{_merge(place, kind, 0, part)}
{_merge(place, kind, 1, part)}
    for line in T.parallel(lines):
        for n in T.parallel(kept):
            order[line, n] = T.Cast("int64", places[0, line, n])
"""


def _merge(place: str, kind: str, side: int, part: bool) -> str:
    """The statements that merge runs of one side to the other one. Of equal elements, those of the left run come first."""
    inside = "n - own * span < kept" if part else "length > 0"
    return f"""
            for line in T.parallel(lines):
                for n in T.parallel(length):
                    low = T.alloc_buffer((1,), "int64", scope="local")
                    high = T.alloc_buffer((1,), "int64", scope="local")
                    span: T.int64 = T.shift_left(T.int64({RUN << side}), turn * 2)
                    own: T.int64 = n // span
                    left: T.int64 = own // 2 * 2 * span
                    other: T.int64 = T.min(left * 2 + span - own * span, length)
                    if {inside}:
                        key: T.{kind} = sides[{side}, line, n]
                        low[0] = other
                        high[0] = T.min(other + {"T.min(span, kept)" if part else "span"}, length)
                        while low[0] < high[0]:
                            middle: T.int64 = (low[0] + high[0]) // 2
                            found: T.{kind} = sides[{side}, line, middle]
                            if found < key or (found == key and other < n):
                                low[0] = middle + 1
                            else:
                                high[0] = middle
                        to: T.int64 = left + (n - own * span) + (low[0] - other)
                        sides[{1 - side}, line, to] = key
                        places[{1 - side}, line, to] = places[{side}, line, n]
"""


def order_of(keys: te.Tensor, count: Expr | None = None) -> te.Tensor:
    """The places of the keys of each line in sorted order, or of the first ``count`` of them. Keys are signed integers."""
    lines, length = keys.shape
    known = int_value(length)
    turns = TURNS if known is None else next((n for n in range(TURNS) if RUN << 2 * n >= known), TURNS)
    place = "int32" if known is not None and known < 1 << 31 else "int64"

    def emit(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        text = _text(keys.data_type.name, place, turns, count is not None)
        return statements(text, {"keys": ins[0], "order": outs[0]}, {})

    return te.extern((lines, length if count is None else count), [keys], emit, "sorted", "int64")


def argsort(x: te.Tensor, axis: int, descending: bool, count: Expr | None = None) -> te.Tensor:
    """The places of the elements along an axis in sorted order, or of the first ``count`` of them."""
    rest = [d for a, d in enumerate(x.shape) if a != axis]

    def key(line: te.Value, n: te.Value) -> te.Value:
        others = unravel(line, rest)
        return te.Value(ordered_key(te.to_scalar(x[(*others[:axis], n, *others[axis:])]), descending))

    order = order_of(te.compute((product(rest), x.shape[axis]), key, "keys"), count)

    def at(*i: te.Value) -> te.Value:
        return order[ravel([v for a, v in enumerate(i) if a != axis], rest), i[axis]]

    return te.compute(x.shape if count is None else put_at(x.shape, axis, count), at, "order")


def _topk(x: te.Tensor, axis: int, descending: bool, most: int, count: Expr) -> tuple[te.Tensor, te.Tensor]:
    order = argsort(x, axis, descending, count)
    return gather_axis(x, order, axis, order.shape, "topk"), order


def _median(lines: te.Tensor) -> te.Tensor:
    """The place of the lower middle element of each line, or of the first NaN where there is one."""
    length = lines.shape[-1]
    order = argsort(lines, lines.ndim - 1, False)

    def is_number(ins: list[Buffer], i: list[Var], middle: Expr) -> Expr:
        element = read(ins[0], (*i, read(ins[1], (*i, middle))))
        return build.eq(element, element)

    numbers = bisect(lines.shape[:-1], length, [lines, order], is_number) if lines.data_type.is_float else None

    def place(*i: te.Value) -> te.Value:
        middle = te.Value(length - 1) // 2
        if numbers is not None:
            middle = te.select(numbers[i] < te.Value(length), numbers[i], middle)
        return order[(*i, middle)]

    return te.compute(lines.shape[:-1], place, "median_place")


LOWERINGS: dict[str, Callable[..., Any]] = {
    "R.sort": partial(lower_sort, order=argsort),
    "R.argsort": partial(lower_argsort, order=argsort),
    "R.topk": partial(lower_topk, first=_topk),
    "R.median": partial(lower_median, index=_median),
}
