"""Whether this processor can run code that was compiled for given features.

Not here: which features code is compiled for (``target/``). Invariant: code with instructions that the processor lacks is refused
before it is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ..ffi.llvm import host_features
from ..support.errors import VMError

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


def require_processor(features: str) -> None:
    """Refuse VMError E451 for code that uses instructions this processor lacks. AMX needs the system's leave on Linux as well."""
    here = host_features()
    if features == here:
        return
    wanted = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    lacking = sorted(wanted & {feature[1:] for feature in here.split(",") if feature.startswith("-")})
    if lacking:
        raise VMError(
            "E451",
            f"the code is for a processor with {', '.join(lacking)}, which this one lacks",
            help="compile for this machine: leave -mattr out of the target",
        )
    if "amx-tile" in wanted and not allow_tiles():
        raise VMError(
            "E451", "the system does not let this process use AMX tiles", help="Linux 5.16 or later is needed"
        )


@cache
def allow_tiles() -> bool:
    """Ask Linux for the use of AMX tile registers (arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA)."""
    return sys.platform == "linux" and bool(
        ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
    )
