"""Findings about generated code and the fault that ends a launch; each names the kernel and the line of its PTX.

A finding has the classes and codes of the thread-level checker (`unity/ir/interpret/threads/findings.py`): E360 to E366.
"""

from __future__ import annotations

from ....ir.interpret.threads.findings import Finding
from ....support.errors import InterpreterError

ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED, TIMEOUT, ASSERT, ILLEGAL_INSTRUCTION = 700, 719, 716, 702, 710, 715


class Fault(Exception):
    """The end of a launch: the error code of the CUDA driver, and the finding that says why."""

    def __init__(self, code: int, reason: InterpreterError) -> None:
        super().__init__(str(reason))
        self.code, self.reason = code, reason


def fault(code: int, reason: InterpreterError) -> Fault:
    """The fault with its reason."""
    return Fault(code, reason)


__all__ = [
    "ASSERT",
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "LAUNCH_FAILED",
    "MISALIGNED",
    "TIMEOUT",
    "Fault",
    "Finding",
]
