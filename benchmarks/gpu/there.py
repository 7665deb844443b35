"""What a machine has: driver, device, packages. What is absent is said."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from typing import Any

from unity.ffi.cuda.context import context
from unity.ffi.cuda.driver import driver_in_use
from unity.ffi.cuda.memory import memory_info
from unity.support.errors import DeviceError
from unity.target.cuda.assemble import find_assembler

PACKAGES = ("numpy", "llvmlite", "lark", "ml_dtypes", "torch", "triton", "pycuda", "pytest", "transformers")
FACTS = (
    "compute_capability_major", "compute_capability_minor", "multi_processor_count", "max_threads_per_block",
    "max_threads_per_multi_processor", "max_shared_memory_per_block", "max_shared_memory_per_block_optin",
    "max_shared_memory_per_multi_processor", "l2_cache_size_bytes", "warp_size",
)  # fmt: skip
ABSENT = "not there"


def package(name: str) -> str:
    """The version of a package, or that it is not there."""
    if importlib.util.find_spec(name) is None:
        return ABSENT
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "there, of an unknown version"


def device_facts() -> dict[str, Any]:
    """The driver and the first device; why there is none under ``driver`` or ``device``."""
    try:
        driver = driver_in_use()
        found: dict[str, Any] = {"driver": f"{driver.name}, CUDA {'.'.join(map(str, driver.version()))}"}
    except DeviceError as error:
        return {"driver": f"{ABSENT}: {error.message}"}
    try:
        first = context(0)
    except DeviceError as error:
        return {**found, "device": f"{ABSENT}: {error.message}"}
    free, total = memory_info(first)
    facts = {name: first.attribute(name) for name in FACTS}
    return {**found, "device": first.name, "free_bytes": free, "total_bytes": total, **facts}


def what_is_there() -> dict[str, Any]:
    """All of it by name."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        **device_facts(),
        "ptxas": find_assembler() or ABSENT,
        **{name: package(name) for name in PACKAGES},
    }
