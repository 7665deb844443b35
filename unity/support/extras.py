"""Optional heavy packages, imported where first used. The only place that imports by name."""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import MissingExtraError

EXTRAS = {"torch": "torch", "pycuda": "cuda", "matplotlib": "plot", "rich": "progress"}


def require(module: str) -> ModuleType:
    """Import an optional package or raise MissingExtraError E002 that says which extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        extra = EXTRAS.get(module.partition(".")[0], module)
        raise MissingExtraError(
            "E002",
            f"this needs the package {module!r}, which is not installed",
            help=f'pip install "unity-compiler[{extra}]"',
        ) from error
