"""Levels of x86-64: what depends on the target is tested on each, whatever machine runs the tests.

A test that takes the fixture ``level`` runs once for each, with the level as its process's default target (``UNITY_TARGET``). Code
for a level that this machine lacks is generated; `Level.run` then skips the rest and says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from unity.ffi.targets.processor import Processor, host_processor
from unity.ffi.targets.target import Target
from unity.vm.executable.executable import Executable
from unity.vm.virtual_machine import VirtualMachine

HOST = "this-machine"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", HOST)


@dataclass(slots=True, frozen=True)
class Level:
    """A level by its name."""

    name: str

    @property
    def target(self) -> str:
        """The target as text."""
        return "llvm" if self.name == HOST else f"llvm -mcpu={self.name}"

    @property
    def processor(self) -> Processor:
        """What code for the level may use."""
        return Target(self.target).processor

    def require(self) -> None:
        """Skip the rest of the test where this machine cannot run the level's code."""
        lacking = sorted(self.processor.needed - host_processor().features)
        if lacking:
            pytest.skip(f"code for {self.name} was generated; this machine has no {', '.join(lacking)} to run it")

    def run(self, executable: Executable, *args: Any, name: str = "main") -> Any:
        """The result of a function, as numpy arrays."""
        self.require()
        found = VirtualMachine(executable)[name](*args)
        return [part.numpy() for part in found] if isinstance(found, (tuple, list)) else found.numpy()
