"""Rules: a readable function from a tensor program to its schedule, and why it did not apply.

Invariant: a rule only uses schedule primitives, so every step is checked; a program that no rule takes stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...ir.function import PrimFunc
from ...ir.node import replace
from ..infra.backend import Machine
from .packing import Packing

SCHEDULED = "tir.is_scheduled"
"""Attribute of programs whose loops are as somebody wants them."""


@dataclass(slots=True, frozen=True)
class Scheduled:
    """A program after a rule. ``packed``: parameters it now takes packed, by position."""

    func: PrimFunc
    reason: str
    packed: dict[int, Packing] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Rule:
    """``apply`` takes a program, the positions of parameters that are constants at every call, and the machine; it gives the
    scheduled program or the reason why the rule does not fit."""

    name: str
    apply: Callable[[PrimFunc, Collection[int], Machine], Scheduled | str]


def mark(fn: PrimFunc) -> PrimFunc:
    """The program marked as scheduled."""
    return replace(fn, attrs={**fn.attrs, SCHEDULED: True})
