"""Modules: kernels and global memory of a cubin, a fat binary or PTX, loaded into a context, and the checks inside kernels.

A failing thread stores a number in a word of the module, and the host reads it whenever it has waited. A launch
does not wait for its kernel, so a failed check is reported at the next synchronisation or copy to the host.
"""

from __future__ import annotations

import ctypes
import re
import sys
from ctypes import c_int, c_size_t, c_uint32, c_uint64, c_void_p

from ...support.errors import DeviceError, Note, VMError
from .context import Context
from .driver import IMAGE, SUCCESS

_LOG_BYTES = 8192
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and its size."""
_FUNCTION_ATTRIBUTES = {
    "max_threads_per_block": 0, "shared_bytes": 1, "const_bytes": 2, "local_bytes": 3, "registers": 4,
    "max_dynamic_shared_bytes": 8,
}  # fmt: skip
"""Numbers of a function's attributes. Source: CUfunction_attribute of cuda.h."""

_SYMBOL = re.compile(r"^unity_(.*)_[0-9a-f]{16}$")
"""The symbol of a kernel that was compiled here: its name, and what tells it from others of that name."""
STATUS = "unity_status"
"""The word of a module: 0, or the number of the check that failed last."""


class Module:
    """An image loaded into a context; it is unloaded when nothing refers to it."""

    def __init__(self, context: Context, image: bytes) -> None:
        self.context, self.handle = context, 0
        self.functions: list[int] = []
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        place = c_void_p()
        text = image if image.endswith(b"\0") else image + b"\0"  # PTX is read up to its end
        with context.current("loading a module"):
            driver = context.driver
            status = driver.status("cuModuleLoadDataEx", ctypes.byref(place), text, 2, options, values)
            if status != SUCCESS:
                error = driver.error("cuModuleLoadDataEx", status)
                said = log.value.decode(errors="replace").strip()
                if status in IMAGE:
                    error = DeviceError("E739", f"{context.name} ({context.arch}) does not take the code of a program: "
                                     f"{driver.text(status)}{': ' + said if said else ''}", help=error.help)  # fmt: skip
                raise error
        self.handle = place.value or 0

    def function(self, name: str) -> int:
        """The handle of a kernel. Raises DeviceError E739 if the module has no kernel of this name."""
        with self.context.current(name):
            place = c_void_p()
            status = self.context.driver.status("cuModuleGetFunction", ctypes.byref(place), self.handle, name.encode())
            if status != SUCCESS:
                raise self.context.driver.error(f"the kernel {name}", status)
        found = place.value or 0
        self.context.driver.kernels[found] = _SYMBOL.sub(r"\1", name)
        self.functions.append(found)
        return found

    def symbol(self, name: str) -> tuple[int, int]:
        """Address and bytes of a global. Raises DeviceError E739 if the module has no global of this name."""
        with self.context.current(name):
            place, size = c_uint64(), c_size_t()
            status = self.context.driver.status(
                "cuModuleGetGlobal_v2", ctypes.byref(place), ctypes.byref(size), self.handle, name.encode()
            )
            if status != SUCCESS:
                raise self.context.driver.error(f"the global {name}", status)
        return place.value, size.value

    def attribute(self, function: int, name: str) -> int:
        """A fact about a kernel, by its name in ``_FUNCTION_ATTRIBUTES``."""
        with self.context.current(name):
            return self.context.driver.get("cuFuncGetAttribute", _FUNCTION_ATTRIBUTES[name], function, kind=c_int)

    def allow_shared(self, function: int, bytes_: int) -> None:
        """Allow launches of a kernel a number of bytes of dynamic shared memory; this is needed for more than 48 KiB."""
        with self.context.current("shared memory"):
            number = _FUNCTION_ATTRIBUTES["max_dynamic_shared_bytes"]
            self.context.driver.call("cuFuncSetAttribute", function, number, bytes_)

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", 0), 0
        if not handle or sys.is_finalizing():
            return
        for function in self.functions:
            self.context.driver.kernels.pop(function, None)
        try:
            with self.context.current("unloading a module"):
                self.context.driver.status("cuModuleUnload", handle)
        except DeviceError:  # a lost context, a forked process: the code is gone with it
            pass


class KernelChecks:
    """The checks of a loaded module; ``messages`` are numbered from 1. It keeps the module alive, and is owned by the loader of
    the module."""

    def __init__(self, module: Module, messages: tuple[str, ...]) -> None:
        self.module, self.messages = module, messages
        self.address, _ = module.symbol(STATUS)
        module.context.checks.add(self)

    def raise_if_failed(self) -> None:
        """Raise VMError E614 for a check that failed since the last call. The context must be current and its work finished."""
        driver, status = self.module.context.driver, c_uint32()
        driver.call("cuMemcpyDtoH_v2", ctypes.byref(status), self.address, 4)
        if status.value:
            driver.call("cuMemsetD8_v2", self.address, 0, 4)
            known = status.value <= len(self.messages)
            reason, _, place = (self.messages[status.value - 1] if known else f"status {status.value}").partition("\n")
            notes = [Note(f"checked at {place}")] if place else []
            raise VMError("E614", f"cuda:{self.module.context.index}: {reason}", notes=notes)
