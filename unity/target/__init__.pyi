"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from ..ffi.abi import KernelSignature as KernelSignature
from ..ffi.device import DeviceKind as DeviceKind
from ..ffi.runtime.python_kernels import python_kernels as python_kernels
from ..ffi.runtime.runtime import Runtime as Runtime
from ..ffi.targets.target import Target as Target
from ..ffi.targets.target_kind import TargetKind as TargetKind
from ..transform.infra.backend import (
    Backend as Backend,
    KernelCode as KernelCode,
    Machine as Machine,
    backend_of as backend_of,
    register_target as register_target,
)
from ..transform.tir.gpu_pipeline import GPU_PIPELINE as GPU_PIPELINE
from .gpu_check import GpuReport as GpuReport, check_gpu as check_gpu
from .signature import kernel_signature as kernel_signature
