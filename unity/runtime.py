"""``unity.runtime``: TVM's ``tvm.runtime`` and ``tvm.nd`` by their names: tensors, devices, loading programs.

``array``, ``tensor``, ``empty`` copy, as in TVM, and keep the element type that numpy gives; ``unity.tensor`` shares memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .ffi.device import CPU, Device, cpu, cuda, device
from .ffi.dtype import DataType
from .ffi.native.pool import num_threads
from .ffi.tensor import Tensor, tensor as shared
from .vm.executable.executable import Executable
from .vm.load import load

NDArray = Tensor
load_module = load
from_dlpack = Tensor.from_dlpack


def _on(where: Device | str | None) -> Device:
    return CPU if where is None else device(where)


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

__all__ = [
    "DataType", "Device", "Executable", "NDArray", "ShapeTuple", "Tensor", "array", "cpu", "cuda", "device", "empty",
    "from_dlpack", "load_module", "num_threads", "tensor",
]  # fmt: skip
