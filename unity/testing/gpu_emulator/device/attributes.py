"""The limits of emulated devices by compute capability, under the numbers of CUdevice_attribute.

Source: CUDA C++ Programming Guide, "Compute Capabilities", and cuda.h. Processors and clocks are those of one product each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Limits:
    """A compute capability. Bytes of shared memory: of a multiprocessor, and of a block on request."""

    major: int
    minor: int
    processors: int
    shared_per_processor: int
    shared_opt_in: int
    threads_per_processor: int
    blocks_per_processor: int
    name: str


LIMITS = {
    "sm_75": Limits(7, 5, 40, 65536, 65536, 1024, 16, "T4"), "sm_80": Limits(8, 0, 108, 167936, 166912, 2048, 32, "A100"),
    "sm_86": Limits(8, 6, 84, 102400, 101376, 1536, 16, "A40"), "sm_89": Limits(8, 9, 142, 102400, 101376, 1536, 24, "L40"),
    "sm_90": Limits(9, 0, 132, 233472, 232448, 2048, 32, "H100"), "sm_90a": Limits(9, 0, 132, 233472, 232448, 2048, 32, "H100"),
}  # fmt: skip
SHARED_DEFAULT = 49152
MAX_THREADS, MAX_GRID_X, MAX_GRID_YZ, MAX_BLOCK_Z = 1024, (1 << 31) - 1, 65535, 64


def attributes(limits: Limits, memory: int) -> dict[int, int]:
    """Values by attribute number."""
    return {
        1: MAX_THREADS, 2: MAX_THREADS, 3: MAX_THREADS, 4: MAX_BLOCK_Z, 5: MAX_GRID_X, 6: MAX_GRID_YZ, 7: MAX_GRID_YZ,
        8: SHARED_DEFAULT, 9: 65536, 10: 32, 11: (1 << 31) - 1, 12: 65536, 13: 1410000, 14: 512, 15: 1,
        16: limits.processors, 17: 0, 18: 0, 19: 1, 20: 0, 31: 1, 32: 0, 33: 0, 34: 0, 35: 0, 36: 1215000, 37: 4096,
        38: 40 << 20, 39: limits.threads_per_processor, 40: 3, 41: 1, 75: limits.major, 76: limits.minor, 78: 1, 79: 1, 80: 1,
        81: limits.shared_per_processor, 82: 65536, 83: 0, 89: 0, 90: 1, 95: 1, 97: limits.shared_opt_in,
        106: limits.blocks_per_processor, 111: 1024, 115: 1, 119: 0, 120: int(limits.major >= 9),
        127: int(limits.major >= 9),
    }  # fmt: skip
