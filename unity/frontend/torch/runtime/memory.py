"""Memory that others may write to: results of a torch model in memory of their own, and weights changed after it was compiled.

A program hands the same memory out twice where two results have one value, and an input where a result is one unchanged; torch
keeps them apart, so that writing to one shows in no other. Not here: which results torch itself gives twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....ffi.device import CPU
from ....ffi.tensor import Tensor
from ....support.errors import FrontendError
from ....support.optional import require


def copy_if_aliased(value: Any, taken: set[int] | None) -> Any:
    """A result as torch has it: a copy where its memory, by address, is ``taken``; it is taken afterwards. Numbers stay. None for
    ``taken``: all memory is new."""
    if not isinstance(value, Tensor):
        return value
    result = value.torch()
    if taken is not None:
        if value.data_ptr in taken:
            return result.clone()
        taken.add(value.data_ptr)
    return result


def as_pairs(value: Any) -> Any:
    """A torch tensor as kernels read it, where it is not already: without gaps, signs in its memory, complex numbers as pairs."""
    real = require("torch").view_as_real(value.resolve_conj()) if value.is_complex() else value
    return real.contiguous().resolve_neg()


def addresses(values: Iterable[Any]) -> set[int]:
    """Where the tensors among some values lie."""
    tensor = require("torch").Tensor
    return {v.data_ptr() if isinstance(v, tensor) else v.data_ptr for v in values if isinstance(v, (tensor, Tensor))}


def is_on_device(kind: str, value: Any) -> bool:
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


class CopiedWeight:
    """A weight of which the program has a copy, as it was: ``counter._version`` is ``version`` until somebody writes to it.

    The weight is not kept alive here.
    """

    __slots__ = ("counter", "name", "version")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.counter: Any = value.detach()
        """A tensor without elements that has torch's count of writes in common with the weight, not its memory."""
        self.counter.data = require("torch").empty(0, dtype=value.dtype)
        self.version: int = value._version

    def changed(self) -> FrontendError:
        """E660, for a weight that was written to."""
        return FrontendError(
            "E660",
            f"the weight {self.name} was changed after the model was compiled",
            help="f.refresh() takes what the model has now; or compile the model again",
        )
