"""Index expressions of detected iterator sums, and the inverse of a bijective map.

Not here: the detection (``itermap.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.buffer import Range
from ..ir.build import add, floordiv, floormod, mul, sub
from ..ir.expr import Var
from ..ir.types import Expr
from .analyzer import Analyzer
from .itermap import IterMark, IterSplit, IterSum


def split_expr(split: IterSplit, ranges: Mapping[Var, Range]) -> Expr:
    """A split as an expression of the iterators (scale included)."""
    mark = split.source
    value: Expr
    if isinstance(mark.source, Var):
        value = sub(mark.source, ranges[mark.source].min) if mark.source in ranges else mark.source
    else:
        value = sum_expr(mark.source, ranges)
    value = floordiv(value, split.lower_factor)
    ana = Analyzer()
    if not ana.can_prove_equal(mul(split.lower_factor, split.extent), mark.extent):
        value = floormod(value, split.extent)
    return mul(value, split.scale)


def sum_expr(s: IterSum, ranges: Mapping[Var, Range]) -> Expr:
    """A sum as an expression of the iterators."""
    result: Expr | None = None
    for split in s.args:
        term = split_expr(split, ranges)
        result = term if result is None else add(result, term)
    return s.base if result is None else add(result, s.base)


def _holds(mark: IterMark, part: IterMark) -> bool:
    """True if ``mark`` is made of splits of ``part``, at any depth."""
    if not isinstance(mark.source, IterSum):
        return False
    return any([split.source is part or _holds(split.source, part) for split in mark.source.args])


def inverse_affine_iter_map(
    sums: Sequence[IterSum], outputs: Sequence[Expr], ranges: Mapping[Var, Range]
) -> dict[Var, Expr]:
    """Iterators as expressions of the index values ``outputs``: the inverse of a bijective map.

    Each output distributes to its splits by division with the scales; splits of a mark add up with their lower factors.
    """
    value: dict[IterMark, Expr] = {}
    ana = Analyzer()

    def give(split: IterSplit, part: Expr) -> None:
        term = mul(part, split.lower_factor)
        old = value.get(split.source)
        value[split.source] = term if old is None else add(old, term)

    def distribute(s: IterSum, total: Expr) -> None:
        rest = sub(total, s.base)
        for position, split in enumerate(s.args):
            part = floordiv(rest, split.scale)
            if position > 0:
                part = floormod(part, split.extent)
            give(split, part)

    for s, output in zip(sums, outputs):
        distribute(s, output)
    opened: set[IterMark] = set()
    progress = True
    while progress:
        progress = False
        for mark in list(value):
            closed = [m for m in value if isinstance(m.source, IterSum) and m not in opened]
            if mark in closed and not any([_holds(other, mark) for other in closed if other is not mark]):
                assert isinstance(mark.source, IterSum)
                opened.add(mark)
                distribute(mark.source, value[mark])
                progress = True
    result: dict[Var, Expr] = {}
    for mark, expr in value.items():
        if isinstance(mark.source, Var):
            low = ranges[mark.source].min
            result[mark.source] = ana.simplify(add(expr, low))
    for var, domain in ranges.items():
        if var not in result:
            result[var] = domain.min
    return result
