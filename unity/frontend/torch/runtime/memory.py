"""Memory that a caller of a torch model may write to: results in memory of their own.

A program hands the same memory out twice where two results have one value, and an input where a result is one unchanged; torch
keeps them apart, so that writing to one shows in no other. Not here: which results torch itself gives twice.
"""

from __future__ import annotations

from typing import Any

from ....ffi.device import CPU
from ....ffi.tensor import Tensor


def separate(value: Any, taken: set[int]) -> Any:
    """A result as torch has it: a copy where its memory, by address, is ``taken``; it is taken afterwards. Numbers stay."""
    if not isinstance(value, Tensor):
        return value
    made = value.torch()
    if value.data_ptr in taken:
        return made.clone()
    taken.add(value.data_ptr)
    return made


def lies_on(kind: str, value: Any) -> bool:
    """True for a tensor of any library on a device of a kind."""
    device = getattr(value, "device", None)
    return kind in (getattr(device, "kind", None), getattr(device, "type", None)) or hasattr(
        value, "__cuda_array_interface__"
    )


def on_host(value: Any) -> Any:
    """Results of a program, their tensors copied to the host."""
    if isinstance(value, tuple):
        return tuple([on_host(v) for v in value])
    return value.to(CPU) if isinstance(value, Tensor) else value
