"""The kinds of targets that this package knows, each registered by importing this file.

A kind without code is only described: programs may name it. Not here: code generation (a folder of ``target/`` for each kind).
"""

from __future__ import annotations

from collections.abc import Mapping

from .target_kind import TAGS, TargetKind, register_kind

LLVM = TargetKind(
    "llvm",
    {"mcpu": str, "mattr": str, "mtriple": str, "num-cores": int, "vector-width": int, "opt-level": int},
    {
        "x86-64-v2": {"mcpu": "x86-64-v2"},
        "x86-64-v3": {"mcpu": "x86-64-v3"},
        "x86-64-v4": {"mcpu": "x86-64-v4"},
        "intel/skylake-avx512": {"mcpu": "skylake-avx512"},
        "intel/icelake-server": {"mcpu": "icelake-server"},
        "intel/sapphirerapids": {"mcpu": "sapphirerapids"},
        "amd/zen3": {"mcpu": "znver3"},
        "amd/zen4": {"mcpu": "znver4"},
        "amd/zen5": {"mcpu": "znver5"},
    },
)
"""Processors, through LLVM."""
_DEVICES = {
    "sm_75": {"nvidia-t4": 40},
    "sm_80": {"nvidia-a100": 108, "nvidia-a30": 56},
    "sm_86": {"nvidia-a40": 84, "nvidia-a10": 72, "nvidia-a10g": 80, "geforce-rtx-3090": 82, "geforce-rtx-3080": 68},
    "sm_87": {"jetson-agx-orin-64gb": 16, "jetson-agx-orin-32gb": 14},
    "sm_89": {"nvidia-l40": 142, "nvidia-l4": 58, "geforce-rtx-4090": 128},
    "sm_90a": {"nvidia-h100": 132, "nvidia-h100-pcie": 114, "nvidia-h200": 132},
    "sm_100a": {"nvidia-b200": 148},
    "sm_120": {"geforce-rtx-5090": 170},
}
"""Multiprocessors of CUDA devices by architecture and by the name in TVM's tags, where it has one. Source: NVIDIA's data sheets."""
CUDA = TargetKind(
    "cuda",
    {
        "arch": str,
        "cubin": str,
        "fast-math": bool,
        "tf32": bool,
        "max_threads_per_block": int,
        "max_shared_memory_per_block": int,
        "thread_warp_size": int,
        "multi_processor_count": int,
    },
    {
        f"nvidia/{name}": {"arch": arch, "max_threads_per_block": 1024, "multi_processor_count": count}
        for arch, devices in _DEVICES.items()
        for name, count in devices.items()
    },
    usual={
        "max_num_threads": 1024,
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    },
)
"""CUDA devices, through LLVM and PTX."""
C = TargetKind("c", {"mcpu": str}, generates=False)
DEFAULT = LLVM.name
"""The kind of a target that nobody names, and of the code around tensor programs."""

for _kind in (LLVM, CUDA, C):
    register_kind(_kind)


def virtual_device(given: object) -> str | None:
    """The name of a virtual device, such as ``"cuda:0"``: of a text (``"cuda"``, ``"cuda:0:global"``), a device (``"cpu:0"``, which
    is ``"llvm:0"``), or the fields of ``I.vdevice``, whose target may have options. None for what names no device."""
    if isinstance(given, Mapping) and {"target", "id"} <= given.keys():
        target = given["target"]
        kind = target.get("kind", "") if isinstance(target, Mapping) else target
        parts = [str(kind), str(given["id"]), str(given.get("scope", "global"))]
    elif isinstance(given, str):
        parts = given.split(":", 2)
    else:
        return None
    name, number, scope = [*parts, *["", "0", "global"][len(parts) :]]
    kind = str(TAGS[name]["kind"]) if name in TAGS else name.partition(" ")[0]
    if not kind or not number.isdigit():
        return None
    kind = DEFAULT if kind == "cpu" else kind
    return f"{kind}:{number}" + ("" if scope == "global" else f":{scope}")
