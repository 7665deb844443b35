"""The names of this package, one line each: for editors and type checkers, and for ``__init__.py``, which loads by them."""

from ..transform.tir.gpu_pipeline import GPU_PIPELINE as GPU_PIPELINE
from .gpu_check import GpuReport as GpuReport, check_gpu as check_gpu
from .target import Target as Target
