"""LLVM for this process: text IR to object bytes under explicit options, from the object cache or made now.

llvmlite is imported and initialised when something is to be made, not before: a process that loads and runs what is compiled does
without. Beside this file only `ffi/targets/processor.py` asks it, for the words on this machine.

Everything LLVM refuses is an error with a code: text is parsed and verified before any pass or code generation sees it.
One lock guards the sequences of LLVM calls that share LLVM's global context. ``object_of`` needs none of it: each call has a
context of its own and each thread its code generators, so several threads compile at the same time.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ...support.errors import FFIError
from ...support.interrupts import defer_interrupts
from ..cache.cache_key import Key
from ..cache.object_cache import cached
from ..targets.llvm_binding import LLVM_LOCK, SLOTS, llvm_binding
from ..targets.processor import host_triple, llvm_version
from ..targets.target import runnable_processor

if TYPE_CHECKING:
    import llvmlite.binding as binding

PIPELINES = ("none", "long", "light", "O1", "O2", "O3")


@dataclass(slots=True, frozen=True)
class CompileOptions:
    """Options of turning text IR into an object.

    ``pipeline``: ``none``, ``long`` (passes whose time is linear in a function), ``light`` (always-inline and SROA, for code that
    is calls and little between them) or LLVM's ``O1`` to ``O3``. ``opt`` is the code generator's level. ``cpu`` and
    ``features`` are LLVM's names; empty means those of the default processor, or this machine's where it cannot run code for
    that. ``reloc``: keep ``pic`` for objects that get linked or loaded by an ``Engine``. ``triple`` is this machine's where it is
    empty. With ``assembly`` the object is assembler text.
    """

    pipeline: str = "O2"
    opt: int = 2
    cpu: str = ""
    features: str = ""
    reloc: str = "pic"
    vectorize: bool = True
    triple: str = ""
    assembly: bool = False

    def resolved(self) -> CompileOptions:
        """The same options with the processor's names filled in, so that they decide the result alone."""
        if self.cpu or self.features or self.triple:
            return replace(self, triple=self.triple or host_triple())
        processor = runnable_processor()
        return replace(self, cpu=processor.cpu, features=processor.changes, triple=host_triple())


def object_key(text: str, options: CompileOptions | None = None) -> Key:
    """The key under which the object cache holds what ``compile_ir`` makes of a text."""
    return Key("object", text=text, options=repr((options or CompileOptions()).resolved()), tools=llvm_version())


def compile_ir(text: str, options: CompileOptions | None = None, use_cache: bool = True) -> bytes:
    """Object bytes of LLVM IR text, from the object cache where it has them. Raises FFIError E708, MissingExtraError E002."""
    resolved = (options or CompileOptions()).resolved()
    make = partial(object_of, text, resolved)
    return cached(object_key(text, resolved), make, bytes, bytes) if use_cache else make()


@cache
def _llvm() -> Any:
    """``llvmlite.binding``, initialised for this machine. Raises MissingExtraError E002 where it is not installed."""
    with LLVM_LOCK:
        found = llvm_binding()
        found.initialize_native_target()
        found.initialize_native_asmprinter()
        return found


@cache
def _every_target() -> None:
    _llvm().initialize_all_targets()
    _llvm().initialize_all_asmprinters()


def _make_machine(options: CompileOptions) -> binding.TargetMachine:
    """A code generator for resolved options. Raises FFIError E708 for an unknown triple."""
    with LLVM_LOCK:
        try:
            if options.triple != host_triple():
                _every_target()
            target = _llvm().Target.from_triple(options.triple)
            return target.create_target_machine(
                cpu=options.cpu, features=options.features, opt=options.opt,
                reloc=options.reloc, codemodel="small",
            )  # fmt: skip
        except RuntimeError as error:
            raise FFIError("E708", f"LLVM has no target {options.triple!r}: {error}") from error


def parse_ir(text: str) -> binding.ModuleRef:
    """A verified LLVM module from text, in LLVM's global context. Raises FFIError E708 with LLVM's words."""
    with LLVM_LOCK:
        return _parse(text, None)


def _parse(text: str, context: binding.ContextRef | None) -> binding.ModuleRef:
    if "\0" in text:
        raise FFIError("E708", "LLVM IR text contains a null character")
    try:
        module = _llvm().parse_assembly(text, context)
    except RuntimeError as error:
        raise FFIError("E708", f"LLVM refuses the IR: {str(error).strip()}") from error
    try:
        module.verify()
    except RuntimeError as error:
        module.close()
        raise FFIError("E708", f"LLVM refuses the IR: {str(error).strip()}") from error
    return module


def _light(manager: binding.ModulePassManager) -> None:
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()


def _long(manager: binding.ModulePassManager) -> None:
    """Nothing that walks up the dominators of each instruction, as instruction combining does."""
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_sccp_pass()
    manager.add_dead_code_elimination_pass()
    manager.add_global_dead_code_eliminate_pass()


def _run_passes(module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions) -> None:
    """Run the options' pipeline over a module in place and free its passes. llvmlite's own ``close`` of a pass manager frees
    nothing: its class inherits the empty ``_dispose`` of ``ObjectRef`` first. Raises FFIError E708 for an unknown pipeline."""
    passes = _passes(machine, options)
    if passes is None:
        return
    manager, builder = passes
    try:
        _unlocked().LLVMPY_RunNewModulePassManager(manager, module, builder)
    finally:
        _llvm().ffi.lib.LLVMPY_DisposeNewModulePassManger(manager)
        manager.detach()
        builder.close()


def _passes(
    machine: binding.TargetMachine, options: CompileOptions
) -> tuple[binding.ModulePassManager, binding.PassBuilder] | None:
    """The pass manager and the pass builder of the options' pipeline; None where it is empty."""
    if options.pipeline not in PIPELINES:
        raise FFIError("E708", f"unknown pipeline {options.pipeline!r}", help=f"known: {', '.join(PIPELINES)}")
    if options.pipeline == "none":
        return None
    level = int(options.pipeline[1:]) if options.pipeline[0] == "O" else 1
    llvm = _llvm()
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = options.vectorize and level >= 2
    builder = llvm.create_pass_builder(machine, tuning)
    if options.pipeline[0] == "O":
        return builder.getModulePassManager(), builder
    manager = llvm.create_new_module_pass_manager()
    (_light if options.pipeline == "light" else _long)(manager)
    return manager, builder


@cache
def _unlocked() -> ctypes.CDLL:
    """llvmlite's library without the lock that llvmlite holds around every call, for the calls that take long."""
    lib = _llvm().ffi.lib
    library = ctypes.CDLL(lib._name, handle=lib._handle)
    for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
        function, locked = getattr(library, name), getattr(lib, name)
        function.argtypes, function.restype = locked.argtypes, locked.restype
    return library


_TURNS = itertools.count()
_MACHINES = threading.local()
"""Code generators of this thread by options."""


def object_of(text: str, options: CompileOptions) -> bytes:
    """Object bytes of text under resolved options; threads share nothing here. Raises FFIError E708."""
    with SLOTS[next(_TURNS) % len(SLOTS)]:
        machines = _MACHINES.__dict__
        machine = machines.get(repr(options))
        if machine is None:
            machine = machines[repr(options)] = _make_machine(options)
        with defer_interrupts():  # closed in order, and wholly: neither a collector nor an interrupt may come between
            context = _llvm().create_context()
            try:
                module = _parse(text, context)
                try:
                    module.triple = module.triple or machine.triple
                    module.data_layout = module.data_layout or str(machine.target_data)
                    return _emit(module, machine, options)
                finally:
                    module.close()
            finally:
                context.close()


def _emit(module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions) -> bytes:
    _run_passes(module, machine, options)
    ffi = _llvm().ffi
    with ffi.OutputString() as problem:
        memory = _unlocked().LLVMPY_TargetMachineEmitToMemory(machine, module, 0 if options.assembly else 1, problem)
        if not memory:
            raise FFIError("E708", f"LLVM cannot generate code: {problem}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def assembly(text: str, options: CompileOptions | None = None) -> str:
    """Assembler text of LLVM IR text, for people. Raises FFIError E708."""
    return object_of(text, replace((options or CompileOptions()).resolved(), assembly=True)).decode()
