"""Tensor programs to their target's code, each cached between processes by what goes in: its text, the places that errors of its
checks name, pipeline, target.

A build lowers and compiles only the programs it has not seen; code is made in the background while the next program is lowered.
Here: when and under which key. Not here: the folder (`ObjectCache`), code generation (the target's `Backend`). Invariant:
whatever may change the result is part of the key - the package's own files, the target and its tools, the options of every pass -
and not the program's name: equal programs are compiled once. A pipeline with a pass from outside the package is never looked up,
nor one that somebody watches, nor code of a target without a `cache_key`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ..ffi.abi import KernelSignature
from ..ffi.cache.cache_key import Key, package_state
from ..ffi.cache.object_cache import object_cache
from ..ffi.native.pool import processors
from ..ffi.targets.target import Target
from ..ir.function import PrimFunc
from ..ir.module import IRModule
from ..ir.node import replace as replace_node
from ..ir.scalar import BufferLoad
from ..ir.stmt import AssertStmt, BufferStore
from ..ir.verifier.verifier import verify
from ..ir.walk import collect
from ..support.errors import CodegenError
from ..support.options import int_option, str_option
from ..support.progress import report_progress
from ..support.recursion import deep_recursion
from ..target.kernel_groups import Group, kernel_groups
from ..transform.infra.backend import Backend, KernelCode, backend_of
from ..transform.infra.context import watched_by
from ..transform.infra.instruments import VerifyInstrument
from ..transform.infra.passes import PassContext, Pipeline
from ..transform.tir.buffers.instrument_bounds import instrument_bounds
from ..transform.tir.expressions.simplify import bind_shared
from ..transform.tir.pipeline import lower_prim_funcs
from .executable.codec import read_signature, signature_data

ANY = "program"
"""The name of a program that stands alone, in its key."""


@dataclass(slots=True)
class CompiledKernels:
    """Code by section of the saved program, signatures and symbols by function name, and the targets that it is for."""

    sections: dict[str, list[bytes]] = field(default_factory=dict)
    signatures: dict[str, KernelSignature] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    def add(self, target: Target, data: list[bytes], functions: Mapping[str, tuple[KernelSignature, str]]) -> None:
        """Take in the code of some programs."""
        self.sections.setdefault(backend_of(target).runtime.section, []).extend(data)
        self.targets.append(target)
        self.signatures |= {name: signature for name, (signature, _) in functions.items()}
        self.symbols |= {name: symbol for name, (_, symbol) in functions.items()}


def is_own(pipeline: Pipeline) -> bool:
    """True when every pass belongs to the package."""
    return all([step.function.__module__.split(".")[0] == __name__.split(".")[0] for step in pipeline])


def is_watched() -> bool:
    """True if somebody watches the passes or wants what they leave behind."""
    return PassContext.current().is_special or bool(str_option("UNITY_KEEP"))


def kernel_parts(pipeline: Pipeline, target: Target) -> dict[str, str]:
    """The parts of a key that decide the code beside the programs; none for a target whose code is not cached."""
    backend = backend_of(target)
    if backend.cache_key is None:
        return {}
    tools = backend.cache_key(target)
    return {"target": str(target), "lowering": str(pipeline), "tools": tools, "package": package_state()}


def compile_kernels(
    functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target, compiled: CompiledKernels
) -> None:
    """Lower and compile tensor programs, or find what that gave before. Raises PassError, CodegenError."""
    report_progress("tensor programs", 0, len(functions))
    backend = backend_of(target)
    if is_watched() or backend.cache_key is None or not is_own(pipeline):
        code = _generated(functions, pipeline, target, backend)()
        rows = {name: (signature, code.symbols[name]) for name, signature in code.signatures.items()}
        compiled.add(target, [code.data], rows)
    else:
        _Kernels(pipeline, target, backend).compile(functions, compiled)


class _Kernels:
    """One build of tensor programs: what is found, what is being compiled, by key."""

    def __init__(self, pipeline: Pipeline, target: Target, backend: Backend) -> None:
        self.pipeline, self.target, self.backend = pipeline, target, backend
        self.store = object_cache()
        self.parts = kernel_parts(pipeline, target)
        self.groups: dict[Key, Group] = {}
        self.found: dict[Key, KernelCode] = {}

    def compile(self, functions: Mapping[str, PrimFunc], compiled: CompiledKernels) -> None:
        """All programs."""
        names: dict[Key, list[list[str]]] = {}
        for group in kernel_groups(functions):
            key = self.key(group)
            self.groups.setdefault(key, group)
            names.setdefault(key, []).append(list(group))
        for key in names:
            found = self.load(key)
            if found is not None:
                self.found[key] = found
        self.make([key for key in names if key not in self.found])
        rows: dict[str, tuple[KernelSignature, str]] = {}
        for key, users in names.items():
            code = self.found[key]
            for user in users:
                names_of = dict(zip(self.groups[key], user, strict=True))
                for known, signature in code.signatures.items():
                    name = names_of[known] if len(user) > 1 else user[0]  # the key of one program has no name in it
                    rows[name] = signature if known == name else replace(signature, name=name), code.symbols[known]
        data = [self.found[key].data for key in names]
        compiled.add(self.target, data, {name: rows[name] for name in functions if name in rows})

    def key(self, group: Group) -> Key:
        """The key of a group: everything that decides its machine code."""
        bound = {name: bind_shared.on(fn) for name, fn in group.items()}
        if len(bound) == 1:
            (func,) = bound.values()
            bound = {ANY: replace_node(func, attrs={k: v for k, v in func.attrs.items() if k != "global_symbol"})}
        told = (AssertStmt, BufferLoad, BufferStore) if instrument_bounds in self.pipeline else AssertStmt
        checks = [node for fn in bound.values() for node in collect(fn.body, told) if node.span is not None]
        with deep_recursion():
            text = IRModule(bound, {}, {}).script()
        return Key("kernel", program=text, places="\n".join([check.span.place for check in checks]), **self.parts)

    def make(self, missing: list[Key]) -> None:
        """Lower and compile groups: Python here, the code generator's second half beside it where the machine has a core for it."""
        if len(missing) < 2 or processors() < 2:
            for done, key in enumerate(missing):
                self.at(key, done, missing)
                self.keep(key, self.generated(key)())
            return
        workers = ThreadPoolExecutor(min(processors(), len(missing)), thread_name_prefix="unity-code")
        try:
            started: list[tuple[Key, Future[KernelCode]]] = []
            for done, key in enumerate(missing):
                self.at(key, done, missing)
                started.append((key, workers.submit(self.generated(key))))
            for key, future in started:
                report_progress("machine code", len(missing) - 1, len(missing))
                self.keep(key, future.result())
        finally:  # after an error or an interrupt: what has not begun never does
            workers.shutdown(cancel_futures=True)

    def at(self, key: Key, done: int, missing: list[Key]) -> None:
        """Tell which program is being lowered."""
        report_progress(next(iter(self.groups[key])), done, len(missing))

    def generated(self, key: Key) -> Callable[[], KernelCode]:
        """The function that makes the code of a group."""
        return _generated(self.groups[key], self.pipeline, self.target, self.backend, _suffix(key))

    def keep(self, key: Key, code: KernelCode) -> None:
        """Remember a group: its table here, the code where the code generator left it, or beside the table."""
        self.found[key] = code
        rows = [[name, code.symbols[name], signature_data(s)] for name, s in code.signatures.items()]
        location = code.key
        if not location:
            location = Key("code", of=key)
            self.store.store(location, code.data)
        self.store.store(key, json.dumps([location, rows], separators=(",", ":")).encode())

    def load(self, key: Key) -> KernelCode | None:
        """The result of an earlier build; None where any part of it is gone or damaged."""
        entry = self.store.load(key)
        if entry is None:
            return None
        location, rows = json.loads(entry)
        data = self.store.load(location)
        if data is None:
            return None
        signatures = {name: read_signature(value) for name, _, value in rows}
        return KernelCode(data, signatures, {name: symbol for name, symbol, _ in rows}, location)


def _generated(
    functions: Mapping[str, PrimFunc], pipeline: Pipeline, target: Target, backend: Backend, suffix: str = ""
) -> Callable[[], KernelCode]:
    """Lower tensor programs and give them to the code generator. Where a pass left an ill-formed program, a second run names the
    pass (E904); what was ill-formed before is E340 or another."""
    try:
        with target:
            return backend.generate(lower_prim_funcs(functions, pipeline), target, suffix)
    except CodegenError:
        if int_option("UNITY_VERIFY") >= 1:
            verify(IRModule(dict(functions), {}, {}))
            with watched_by(VerifyInstrument()):
                lower_prim_funcs(functions, pipeline)
        raise


def _suffix(key: str) -> str:
    """Makes symbols of different programs different, whatever build they come from."""
    return f".{key[:16]}"
