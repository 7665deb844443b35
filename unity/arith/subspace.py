"""Dividing an iteration space: each binding as ``outer * inner_extent + inner`` for a set of inner iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.buffer import Range
from ..ir.build import add, const, dtype_of, floordiv, mul
from ..ir.expr import Var
from ..ir.types import Expr
from .itermap import IterMapDetector, IterSplit, IterSum, NotAffine
from .itermap_inverse import sum_expr


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
