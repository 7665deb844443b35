"""llvmlite, imported when LLVM is first asked for anything; and the locks around it, which are there before it.

The order of the locks is that in which they are taken: a slot or none, LLVM_LOCK, llvmlite's own (`support/forking.py`).
"""

from __future__ import annotations

import sys
from typing import Any

from ...support.forking import fork_lock, lock_over_fork
from ...support.optional import require


class _SingleCalls:
    """llvmlite's own lock around each call, where it has been imported."""

    def __init__(self) -> None:
        self.held: Any = None

    def acquire(self) -> None:
        """Wait for it and take it."""
        library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
        self.held = getattr(getattr(library, "_lock", None), "_lock", None)
        if self.held is not None:
            self.held.acquire()

    def release(self) -> None:
        """Give it back."""
        if self.held is not None:
            self.held.release()


lock_over_fork(_SingleCalls())
LLVM_LOCK = fork_lock()
"""Held around every group of LLVM calls, and while llvmlite is imported."""
SLOTS = [fork_lock() for _ in range(8)]
"""One of them is held by each compilation as long as it runs: a fork waits for all."""


def llvm_binding() -> Any:
    """``llvmlite.binding``. Raises MissingExtraError E002 where it is not installed."""
    with LLVM_LOCK:
        return require("llvmlite.binding")
