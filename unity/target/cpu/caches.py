"""The second-level cache of a core: by LLVM's name of the processor, or what the system says of this machine's.

Sizes as the vendors state them for a core; of processors with two kinds of cores that of the larger ones. Not here: what fits.
"""

from __future__ import annotations

from ...ffi.targets.processor import Processor, host_processor
from ...ffi.targets.system import second_level_cache

_KIB = {
    256: "nehalem westmere sandybridge ivybridge haswell broadwell skylake cannonlake",
    512: "icelake-client rocketlake znver1 znver2 znver3",
    1024: "skylake-avx512 cascadelake cooperlake znver4 znver5",
    1280: "icelake-server tigerlake alderlake",
    2048: "sapphirerapids emeraldrapids graniterapids graniterapids-d raptorlake meteorlake",
    2560: "lunarlake",
    3072: "arrowlake arrowlake-s",
}
_BY_NAME = {name: size << 10 for size, names in _KIB.items() for name in names.split()}
USUAL = 1 << 20
"""Bytes where nothing is known, as of ``x86-64-v3``, which many processors are."""


def second_level_of(processor: Processor) -> int:
    """Bytes of the second-level cache of a core."""
    known = _BY_NAME.get(processor.cpu, 0)
    return known or (second_level_cache() if processor == host_processor() else 0) or USUAL
