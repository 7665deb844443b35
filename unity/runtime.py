"""``unity.runtime``: TVM's ``tvm.runtime`` and ``tvm.nd`` by their names: tensors, devices, loading programs.

Front door: defined in ``unity.ffi`` and ``unity.vm``.
"""

from .ffi.device import Device, cpu, cuda, device
from .ffi.dtype import DataType
from .ffi.pool import num_threads
from .ffi.tensor import Tensor
from .ffi.tvm_names import ShapeTuple, array, empty, from_dlpack, tensor
from .vm.executable.executable import Executable, load

NDArray = Tensor
load_module = load

__all__ = [
    "DataType", "Device", "Executable", "NDArray", "ShapeTuple", "Tensor", "array", "cpu", "cuda", "device", "empty",
    "from_dlpack", "load_module", "num_threads", "tensor",
]  # fmt: skip
