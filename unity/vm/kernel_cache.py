"""Tensor programs to machine code, remembered between processes by what goes in: text of the programs, pipeline, target.

A build that finds them skips the lowering of tensor programs as well as LLVM. Here: when and under which key. Not here: the
folder (`ffi/object_cache.py`). Invariant: whatever may change the result is part of the key - the package's own files, LLVM, the
processor, the options of every pass - and a pipeline with a pass from outside the package is never looked up, nor one that
somebody watches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..ffi.abi import KernelSignature
from ..ffi.llvm import llvm_version
from ..ffi.object_cache import ObjectCache, content_key, object_cache
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..support.deep import deep_recursion
from ..support.options import str_option
from ..target.cpu.codegen import build_kernels, compile_options
from ..target.target import Target
from ..transform.base import PassContext, Pipeline
from ..transform.tir.bind_shared import bind_shared
from ..transform.tir.pipeline import lower_prim_funcs
from .codec import read_signature, signature_data

PACKAGE = Path(__file__).parents[1]


@dataclass(slots=True, frozen=True)
class CompiledKernels:
    """Object bytes, and signatures and LLVM symbols by function name."""

    object: bytes
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]


@cache
def package_state() -> str:
    """A key of the compiler's own files: names, sizes and times of change."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        status = path.stat()
        found.append(f"{path.relative_to(PACKAGE)}:{status.st_size}:{status.st_mtime_ns}")
    return content_key(*found)


def _is_own(pipeline: Pipeline) -> bool:
    """True when every pass belongs to the package."""
    return all([step.function.__module__.split(".")[0] == __name__.split(".")[0] for step in pipeline])


def _key(functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target) -> str:
    with deep_recursion():
        text = IRModule({name: bind_shared.on(fn) for name, fn in functions.items()}, {}, {}).script()
    options = repr(compile_options(target).resolved())
    return content_key("kernels 1", text, str(pipeline), str(target), options, llvm_version(), package_state())


def compile_kernels(functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target) -> CompiledKernels:
    """Lower and compile tensor programs, or find what that gave before. Raises PassError, CodegenError."""
    store = object_cache()
    watched = bool(PassContext.current().instruments) or bool(str_option("UNITY_KEEP"))
    if store is None or watched or target.kind != "llvm" or not _is_own(pipeline):
        return _compile(functions, pipeline, target)
    key = _key(functions, pipeline, target)
    found = _load(store, key)
    if found is None:
        found = _compile(functions, pipeline, target)
        _store(store, key, found)
    return found


def _compile(functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target) -> CompiledKernels:
    library = build_kernels(lower_prim_funcs(functions, pipeline), target)
    return CompiledKernels(library.object, library.signatures, library.symbols)


def _store(store: ObjectCache, key: str, made: CompiledKernels) -> None:
    rows = [[name, made.symbols[name], signature_data(s)] for name, s in made.signatures.items()]
    head = json.dumps(rows, separators=(",", ":")).encode()
    store.store(key, len(head).to_bytes(8, "little") + head + made.object)


def _load(store: ObjectCache, key: str) -> CompiledKernels | None:
    data = store.load(key)
    if data is None:
        return None
    end = 8 + int.from_bytes(data[:8], "little")
    rows = json.loads(data[8:end])
    signatures = {name: read_signature(value) for name, _, value in rows}
    return CompiledKernels(data[end:], signatures, {name: symbol for name, symbol, _ in rows})


__all__ = ["CompiledKernels", "compile_kernels", "package_state"]
