"""``unity.runtime``: TVM's ``tvm.runtime`` and ``tvm.nd`` by their names: tensors, devices, loading programs.

``array``, ``tensor``, ``empty`` copy, as in TVM, and keep the element type that numpy gives; ``unity.tensor`` shares memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .ffi.device import CPU, Device, cpu, cuda, device, memory_device
from .ffi.device_array import empty as device_empty
from .ffi.dtype import DataType
from .ffi.native.pool import num_threads
from .ffi.tensor import Tensor, tensor as shared
from .support.arguments import make_public
from .support.errors import FFIError
from .vm.executable.executable import Executable
from .vm.load import load

NDArray = Tensor
load_module = load
from_dlpack = Tensor.from_dlpack


def array(value: object, device: Device | str | None = None) -> Tensor:
    """A tensor with memory of its own, of what numpy makes of the value (Python floats are float64); on the CPU, or on ``device``.

    Raises FFIError E702, E704, DeviceError E734 (there is no such device) and E736 (it has not so much memory).
    """
    known = isinstance(value, Tensor) or hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")
    return shared(value if known else np.asarray(value)).copyto(CPU if device is None else device)


def empty(shape: int | Sequence[int], dtype: str | DataType = "float32", device: Device | str | None = None) -> Tensor:
    """A tensor of a shape and ``dtype`` on ``device``, its elements not set. Raises FFIError E702, E704, DeviceError E734, E736."""
    place, item = memory_device(CPU if device is None else device), DataType(dtype).numpy
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any([size < 0 for size in sizes]):
        raise FFIError("E704", f"shape {sizes} has a negative size", help="sizes are zero or more")
    if place.host_memory:
        return Tensor(np.empty(sizes, item), place)
    return Tensor.over(device_empty(place, sizes, item), place)


def ShapeTuple(values: Iterable[int]) -> tuple[int, ...]:
    """A shape as programs take it: ``values`` as a tuple of ints."""
    return tuple([int(v) for v in values])


tensor = array

__all__ = [
    "DataType", "Device", "Executable", "NDArray", "ShapeTuple", "Tensor", "array", "cpu", "cuda", "device", "empty",
    "from_dlpack", "load_module", "num_threads", "tensor",
]  # fmt: skip

make_public(globals(), __all__)
