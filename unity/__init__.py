"""Unity: one module, one intermediate representation, from script to running machine code. Names are handed on lazily."""

from __future__ import annotations

import importlib
from functools import partial

from .support.lazy import LOADERS, stub_names
from .version import VERSION

__version__ = VERSION

for _word, _module in {
    "script": ".script", "passes": ".relax.transform", "tensor intrinsics": ".target.tensor_intrin", "topi": ".topi",
    "names of script in Python": ".relax.script_names", "target llvm": ".target.cpu.backend",
}.items():  # fmt: skip
    LOADERS[_word] = partial(importlib.import_module, _module, __name__)

_ROOMS = ("arith", "ffi", "frontend", "ir", "op", "script", "support", "target", "te", "transform", "vm")
"""Packages, which type checkers know without the stub."""

__getattr__, _, _names = stub_names(__name__)
__all__ = ["__version__", *_ROOMS, *_names]


def __dir__() -> list[str]:
    return sorted(__all__)
