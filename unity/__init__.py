"""Unity: one module, one intermediate representation, from script to running machine code. Names are handed on lazily."""

from __future__ import annotations

import sys

from .support.forking import guard_forks
from .support.lazy import OtherPaths, stub_names
from .version import VERSION

__version__ = VERSION
guard_forks()
sys.meta_path.insert(0, OtherPaths())  # before the finder of files, which would read them once more

_ROOMS = ("arith", "ffi", "frontend", "ir", "op", "script", "support", "target", "te", "transform", "vm")
"""Packages, which type checkers know without the stub."""

__getattr__, _, _names = stub_names(__name__)
__all__ = ["__version__", *_ROOMS, *_names]


def __dir__() -> list[str]:
    return sorted(__all__)
