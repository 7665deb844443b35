"""What an import could not express, and the ways it says so: the report, the warning and the internal signal ``Gap``."""

from __future__ import annotations

from dataclasses import dataclass, field


class Gap(Exception):
    """A translation that cannot be made; the text says why. Becomes a call back into torch, or an error with ``strict``."""


class FallbackWarning(UserWarning):
    """Some operators of a model run in torch because no graph operator expresses them."""


@dataclass(slots=True)
class Fallback:
    """One torch operator that is called back: how often, where in the model, and why."""

    operator: str
    reason: str
    places: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.places)


@dataclass(slots=True)
class ImportReport:
    """All fallbacks of one import, in order of first use, and the number of operators imported."""

    fallbacks: list[Fallback] = field(default_factory=list)
    imported: int = 0

    def add(self, operator: str, reason: str, place: str) -> None:
        """Count a call of an operator that stays in torch."""
        for entry in self.fallbacks:
            if entry.operator == operator and entry.reason == reason:
                entry.places.append(place)
                return
        self.fallbacks.append(Fallback(operator, reason, [place]))

    def __str__(self) -> str:
        if not self.fallbacks:
            return f"{self.imported} operators imported, none runs in torch"
        lines = [f"{self.imported} operators imported, {sum([f.count for f in self.fallbacks])} calls run in torch:"]
        for entry in self.fallbacks:
            lines.append(f"  {entry.operator} x{entry.count}: {entry.reason}; first at {entry.places[0]}")
        return "\n".join(lines)
