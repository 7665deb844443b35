"""The native driver in LLVM IR: long functions in segments, one LLVM function each, over one frame in memory.

LLVM's passes and its register allocation take more than linear time in the length of a function; with segments the driver's time is
linear in its instructions. Where to cut, what the frame holds, and the text of it. Not here: instructions (``body.py``). Invariant:
no jump crosses a cut, and only places of the frame are known on both sides of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..executable import bytecode as bc

SEGMENT = 256
"""Instructions of a segment; functions of fewer than twice as many are not cut."""
_PLACE = re.compile(r"%(?:[opswz]\d+|at|result|value|code|first|second|arena|slots)\b")


@dataclass(slots=True)
class Segment:
    """Lines of some instructions, space that only they use, and how many arguments they pass at once."""

    lines: list[str]
    allocas: list[str]
    scratch: int


def segment_starts(code: Sequence[bc.Instruction], size: int = SEGMENT) -> set[int]:
    """Instructions that begin a segment of their own."""
    if len(code) < 2 * size:
        return set()
    crossed = [0] * (len(code) + 2)
    for number, instruction in enumerate(code):
        if isinstance(instruction, (bc.Goto, bc.If)):
            crossed[min(number, instruction.target) + 1] += 1
            crossed[max(number, instruction.target) + 1] -= 1
    found: set[int] = set()
    open_jumps, last = 0, 0
    for number in range(len(code)):
        open_jumps += crossed[number]
        if number - last >= size and not open_jumps and isinstance(code[number - 1], bc.Call):
            found.add(number)
            last = number
    return found


class Layout:
    """The place of each value in the frame, in words."""

    def __init__(self) -> None:
        self.words = 0
        self.offsets: dict[str, int] = {}

    def add(self, name: str, words: int = 1) -> int:
        """Room for a place; its offset."""
        self.offsets[name] = self.words
        self.words += words
        return self.offsets[name]

    def addresses(self, lines: Sequence[str]) -> list[str]:
        """Definitions of the places that lines use."""
        used = {name for line in lines for name in _PLACE.findall(line)}
        return [
            f"  {name} = getelementptr i64, ptr %frame, i64 {k}" for name, k in self.offsets.items() if name in used
        ]
