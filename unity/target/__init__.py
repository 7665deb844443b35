"""Target descriptions, code generation through LLVM, GPU programs checked on the processor."""

from typing import TYPE_CHECKING

from ..support.late import lazy_names

if TYPE_CHECKING:
    from ..transform.tir.gpu_pipeline import GPU_PIPELINE
    from .gpu_check import GpuReport, check_gpu

__getattr__, __dir__ = lazy_names(
    __name__, {"gpu_check": ("GpuReport", "check_gpu"), ".transform.tir.gpu_pipeline": ("GPU_PIPELINE",)}
)

__all__ = ["GPU_PIPELINE", "GpuReport", "check_gpu"]
