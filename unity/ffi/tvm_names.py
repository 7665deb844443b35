"""TVM's functions that make tensors: ``tvm.nd.array``, ``tvm.runtime.tensor``, ``empty``, ``ShapeTuple``.

As in TVM they copy, and keep the element type that numpy gives; ``unity.tensor`` shares memory. Not here: tensors (``tensor.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .device import CPU, Device, device as make_device
from .dtype import DataType
from .tensor import Tensor, tensor as shared

from_dlpack = Tensor.from_dlpack


def _on(device: Device | str | None) -> Device:
    return CPU if device is None else make_device(device)


def array(value: object, device: Device | str | None = None) -> Tensor:
    """A tensor with memory of its own, of what numpy makes of the value (Python floats are float64).

    Raises FFIError E702, E703 (a device whose memory is not the host's) and E704.
    """
    given = value if isinstance(value, Tensor) or hasattr(value, "__dlpack__") else np.asarray(value)
    return Tensor(shared(given).numpy().copy(order="C"), _on(device))


def empty(shape: int | Sequence[int], dtype: str | DataType = "float32", device: Device | str | None = None) -> Tensor:
    """A tensor of a shape whose elements are not set. Raises FFIError E702, E703 (as ``array``)."""
    return Tensor(np.empty(shape, DataType(dtype).numpy), _on(device))


def ShapeTuple(values: Iterable[int]) -> tuple[int, ...]:
    """A shape as programs take it: a tuple of ints."""
    return tuple([int(v) for v in values])


tensor = array

__all__ = ["ShapeTuple", "array", "empty", "from_dlpack", "tensor"]
