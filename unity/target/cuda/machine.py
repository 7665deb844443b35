"""The facts about a CUDA device that passes and rules need, from its architecture and the limits of the target."""

from __future__ import annotations

from ...ffi.targets.target import Target
from ...support.errors import CodegenError
from ...transform.infra.backend import GpuMachine, Machine
from .arch import STATIC_SHARED_BYTES, arch_of

PROCESSORS = {75: 40, 80: 108, 86: 82, 87: 16, 89: 128, 90: 132, 100: 148, 120: 170}
"""Streaming multiprocessors of the largest common device of a compute capability, for targets that do not say how many."""


def machine_of(target: Target) -> Machine:
    """The machine of a target of the kind ``cuda``. Raises CodegenError E531 for an unknown architecture and for limits that no
    device has."""
    arch = arch_of(target)
    shared = min(arch.shared_bytes, int(target.get("max_shared_memory_per_block", arch.shared_bytes)))
    if _positive(target, "thread_warp_size", arch.warp) != arch.warp:
        raise CodegenError(
            "E531", f"a warp of a CUDA device has {arch.warp} threads", help="leave out -thread_warp_size"
        )
    gpu = GpuMachine(
        arch.capability,
        _positive(target, "multi_processor_count", PROCESSORS[arch.capability]),
        arch.warp,
        min(arch.max_threads, _positive(target, "max_threads_per_block", arch.max_threads)),
        shared,
        min(STATIC_SHARED_BYTES, shared),
        tf32=bool(target.get("tf32")),
        warpgroups="sm_90a" in arch.includes,
    )
    return Machine(vector_bytes=16, registers=gpu.registers, gpu=gpu, transposes_operands=True)


def _positive(target: Target, name: str, default: int) -> int:
    """An option of a target. Raises CodegenError E531 for zero."""
    value = int(target.get(name, default))
    if value < 1:
        raise CodegenError("E531", f"target option {name} must be positive, got {value}", help="leave it out")
    return value
