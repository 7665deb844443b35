"""This machine's processor in the words of the system (Linux: ``/proc/cpuinfo``), for those who do without LLVM.

Invariant: a feature that is named is there; not every feature is named.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_READ = 1 << 14
"""Bytes that hold the first processor."""
_CHANGES = (
    "processor",
    "cpu MHz",
    "bogomips",
    "BogoMIPS",
    "apicid",
    "initial apicid",
    "core id",
    "physical id",
    "siblings",
)
"""Lines that differ between processors of a machine, or from one time to the next."""
_RENAMED = {
    "pni": "sse3", "pclmulqdq": "pclmul", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf", "abm": "lzcnt",
    "bmi1": "bmi", "sha_ni": "sha", "lm": "64bit", "asimd": "neon", "fp": "fp-armv8",
}  # fmt: skip
"""LLVM's names of features that have other ones here, but for underscores."""


@cache
def _lines() -> dict[str, str]:
    """The description of the first processor; empty where the system has none."""
    try:
        with CPUINFO.open("rb") as file:
            text = file.read(_READ).decode(errors="replace")
    except OSError:
        return {}
    rows = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    return {name.strip(): value.strip() for name, _, value in rows}


def described_processor() -> str:
    """A text that is the same for equal processors, or "" where the system does not tell."""
    return "\n".join([f"{name}: {value}" for name, value in _lines().items() if name not in _CHANGES])


def system_features() -> frozenset[str]:
    """Features by LLVM's names."""
    found = set()
    for name in [*_lines().get("flags", "").split(), *_lines().get("Features", "").split()]:
        found.add(_RENAMED.get(name) or name.replace("amx_", "amx-").replace("_", ""))
    if "sse4.2" in found:
        found.add("crc32")
    return frozenset(found)


@cache
def second_level_cache() -> int:
    """Bytes of the second-level cache of the first processor; 0 where the system does not tell."""
    for part in sorted(CACHES.glob("index*")):
        try:
            level, size = [(part / name).read_text().strip() for name in ("level", "size")]
        except OSError:
            continue
        if level == "2" and size.endswith("K") and size[:-1].isdigit():
            return int(size[:-1]) << 10
    return 0
