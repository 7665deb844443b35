"""The facts about a CUDA device that passes and rules need, from its architecture and the target's options."""

from __future__ import annotations

from ...ffi.targets.target import Target
from ...transform.infra.backend import GpuMachine, Machine
from .arch import STATIC_SHARED_BYTES, arch_of

_PROCESSORS = {75: 40, 80: 108, 86: 82, 87: 16, 89: 128, 90: 132, 100: 148, 120: 170}
"""Processors of a large device of each compute capability. Source: NVIDIA's white papers on the architectures."""


def machine_of(target: Target) -> Machine:
    """The machine of a target. Raises CodegenError E531 for an architecture that is not known."""
    arch = arch_of(target)
    return Machine(
        gpu=GpuMachine(
            capability=arch.capability,
            processors=_PROCESSORS[arch.capability],
            warp=int(target.get("thread_warp_size", arch.warp)),
            threads=int(target.get("max_threads_per_block", arch.max_threads)),
            shared_bytes=int(target.get("max_shared_memory_per_block", arch.shared_bytes)),
            static_shared_bytes=STATIC_SHARED_BYTES,
        )
    )
