"""The backend of CUDA devices: targets of the kind ``cuda``."""

from __future__ import annotations

from ...ffi.cuda.context import context
from ...ffi.runtime.cuda_runtime import CUDA_RUNTIME
from ...ffi.targets.kinds import CUDA
from ...ffi.targets.processor import llvm_version
from ...ffi.targets.target import Target
from ...transform.default_schedule.gpu.rules import GPU_RULES
from ...transform.infra.backend import Backend, register_target
from ...transform.tir.gpu_pipeline import GPU_PIPELINE
from ..cpu.codegen import compile_options
from . import scans, scatters, sorting
from .arch import ARCHS, arch_of
from .attention import attention
from .codegen import generate, ptx_options
from .machine import machine_of


def _cache_key(target: Target) -> str:
    arch = arch_of(target)
    return repr((ptx_options(arch), compile_options(target).resolved())) + llvm_version()


def _of_device(index: int) -> str:
    """The target of a device: with the instructions that no later architecture has, where it has such."""
    here = context(index)
    arch = next((name for name in (f"{here.arch}a", here.arch) if name in ARCHS), None)
    count = here.attribute("multi_processor_count")
    return CUDA.name if arch is None else f"{CUDA.name} -arch={arch} -multi_processor_count={count}"


CUDA_BACKEND = Backend(
    CUDA, CUDA_RUNTIME, generate,
    pipeline=GPU_PIPELINE,
    machine=machine_of,
    rules=GPU_RULES,
    lowerings={
        "R.nn.attention": attention, "R.nn.attention_bias": attention, **scans.LOWERINGS, **scatters.LOWERINGS,
        **sorting.LOWERINGS,
    },
    cache_key=_cache_key,
    of_device=_of_device,
)  # fmt: skip
register_target(CUDA_BACKEND)
