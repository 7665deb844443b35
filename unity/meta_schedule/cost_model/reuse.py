"""Reuse: how far apart a lowered program comes back to what it read, and the bytes that the levels of a memory hand on meanwhile.

The bytes that an access touches inside a loop are a product over its axes; a loop whose accesses together fit into a level finds
there what it comes back to. Not here: what a level costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...ir.buffer import Buffer
from ...ir.build import int_value
from ...ir.expr import Var
from ...ir.scalar import Add, BufferLoad, FloorDiv, FloorMod, Mul, Sub
from ...ir.stmt import BufferStore
from ...ir.types import Expr
from ...ir.walk import used_vars

FIRST = 1 << 15
"""Bytes of a first level of caches."""
LINE = 64
"""Bytes that come together."""
Loops = tuple[tuple[Var, float], ...]
"""Loops around an access, from the outside in, with their turns."""
ANYWHERE = 1e9
"""Step of an index that nothing is known of."""
_Form = dict[Var, float]
"""An index as steps by variable; those of quotients are parts of one."""


@dataclass(slots=True, frozen=True)
class Reuse:
    """Logarithm of the bytes between two uses, the mean of all accesses; bytes that come from behind each of two levels."""

    distance: float = 0.0
    behind: tuple[float, ...] = (0.0, 0.0)


@dataclass(slots=True, frozen=True)
class _Access:
    data: Var
    item: int
    extents: tuple[float, ...]
    forms: tuple[_Form, ...]
    loops: Loops

    def bytes_inside(self, depth: int) -> float:
        """The bytes that the loops from a depth on touch, in whole lines."""
        inner = self.loops[depth:]
        spans = [
            min(extent, 1 + sum([abs(form.get(var, 0.0)) * (turns - 1) for var, turns in inner]))
            for form, extent in zip(self.forms, self.extents)
        ]
        return math.prod(spans[:-1]) * max(LINE, spans[-1] * self.item) if spans else float(LINE)

    def moves(self, var: Var) -> bool:
        """True if a loop takes it elsewhere."""
        return any([var in form for form in self.forms])


@dataclass(slots=True)
class Accesses:
    """The accesses of a program besides those of registers."""

    found: dict[tuple[object, ...], _Access] = field(default_factory=dict)

    def add(self, access: BufferLoad | BufferStore, loops: Loops, size: Callable[[Expr], float]) -> None:
        """Count one; ``size`` gives the number that an extent is."""
        buffer: Buffer = access.buffer
        forms = tuple([_form(index) for index in access.indices])
        key = (buffer.data, *[tuple(form.items()) for form in forms], loops)
        if key not in self.found:
            extents = tuple([size(extent) for extent in buffer.shape])
            self.found[key] = _Access(buffer.data, buffer.dtype.itemsize, extents, forms, loops)

    def reuse(self, second_level: int) -> Reuse:
        """The reuse of all of them, with a second level of so many bytes."""
        inside = self._inside()
        weights = distance = 0.0
        for access in self.found.values():
            weight = math.prod([turns for _, turns in access.loops])
            weights, distance = weights + weight, distance + weight * math.log1p(_distance(access, inside))
        behind = tuple([_behind(list(self.found.values()), inside, room) for room in (FIRST, second_level)])
        return Reuse(distance / max(1.0, weights), behind)

    def _inside(self) -> dict[Loops, float]:
        """The bytes of all buffers that are touched inside loops, by the loops around."""
        parts: dict[Loops, dict[Var, float]] = {}
        for access in self.found.values():
            for depth in range(len(access.loops) + 1):
                touched = parts.setdefault(access.loops[:depth], {})
                touched[access.data] = max(touched.get(access.data, 0.0), access.bytes_inside(depth))
        return {loops: sum(touched.values()) for loops, touched in parts.items()}


def _distance(access: _Access, inside: Mapping[Loops, float]) -> float:
    """The bytes that are touched until an access comes back: those of a turn of the innermost loop that leaves it where it is."""
    for depth in reversed(range(len(access.loops))):
        var, turns = access.loops[depth]
        if turns > 1 and not access.moves(var):
            return inside[access.loops[: depth + 1]]
    return inside[()]


def _behind(accesses: list[_Access], inside: Mapping[Loops, float], room: int) -> float:
    """The bytes that come from behind a level of so many: a loop whose turns fit loads all that it touches once."""
    loaded: dict[tuple[Var, Loops], float] = {}
    for access in accesses:
        fits = [depth for depth in range(len(access.loops) + 1) if inside[access.loops[:depth]] <= room]
        depth = max(0, (fits[0] if fits else len(access.loops)) - 1)
        if fits and fits[0] == 0:
            continue  # all of it is there from call to call
        key = access.data, access.loops[:depth]
        times = math.prod([turns for _, turns in access.loops[:depth]])
        loaded[key] = max(loaded.get(key, 0.0), times * access.bytes_inside(depth))
    return sum(loaded.values())


def _form(index: Expr) -> _Form:
    if isinstance(index, Var):
        return {index: 1.0}
    if isinstance(index, (Add, Sub)):
        made = dict(_form(index.a))
        for var, step in _form(index.b).items():
            made[var] = made.get(var, 0.0) + (step if type(index) is Add else -step)
        return made
    if isinstance(index, (Mul, FloorDiv, FloorMod)) and (factor := int_value(index.b)):
        times = float(factor) if type(index) is Mul else 1 / factor if type(index) is FloorDiv else 1.0
        return {var: step * times for var, step in _form(index.a).items()}
    return dict.fromkeys(used_vars(index), ANYWHERE)


__all__ = ["Accesses", "Loops", "Reuse"]
