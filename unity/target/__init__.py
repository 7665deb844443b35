"""Target descriptions, code generation through LLVM, GPU programs checked on the processor."""

from .gpu_check import GpuReport, check_gpu

__all__ = ["GpuReport", "check_gpu"]
