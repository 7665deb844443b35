"""The backend of processors: targets of the kind ``llvm``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...ffi.machine_code.objects import object_key
from ...ffi.runtime.cpu_runtime import CPU_RUNTIME
from ...ffi.targets.kinds import LLVM
from ...ffi.targets.processor import llvm_version
from ...ffi.targets.target import Target
from ...ir.function import PrimFunc
from ...transform.default_schedule.matmul import CONTRACTION
from ...transform.default_schedule.recurrent_matmul import REPEATED
from ...transform.default_schedule.separated import SEPARATED
from ...transform.default_schedule.split_reductions import SPLIT
from ...transform.default_schedule.windows import WINDOWS
from ...transform.infra.backend import Backend, KernelCode, register_target
from ...transform.tir.pipeline import CHECKED_CPU_PIPELINE, CPU_PIPELINE
from .codegen import KernelText, compile_kernel_text, compile_options, write_kernels
from .machine import machine_of


def _generate(functions: Mapping[str, PrimFunc], target: Target, suffix: str) -> partial[KernelCode]:
    """Write LLVM IR now, compile it when asked."""
    return partial(_compiled, write_kernels(functions, target, suffix))


def _compiled(text: KernelText) -> KernelCode:
    library = compile_kernel_text(text)
    return KernelCode(library.object, library.signatures, library.symbols, object_key(text.ir_text, text.options))


def _cache_key(target: Target) -> str:
    return repr(compile_options(target).resolved()) + llvm_version()


CPU = Backend(
    LLVM, CPU_RUNTIME, _generate,
    pipeline=CPU_PIPELINE,
    checked_pipeline=CHECKED_CPU_PIPELINE,
    machine=machine_of,
    rules=(CONTRACTION, SEPARATED, WINDOWS, REPEATED, SPLIT),
    cache_key=_cache_key,
)  # fmt: skip
register_target(CPU)
