"""The backend of processors: targets of the kind ``llvm``, and what passes and rules need to know of one, from its features."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from ...ffi.machine_code.llvm import object_key
from ...ffi.runtime.cpu_runtime import CPU_RUNTIME
from ...ffi.targets.kinds import LLVM
from ...ffi.targets.processor import Processor, host_processor, llvm_version
from ...ffi.targets.system import second_level_cache
from ...ffi.targets.target import Target
from ...ir.function import PrimFunc
from ...transform.default_schedule.few_columns import FEW_COLUMNS
from ...transform.default_schedule.matmul import CONTRACTION
from ...transform.default_schedule.nests.pipeline import CPU_NESTS
from ...transform.default_schedule.recurrent_matmul import REPEATED
from ...transform.default_schedule.separated import SEPARATED
from ...transform.default_schedule.split_reductions import SPLIT
from ...transform.default_schedule.windows import WINDOWS
from ...transform.infra.backend import Backend, KernelCode, Machine, register_target
from ...transform.tir.pipeline import CHECKED_CPU_PIPELINE, CPU_PIPELINE
from .codegen import KernelText, compile_kernel_text, compile_options, write_kernels


def _generate(functions: Mapping[str, PrimFunc], target: Target, suffix: str) -> partial[KernelCode]:
    """Write LLVM IR now, compile it when asked."""
    return partial(_compiled, write_kernels(functions, target, suffix))


def _compiled(text: KernelText) -> KernelCode:
    library = compile_kernel_text(text)
    return KernelCode(library.object, library.signatures, library.symbols, object_key(text.ir_text, text.options))


def _cache_key(target: Target) -> str:
    return repr(compile_options(target).resolved()) + llvm_version()


_INTRINSICS = {
    "amx-bf16": ("amx_bf16bf16f32",),
    "amx-int8": ("amx_u8s8s32", "amx_s8s8s32"),
    "avx512bf16": ("dot_16x2_bf16_avx512_local",),
    "avx512vnni": ("dot_16x4_vnni_local",),
}
"""Feature of a processor -> the tensor intrinsics, or families of them, that it is for."""


_AMD = "sse4a"
"""The feature of AMD's processors, whose ``prefetchnta`` keeps lines out of the third-level cache; Intel's keeps them out of the
second one."""
_SLOW = {"dot_16x2_bf16_avx512_local": _AMD}
"""Tensor intrinsic -> the feature without which it is slower than plain steps. Of pairs of bfloat16 a Zen 4 begins as many as of
multiply-adds, an Emerald Rapids one in the time of four (1.7 and 6.8 thousand million a second)."""


_KIB = {
    256: "nehalem westmere sandybridge ivybridge haswell broadwell skylake cannonlake",
    512: "icelake-client rocketlake znver1 znver2 znver3",
    1024: "skylake-avx512 cascadelake cooperlake znver4 znver5",
    1280: "icelake-server tigerlake alderlake",
    2048: "sapphirerapids emeraldrapids graniterapids graniterapids-d raptorlake meteorlake",
    2560: "lunarlake",
    3072: "arrowlake arrowlake-s",
}
"""KiB of the second-level cache of a core -> LLVM's names of processors, as the vendors state them; of processors with two kinds of
cores that of the larger ones."""
_BY_NAME = {name: size << 10 for size, names in _KIB.items() for name in names.split()}
USUAL = 1 << 20
"""Bytes where nothing is known, as of ``x86-64-v3``, which many processors are."""


def second_level_of(processor: Processor) -> int:
    """Bytes of the second-level cache of a core: by name, or what the system says of this machine's."""
    known = _BY_NAME.get(processor.cpu, 0)
    return known or (second_level_cache() if processor == host_processor() else 0) or USUAL


def machine_of(target: Target) -> Machine:
    """The machine of a target."""
    return _of_processor(target.processor)


@cache
def _of_processor(processor: Processor) -> Machine:
    second_level = second_level_of(processor)
    if processor.vector_bytes < 64:
        return Machine(processor.vector_bytes, 16, second_level=second_level)
    has = [name for feature, names in _INTRINSICS.items() if feature in processor.features for name in names]
    slow = [name for name in has if name in _SLOW and _SLOW[name] not in processor.features]
    streams = _AMD in processor.features
    return Machine(64, 32, tuple(has), slow_intrinsics=tuple(slow), second_level=second_level, streams=streams)


CPU = Backend(
    LLVM, CPU_RUNTIME, _generate,
    machine=machine_of,
    rules=(CONTRACTION, FEW_COLUMNS, SEPARATED, WINDOWS, REPEATED, SPLIT),
    nests=CPU_NESTS,
    pipeline=CPU_PIPELINE,
    checked_pipeline=CHECKED_CPU_PIPELINE,
    cache_key=_cache_key,
)  # fmt: skip
register_target(CPU)
