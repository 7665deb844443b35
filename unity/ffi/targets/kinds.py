"""The kinds of targets that this package knows, each registered by importing this file.

A kind without code is only described: programs may name it. Not here: code generation (a folder of ``target/`` for each kind).
"""

from __future__ import annotations

from .target_kind import TargetKind, register_kind

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
    },
    {
        "nvidia/nvidia-a100": {"arch": "sm_80", "max_threads_per_block": 1024},
        "nvidia/geforce-rtx-3090": {"arch": "sm_86", "max_threads_per_block": 1024},
        "nvidia/geforce-rtx-4090": {"arch": "sm_89", "max_threads_per_block": 1024},
        "nvidia/nvidia-h100": {"arch": "sm_90a", "max_threads_per_block": 1024},
        "nvidia/nvidia-h200": {"arch": "sm_90a", "max_threads_per_block": 1024},
    },
    generates=True,
)
"""CUDA devices, through LLVM and PTX."""
C = TargetKind("c", {"mcpu": str}, generates=False)
DEFAULT = LLVM.name
"""The kind of a target that nobody names, and of the code around tensor programs."""

for _kind in (LLVM, CUDA, C):
    register_kind(_kind)
