"""The architectures of CUDA devices with a code generator, and the facts about each that it needs.

Sources: CUDA C++ Programming Guide, "Compute Capabilities"; PTX ISA, "Release Notes".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ffi.targets.target import Target
from ...support.errors import CodegenError

DEFAULT_ARCH = "sm_80"


@dataclass(slots=True, frozen=True)
class Arch:
    """An architecture. ``capability``: the compute capability, 80 for 8.0. ``ptx``: the version of PTX that is written, 80 for
    8.0. ``shared_bytes``: the most shared memory of a block. ``max_threads``: the most threads of a block."""

    name: str
    capability: int
    ptx: int
    shared_bytes: int
    max_threads: int = 1024
    warp: int = 32

    @property
    def includes(self) -> frozenset[str]:
        """Names of the architectures whose instructions this one has."""
        return frozenset(
            [f"sm_{row}" for row in (75, 80, 86, 87, 89, 90, 100, 120) if row <= self.capability] + [self.name]
        )


ARCHS = {
    row.name: row
    for row in (
        Arch("sm_75", 75, 80, 64 << 10),
        Arch("sm_80", 80, 80, 163 << 10),
        Arch("sm_86", 86, 80, 99 << 10),
        Arch("sm_87", 87, 80, 163 << 10),
        Arch("sm_89", 89, 80, 99 << 10),
        Arch("sm_90", 90, 80, 227 << 10),
        Arch("sm_90a", 90, 80, 227 << 10),
        Arch("sm_100", 100, 86, 227 << 10),
        Arch("sm_100a", 100, 86, 227 << 10),
        Arch("sm_120", 120, 87, 99 << 10),
    )
}
"""Architectures by name."""
STATIC_SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without asking the driver for more."""


def arch_of(target: Target) -> Arch:
    """The architecture of a target of the kind ``cuda``. Raises CodegenError E531 for one that is not known."""
    return _named(str(target.get("arch", DEFAULT_ARCH)))


def assembled_archs(target: Target) -> tuple[Arch, ...]:
    """The architectures of a target's option ``cubin``, "sm_80,sm_90a". Raises CodegenError E531, also for one that lacks
    instructions of the target's architecture."""
    base, found = arch_of(target), []
    for name in [part.strip() for part in str(target.get("cubin", "")).split(",") if part.strip()]:
        arch = _named(name)
        if base.name not in arch.includes:
            raise CodegenError("E531", f"code for {base.name} may have instructions that {name} has not",
                               help=f"give the oldest one as -arch={name}, or leave it out of -cubin")  # fmt: skip
        found.append(arch)
    return tuple(found)


def _named(name: str) -> Arch:
    found = ARCHS.get(name)
    if found is None:
        raise CodegenError("E531", f"unknown architecture {name!r} of CUDA devices", help=f"known: {', '.join(ARCHS)}")
    return found
