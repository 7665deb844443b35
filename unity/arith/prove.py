"""Three-way proofs: proved, refuted with a counter-example, or unknown."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from enum import Enum

from ..ir.expr import IntImm, Var
from ..ir.types import Expr
from ..ir.walk import collect
from .bounds import Knowledge
from .evaluate import evaluate
from .poly import Poly, common_factor, divide_mono, plus, scaled


class Verdict(Enum):
    """Answer of a proof."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(slots=True, frozen=True)
class Proof:
    """A verdict; ``counterexample`` assigns the free variables when refuted, and ``why`` says it in words."""

    verdict: Verdict
    counterexample: dict[Var, int] | None = None
    why: str = ""

    def __bool__(self) -> bool:
        return self.verdict is Verdict.PROVED


def nonnegative(known: Knowledge, p: Poly, depth: int = 6) -> bool:
    """Can ``p >= 0`` be shown from intervals and known inequalities (cancelling terms against them, step by step)."""
    if known.bound(p).low >= 0:
        return True
    if depth == 0:
        return False
    factor = common_factor(p)
    if factor:
        quotient = {divide_mono(mono, factor): c for mono, c in p.items()}
        if known.mono_bound(factor).low >= 0 and nonnegative(known, quotient, depth - 1):  # type: ignore[arg-type]
            return True
    for fact in known.nonnegative:
        reduced = _cancel(p, fact)
        if reduced is not None and nonnegative(known, reduced, depth - 1):
            return True
    return False


def _cancel(p: Poly, fact: Poly) -> Poly | None:
    """A polynomial whose being >= 0 implies ``p >= 0``, given ``fact >= 0``, with one term of p cancelled; None if none is."""
    for mono, coefficient in fact.items():
        if not mono:
            continue
        for target, value in p.items():
            if not target or value * coefficient <= 0:
                continue
            quotient = divide_mono(target, mono)
            if quotient != ():
                continue
            reduced = plus(scaled(p, abs(coefficient)), scaled(fact, abs(value)), -1)
            if len(reduced) <= len(p) + 1:
                return reduced
    return None


def find_counterexample(
    known: Knowledge, condition: Expr, variables: list[Var], premises: list[Expr], tries: int = 600
) -> dict[Var, int] | None:
    """An assignment within the known domains that satisfies the premises and makes ``condition`` false."""
    choices = []
    reach = max(
        [17] + [abs(c.value) + 2 for e in [condition, *premises] for c in collect(e, IntImm) if abs(c.value) < 2**40]
    )
    for var in variables:
        interval = known.atom_bound(known.table.variable(var))
        low = int(interval.low) if interval.low != -float("inf") else -9
        high = int(interval.high) if interval.high != float("inf") else max(low, 0) + reach
        choices.append((low, high))
    if any([low > high for low, high in choices]):
        return None
    size = 1
    for low, high in choices:
        size *= high - low + 1
    if size <= tries:
        candidates = itertools.product(*[range(low, high + 1) for low, high in choices])
        return _first_false(condition, variables, premises, candidates)
    rng = random.Random(0)
    samples = []
    for corner in itertools.islice(itertools.product(*[(low, high, min(low + 1, high)) for low, high in choices]), 200):
        samples.append(corner)
    for _ in range(tries):
        samples.append(
            tuple([rng.randint(low, high if rng.random() < 0.5 else min(high, low + 17)) for low, high in choices])
        )
    return _first_false(condition, variables, premises, samples)


def _first_false(
    condition: Expr, variables: list[Var], premises: list[Expr], candidates: object
) -> dict[Var, int] | None:
    for values in candidates:  # type: ignore[attr-defined]
        assignment = dict(zip(variables, values))
        if all([evaluate(p, assignment) not in (None, 0) for p in premises]):
            if evaluate(condition, assignment) == 0:
                return assignment
    return None
