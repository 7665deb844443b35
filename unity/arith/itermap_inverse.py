"""Index expressions of detected iterator sums, the inverse of a bijective map, and the division of an iteration space: each binding
as ``outer * inner_extent + inner`` for a set of inner iterators.

Not here: the detection (``itermap.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.buffer import Range
from ..ir.build import add, const, dtype_of, floordiv, floormod, mul, sub
from ..ir.expr import Var
from ..ir.types import Expr
from .analyzer import Analyzer
from .itermap import IterMapDetector, IterMark, IterSplit, IterSum, NotAffine


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


@dataclass(slots=True, frozen=True)
class Division:
    """One binding: ``outer * inner_extent + inner``, with the extents of both parts."""

    outer: Expr
    outer_extent: Expr
    inner: Expr
    inner_extent: Expr


def subspace_divide(
    bindings: Sequence[Expr],
    ranges: Mapping[Var, Range],
    inner_vars: Sequence[Var],
    predicate: Expr | None = None,
    check: str = "surjective",
) -> list[Division] | None:
    """Split each binding into a part of the outer iterators and one of ``inner_vars``; None when some binding does not split.

    The iterators of a binding, from the slowest to the fastest, must be outer ones first and inner ones last; ``check`` as for
    ``detect_iter_map``.
    """
    detector = IterMapDetector(ranges)
    inner = set(inner_vars)
    divider = _Divider(detector, inner, ranges)
    try:
        if predicate is not None:
            detector.constrain(predicate)
        sums = [detector.rewrite(detector.ana.simplify(b)) for b in bindings]
        problem = detector.uncovered([detector.fuse(s) for s in sums], check)
        return None if problem is not None else [divider.divide(s) for s in sums]
    except NotAffine:
        return None


class _Divider:
    def __init__(self, detector: IterMapDetector, inner: set[Var], ranges: Mapping[Var, Range]) -> None:
        self.detector = detector
        self.inner = inner
        self.ranges = ranges

    def side(self, split: IterSplit) -> str:
        """ "outer", "inner" or "mixed": which iterators a split depends on."""
        source = split.source.source
        if isinstance(source, Var):
            return "inner" if source in self.inner else "outer"
        sides = {self.side(x) for x in source.args}
        return sides.pop() if len(sides) == 1 else "mixed"

    def divide(self, s: IterSum) -> Division:
        """Division of one normal form. Raises NotAffine."""
        one, zero = const(1, dtype_of(s.base)), const(0, dtype_of(s.base))
        if not s.args:
            return Division(s.base, one, zero, one)
        ordered = self._expanded(self.detector.chain(s.args))
        cut = next((k for k, x in enumerate(ordered) if self.side(x) == "inner"), len(ordered))
        if any([self.side(x) != "inner" for x in ordered[cut:]]):
            raise NotAffine("an outer iterator runs faster than an inner one")
        inner_extent, outer_extent = one, one
        for split in ordered[cut:]:
            inner_extent = mul(inner_extent, split.extent)
        for split in ordered[:cut]:
            outer_extent = mul(outer_extent, split.extent)
        unit = ordered[-1].scale if cut < len(ordered) else one
        if not self.detector.ana.can_prove_equal(unit, one):
            raise NotAffine("the innermost iterator has a stride")
        simplify = self.detector.ana.simplify
        scaled = [
            IterSplit(x.source, x.lower_factor, x.extent, simplify(floordiv(x.scale, inner_extent)))
            for x in ordered[:cut]
        ]
        outer = sum_expr(IterSum(tuple(scaled), zero), self.ranges)
        inside = sum_expr(IterSum(tuple(ordered[cut:]), zero), self.ranges)
        if cut == len(ordered):
            return Division(simplify(add(outer, s.base)), simplify(outer_extent), zero, one)
        return Division(simplify(outer), simplify(outer_extent), simplify(add(inside, s.base)), simplify(inner_extent))

    def _expanded(self, ordered: Sequence[IterSplit]) -> list[IterSplit]:
        """Mixed fused splits opened into their parts where they are used whole."""
        result: list[IterSplit] = []
        for split in ordered:
            source = split.source.source
            if isinstance(source, Var) or self.side(split) != "mixed":
                result.append(split)
                continue
            if not self.detector.ana.can_prove_equal(split.extent, split.source.extent):
                raise NotAffine("a part of a fused iterator mixes both spaces")
            inside = self._expanded(self.detector.chain(source.args))
            simplify = self.detector.ana.simplify
            result += [
                IterSplit(x.source, x.lower_factor, x.extent, simplify(mul(x.scale, split.scale))) for x in inside
            ]
        return result
