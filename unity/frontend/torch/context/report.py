"""Gaps of an import, and the ways it says so: the report, the warning and the internal signal ``Gap``."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....ffi.tensor import Tensor
from ..runtime.operators import RUNS


class Gap(Exception):
    """A translation that cannot be made; the text says why. Becomes a call back into torch, or an error with ``strict``."""


class MemoryGap(Gap):
    """A translation that cannot be made where a call back into torch would be wrong: it is about memory our tensors do not have."""


class FallbackWarning(UserWarning):
    """Some operators of a model run in torch because no graph operator expresses them."""


@dataclass(slots=True)
class Fallback:
    """One torch operator that is called back: how often, where in the model, why, and what a call costs.

    ``bytes`` is what one call reads and writes (symbolic sizes as in the example); ``seconds`` the measured mean of all calls of
    the operator so far, None before the first.
    """

    operator: str
    reason: str
    places: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.places)

    @property
    def seconds(self) -> float | None:
        """Mean time of a call."""
        runs = RUNS.get(self.operator)
        return runs.seconds / runs.count if runs is not None and runs.count else None

    def __str__(self) -> str:
        cost = f"{_amount(self.bytes)} per call"
        seconds = self.seconds
        if seconds is not None:
            cost += f", {seconds * 1e3:.3g} ms measured"
        return f"{self.operator} x{self.count}: {self.reason}; {cost}; first at {self.places[0]}"


def _amount(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


@dataclass(slots=True)
class ImportReport:
    """All fallbacks of one import, in order of first use, the number of operators imported, and the weights by name."""

    fallbacks: list[Fallback] = field(default_factory=list)
    imported: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, operator: str, reason: str, place: str, bytes: int = 0) -> None:
        """Count a call of an operator that stays in torch, with its ``reason``, its ``place`` in the model, and the ``bytes`` it
        reads and writes.
        """
        for entry in self.fallbacks:
            if entry.operator == operator and entry.reason == reason:
                entry.places.append(place)
                return
        self.fallbacks.append(Fallback(operator, reason, [place], bytes))

    def __str__(self) -> str:
        if not self.fallbacks:
            return f"{self.imported} operators imported, none runs in torch"
        lines = [f"{self.imported} operators imported, {sum([f.count for f in self.fallbacks])} calls run in torch:"]
        lines += [f"  {entry}" for entry in self.fallbacks]
        return "\n".join(lines)
