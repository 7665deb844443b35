"""Vector accesses whose lanes walk along a few rows: each row is read as one vector, and the lanes are picked from them.

``B[k + c % 2 * n + c // 2]`` for lanes ``c`` takes two rows in turn, ``A[n - 1 - c]`` walks one row backwards. A store of which the
lanes that count lie one after the other, as of lines without what is between them, is one store of these lanes. Not here: steps
between lanes (``memory.py``). Invariant: no cell is read that no lane asks for, and none written.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.build import add, const, dtype_of, mul, ramp
from ...ir.expr import IntImm
from ...ir.node import replace as with_fields
from ...ir.scalar import LT, Add, And, Broadcast, BufferLoad, FloorDiv, FloorMod, Mul, Ramp, Shuffle, Sub
from ...ir.types import Expr, prim_type

ROWS, ALONG = 4, 4
"""Rows that are read together at most, and lanes that each of them serves at least; others are gathered."""

_Terms = list[tuple[Expr | None, list[int]]]
"""A vector of indices as a sum: how often each lane takes a scalar (None: the number one)."""
_Run = list[list[int]]
"""Cells one after the other, each with the lanes that read it."""


def shuffled_load(load: BufferLoad) -> Expr | None:
    """The read as lanes picked from rows; None where the distances of its lanes are not known, or where it needs many rows."""
    last = load.indices[-1] if load.indices else const(0)
    dtype, lanes = dtype_of(last).element, dtype_of(last).lanes
    steps = type(last) is Ramp and type(last.stride) is IntImm and last.stride.value >= 0
    if steps or lanes == 1 or load.predicate is not None or load.buffer.dtype.lanes > 1:
        return None
    terms = _terms(last, lanes)
    runs = _runs(terms, lanes) if terms is not None else []
    length = len(runs[0]) if runs else 0
    if (
        terms is None
        or len(runs) > ROWS
        or len(runs) * ALONG > lanes
        or length < 2
        or any([len(r) != length for r in runs])
    ):
        return None
    rows: list[Expr] = []
    picks = [0] * lanes
    for number, run in enumerate(runs):
        first: Expr = const(0, dtype)
        for scalar, counts in terms:
            count = const(counts[run[0][0]], dtype)
            first = add(first, count if scalar is None else mul(scalar, count))
        indices = (*load.indices[:-1], ramp(first, const(1, dtype), length))
        rows.append(with_fields(load, indices=indices, ty=prim_type(load.buffer.dtype.with_lanes(length))))
        for cell, readers in enumerate(run):
            for lane in readers:
                picks[lane] = number * length + cell
    while len(rows) > 2:  # a shuffle joins vectors of one length
        rows += rows[-1:] * (len(rows) % 2)
        rows = [_shuffle([a, b], list(range(2 * dtype_of(a).lanes))) for a, b in zip(rows[::2], rows[1::2])]
    return _shuffle(rows, picks)


def contiguous_lanes(indices: tuple[Expr, ...], predicate: Expr) -> tuple[Expr, list[int]] | None:
    """The index of the first element of a masked access, and its active lanes, where these are known and lie one after the other
    in memory."""
    lanes = dtype_of(indices[-1]).lanes if indices and type(indices[-1]) is not Ramp else 1
    terms = _terms(indices[-1], lanes) if lanes > 1 else None
    known = None if terms is None else _known_lanes(predicate, lanes)
    active = [lane for lane, counts in enumerate(known or ()) if counts]
    if terms is None or not active:
        return None
    constants = _numbers([term for term in terms if term[0] is None]) or [0] * lanes
    scalars = [(scalar, [counts[lane] for lane in active]) for scalar, counts in terms if scalar is not None]
    in_order = all([constants[lane] == constants[active[0]] + k for k, lane in enumerate(active)])
    if not in_order or any([len(set(counts)) > 1 for _, counts in scalars]):
        return None
    dtype = dtype_of(indices[-1]).element
    first: Expr = const(constants[active[0]], dtype)
    for scalar, counts in scalars:
        first = add(first, mul(scalar, const(counts[0], dtype)))
    return first, active


def _known_lanes(condition: Expr, lanes: int) -> list[bool] | None:
    """Where a condition of vectors holds, if that is known."""
    if type(condition) is And:
        a, b = _known_lanes(condition.a, lanes), _known_lanes(condition.b, lanes)
        return None if a is None or b is None else [x and y for x, y in zip(a, b)]
    if type(condition) is not LT or dtype_of(condition.a).lanes != lanes:
        return None
    left, right = [found and _numbers(found) for found in (_terms(condition.a, lanes), _terms(condition.b, lanes))]
    return [x < y for x, y in zip(left, right)] if left and right else None


def _shuffle(vectors: list[Expr], lanes: list[int]) -> Expr:
    ty = prim_type(dtype_of(vectors[0]).with_lanes(len(lanes)))
    return Shuffle(tuple(vectors), tuple([const(n, "int32") for n in lanes]), ty)


def _runs(terms: _Terms, lanes: int) -> list[_Run]:
    """Cells that lie after each other whatever the scalars are."""
    rows: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for lane in range(lanes):
        row = tuple([counts[lane] for scalar, counts in terms if scalar is not None])
        cell = sum([counts[lane] for scalar, counts in terms if scalar is None])
        rows.setdefault(row, {}).setdefault(cell, []).append(lane)
    runs: list[_Run] = []
    for cells in rows.values():
        for cell in sorted(cells):
            if cell - 1 not in cells:
                runs.append([])
            runs[-1].append(cells[cell])
    return runs


def _terms(expr: Expr, lanes: int) -> _Terms | None:
    """A vector of indices as a sum of scalars with a count for each lane."""
    if type(expr) is Broadcast:
        return _times(expr.value, [1] * lanes)
    if type(expr) is Ramp:
        return _times(expr.base, [1] * lanes) + _times(expr.stride, list(range(lanes)))
    combine = _COMBINE.get(type(expr))
    if combine is None:
        return None
    a, b = _terms(expr.a, lanes), _terms(expr.b, lanes)  # type: ignore[attr-defined]
    return combine(a, b) if a is not None and b is not None else None


def _times(scalar: Expr, counts: list[int]) -> _Terms:
    """A scalar so often in each lane."""
    if type(scalar) is IntImm:
        return [(None, [scalar.value * n for n in counts])]
    if type(scalar) is Add:
        return _times(scalar.a, counts) + _times(scalar.b, counts)
    if type(scalar) is Mul and type(scalar.b) is IntImm:
        factor = scalar.b.value
        return _times(scalar.a, [factor * n for n in counts])
    return [(scalar, counts)]


def _sum(a: _Terms, b: _Terms) -> _Terms:
    return a + b


def _difference(a: _Terms, b: _Terms) -> _Terms:
    return a + [(scalar, [-n for n in counts]) for scalar, counts in b]


def _product(a: _Terms, b: _Terms) -> _Terms | None:
    factors, scaled = _numbers(b), a
    if factors is None:
        factors, scaled = _numbers(a), b
    if factors is None:
        return None
    return [(scalar, [n * m for n, m in zip(counts, factors)]) for scalar, counts in scaled]


def _parts(a: _Terms, b: _Terms) -> tuple[int, _Terms, list[int]] | None:
    """(divisor, the scalars, all of them multiples of it, the numbers) of a vector that is divided by one number."""
    divisors = set(_numbers(b) or [0])
    divisor = divisors.pop()
    scalars = [term for term in a if term[0] is not None]
    if divisors or divisor <= 0 or any([n % divisor for _, counts in scalars for n in counts]):
        return None
    return divisor, scalars, _numbers([term for term in a if term[0] is None]) or [0] * len(b[0][1])


def _quotient(a: _Terms, b: _Terms) -> _Terms | None:
    found = _parts(a, b)
    if found is None:
        return None
    divisor, scalars, numbers = found
    return [(scalar, [n // divisor for n in counts]) for scalar, counts in scalars] + [
        (None, [n // divisor for n in numbers])
    ]


def _remainder(a: _Terms, b: _Terms) -> _Terms | None:
    found = _parts(a, b)
    return found and [(None, [n % found[0] for n in found[2]])]


def _numbers(terms: _Terms) -> list[int] | None:
    """The lanes of a vector of known numbers, None for another one."""
    if any([scalar is not None for scalar, _ in terms]):
        return None
    return [sum(column) for column in zip(*[counts for _, counts in terms])]


_COMBINE: dict[type, Callable[[_Terms, _Terms], _Terms | None]] = {
    Add: _sum, Sub: _difference, Mul: _product,
    FloorDiv: _quotient, FloorMod: _remainder,
}  # fmt: skip
