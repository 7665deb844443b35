"""Memory that a caller of a torch model may write to: results in memory of their own.

A program hands the same memory out twice where two results have one value, and an input where a result is one unchanged; torch
keeps them apart, so that writing to one shows in no other. Not here: which results torch itself gives twice.
"""

from __future__ import annotations

from typing import Any

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


__all__ = ["separate"]
