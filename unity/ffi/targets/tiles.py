"""AMX tile registers: a process may use them once the system has agreed. Not here: what is computed with them."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


@cache
def allow_tiles() -> bool:
    """Ask Linux for the use of tile registers (arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA; Linux 5.16), for all threads to come."""
    return sys.platform == "linux" and bool(
        ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
    )


def without_tiles(features: str) -> str:
    """LLVM's feature string with the AMX features switched off."""
    return ",".join([f"-{f[1:]}" if f.startswith("+amx-") else f for f in features.split(",")])
