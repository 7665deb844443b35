"""Machine code in this process: objects and IR text linked into memory, functions found by address.

Each ``Engine`` is a linked group with its own names; external names come from the ``symbols`` given to it, from
engines it is built on, and from a list of C functions and Python's, in this order; any other name of the process is found only by
programs that name C functions themselves. A name that nobody has is an error that says which.
Invariant: an address stays valid as long as its Engine object lives; an Engine keeps alive what it was given.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from functools import cache

from ...support.errors import FFIError
from ...support.forking import fork_lock
from .elf import ElfObject, read_object
from .linker import MACHINES, Image
from .llvm import CompileOptions, compile_ir
from .objects import own_object

C_FUNCTIONS = frozenset((
    "memcpy", "memmove", "memset", "memcmp", "bcmp",
    "fma", "fmaf", "floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint", "rintf", "nearbyint", "nearbyintf",
    "round", "roundf", "roundeven", "roundevenf", "fmod", "fmodf", "ldexp", "ldexpf", "sqrt", "sqrtf",
    "aligned_alloc", "calloc", "realloc", "free", "mmap", "munmap", "madvise",
    "syscall", "sched_yield", "__register_atfork", "pthread_create", "pthread_join", "pthread_self", "pthread_sigmask",
    "pthread_getspecific", "pthread_getattr_np", "pthread_attr_getstack", "pthread_attr_destroy",
))  # fmt: skip
"""Functions of the C library that code calls without being told to: what LLVM writes for memory, and for arithmetic that a
processor has no instruction for; what the pool, the helpers and kernels declare."""
CALLS_C = "unity.calls_c"
"""A symbol of objects whose program names C functions itself (``T.call_extern``, imported LLVM IR): any of the process."""
_LOCK = fork_lock()
"""Held while an engine links what was added to it."""


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
        self._pending: list[ElfObject] = []
        self._addresses: dict[str, int] = {}

    def add_symbol(self, name: str, address: int) -> None:
        """Resolve an external name to an address in objects that are linked from now on."""
        self._symbols[name] = address

    def keep_alive(self, value: object) -> None:
        """Hold a reference as long as the engine lives."""
        self._keep.append(value)

    def add_object(self, data: bytes) -> Engine:
        """Add an object file. Raises FFIError E709 where it is none for this machine."""
        found = read_object(data)
        here = os.uname().machine
        if found.machine != MACHINES.get(here):
            raise FFIError("E709", f"the object is for another machine than {here}")
        with _LOCK:
            self._pending.append(found)
        return self

    def add_ir(self, text: str, options: CompileOptions | None = None, use_cache: bool = True) -> Engine:
        """Add IR text, compiled for this machine, or what a saved program brought of it. Raises FFIError E708."""
        options = options or CompileOptions()
        return self.add_object(own_object(text, options) if use_cache else compile_ir(text, options, False))

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
        with _LOCK:
            if self._pending:
                objects, self._pending = self._pending, []
                self._link(objects)

    def _link(self, objects: list[ElfObject]) -> None:
        repeated = [name for part in objects for name in part.defined if name in self._addresses]
        if repeated:
            raise FFIError("E709", f"symbols defined twice: {', '.join(repeated)[:200]}")
        names_c = any([CALLS_C in part.defined for part in objects])

        def resolve(name: str) -> int:
            known = self._symbols.get(name) or self._addresses.get(name)
            allowed = names_c or name in C_FUNCTIONS or name.startswith("Py")
            return known or (process_symbol(name) if allowed else 0)

        image = Image(objects, resolve)
        self._keep.append(image.memory)
        self._addresses |= {name: address for name, address in image.addresses.items() if name != CALLS_C}
