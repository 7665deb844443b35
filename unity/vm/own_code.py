"""The package's own machine code that a saved program brings along, to load and run without LLVM: native helpers, the thread pool,
what drivers share, the checked entries of its functions, the entries of tensor programs that call Python.

Not here: the program's code itself, and how such code is found again (``ffi/machine_code/objects.py``). Left out, and made by LLVM
when asked for: entries of single tensor programs of a program with graph functions, calls with ``out=`` that need another driver.
Without LLVM Python checks the former's arguments and runs the bytecode of the latter.
"""

from __future__ import annotations

from dataclasses import replace

from ..ffi.calls import fastcall
from ..ffi.calls.entry_spec import EntrySpec, spec_of_kernel
from ..ffi.calls.fastcall_ir import entry_ir
from ..ffi.device import CPU, DEVICE_KINDS, memory_device
from ..ffi.machine_code.llvm import CompileOptions, compile_ir
from ..ffi.machine_code.objects import code_name, pack_objects
from ..ffi.native import checksum, native_helpers, pool
from ..ffi.native.pool_ir import pool_ir
from ..ffi.runtime import python_kernels
from ..ffi.runtime.runtime import DRIVER, runtime_of
from ..ffi.targets.target import runnable_processor
from .executable.entry import plan_entry
from .executable.executable import Executable
from .foreign_kernels import foreign_sections
from .native import support
from .native.run import has_own_memory

Texts = dict[str, CompileOptions]


def pack_own_code(executable: Executable) -> bytes:
    """The code that a program brings along, for the processor that it is for."""
    here = executable.features == ",".join([f"+{name}" for name in sorted(runnable_processor().needed)])
    plain = "x86-64" if executable.triple.startswith("x86_64") else "generic"
    objects = {}
    for text, options in own_code(executable).items():
        there = options if here else replace(options, cpu=plain, features=executable.features)
        objects[code_name(text, options)] = compile_ir(text, there)
    return pack_objects(objects)


def own_code(executable: Executable) -> Texts:
    """LLVM IR texts, with the options they are compiled with."""
    texts: Texts = {
        native_helpers.helper_ir(): native_helpers.OPTIONS,
        pool_ir(): pool.OPTIONS,
        checksum.checksum_ir(): checksum.OPTIONS,
    }
    program, on_device = executable.program, has_own_memory(executable)
    device = memory_device(DEVICE_KINDS[executable.options["device"]].name) if on_device else CPU
    if DRIVER in executable.objects:
        texts[support.support_ir()] = support.OPTIONS
        for function in program.functions.values():
            if function.exported:
                texts |= _entries(plan_entry(function, program, device).spec, None, True, on_device)
        if not executable.functions:
            for signature in program.kernels.values():
                texts |= _entries(spec_of_kernel(signature, device), signature.result, False, on_device)
    sections = {name: runtime_of(name) for name in executable.objects if name != DRIVER}
    if foreign_sections(sections, device) or not all([runtime.brings_entries for runtime in sections.values()]):
        for name, signature in program.kernels.items():
            texts[python_kernels.word_kernel_ir(program.symbol(name), signature)] = python_kernels.OPTIONS
    return texts


def _entries(spec: EntrySpec, result: str | None, driver: bool, on_device: bool) -> Texts:
    """The checked entry of a function, and that which enters a device by itself."""
    gates = (False, True) if on_device else (False,)
    return {entry_ir(spec, driver=driver, result=result, gated=gated): fastcall.OPTIONS for gated in gates}
