"""Processors by name, and this machine's: what LLVM says they have.

Not here: which processor code is for (`target.py`). Invariant: what a processor has is LLVM's word, asked in a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ...support.errors import CodegenError
from ...support.optional import require
from ..cache.cache_key import Key
from ..cache.object_cache import cached, object_cache
from .llvm_binding import llvm_binding
from .probe import probe_compilation, probe_features
from .system import described_processor, system_features as features_of_system

_OF_THE_SYSTEM = frozenset((
    "clflushopt", "clwb", "clzero", "cldemote", "cmpccxadd", "enqcmd", "fsgsbase", "fxsr", "hreset", "invpcid", "kl", "lwp",
    "movdir64b", "movdiri", "movrs", "mwaitx", "pconfig", "pku", "prefetchi", "prfchw", "ptwrite", "raoint", "rdpid", "rdpru",
    "rdrnd", "rdseed", "rtm", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl",
    "xsave", "xsavec", "xsaveopt", "xsaves",
))  # fmt: skip
"""Features that no code generator uses on its own: virtual machines hide them, and programs run without."""


@dataclass(slots=True, frozen=True)
class Processor:
    """``cpu`` and ``changes`` (``+avx2,-fma``) as LLVM takes them, and all ``features`` that gives."""

    cpu: str
    changes: str
    features: frozenset[str]

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector register."""
        return 64 if "avx512f" in self.features else 32 if "avx" in self.features else 16

    @property
    def needed(self) -> frozenset[str]:
        """Features that code for this processor may use."""
        return self.features - _OF_THE_SYSTEM


_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Numbers of Linux's question for AMX tile registers: arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA."""


@cache
def allow_tiles() -> bool:
    """Ask Linux for the use of tile registers (arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA; Linux 5.16), for all threads to come."""
    return sys.platform == "linux" and bool(
        ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
    )


def without_tiles(features: str) -> str:
    """LLVM's feature string with the AMX features switched off."""
    return ",".join([f"-{f[1:]}" if f.startswith("+amx-") else f for f in features.split(",")])


def _ask_llvm() -> dict[str, str]:
    binding = llvm_binding()
    return {
        "cpu": binding.get_host_cpu_name(), "features": binding.get_host_cpu_features().flatten(),
        "triple": binding.get_process_triple(), "version": ".".join([str(n) for n in binding.llvm_version_info]),
    }  # fmt: skip


@cache
def _llvm_says() -> dict[str, str]:
    """LLVM's words on this machine, from the object cache where the system describes the same processor. Raises MissingExtraError
    E002 where llvmlite is not installed."""
    description = described_processor()
    if not description:
        return _ask_llvm()
    key = Key("host", processor=description, tools=f"{require('llvmlite').__version__}/{platform.machine()}")
    return cached(key, _ask_llvm, lambda found: json.dumps(found).encode(), json.loads)


def host_cpu() -> str:
    """LLVM's name of this processor."""
    return _llvm_says()["cpu"]


@cache
def host_features() -> str:
    """LLVM's feature string of this processor, e.g. ``+avx2,+fma,-amx-tile``; AMX only where the system lets the process use it."""
    found = _llvm_says()["features"]
    return found if "+amx-tile" not in found.split(",") or allow_tiles() else without_tiles(found)


def host_triple() -> str:
    """LLVM's target triple of this process."""
    return _llvm_says()["triple"]


@cache
def llvm_version() -> str:
    """Version of LLVM and llvmlite, part of every cache key."""
    return f"{_llvm_says()['version']}/{require('llvmlite').__version__}/{platform.machine()}"


@cache
def system_features() -> frozenset[str]:
    """Features that this processor has by the word of the system; there may be more."""
    found = features_of_system()
    return (
        found
        if "amx-tile" not in found or allow_tiles()
        else frozenset([name for name in found if not name.startswith("amx-")])
    )


@cache
def host_processor() -> Processor:
    """This machine's."""
    here = frozenset([item[1:] for item in host_features().split(",") if item.startswith("+")])
    return Processor(host_cpu(), host_features(), here)


def _known(found: tuple[Any, str]) -> bytes | None:
    """The answer of LLVM, to be kept where it knows the processor."""
    return None if found[1] else json.dumps(found).encode()


@cache
def named_processor(cpu: str, changes: str) -> Processor:
    """A processor by name; without a name the plain one of this architecture, with the features that are named. Raises
    CodegenError E531 for what LLVM does not know."""
    cpu = cpu or ("x86-64" if host_triple().startswith("x86_64") else "generic")
    key = Key("processor", cpu=cpu, changes=changes, tools=llvm_version())
    features, problem = cached(key, partial(probe_features, cpu, changes), _known, json.loads)
    if problem:
        wanted = " ".join([f"-mcpu={cpu}"] + ([f"-mattr={changes}"] if changes else []))
        raise CodegenError("E531", f"{wanted}: {problem}", help="leave -mcpu and -mattr out for this machine")
    return Processor(cpu, changes, frozenset(features))


_TRIED: dict[Key, str] = {}
"""The reasons for which LLVM could not compile small modules, or "", as far as they were tried here or are known from before."""


def compile_problems(texts: Sequence[str], cpu: str, changes: str) -> dict[str, str]:
    """The small modules that LLVM cannot compile for a processor, with the reason. One process tries all that are new, and another
    those after one that it refuses; that a module was compiled is kept."""
    keys = {text: Key("trial", text=text, cpu=cpu, changes=changes, tools=llvm_version()) for text in texts}
    store = object_cache()
    _TRIED.update({key: "" for key in keys.values() if key not in _TRIED and store.load(key) is not None})
    new = [text for text, key in keys.items() if key not in _TRIED]
    while new:
        done, problem = probe_compilation(new, cpu, changes)
        for text in new[:done]:
            _TRIED[keys[text]] = ""
            store.store(keys[text], b"")
        if problem:
            _TRIED[keys[new[done]]] = problem
        new = new[done + 1 :]
    return {text: _TRIED[key] for text, key in keys.items() if _TRIED[key]}


def lacking_features(needed: str) -> list[str]:
    """Of a feature string (``+avx2,+fma``), those that this machine lacks. LLVM is asked about what the system does not name."""
    wanted = {item[1:] for item in needed.split(",") if item.startswith("+")} - system_features()
    return sorted(wanted - host_processor().features) if wanted else []


def other_machine(triple: str) -> str:
    """The machine of a triple and this one in words where they differ, else ""."""
    arch, system = triple.partition("-")[0], ".".join(triple.split("-")[2:3])
    here = platform.machine()
    same = arch == here and system.startswith(sys.platform)
    return "" if same else f"{triple}, this machine is {here} with {sys.platform}"
