"""Target descriptions, code generation through LLVM, GPU programs checked on the processor."""

from ..transform.tir.gpu_pipeline import GPU_PIPELINE
from .gpu_check import GpuReport, check_gpu

__all__ = ["GPU_PIPELINE", "GpuReport", "check_gpu"]
