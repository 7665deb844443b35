"""Machine code in this process: objects and IR text linked into memory, functions found by address.

Each ``Engine`` is a linked group with its own names; external names come from the ``symbols`` given to it, from
engines it is built on, and from the C library, in this order, and a name that nobody has is an error that says which.
Invariant: an address stays valid as long as its Engine object lives; an Engine keeps alive what it was given.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Mapping
from functools import cache

import llvmlite.binding as binding

from ...support.errors import FFIError
from .elf import read_symbols
from .layout import immortal
from .llvm import LLVM_LOCK, CompileOptions, compile_ir

__all__ = ["CompileOptions", "Engine", "compile_ir", "process_symbol"]

_NUMBERS = itertools.count()


@cache
def _linker() -> binding.LLJIT:
    with LLVM_LOCK:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        linker = binding.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
    immortal(linker)  # loaded code must outlive the interpreter's shutdown
    return linker


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def process_symbol(name: str) -> int:
    """Address of a C function of this process (C library, Python), or 0."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


class Engine:
    """Loaded machine code. Add objects and text, then ask for addresses; linking happens at the first question.

    ``symbols`` maps external names to addresses; ``keep`` is anything that must live as long as the code.
    """

    def __init__(self, symbols: Mapping[str, int] | None = None, keep: Iterable[object] = ()) -> None:
        self._symbols: dict[str, int] = dict(symbols or {})
        self._keep: list[object] = list(keep)
        self._pending: list[bytes] = []
        self._addresses: dict[str, int] = {}
        self._trackers: list[binding.ResourceTracker] = []

    def add_symbol(self, name: str, address: int) -> None:
        """Resolve an external name to an address in objects that are linked from now on."""
        self._symbols[name] = address

    def keep_alive(self, value: object) -> None:
        """Hold a reference as long as the engine lives."""
        self._keep.append(value)

    def add_object(self, data: bytes) -> Engine:
        """Add an object file. Raises FFIError E709 where it is none."""
        read_symbols(data)
        with LLVM_LOCK:
            self._pending.append(data)
        return self

    def add_ir(self, text: str, options: CompileOptions | None = None, use_cache: bool = True) -> Engine:
        """Compile IR text for this machine and add it. Raises FFIError E708."""
        return self.add_object(compile_ir(text, options, use_cache))

    def names(self) -> list[str]:
        """Names of all functions and globals the engine defines."""
        self.link()
        return sorted(self._addresses)

    def address(self, name: str) -> int:
        """Address of a function or global. Raises FFIError E710 for an unknown name, E709 where linking fails."""
        found = self._addresses.get(name)
        if found is None:
            self.link()
            found = self._addresses.get(name)
        if found is None:
            raise FFIError("E710", f"the loaded code defines no symbol {name!r}")
        return found

    def link(self) -> None:
        """Link everything added so far; names linked earlier are visible to it. Raises FFIError E709, E710."""
        with LLVM_LOCK:
            if self._pending:
                objects, self._pending = self._pending, []
                self._link(objects)

    def _link(self, objects: list[bytes]) -> None:
        tables = [read_symbols(data) for data in objects]
        defined = list(dict.fromkeys([name for table in tables for name in table.defined]))
        repeated = [name for name in defined if name in self._addresses]
        if repeated or sum([len(table.defined) for table in tables]) != len(defined):
            raise FFIError("E709", f"symbols defined twice: {', '.join(repeated or defined)[:200]}")
        builder = binding.JITLibraryBuilder()
        missing = []
        for name in dict.fromkeys([name for table in tables for name in table.undefined]):
            if name in defined or name == "_GLOBAL_OFFSET_TABLE_":
                continue
            address = self._symbols.get(name) or self._addresses.get(name) or process_symbol(name)
            if address:
                builder.import_symbol(name, address)
            else:
                missing.append(name)
        if missing:
            raise FFIError("E710", f"nobody defines the symbols {', '.join(sorted(missing))}")
        for data in objects:
            builder.add_object_img(data)
        for name in defined:
            builder.export_symbol(name)
        with LLVM_LOCK:
            try:
                tracker = builder.link(_linker(), f"unity{next(_NUMBERS)}")
            except RuntimeError as error:
                raise FFIError("E709", f"the object cannot be linked: {str(error).strip()}") from error
        self._trackers.append(tracker)
        for name in defined:
            self._addresses[name] = int(tracker[name])
