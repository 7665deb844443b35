"""The facts about a CUDA device that passes and rules need, from its architecture and the limits of the target."""

from __future__ import annotations

from ...ffi.targets.target import Target
from ...transform.infra.backend import GpuMachine, Machine
from .arch import STATIC_SHARED_BYTES, arch_of

PROCESSORS = {75: 40, 80: 108, 86: 82, 87: 16, 89: 128, 90: 132, 100: 148, 120: 170}
"""Streaming multiprocessors of the largest common device of a compute capability, for targets that do not say how many."""


def machine_of(target: Target) -> Machine:
    """The machine of a target of the kind ``cuda``. Raises CodegenError E531 for an unknown architecture."""
    arch = arch_of(target)
    shared = min(arch.shared_bytes, int(target.get("max_shared_memory_per_block", arch.shared_bytes)))
    gpu = GpuMachine(
        arch.capability,
        max(1, int(target.get("multi_processor_count", PROCESSORS[arch.capability]))),
        int(target.get("thread_warp_size", arch.warp)),
        min(arch.max_threads, int(target.get("max_threads_per_block", arch.max_threads))),
        shared,
        min(STATIC_SHARED_BYTES, shared),
        tf32=bool(target.get("tf32")),
        warpgroups="sm_90a" in arch.includes,
    )
    return Machine(vector_bytes=16, registers=gpu.registers, gpu=gpu, transposes_operands=True)
