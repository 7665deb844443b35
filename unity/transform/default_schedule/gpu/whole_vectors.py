"""The rule for rows of a length that is not known: one version for rows of whole vectors, another for the rest; a launch chooses.

Rewrite: a program over tensors ``(n, m)`` -> ``if m % 4 == 0: q = m // 4; <the program over (n, q * 4)> else: <the program>``. The
other rules schedule both, and see in the first that all rows begin where a vector may. Programs whose versions would be
alike stay as they are, and so do products of wide numbers, or of images with borders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ....ir.buffer import Buffer
from ....ir.build import const, eq, floordiv, floormod, logical_and, mul
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, Cast
from ....ir.stmt import Bind, DeclBuffer, For, IfThenElse, Stmt, seq
from ....ir.types import Expr
from ....ir.walk import collect, fresh_copy, substitute
from ...infra.backend import Machine
from ..base import Rule, Scheduled, mark_scheduled, schedule_of
from .cells import VECTOR_BYTES
from .products.product import Product, products_of

LEAST_COPY = 4
"""Bytes that ``cp.async`` copies at least: rows of an odd number of narrower elements are copied one by one."""


def schedule_whole_vectors(
    fn: PrimFunc, constants: Collection[int], machine: Machine, rules: Sequence[Rule]
) -> Scheduled | str:
    """Schedule two versions of a program by ``rules``."""
    lanes = _lanes(fn, max)
    if not lanes:
        return "the rows of its tensors have known lengths"
    products = products_of(schedule_of(fn))
    lanes = _lanes(fn, min) if products else lanes
    if any([not _reads_whole(product, fn) for product in products]):
        return "it is a product of wide numbers, or of operands that are computed"
    counts = {symbol: Var(f"{symbol.name}_vectors", symbol.ty) for symbol in lanes}
    lengths: dict[Var, Expr] = {symbol: mul(counts[symbol], lanes[symbol]) for symbol in lanes}
    views = {
        buffer: replace(buffer, shape=tuple([substitute(e, lengths) for e in buffer.shape])) for buffer in _tensors(fn)
    }
    given: dict[Any, Any] = {**lengths, **views}
    of_vectors = replace(
        fn,
        params=(*fn.params, *counts.values()),
        buffer_map={param: views[buffer] for param, buffer in fn.buffer_map.items()},
        body=substitute(fn.body, given),
    )
    whole, rest = [_first(version, constants, machine, rules) for version in (of_vectors, fn)]
    if whole.reason == rest.reason and _vectors(whole.func.body) <= _vectors(rest.func.body):
        return Scheduled(rest.func, f"rows of any length alike: {rest.reason}", rest.packed)
    values: list[Stmt] = [Bind(counts[symbol], floordiv(symbol, count)) for symbol, count in lanes.items()]
    values += [DeclBuffer(view) for view in whole.func.buffer_map.values()]
    made = IfThenElse(_are_whole(lanes), fresh_copy(seq(*values, whole.func.body)), rest.func.body)
    names = " and ".join([f"{symbol.name} is a multiple of {count}" for symbol, count in lanes.items()])
    return Scheduled(mark_scheduled(replace(fn, body=made)), f"where {names}: {whole.reason}; else: {rest.reason}")


def _reads_whole(product: Product, fn: PrimFunc) -> bool:
    """True if the operands of a product are tensors of the program whose elements are narrower than the least copy to a tile."""
    operands = [value.value if isinstance(value, Cast) else value for value in (product.left, product.right)]
    return all([
        isinstance(value, BufferLoad) and value.buffer in _tensors(fn) and value.buffer.dtype.itemsize < LEAST_COPY
        for value in operands
    ])  # fmt: skip


def _tensors(fn: PrimFunc) -> list[Buffer]:
    """The buffers that a program is given."""
    return list(fn.buffer_map.values())


def _lanes(fn: PrimFunc, chosen: Callable[[int, int], int]) -> dict[Var, int]:
    """Symbols that are lengths of rows, with the elements that fill the widest access: those of the chosen one of several types."""
    items: dict[Var, int] = {}
    for buffer in _tensors(fn):
        symbol = buffer.shape[-1] if len(buffer.shape) > 1 else None
        if isinstance(symbol, Var) and not buffer.strides and buffer.elem_offset is None:
            items[symbol] = chosen(items.get(symbol, buffer.dtype.itemsize), buffer.dtype.itemsize)
    found = {symbol: VECTOR_BYTES // item for symbol, item in items.items()}
    return {symbol: lanes for symbol, lanes in found.items() if lanes > 1}


def _are_whole(lanes: dict[Var, int]) -> Expr:
    """The condition that rows consist of whole vectors."""
    made: Expr = const(True)
    for symbol, count in lanes.items():
        made = logical_and(made, eq(floormod(symbol, count), 0))
    return made


def _first(fn: PrimFunc, constants: Collection[int], machine: Machine, rules: Sequence[Rule]) -> Scheduled:
    """The program as the first rule that takes it schedules it; the last rule takes all."""
    tried = (rule.apply(fn, constants, machine) for rule in rules)
    return next(found for found in tried if isinstance(found, Scheduled))


def _vectors(body: Stmt) -> int:
    """The number of loops over the elements of a vector: those of a reduction are unrolled."""
    return len([loop for loop in collect(body, For) if loop.kind in ("vectorized", "unrolled")])
