"""Foreign side: data types, devices, tensors, packed functions, the calling convention.

``engine`` and ``fastcall`` are imported by name where they are needed: they load LLVM, the rest does not.
"""

from ..support.arguments import make_public
from .device import CPU, DEVICE_KINDS, Device, cpu, device
from .dtype import DataType, dtype_names
from .registry import (
    PackedFunc,
    get_global_func,
    list_global_func_names,
    register_c_func,
    register_func,
    remove_global_func,
)
from .tensor import Tensor, tensor

__all__ = [
    "CPU", "DEVICE_KINDS", "DataType", "Device", "PackedFunc", "Tensor", "cpu", "device", "dtype_names",
    "get_global_func", "list_global_func_names", "register_c_func", "register_func", "remove_global_func", "tensor",
]  # fmt: skip

make_public(globals(), __all__)
