"""Findings about generated code and the fault that ends a launch; each names the kernel and the line of its PTX.

A finding has the classes and codes of the thread-level checker (`unity/ir/interpret/threads/findings.py`): E360 to E366.
"""

from __future__ import annotations

from typing import Any

from ....ir.interpret.threads.findings import Finding
from ....ir.interpret.threads.lanes import ThreadId
from ....support.source import Span

ILLEGAL_ADDRESS, LAUNCH_FAILED, MISALIGNED, TIMEOUT, ASSERT, ILLEGAL_INSTRUCTION = 700, 719, 716, 702, 710, 715
CODES = {
    "barrier": "E362", "bounds": "E363", "uninitialised": "E364", "collective": "E365", "alignment": "E366",
    "trap": "E392", "steps": "E392",
}  # fmt: skip
"""Codes of findings by what they are about."""


class Fault(Exception):
    """The end of a launch: the error code of the CUDA driver, and the finding that says why."""

    def __init__(self, code: int, reason: Finding) -> None:
        super().__init__(str(reason))
        self.code, self.reason = code, reason


def finding(batch: Any, kind: str, text: str, span: Span | None, *threads: ThreadId, **more: Any) -> Finding:
    """A finding about the kernel of a batch."""
    return Finding(CODES[kind], kind, f"{batch.launch.name}: {text}", span, threads=threads, **more)
