"""Object code of LLVM IR text, from where it is: a saved program brought it along, the object cache has it, or LLVM makes it now.

LLVM is loaded when something is to be made, not before: a process that loads and runs what is compiled does without.
Invariant: what a saved program brings for others is the package's own code, named by its text; kernels and drivers stay its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...support.errors import FFIError
from ...support.lazy import load
from ..cache.cache_key import Key, content_key
from ..cache.object_cache import cached
from ..targets.llvm_binding import LLVM_LOCK, llvm_binding
from ..targets.processor import host_triple, llvm_version
from ..targets.target import runnable_processor
from .object_archive import join_objects, split_objects

PIPELINES = ("none", "long", "light", "O1", "O2", "O3")


@dataclass(slots=True, frozen=True)
class CompileOptions:
    """Options of turning text IR into an object.

    ``pipeline``: ``none``, ``long`` (passes whose time is linear in a function), ``light`` (always-inline, SROA, instruction
    combining, CFG clean-up) or LLVM's ``O1`` to ``O3``. ``opt`` is the code generator's level. ``cpu`` and ``features`` are
    LLVM's names; empty means those of the default processor, or this machine's where it cannot run code for that.
    ``reloc``/``codemodel``: keep ``pic``/``small`` for objects that get linked or loaded by an ``Engine``. ``triple`` is this
    machine's where it is empty. With ``assembly`` the object is assembler text.
    """

    pipeline: str = "O2"
    opt: int = 2
    cpu: str = ""
    features: str = ""
    reloc: str = "pic"
    codemodel: str = "small"
    vectorize: bool = True
    triple: str = ""
    assembly: bool = False

    def resolved(self) -> CompileOptions:
        """The same options with the processor's names filled in, so that they decide the result alone."""
        if self.cpu or self.features or self.triple:
            return replace(self, triple=self.triple or host_triple())
        processor = runnable_processor()
        return replace(self, cpu=processor.cpu, features=processor.changes, triple=host_triple())


def llvm() -> Any:
    """The module `llvm`. Raises MissingExtraError E002 where llvmlite is not installed."""
    llvm_binding()
    with LLVM_LOCK:
        return load("llvm")


def object_key(text: str, options: CompileOptions | None = None) -> Key:
    """The key under which the object cache holds what ``compile_ir`` makes of a text."""
    return Key("object", text=text, options=repr((options or CompileOptions()).resolved()), tools=llvm_version())


def compile_ir(text: str, options: CompileOptions | None = None, use_cache: bool = True) -> bytes:
    """Object bytes of LLVM IR text, from the object cache where it has them. Raises FFIError E708, MissingExtraError E002."""
    resolved = (options or CompileOptions()).resolved()
    make = partial(_made, text, resolved)
    return cached(object_key(text, resolved), make, bytes, bytes) if use_cache else make()


def _made(text: str, options: CompileOptions) -> bytes:
    return bytes(llvm().object_of(text, options))


_BROUGHT: dict[str, bytes] = {}
"""Objects that saved programs brought along, by `code_name`."""
_MOST_BYTES = 1 << 26
"""Of what a program brings along."""


def code_name(text: str, options: CompileOptions) -> str:
    """A name of a text under options, the same for every processor and version of LLVM."""
    return content_key(text, repr(replace(options, cpu="", features="", triple="")))


def own_object(text: str, options: CompileOptions) -> bytes:
    """Object bytes of a text of the package, to run here: what a saved program brought along, else as of ``compile_ir``."""
    found = _BROUGHT.get(code_name(text, options)) if _BROUGHT else None
    return compile_ir(text, options) if found is None else found


def pack_objects(objects: Mapping[str, bytes]) -> bytes:
    """Objects by their `code_name`, for a file."""
    return zlib.compress(join_objects([json.dumps(list(objects)).encode(), *objects.values()]))


def bring_objects(data: bytes) -> None:
    """Take what a program brought along, which is for a processor with no more features than this one; what is known stays. Raises
    FFIError E709 for damage."""
    try:
        reader = zlib.decompressobj()
        names, *objects = split_objects(reader.decompress(data, _MOST_BYTES))
        found = dict(zip(json.loads(names), objects, strict=True))
        if not reader.eof or not all([isinstance(name, str) for name in found]):
            raise ValueError("it does not end, or has no names")
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise FFIError("E709", f"the machine code that a program brought along is damaged: {error}") from error
    for name, made in found.items():
        _BROUGHT.setdefault(name, made)
