"""The facts about a processor that passes and rules need, from its features."""

from __future__ import annotations

from functools import cache

from ...ffi.targets.processor import Processor
from ...ffi.targets.target import Target
from ...transform.infra.backend import Machine

_INTRINSICS = {
    "amx-bf16": ("amx_bf16bf16f32",),
    "amx-int8": ("amx_u8s8s32", "amx_s8s8s32"),
    "avx512bf16": ("dot_16x2_bf16_avx512_local",),
    "avx512vnni": ("dot_16x4_vnni_local",),
}
"""Feature of a processor -> the tensor intrinsics, or families of them, that it is for."""


_SLOW = {"dot_16x2_bf16_avx512_local": "sse4a"}
"""Tensor intrinsic -> the feature without which it is slower than plain steps. Of pairs of bfloat16 a Zen 4 begins as many as of
multiply-adds, an Emerald Rapids one in the time of four (1.7 and 6.8 thousand million a second)."""


def machine_of(target: Target) -> Machine:
    """The machine of a target."""
    return _of_processor(target.processor)


@cache
def _of_processor(processor: Processor) -> Machine:
    if processor.vector_bytes < 64:
        return Machine(processor.vector_bytes, 16)
    has = [name for feature, names in _INTRINSICS.items() if feature in processor.features for name in names]
    slow = [name for name in has if name in _SLOW and _SLOW[name] not in processor.features]
    return Machine(64, 32, tuple(has), slow_intrinsics=tuple(slow))
