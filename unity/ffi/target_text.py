"""Descriptions of targets as text or dict: kind and options. Not here: what they mean (`target/target.py`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..support.errors import CodegenError, suggest

KINDS: dict[str, tuple[str, ...]] = {
    "llvm": ("mcpu", "mattr", "mtriple", "num-cores", "vector-width", "opt-level"),
    "cuda": ("arch", "max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size"),
    "c": ("mcpu",),
}
"""Target kinds and their options."""

GENERATED = ("llvm",)
"""Kinds that code is generated for. The others are read, compared and printed, so that programs may name them."""

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
"""Names of machines, with what they stand for."""

_INTEGERS = (
    "num-cores",
    "vector-width",
    "opt-level",
    "max_threads_per_block",
    "max_shared_memory_per_block",
    "thread_warp_size",
)


def read_target(description: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Kind and options of a description. Raises CodegenError E531 for an unknown kind, tag or option."""
    kind, options = _read(description)
    known = KINDS.get(kind)
    if known is None:
        near = suggest(kind, [*KINDS, *TAGS])
        listed = f"code is generated for {_named(True)}; only described, without code: {_named(False)}"
        raise CodegenError("E531", f"unknown target {kind!r}", help=f"{near} {listed}" if near else listed)
    for name, value in list(options.items()):
        if name in ("keys", "tag", "host", "device", "model", "libs"):
            options.pop(name)
        elif name not in known:
            near, listed = suggest(name, known), f"it has: {', '.join(known)}"
            message = f"target {kind} has no option {name!r}"
            raise CodegenError("E531", message, help=f"{near} {listed}" if near else listed)
        elif name == "mattr" and not isinstance(value, str):
            options[name] = ",".join(value)
    return kind, options


def _named(generated: bool) -> str:
    """Kinds and tags that code is generated for, or the others."""
    kinds = [kind for kind in KINDS if (kind in GENERATED) is generated]
    return ", ".join([*kinds, *[tag for tag, row in TAGS.items() if row["kind"] in kinds]])


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
