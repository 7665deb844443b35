"""Rules: a readable function from a tensor program to its schedule, and why it did not apply.

Invariant: a rule only uses schedule primitives, so every step is checked; a program that no rule takes stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...ffi.llvm import host_features
from ...ir.function import PrimFunc
from ...ir.node import replace
from .packing import Packing

SCHEDULED = "tir.is_scheduled"
"""Attribute of programs whose loops are as somebody wants them."""


@dataclass(slots=True, frozen=True)
class Machine:
    """What rules must know of the processor: bytes of a vector register, how many there are, and tensor intrinsics it has."""

    vector_bytes: int
    registers: int
    intrinsics: tuple[str, ...] = ()

    def lanes(self, item_bytes: int) -> int:
        """Elements of one vector."""
        return max(1, self.vector_bytes // item_bytes)


_INTRINSICS = {
    "+amx-bf16": ("amx_bf16bf16f32",),
    "+amx-int8": ("amx_u8s8s32", "amx_s8s8s32"),
    "+avx512bf16": ("dot_16x2_bf16_avx512_local",),
    "+avx512vnni": ("dot_16x4_vnni_local",),
}
"""Feature of a processor -> the tensor intrinsics, or families of them, that it is for."""


def _intrinsics(features: str) -> tuple[str, ...]:
    has = set(features.split(","))
    return tuple([name for feature, names in _INTRINSICS.items() if feature in has for name in names])


_FEATURES: ContextVar[str | None] = ContextVar("features", default=None)


@contextmanager
def scheduled_for(features: str | None) -> Iterator[None]:
    """Inside, rules use the tensor intrinsics of these features (LLVM's spelling, ``"+avx512bf16,..."``); None: this processor."""
    token = _FEATURES.set(features)
    try:
        yield
    finally:
        _FEATURES.reset(token)


def host_machine() -> Machine:
    """The machine this process runs on; its tensor intrinsics are those ``scheduled_for`` allows."""
    features, wanted = host_features(), _FEATURES.get()
    if "+avx512f" in features:
        return Machine(64, 32, _intrinsics(features if wanted is None else wanted))
    return Machine(32, 16) if "+avx" in features else Machine(16, 16)


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
