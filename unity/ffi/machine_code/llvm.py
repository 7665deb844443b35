"""LLVM for this process: initialised once; text IR to object bytes under explicit options. The one module with LLVM in it, which
`objects` loads when something is compiled.

Everything LLVM refuses is an error with a code: text is parsed and verified before any pass or code generation sees it.
One lock guards the sequences of LLVM calls that share LLVM's global context. ``object_of`` needs none of it: each call has a
context and a code generator of its own, so several threads compile at the same time.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from functools import cache

import llvmlite.binding as binding
from llvmlite.binding.ffi import OutputString, lib as LLVMLITE

from ...support.errors import FFIError
from ...support.interrupts import defer_interrupts
from ..targets.llvm_binding import LLVM_LOCK, SLOTS
from ..targets.processor import host_triple
from .objects import PIPELINES, CompileOptions


@cache
def _initialise() -> None:
    with LLVM_LOCK:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()


@cache
def target_machine(options: CompileOptions) -> binding.TargetMachine:
    """The code generator for resolved options, one for all that hold the lock. Raises FFIError E708 for an unknown triple."""
    return _make_machine(options)


@cache
def _initialise_all() -> None:
    with LLVM_LOCK:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


def _make_machine(options: CompileOptions) -> binding.TargetMachine:
    _initialise()
    if options.triple != host_triple():
        _initialise_all()
    with LLVM_LOCK:
        try:
            target = binding.Target.from_triple(options.triple)
            return target.create_target_machine(
                cpu=options.cpu, features=options.features, opt=options.opt,
                reloc=options.reloc, codemodel=options.codemodel,
            )  # fmt: skip
        except RuntimeError as error:
            raise FFIError("E708", f"LLVM has no target {options.triple!r}: {error}") from error


def parse_ir(text: str, machine: binding.TargetMachine | None = None) -> binding.ModuleRef:
    """A verified LLVM module from text, in LLVM's global context. Raises FFIError E708 with LLVM's words."""
    with LLVM_LOCK:
        return _parse(text, machine, None)


def _parse(text: str, machine: binding.TargetMachine | None, context: binding.ContextRef | None) -> binding.ModuleRef:
    _initialise()
    if "\0" in text:
        raise FFIError("E708", "LLVM IR text contains a null character")
    try:
        module = binding.parse_assembly(text, context)
    except RuntimeError as error:
        raise FFIError("E708", f"LLVM refuses the IR: {str(error).strip()}") from error
    try:
        module.verify()
    except RuntimeError as error:
        module.close()
        raise FFIError("E708", f"LLVM refuses the IR: {str(error).strip()}") from error
    if machine is not None:
        if not module.triple:
            module.triple = machine.triple
        if not module.data_layout:
            module.data_layout = str(machine.target_data)
    return module


def _light(manager: binding.ModulePassManager) -> None:
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.add_global_dead_code_eliminate_pass()


def _long(manager: binding.ModulePassManager) -> None:
    """Nothing that walks up the dominators of each instruction, as instruction combining does."""
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    manager.add_sccp_pass()
    manager.add_dead_code_elimination_pass()
    manager.add_global_dead_code_eliminate_pass()


def optimise(module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions) -> None:
    """Run the options' pipeline over a module in place. Raises FFIError E708 for an unknown pipeline."""
    with LLVM_LOCK:
        _run_passes(module, machine, options, LLVMLITE)


def _run_passes(
    module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions, library: ctypes.CDLL
) -> None:
    """Run the options' pipeline and free its passes. llvmlite's own ``close`` of a pass manager frees nothing: its class
    inherits the empty ``_dispose`` of ``ObjectRef`` first."""
    passes = _passes(machine, options)
    if passes is None:
        return
    manager, builder = passes
    try:
        library.LLVMPY_RunNewModulePassManager(manager, module, builder)
    finally:
        LLVMLITE.LLVMPY_DisposeNewModulePassManger(manager)
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
    tuning = binding.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = options.vectorize and level >= 2
    builder = binding.create_pass_builder(machine, tuning)
    if options.pipeline[0] == "O":
        return builder.getModulePassManager(), builder
    manager = binding.create_new_module_pass_manager()
    (_light if options.pipeline == "light" else _long)(manager)
    return manager, builder


@cache
def _unlocked() -> ctypes.CDLL:
    """llvmlite's library without the lock that llvmlite holds around every call, for the calls that take long."""
    library = ctypes.CDLL(LLVMLITE._name, handle=LLVMLITE._handle)
    for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
        function, locked = getattr(library, name), getattr(LLVMLITE, name)
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
            context = binding.create_context()
            try:
                module = _parse(text, machine, context)
                try:
                    return _emit(module, machine, options)
                finally:
                    module.close()
            finally:
                context.close()


def _emit(module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions) -> bytes:
    library = _unlocked()
    _run_passes(module, machine, options, library)
    with OutputString() as problem:
        memory = library.LLVMPY_TargetMachineEmitToMemory(machine, module, 0 if options.assembly else 1, problem)
        if not memory:
            raise FFIError("E708", f"LLVM cannot generate code: {problem}")
    try:
        return ctypes.string_at(LLVMLITE.LLVMPY_GetBufferStart(memory), LLVMLITE.LLVMPY_GetBufferSize(memory))
    finally:
        LLVMLITE.LLVMPY_DisposeMemoryBuffer(memory)


def assembly(text: str, options: CompileOptions | None = None) -> str:
    """Assembler text of LLVM IR text, for people. Raises FFIError E708."""
    resolved = (options or CompileOptions()).resolved()
    machine = target_machine(resolved)
    with LLVM_LOCK:
        module = parse_ir(text, machine)
        optimise(module, machine, resolved)
        return str(machine.emit_assembly(module))
