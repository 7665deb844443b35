"""Tensors whose memory was given back: dtype and shape stay, the elements are gone, and asking for them is an error.

Invariant: memory is never freed here; a tensor only lets go of it, so whoever else holds it keeps it.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..support.errors import FFIError
from .device import CPU
from .tensor import Tensor


class DiscardedTensor(Tensor):
    """A tensor after ``discard``. Raises FFIError E714 where its elements are needed."""

    __slots__ = ()

    def _gone(self, *args: Any, **options: Any) -> NoReturn:
        raise FFIError(
            "E714",
            f"the elements of this {self.dtype} tensor of shape {self.shape} were discarded: the module was built "
            "with discard_parameters=True, or the torch model they belonged to is gone",
            help="build without discard_parameters=True, and keep the torch model as long as its module is used",
        )

    numpy = torch = item = __array__ = __dlpack__ = __getitem__ = __reduce__ = _gone

    def __repr__(self) -> str:
        return f'tensor(discarded, shape={self.shape}, dtype="{self.dtype}")'


def discard(tensor: Tensor) -> None:
    """Let a tensor go of its memory; the object itself becomes a ``DiscardedTensor``."""
    tensor._array, tensor._device = np.broadcast_to(np.zeros((), tensor.data_type.numpy), tensor.shape), CPU
    tensor.__class__ = DiscardedTensor


def is_discarded(tensor: Tensor) -> bool:
    """True if the elements are gone."""
    return type(tensor) is DiscardedTensor
