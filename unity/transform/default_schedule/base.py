"""Rules: a readable function from a tensor program to its schedule, and why it did not apply.

Invariant: a rule only uses schedule primitives, so every step is checked; a program that no rule takes stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ...ffi.processor import processor_in_use
from ...ir.function import PrimFunc
from ...ir.node import replace
from .packing import Packing

SCHEDULED = "tir.is_scheduled"
"""Attribute of programs whose loops are as somebody wants them."""


@dataclass(slots=True, frozen=True)
class Machine:
    """Facts about the processor that rules need: bytes of a vector register, how many there are, and its tensor intrinsics."""

    vector_bytes: int
    registers: int
    intrinsics: tuple[str, ...] = ()

    def lanes(self, item_bytes: int) -> int:
        """Elements of one vector."""
        return max(1, self.vector_bytes // item_bytes)


_INTRINSICS = {
    "amx-bf16": ("amx_bf16bf16f32",),
    "amx-int8": ("amx_u8s8s32", "amx_s8s8s32"),
    "avx512bf16": ("dot_16x2_bf16_avx512_local",),
    "avx512vnni": ("dot_16x4_vnni_local",),
}
"""Feature of a processor -> the tensor intrinsics, or families of them, that it is for."""


def machine_in_use() -> Machine:
    """The machine of the target that code is generated for now."""
    processor = processor_in_use()
    if processor.vector_bytes < 64:
        return Machine(processor.vector_bytes, 16)
    has = [name for feature, names in _INTRINSICS.items() if feature in processor.features for name in names]
    return Machine(64, 32, tuple(has))


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
