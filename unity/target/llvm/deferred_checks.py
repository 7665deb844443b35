"""Checks that wait: what fails is noted, and one branch tests many of them at the end of a block, or where harm could be done.

A division by zero divides by one instead and goes on. What is computed from it is wrong, not dangerous, until it becomes an
address, a jump, or an argument of a call: before that the checks are tested (`FunctionWriter.settle`). One branch instead of
thousands keeps LLVM's time linear: it asks the conditions of all branches above about each value. Invariant: names in ``wrong``
are all that depend on a check that waits; wrong values in memory make every value read from it wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAMES = re.compile(r"%[A-Za-z0-9_.]+")
_CALLED = re.compile(r"@([A-Za-z0-9_.$]+)\(")
_DIVISIONS = frozenset(("sdiv", "udiv", "srem", "urem", "frem", "extractvalue", "insertvalue"))
_READS = ("llvm.masked.load.", "llvm.masked.gather.")
_ARITHMETIC = ("abs", "ctlz", "fabs", "fma", "ldexp", "maximum", "minimum", "minnum", "maxnum", "roundeven", "smax", "smin", "umax",
               "umin", "umul", "vector.reduce")  # fmt: skip
_CALLS = tuple([f"llvm.{name}." for name in _ARITHMETIC])
"""Functions whose arguments decide the result, which is all that they do."""

PURE = frozenset((
    "add", "sub", "mul", "fadd", "fsub", "fmul", "fdiv", "fneg", "and", "or", "xor", "shl",
    "lshr", "ashr", "icmp", "fcmp", "select", "getelementptr", "insertelement", "extractelement",
    "shufflevector", "zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast",
    "ptrtoint", "addrspacecast",
))  # fmt: skip
"""Instructions whose operands alone decide the result, whatever these are."""


def is_arithmetic(call: str) -> bool:
    """True for a call of a function whose arguments decide the result, which is all that it does."""
    called = _CALLED.search(call)
    return called is not None and called[1].startswith(_CALLS)


@dataclass(slots=True)
class DeferredChecks:
    """The checks of one block that wait. ``failed`` are operands, each true where its check fails, in order."""

    failed: list[str] = field(default_factory=list)
    wrong: set[str] = field(default_factory=set)
    wrong_memory: bool = False

    def forget(self) -> list[str]:
        """No check waits any more; returns those that did."""
        failed, self.failed = self.failed, []
        self.wrong.clear()
        self.wrong_memory = False
        return failed

    def is_harmless(self, name: str, instruction: str) -> bool:
        """True if the instruction may run before the pending checks. Notes what it makes wrong; its result is called ``name``."""
        opcode = instruction[: instruction.find(" ")]
        touched = any([operand in self.wrong for operand in NAMES.findall(instruction)])
        if opcode == "store":
            address = instruction.rpartition(", ptr ")[2]
            if self.wrong & {*NAMES.findall(address)}:
                return False
            self.wrong_memory = self.wrong_memory or touched
            return True
        called = _CALLED.search(instruction) if opcode == "call" else None
        if opcode == "load" or (called is not None and called[1].startswith(_READS)):
            if touched:
                return False
            touched = self.wrong_memory
        elif opcode not in PURE and opcode not in _DIVISIONS and (called is None or not called[1].startswith(_CALLS)):
            return False
        if touched:
            self.wrong.add(name)
        return True
