"""Targets: what code is generated for. Written ``Target("llvm -mcpu=znver4")``, a dict, a tag, or ``Target("llvm")``.

The processor's features decide, never its name: ``Target("llvm")`` is this machine. Targets are immutable and compare by value.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any

from ..ffi.llvm import host_features
from ..support.errors import CodegenError

KINDS: dict[str, tuple[str, ...]] = {
    "llvm": ("mcpu", "mattr", "mtriple", "num-cores", "vector-width", "opt-level"),
    "cuda": ("arch", "max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size"),
    "c": ("mcpu",),
}
"""Target kinds and their options."""

TAGS: dict[str, dict[str, Any]] = {
    "x86-64-v2": {"kind": "llvm", "mcpu": "x86-64-v2"},
    "x86-64-v3": {"kind": "llvm", "mcpu": "x86-64-v3"},
    "x86-64-v4": {"kind": "llvm", "mcpu": "x86-64-v4"},
    "intel/skylake-avx512": {"kind": "llvm", "mcpu": "skylake-avx512"},
    "intel/icelake-server": {"kind": "llvm", "mcpu": "icelake-server"},
    "intel/sapphirerapids": {"kind": "llvm", "mcpu": "sapphirerapids"},
    "amd/zen3": {"kind": "llvm", "mcpu": "znver3"},
    "amd/zen4": {"kind": "llvm", "mcpu": "znver4"},
    "amd/zen5": {"kind": "llvm", "mcpu": "znver5"},
    "nvidia/nvidia-a100": {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024},
    "nvidia/geforce-rtx-3090": {"kind": "cuda", "arch": "sm_86", "max_threads_per_block": 1024},
    "nvidia/geforce-rtx-4090": {"kind": "cuda", "arch": "sm_89", "max_threads_per_block": 1024},
    "nvidia/nvidia-h100": {"kind": "cuda", "arch": "sm_90a", "max_threads_per_block": 1024},
    "nvidia/nvidia-h200": {"kind": "cuda", "arch": "sm_90a", "max_threads_per_block": 1024},
}
"""Names of machines."""

_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What the levels of the x86-64 psABI ask of a processor, in LLVM's names."""

_INTEGERS = (
    "num-cores",
    "vector-width",
    "opt-level",
    "max_threads_per_block",
    "max_shared_memory_per_block",
    "thread_warp_size",
)


class TargetKind(str):
    """Name of a kind of targets; TVM asks for ``kind.name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name."""
        return str(self)


class _Entered(threading.local):
    """Targets entered by ``with``, of this thread."""

    def __init__(self) -> None:
        self.targets: list[Target] = []


_ENTERED = _Entered()


@cache
def _enabled(features: str) -> frozenset[str]:
    """The features that a list has with a plus; kept without a lock, for processes fork while their threads compile."""
    return frozenset([item[1:] for item in features.split(",") if item.startswith("+")])


@dataclass(frozen=True, init=False)
class Target:
    """A target: ``kind`` and its options. ``with target:`` makes it the current one.

    Raises CodegenError E531 for an unknown kind, tag or option.
    """

    kind: TargetKind
    options: tuple[tuple[str, Any], ...]

    def __init__(self, description: str | Mapping[str, Any] | Target = "llvm", host: object = None) -> None:
        if isinstance(description, Target):
            kind, options = str(description.kind), dict(description.options)
        else:
            kind, options = _read(description)
        known = KINDS.get(kind)
        if known is None:
            raise CodegenError(
                "E531", f"unknown target {kind!r}", help=f"kinds: {', '.join(KINDS)}; tags: {', '.join(TAGS)}"
            )
        for name, value in list(options.items()):
            if name in ("keys", "tag", "host", "device", "model", "libs"):
                options.pop(name)
            elif name not in known:
                raise CodegenError("E531", f"target {kind} has no option {name!r}", help=f"it has: {', '.join(known)}")
            elif name == "mattr" and not isinstance(value, str):
                options[name] = ",".join(value)
        object.__setattr__(self, "kind", TargetKind(kind))
        object.__setattr__(self, "options", tuple(sorted(options.items())))

    @property
    def attrs(self) -> dict[str, Any]:
        """The options that were given."""
        return dict(self.options)

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an option."""
        return self.attrs.get(name, default)

    @property
    def mcpu(self) -> str:
        """Processor name for LLVM; "" means this machine."""
        return str(self.get("mcpu", ""))

    @property
    def mattr(self) -> str:
        """Feature list for LLVM, e.g. ``+avx2,+fma``; "" means those of the processor."""
        return str(self.get("mattr", ""))

    @property
    def num_cores(self) -> int:
        """Processor cores to use."""
        return int(self.get("num-cores", os.cpu_count() or 1))

    @property
    def features(self) -> frozenset[str]:
        """Enabled LLVM features; those of this machine where no processor is named."""
        return _enabled(self.mattr or ("" if self.mcpu else host_features()))

    @property
    def required_features(self) -> str:
        """LLVM features that a processor must have to run code for this target, ``+avx2,+fma``: those of ``mattr`` and of the
        processor. Of a processor outside the table of levels the code uses at most what this machine has."""
        here = [item for item in host_features().split(",") if item.startswith("+")]
        base = [f"+{name}" for name in _LEVELS[self.mcpu]] if self.mcpu in _LEVELS else here
        return ",".join(base + (self.mattr.split(",") if self.mattr else []))

    @property
    def vector_bits(self) -> int:
        """Width of vectors to generate."""
        width = self.get("vector-width")
        if width is not None:
            return int(width)
        if "avx512f" in self.features or self.mcpu in (
            "x86-64-v4",
            "skylake-avx512",
            "icelake-server",
            "sapphirerapids",
            "znver4",
            "znver5",
        ):
            return 512
        return 256 if "avx" in self.features or self.mcpu in ("x86-64-v3", "znver3") else 128

    def __str__(self) -> str:
        return " ".join([self.kind] + [f"-{name}={value}" for name, value in self.options])

    def __repr__(self) -> str:
        return f'Target("{self}")'

    def to_dict(self) -> dict[str, Any]:
        """The target as a dict that ``Target`` reads."""
        return {"kind": str(self.kind), **self.attrs}

    def __enter__(self) -> Target:
        _ENTERED.targets.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ENTERED.targets.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target entered by ``with``; Raises CodegenError E531 when there is none and it must be."""
        if _ENTERED.targets:
            return _ENTERED.targets[-1]
        if allow_none:
            return None
        raise CodegenError("E531", "no current target", help='enter one: `with Target("llvm"):`')


def _read(description: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(description, Mapping):
        options = dict(description)
        if "kind" not in options:
            raise CodegenError("E531", "a target dict needs the key 'kind'")
        return str(options.pop("kind")), options
    if not isinstance(description, str):
        raise CodegenError("E531", f"a target is a string, a dict or a Target, got {type(description).__name__}")
    if description in TAGS:
        options = dict(TAGS[description])
        return str(options.pop("kind")), options
    try:
        words = shlex.split(description)
    except ValueError as error:
        raise CodegenError("E531", f"cannot read target {description!r}: {error}") from None
    if not words:
        raise CodegenError("E531", "an empty target description")
    options = {}
    position = 1
    while position < len(words):
        name, equals, value = words[position].lstrip("-").partition("=")
        if not words[position].startswith("-"):
            raise CodegenError(
                "E531", f"cannot read {words[position]!r} in target {description!r}", help="options are -name=value"
            )
        if not equals and position + 1 < len(words) and not words[position + 1].startswith("-"):
            position += 1
            value = words[position]
        if name in _INTEGERS:
            if not value.isdigit():
                raise CodegenError("E531", f"target option {name} must be a number, got {value!r}")
            options[name] = int(value)
        else:
            options[name] = value
        position += 1
    return words[0], options


def target(description: str | Mapping[str, Any] | Target | None = None) -> Target:
    """A Target from any description; None is the current one, else this machine."""
    if description is None:
        return Target.current() or Target("llvm")
    return description if isinstance(description, Target) else Target(description)
