"""Optional heavy packages, imported where first used. The only place that imports by name."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from .errors import MissingExtraError
from .interrupts import defer_interrupts

EXTRAS = {"torch": "torch", "pycuda": "cuda", "rich": "progress", "lightgbm": "tune"}


def require(module: str) -> ModuleType:
    """Import an optional package or raise MissingExtraError E002 that says which extra to install.

    An interrupt waits until the package is imported: half of one cannot be used, nor imported again.
    """
    found = sys.modules.get(module)
    if found is not None:
        return found
    try:
        with defer_interrupts():
            return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        wanted = f'"unity-compiler[{EXTRAS[package]}]"' if package in EXTRAS else package
        raise MissingExtraError(
            "E002", f"this needs the package {package!r}, which is not installed", help=f"pip install {wanted}"
        ) from error
