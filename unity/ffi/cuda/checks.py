"""Checks inside kernels: a failing thread stores a number in a word of the module, and the host reads it whenever it has waited.

A launch does not wait for its kernel, so a failed check is reported at the next synchronisation or copy to the host.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32

from ...support.errors import Note, VMError
from .module import Module

STATUS = "unity_status"
"""The word of a module: 0, or the number of the check that failed last."""


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
