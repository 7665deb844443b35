"""Iteration maps: are index expressions a quasi-affine, invertible function of the iterators?

An index is written as a sum ``base + sum(scale * split)``; a split is ``(mark // lower_factor) % extent`` of a mark, and a
mark is an iterator or a fused sum of splits. From this normal form follow surjectivity, bijectivity and the inverse.

Source: the idea is that of TVM's IterMap analysis ("quasi-affine iterator map"); the code and the rules here are our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.buffer import Range
from ..ir.build import add, conjuncts, const, dtype_of, floordiv, floormod, mul, sub
from ..ir.expr import Var
from ..ir.scalar import LE, LT, Add, And, Cast, FloorDiv, FloorMod, Mul, Sub
from ..ir.types import Expr
from ..ir.walk import free_vars, uses_any
from .analyzer import Analyzer
from .canonical import is_index


@dataclass(eq=False)
class IterMark:
    """A source of iteration with values ``0 <= mark < extent``: an iterator (minus its minimum) or a fused sum."""

    source: Var | IterSum
    extent: Expr


@dataclass(eq=False)
class IterSplit:
    """``(source // lower_factor) % extent * scale``."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr


@dataclass(eq=False)
class IterSum:
    """``base + sum(splits)``."""

    args: tuple[IterSplit, ...]
    base: Expr


@dataclass
class IterMap:
    """Result of the detection: one sum per index, or the reasons why not. Truth value: detected. ``exact``: the predicate says no
    more than the extents of the sums do (else they reach over what it lets through)."""

    indices: tuple[IterSum, ...] = ()
    errors: list[str] = field(default_factory=list)
    exact: bool = True

    def __bool__(self) -> bool:
        return not self.errors


class NotAffine(Exception):
    """An index is not quasi-affine; the reason is the message. Raised inside the analysis."""


class IterMapDetector:
    """Rewrites index expressions of given iterators; ``ranges`` maps each iterator to its domain."""

    def __init__(self, ranges: Mapping[Var, Range], analyzer: Analyzer | None = None) -> None:
        self.ana = analyzer or Analyzer()
        self.ranges = dict(ranges)
        self.marks: dict[Var, IterMark] = {}
        self._splits: list[IterSplit] = []
        self._fused: list[tuple[tuple[IterSplit, ...], IterMark]] = []
        self._limited: list[IterMark] = []
        """Fused marks that a predicate makes shorter."""
        self.exact = True
        for var, domain in self.ranges.items():
            self.ana.bind(var, domain)
            self.marks[var] = IterMark(var, domain.extent)

    # ---- arithmetic on factors

    def _same(self, a: Expr, b: Expr) -> bool:
        return self.ana.can_prove_equal(a, b)

    def _product(self, a: Expr, b: Expr) -> Expr:
        return self.ana.simplify(mul(a, b))

    def _divides(self, divisor: Expr, value: Expr) -> bool:
        return self._same(floormod(value, divisor), const(0, dtype_of(value)))

    def _split(self, source: IterMark, lower: Expr, extent: Expr, scale: Expr) -> IterSplit:
        for known in self._splits:
            if known.source is source and self._same(known.lower_factor, lower) and self._same(known.extent, extent):
                if self._same(known.scale, scale):
                    return known
        made = IterSplit(source, lower, extent, scale)
        self._splits.append(made)
        return made

    # ---- rewriting

    def index(self, expr: Expr, fused: bool) -> IterSum:
        """Normal form of an index, as it is written or else simplified; one split where ``fused``. Raises NotAffine."""
        try:
            s = self.rewrite(expr)
            return self.fuse(s) if fused else s
        except NotAffine:
            s = self.rewrite(self.ana.simplify(expr))
            return self.fuse(s) if fused else s

    def rewrite(self, expr: Expr) -> IterSum:
        """Normal form of an index. Raises NotAffine with the reason."""
        if isinstance(expr, Var) and expr in self.marks:
            one, mark = const(1, dtype_of(expr)), self.marks[expr]
            return IterSum((self._split(mark, one, mark.extent, one),), self.ranges[expr].min)
        if not uses_any(expr, self.marks):
            return IterSum((), expr)
        if type(expr) is Add:
            return self._plus(self.rewrite(expr.a), self.rewrite(expr.b))
        if type(expr) is Sub:
            return self._plus(self.rewrite(expr.a), self._scaled(self.rewrite(expr.b), const(-1, dtype_of(expr))))
        if type(expr) is Mul:
            a, b = self.rewrite(expr.a), self.rewrite(expr.b)
            if a.args and b.args:
                raise NotAffine("a product of two iterators is not affine")
            return self._scaled(a, b.base) if a.args else self._scaled(b, a.base)
        if isinstance(expr, (FloorDiv, FloorMod)):
            a, b = self.rewrite(expr.a), self.rewrite(expr.b)
            if b.args:
                raise NotAffine("division by an iterator")
            return self._divided(a, b.base, type(expr) is FloorDiv)
        if type(expr) is Cast and is_index(expr.value):
            return self.rewrite(expr.value)
        raise NotAffine(f"{type(expr).__name__} of iterators is not quasi-affine")

    def _plus(self, a: IterSum, b: IterSum) -> IterSum:
        args = list(a.args)
        for split in b.args:
            for position, known in enumerate(args):
                if known.source is split.source and self._same(known.lower_factor, split.lower_factor):
                    if not self._same(known.extent, split.extent):
                        continue
                    scale = self.ana.simplify(add(known.scale, split.scale))
                    if self._same(scale, const(0, dtype_of(scale))):
                        del args[position]
                    else:
                        args[position] = self._split(known.source, known.lower_factor, known.extent, scale)
                    break
            else:
                args.append(split)
        return IterSum(tuple(args), self.ana.simplify(add(a.base, b.base)))

    def _scaled(self, s: IterSum, factor: Expr) -> IterSum:
        args = [self._split(x.source, x.lower_factor, x.extent, self._product(x.scale, factor)) for x in s.args]
        return IterSum(tuple(args), self._product(s.base, factor))

    def _divided(self, s: IterSum, divisor: Expr, quotient: bool) -> IterSum:
        if not s.args:
            return IterSum((), self.ana.simplify(floordiv(s.base, divisor) if quotient else floormod(s.base, divisor)))
        zero = const(0, dtype_of(divisor))
        if all([self._divides(divisor, x.scale) for x in s.args]) and self._divides(divisor, s.base):
            if not quotient:
                return IterSum((), zero)
            args = [
                self._split(x.source, x.lower_factor, x.extent, self.ana.simplify(floordiv(x.scale, divisor)))
                for x in s.args
            ]
            return IterSum(tuple(args), self.ana.simplify(floordiv(s.base, divisor)))
        fused = self.fuse(s)
        if not self._same(fused.base, zero):
            raise NotAffine("division of an iterator with an offset")
        (split,) = fused.args
        one = const(1, dtype_of(divisor))
        if not self._same(split.scale, one):
            if not self._divides(split.scale, divisor):
                raise NotAffine("the divisor does not match the stride of the iterators")
            inner = IterSum((self._split(split.source, split.lower_factor, split.extent, one),), zero)
            rest = self.ana.simplify(floordiv(divisor, split.scale))
            result = self._divided(inner, rest, quotient)
            return result if quotient else self._scaled(result, split.scale)
        if self.ana.can_prove_less(sub(split.extent, one), divisor):
            return IterSum((), zero) if quotient else fused
        if not self._divides(divisor, split.extent):
            raise NotAffine("the divisor does not divide the extent")
        if quotient:
            extent = self.ana.simplify(floordiv(split.extent, divisor))
            return IterSum((self._split(split.source, self._product(split.lower_factor, divisor), extent, one),), zero)
        return IterSum((self._split(split.source, split.lower_factor, divisor, one),), zero)

    def fuse(self, s: IterSum) -> IterSum:
        """The sum as one split: strides must chain, each the product of the inner extents. Raises NotAffine."""
        for known, mark in self._fused:
            s = self._joined(s, known, mark)
        if len(s.args) <= 1:
            return s
        ordered = self.chain(s.args)
        for known, mark in self._fused:
            if len(known) == len(ordered) and all([x is y for x, y in zip(known, ordered)]):
                return IterSum((self._whole(mark, ordered[-1].scale),), s.base)
        innermost = ordered[-1].scale
        extent = const(1, dtype_of(innermost))
        for split in ordered:
            extent = self._product(extent, split.extent)
        unit = [
            self._split(x.source, x.lower_factor, x.extent, self.ana.simplify(floordiv(x.scale, innermost)))
            for x in ordered
        ]
        mark = IterMark(IterSum(tuple(unit), const(0, dtype_of(innermost))), extent)
        self._fused.append((ordered, mark))
        return IterSum((self._whole(mark, innermost),), s.base)

    def _joined(self, s: IterSum, known: Sequence[IterSplit], mark: IterMark) -> IterSum:
        """The sum with a fused mark in place of its parts, where they all stand in it, times one factor."""
        if not 1 < len(known) < len(s.args):
            return s
        last = known[-1]
        for y in s.args:
            if y.source is not last.source or not self._same(y.lower_factor, last.lower_factor):
                continue
            factor = self.ana.simplify(floordiv(y.scale, last.scale))
            parts = [self._split(x.source, x.lower_factor, x.extent, self._product(x.scale, factor)) for x in known]
            rest = [z for z in s.args if all([z is not x for x in parts])]
            if len(rest) + len(parts) == len(s.args):
                return IterSum((*rest, self._whole(mark, self._product(last.scale, factor))), s.base)
        return s

    def _whole(self, mark: IterMark, scale: Expr) -> IterSplit:
        return self._split(mark, const(1, dtype_of(scale)), mark.extent, scale)

    def chain(self, args: Sequence[IterSplit]) -> tuple[IterSplit, ...]:
        """Splits from the outermost to the innermost."""
        for start in args:
            rest = [x for x in args if x is not start]
            found = [start]
            expected = self._product(start.scale, start.extent)
            while rest:
                match = next((x for x in rest if self._same(x.scale, expected)), None)
                if match is None:
                    break
                rest.remove(match)
                found.append(match)
                expected = self._product(match.scale, match.extent)
            if not rest:
                return tuple(reversed(found))
        raise NotAffine("the strides of the iterators do not chain (overlap or gap)")

    # ---- predicates

    def constrain(self, predicate: Expr) -> None:
        """Use ``sum < bound`` of a block predicate: the fused sum then has extent ``bound``."""
        if type(predicate) is And:
            for part in sorted(conjuncts(predicate), key=lambda part: len(free_vars(part))):  # sums inside others first
                self.constrain(part)
            return
        match predicate:
            case LT(a, b) if is_index(a):
                self._limit(a, b)
            case LE(a, b) if is_index(a):
                self._limit(a, add(b, 1))
            case _:
                self.exact = self.exact and self.ana.can_prove(predicate)

    def _limit(self, value: Expr, bound: Expr) -> None:
        s = self.rewrite(value)
        if len(s.args) < 2 or uses_any(bound, self.marks):
            if not self.ana.can_prove_less(value, bound) and not self._shorten(s, bound):
                self.exact = False
            return
        try:
            fused = self.fuse(s)
        except NotAffine:  # parts that overlap or leave gaps: its values are not a range
            self.exact = False
            return
        (split,) = fused.args
        limit = self.ana.simplify(sub(bound, s.base))
        if self.ana.can_prove_less(limit, add(split.source.extent, 1)):
            self._splits.remove(split)
            split.source.extent = limit
            split.extent = limit
            self._splits.append(split)
            self._limited.append(split.source)
        elif not self.ana.can_prove_less(split.source.extent, add(limit, 1)):
            self.exact = False

    def _shorten(self, s: IterSum, bound: Expr) -> bool:
        """Let an iterator that no index was made of yet end at a bound."""
        if len(s.args) != 1 or uses_any(bound, self.marks):
            return False
        (split,) = s.args
        limit = self.ana.simplify(sub(bound, s.base))
        whole = self._same(split.extent, split.source.extent) and self._same(split.scale, const(1, dtype_of(limit)))
        if not whole or [x.source for x in self._splits].count(split.source) != 1:
            return False
        if not isinstance(split.source.source, Var) or not self.ana.can_prove_less(limit, split.extent):
            return False
        self._splits.remove(split)
        split.source.extent = split.extent = limit
        self._splits.append(split)
        return True

    # ---- coverage

    def uncovered(self, sums: Sequence[IterSum], check: str) -> str | None:
        """The reason why the indices are not an image of the iterators' space as a check wants it; None if they are."""
        used: dict[IterMark, list[IterSplit]] = {}
        order: list[IterMark] = []
        pending = [x for s in sums for x in s.args]
        while pending:
            split = pending.pop(0)
            group = used.setdefault(split.source, [])
            if split.source not in order:
                order.append(split.source)
                if isinstance(split.source.source, IterSum):
                    pending.extend(split.source.source.args)
            if any([x.lower_factor is split.lower_factor and x.extent is split.extent for x in group]):
                return "one part of an iterator is used twice"
            group.append(split)
        for mark, group in used.items():
            name = mark.source.name if isinstance(mark.source, Var) else "a fused iterator"
            expected = const(1, dtype_of(mark.extent))
            rest = list(group)
            while rest:
                match = next((x for x in rest if self._same(x.lower_factor, expected)), None)
                if match is None and check == "onto":
                    match = self._past_gap(rest, expected)
                if match is None:
                    return f"a part of {name} is missing or overlaps"
                rest.remove(match)
                expected = self._product(match.lower_factor, match.extent)
            if not self._same(expected, mark.extent) and not (check == "onto" and self._divides(expected, mark.extent)):
                return f"the outermost part of {name} is missing"
        for mark in self._limited:  # the indices must be made of it, or of none of its iterators
            inside = [mark]
            for part in inside:
                inside += [x.source for x in part.source.args] if isinstance(part.source, IterSum) else []
            self.exact = self.exact and (mark in used or not any([part in used for part in inside]))
        if check == "bijective":
            for var, mark in self.marks.items():
                if mark not in used and not self._same(mark.extent, const(1, dtype_of(mark.extent))):
                    return f"iterator {var.name} is not used"
        return None

    def _past_gap(self, splits: Sequence[IterSplit], factor: Expr) -> IterSplit | None:
        """The lowest of the splits, where whole parts of the iterator lie between a factor and each of them."""
        if not all([self._divides(factor, x.lower_factor) for x in splits]):
            return None
        chained = [x for x in splits if all([self._divides(x.lower_factor, y.lower_factor) for y in splits])]
        return chained[0] if chained else None


def detect_iter_map(
    indices: Sequence[Expr],
    ranges: Mapping[Var, Range],
    predicate: Expr | None = None,
    check: str = "surjective",
    analyzer: Analyzer | None = None,
) -> IterMap:
    """Normal form of index expressions over iterators.

    ``check``: "none", "onto" (every index combination is reached, no part of an iterator used twice), "surjective" (also no part
    of a used iterator unused) or "bijective" (also no iterator unused). ``predicate`` restricts the iterators, e.g.
    ``i0 * 4 + i1 < 14``.
    """
    detector = IterMapDetector(ranges, analyzer)
    try:
        if predicate is not None:
            detector.constrain(predicate)
        sums = []
        for index in indices:
            sums.append(detector.index(index, check != "none"))
    except NotAffine as reason:
        return IterMap(errors=[str(reason)])
    if check != "none":
        problem = detector.uncovered(sums, check)
        if problem is not None:
            return IterMap(errors=[problem])
    return IterMap(tuple(sums), exact=detector.exact)
