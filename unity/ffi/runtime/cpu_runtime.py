"""The runtime of processors: object files, linked into this process with the functions that they call."""

from __future__ import annotations

from collections.abc import Mapping

from ..abi import KernelSignature
from ..device import CPU_KIND
from ..machine_code.elf import read_object
from ..machine_code.engine import Engine
from ..native.native_helpers import allocator_symbols, helper_symbols
from ..native.pool import PARALLEL_FOR, pool_symbols
from .runtime import Runtime, register_runtime


def host_symbols(objects: list[bytes]) -> dict[str, int]:
    """Addresses in this process of what object files of the host need from the package."""
    needed = {name for part in objects for name in read_object(part).undefined}
    symbols = dict(pool_symbols()) if PARALLEL_FOR in needed else {}
    if any([name.startswith("unity_") for name in needed]):
        symbols |= helper_symbols()
    if "aligned_alloc" in needed:
        symbols |= allocator_symbols()
    return symbols


def _link(engine: Engine, objects: list[bytes], kernels: Mapping[str, KernelSignature]) -> None:
    """Add object files; the entries are what they define."""
    for name, address in host_symbols(objects).items():
        engine.add_symbol(name, address)
    for part in objects:
        engine.add_object(part)


CPU_RUNTIME = Runtime(CPU_KIND, "kernels", _link, brings_entries=True)
register_runtime(CPU_RUNTIME)
