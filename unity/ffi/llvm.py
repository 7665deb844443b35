"""LLVM for this process: initialised once; text IR to object bytes under explicit options, through the object cache.

Everything LLVM refuses is an error with a code: text is parsed and verified before any pass or code generation sees it.
One lock guards the sequences of LLVM calls that belong together.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache

import llvmlite
import llvmlite.binding as binding

from ..support.errors import FFIError
from ..support.forking import fork_lock, hold_over_fork
from .object_cache import content_key, object_cache

_single_calls = getattr(getattr(binding.ffi.lib, "_lock", None), "_lock", None)  # llvmlite's own lock around each call
if _single_calls is not None:
    hold_over_fork(_single_calls)
LLVM_LOCK = fork_lock()
"""Held around every group of LLVM calls."""

PIPELINES = ("none", "light", "O1", "O2", "O3")


@dataclass(slots=True, frozen=True)
class CompileOptions:
    """How text IR becomes an object.

    ``pipeline``: ``none``, ``light`` (always-inline, SROA, instruction combining, CFG clean-up) or LLVM's ``O1`` to
    ``O3``. ``opt`` is the code generator's level. ``cpu`` and ``features`` are LLVM's names; empty means the host's.
    ``reloc``/``codemodel``: keep ``pic``/``small`` for objects that get linked or loaded by an ``Engine``.
    """

    pipeline: str = "O2"
    opt: int = 2
    cpu: str = ""
    features: str = ""
    reloc: str = "pic"
    codemodel: str = "small"
    vectorize: bool = True
    triple: str = ""

    def resolved(self) -> CompileOptions:
        """The same options with the host's names filled in, so that they decide the result alone."""
        return replace(
            self,
            cpu=self.cpu or (host_cpu() if not self.triple else ""),
            features=self.features or (host_features() if not self.cpu and not self.triple else ""),
            triple=self.triple or host_triple(),
        )


@cache
def _initialise() -> None:
    with LLVM_LOCK:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()


@cache
def host_cpu() -> str:
    """LLVM's name of this processor."""
    return str(binding.get_host_cpu_name())


@cache
def host_features() -> str:
    """LLVM's feature string of this processor, e.g. ``+avx2,+fma,-amx-tile``."""
    return str(binding.get_host_cpu_features().flatten())


@cache
def host_triple() -> str:
    """LLVM's target triple of this process."""
    return str(binding.get_process_triple())


@cache
def llvm_version() -> str:
    """Version of LLVM and llvmlite, part of every cache key."""
    return f"{'.'.join([str(n) for n in binding.llvm_version_info])}/{llvmlite.__version__}/{platform.machine()}"


@cache
def target_machine(options: CompileOptions) -> binding.TargetMachine:
    """The code generator for resolved options. Raises FFIError E708 for an unknown triple."""
    _initialise()
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
    """A verified LLVM module from text. Raises FFIError E708 with LLVM's words."""
    _initialise()
    if "\0" in text:
        raise FFIError("E708", "LLVM IR text contains a null character")
    with LLVM_LOCK:
        try:
            module = binding.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
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


def optimise(module: binding.ModuleRef, machine: binding.TargetMachine, options: CompileOptions) -> None:
    """Run the options' pipeline over a module in place. Raises FFIError E708 for an unknown pipeline."""
    if options.pipeline not in PIPELINES:
        raise FFIError("E708", f"unknown pipeline {options.pipeline!r}", help=f"known: {', '.join(PIPELINES)}")
    if options.pipeline == "none":
        return
    with LLVM_LOCK:
        level = int(options.pipeline[1:]) if options.pipeline[0] == "O" else 1
        tuning = binding.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization = tuning.slp_vectorization = options.vectorize and level >= 2
        builder = binding.create_pass_builder(machine, tuning)
        if options.pipeline == "light":
            manager = binding.create_new_module_pass_manager()
            _light(manager)
        else:
            manager = builder.getModulePassManager()
        manager.run(module, builder)


def compile_ir(text: str, options: CompileOptions | None = None, use_cache: bool = True) -> bytes:
    """Object bytes of LLVM IR text, from the object cache where it has them. Raises FFIError E708."""
    resolved = (options or CompileOptions()).resolved()
    store = object_cache() if use_cache else None
    key = content_key(text, repr(resolved), llvm_version()) if store is not None else ""
    if store is not None:
        found = store.load(key)
        if found is not None:
            return found
    machine = target_machine(resolved)
    with LLVM_LOCK:
        module = parse_ir(text, machine)
        optimise(module, machine, resolved)
        try:
            result: bytes = machine.emit_object(module)
        except RuntimeError as error:
            raise FFIError("E708", f"LLVM cannot generate code: {error}") from error
    if store is not None:
        store.store(key, result)
    return result


def assembly(text: str, options: CompileOptions | None = None) -> str:
    """Assembler text of LLVM IR text, for people. Raises FFIError E708."""
    resolved = (options or CompileOptions()).resolved()
    machine = target_machine(resolved)
    with LLVM_LOCK:
        module = parse_ir(text, machine)
        optimise(module, machine, resolved)
        return str(machine.emit_assembly(module))
