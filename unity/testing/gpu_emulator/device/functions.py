"""Facts about functions of the driver: types of those that the package itself does not call, what each asks of its thread."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint, c_void_p
from typing import Any

MORE: dict[str, tuple[Any, ...]] = {
    "cuMemsetD32_v2": (ctypes.c_uint64, c_uint, c_size_t), "cuMemsetD32Async": (ctypes.c_uint64, c_uint, c_size_t, c_void_p),
    "cuCtxGetDevice": (c_void_p,), "cuDeviceTotalMem_v2": (c_void_p, c_int), "cuModuleLoadData": (c_void_p, c_void_p),
    "cuCtxPushCurrent_v2": (c_void_p,), "cuCtxPopCurrent_v2": (c_void_p,), "cuCtxGetApiVersion": (c_void_p, c_void_p),
    "cuFuncSetBlockShape": (c_void_p, c_int, c_int, c_int),
    "cuDeviceComputeCapability": (c_void_p, c_void_p, c_int), "cuEventElapsedTime_v2": (c_void_p, c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (c_void_p, c_int, c_uint, *[c_void_p] * 5, *[c_int] * 4),
    "cuTensorMapEncodeIm2col": (c_void_p, c_int, c_uint, *[c_void_p] * 5, c_uint, c_uint, c_void_p, *[c_int] * 4),
}  # fmt: skip
"""Functions beside those that `unity/ffi/cuda/driver.py` calls, with the types of their arguments."""
ANYTIME = frozenset({"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"})
IN_CONTEXT = frozenset({
    "cuCtxGetDevice", "cuCtxSynchronize", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8_v2",
    "cuMemsetD8Async", "cuMemsetD32_v2", "cuMemsetD32Async", "cuStreamCreate", "cuStreamSynchronize", "cuStreamQuery",
    "cuStreamWaitEvent", "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventQuery", "cuModuleLoadDataEx",
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphLaunch", "cuModuleLoadData",
    "cuModuleGetFunction", "cuModuleGetGlobal_v2", "cuLaunchKernel", "cuFuncSetAttribute",
})  # fmt: skip
"""Functions that work in the context of the calling thread, and answer why it was lost."""
