"""Checks inside kernels: the word of a module in which a failing thread leaves a number, read whenever the host has waited.

A launch does not wait for its kernel, so a check that fails there is known at the next synchronisation or copy to the host.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint32

from ...support.errors import VMError
from .module import Module

STATUS = "unity_status"
"""The word of a module: 0, or the number of the check that failed last."""


class KernelChecks:
    """The checks of a loaded module; ``messages`` are numbered from 1. It holds the module, and whoever loaded that holds it."""

    def __init__(self, module: Module, messages: tuple[str, ...]) -> None:
        self.module, self.messages = module, messages
        self.address, _ = module.symbol(STATUS)
        module.context.checks.add(self)

    def raise_if_failed(self) -> None:
        """Raise VMError E614 for a check that failed since the last time, in a context that is current and done."""
        driver, status = self.module.context.driver, c_uint32()
        driver.call("cuMemcpyDtoH_v2", ctypes.byref(status), self.address, 4)
        if status.value:
            driver.call("cuMemsetD8_v2", self.address, 0, 4)
            reason = self.messages[status.value - 1] if status.value <= len(self.messages) else f"status {status.value}"
            raise VMError("E614", f"a kernel: {reason}")
