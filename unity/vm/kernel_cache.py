"""Tensor programs to machine code, each remembered between processes by what goes in: its text, pipeline, target.

A build lowers and compiles only the programs it has not seen; LLVM compiles them in the background while the next is lowered.
Here: when and under which key. Not here: the folder (`ffi/object_cache.py`). Invariant: whatever may change the result is part
of the key - the package's own files, LLVM, the processor, the options of every pass - and not the program's name: equal programs
are compiled once. A pipeline with a pass from outside the package is never looked up, nor one that somebody watches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..ffi.abi import KernelSignature
from ..ffi.llvm import object_key
from ..ffi.object_cache import content_key, object_cache, package_state
from ..ffi.processor import llvm_version
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.node import replace as replace_node
from ..ir.verifier.verifier import verify
from ..support.errors import CodegenError
from ..support.graph import strongly_connected
from ..support.options import int_option, str_option
from ..support.progress import Progress
from ..support.recursion import deep_recursion
from ..target.cpu.codegen import (
    KernelLibrary,
    KernelText,
    callees,
    compile_kernel_text,
    compile_options,
    special_nodes,
    text_options,
    write_kernels,
)
from ..target.cpu.imported import imported_texts
from ..target.target import Target
from ..transform.infra.context import watched_by
from ..transform.infra.instruments import VerifyInstrument
from ..transform.infra.passes import PassContext, Pipeline
from ..transform.tir.expressions.bind_shared import bind_shared
from ..transform.tir.pipeline import lower_prim_funcs
from .executable.codec import read_signature, signature_data

ANY = "program"
"""The name of a program that stands alone, in its key."""
Group = dict[str, PrimFunc]
"""Programs that call each other, by name: one LLVM module."""


@dataclass(slots=True, frozen=True)
class CompiledKernels:
    """Object files (`ffi/object_archive.py`), and signatures and LLVM symbols by function name."""

    objects: tuple[bytes, ...]
    signatures: dict[str, KernelSignature]
    symbols: dict[str, str]


def is_own(pipeline: Pipeline) -> bool:
    """True when every pass belongs to the package."""
    return all([step.function.__module__.split(".")[0] == __name__.split(".")[0] for step in pipeline])


def is_watched() -> bool:
    """Does somebody look at the passes or want what they leave behind?"""
    return PassContext.current().is_special or bool(str_option("UNITY_KEEP"))


def kernel_state(pipeline: Pipeline, target: Target) -> str:
    """The state beside the programs that decides the machine code of tensor programs."""
    options = repr(compile_options(target).resolved())
    return content_key("kernels 2", str(pipeline), str(target), options, llvm_version(), package_state())


def compile_kernels(
    functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target, progress: Progress
) -> CompiledKernels:
    """Lower and compile tensor programs, or find what that gave before. Raises PassError, CodegenError."""
    progress.at("tensor programs", 0, len(functions))
    if is_watched() or target.kind != "llvm" or not is_own(pipeline):
        library = compile_kernel_text(_written(functions, pipeline, target))
        return CompiledKernels((library.object,), library.signatures, library.symbols)
    return _Kernels(pipeline, target, progress).compile(functions)


class _Kernels:
    """One build of tensor programs: what is found, what is being compiled, by key."""

    def __init__(self, pipeline: Pipeline, target: Target, progress: Progress) -> None:
        self.pipeline, self.target, self.progress = pipeline, target, progress
        self.store = object_cache()
        self.state = kernel_state(pipeline, target)
        self.groups: dict[str, Group] = {}
        self.found: dict[str, CompiledKernels] = {}

    def compile(self, functions: Mapping[str, PrimFunc]) -> CompiledKernels:
        """All programs."""
        names: dict[str, list[list[str]]] = {}
        for group in _groups(functions):
            key = self.key(group)
            self.groups.setdefault(key, group)
            names.setdefault(key, []).append(list(group))
        for key in names:
            found = self.load(key)
            if found is not None:
                self.found[key] = found
        self.make([key for key in names if key not in self.found])
        signatures: dict[str, KernelSignature] = {}
        symbols: dict[str, str] = {}
        for key, users in names.items():
            made = self.found[key]
            for user in users:
                for name, (known, signature) in zip(user, made.signatures.items(), strict=True):
                    signatures[name] = signature if known == name else replace(signature, name=name)
                    symbols[name] = made.symbols[known]
        objects = [data for key in names for data in self.found[key].objects]
        in_order = {name: signatures[name] for name in functions}
        return CompiledKernels(tuple(objects), in_order, {name: symbols[name] for name in functions})

    def key(self, group: Group) -> str:
        """The key of a group: everything that decides its machine code."""
        bound = {name: bind_shared.on(fn) for name, fn in group.items()}
        if len(bound) == 1:
            (func,) = bound.values()
            bound = {ANY: replace_node(func, attrs={k: v for k, v in func.attrs.items() if k != "global_symbol"})}
        with deep_recursion():
            return content_key(self.state, IRModule(bound, {}, {}).script())

    def make(self, missing: list[str]) -> None:
        """Lower and compile groups: Python here, LLVM beside it where the machine has a core for it."""
        if len(missing) < 2 or processors() < 2:
            for done, key in enumerate(missing):
                self.at(key, done, missing)
                self.keep(key, compile_kernel_text(self.written(key)))
            return
        workers = ThreadPoolExecutor(min(processors(), len(missing)), thread_name_prefix="unity-llvm")
        try:
            started: list[tuple[str, Future[KernelLibrary]]] = []
            for done, key in enumerate(missing):
                self.at(key, done, missing)
                started.append((key, workers.submit(compile_kernel_text, self.written(key))))
            for key, future in started:
                self.progress.at("machine code", len(missing) - 1, len(missing))
                self.keep(key, future.result())
        finally:  # after an error or an interrupt: what has not begun never does
            workers.shutdown(cancel_futures=True)

    def at(self, key: str, done: int, missing: list[str]) -> None:
        """Tell which program is being lowered."""
        self.progress.at(next(iter(self.groups[key])), done, len(missing))

    def written(self, key: str) -> KernelText:
        """The programs of a group as LLVM IR."""
        return _written(self.groups[key], self.pipeline, self.target, _suffix(key))

    def keep(self, key: str, library: KernelLibrary) -> None:
        """Remember a group: its table here, the object under the key of its text, where ``compile_ir`` left it."""
        self.found[key] = CompiledKernels((library.object,), library.signatures, library.symbols)
        if self.store is not None:
            rows = [[name, library.symbols[name], signature_data(s)] for name, s in library.signatures.items()]
            entry = [object_key(library.ir_text, text_options(library.ir_text, self.target)), rows]
            self.store.store(key, json.dumps(entry, separators=(",", ":")).encode())

    def load(self, key: str) -> CompiledKernels | None:
        """The result of an earlier build; None where any part of it is gone or damaged."""
        entry = self.store.load(key) if self.store is not None else None
        if self.store is None or entry is None:
            return None
        place, rows = json.loads(entry)
        data = self.store.load(place)
        if data is None:
            return None
        signatures = {name: read_signature(value) for name, _, value in rows}
        return CompiledKernels((data,), signatures, {name: symbol for name, symbol, _ in rows})


def _written(functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target, suffix: str = "") -> KernelText:
    """Lower tensor programs and write them as LLVM IR. Where that cannot be done because a pass left what is no program, a second
    run names the pass (E904), and E340 and others say what programs were none before it."""
    try:
        return write_kernels(lower_prim_funcs(functions, pipeline), target, suffix)
    except CodegenError:
        if int_option("UNITY_VERIFY") >= 1:
            verify(IRModule(dict(functions), {}, {}))
            with watched_by(VerifyInstrument(verify)):
                lower_prim_funcs(functions, pipeline)
        raise


def _suffix(key: str) -> str:
    """Makes symbols of different programs different, whatever build they come from."""
    return f".{key[:16]}"


def _groups(functions: Mapping[str, PrimFunc]) -> list[Group]:
    """The programs, those together that call each other; all together where one imports LLVM IR for the others to call."""
    nodes = {name: special_nodes(func) for name, func in functions.items()}
    if imported_texts([node for held in nodes.values() for node in held]):
        return [dict(functions)]
    called = {name: callees(held, functions) for name, held in nodes.items()}
    near: dict[str, set[str]] = {name: set(others) for name, others in called.items()}
    for name, others in called.items():
        for other in others:
            near[other].add(name)
    return [{name: functions[name] for name in part} for part in strongly_connected(functions, near.__getitem__)]


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ["CompiledKernels", "compile_kernels", "is_own", "is_watched", "kernel_state"]
