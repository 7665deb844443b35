"""Rooms and names that are loaded when something first needs them.

The front door (``unity/__init__.py``) knows every room by name and puts functions here that import one; a room on the left
asks by a word for what will be done ("script"). A package with many names hands them on with `lazy_names`: a program pays for what
it uses. Invariant: nothing is loaded by importing this file.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

LOADERS: dict[str, Callable[[], object]] = {}
"""Word to function that imports the room."""


def load(word: str) -> None:
    """Import the room behind a word; nothing where the front door has not named it."""
    loader = LOADERS.get(word)
    if loader is not None:
        loader()


def lazy_names(
    package: str, places: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562) whose names stand in the modules of ``places``.

    ``places`` maps a module of the package (``"relax.fuse_ops"``; a dot in front leads out of the package) to the names that it
    gives. Modules of the package are found too.
    A name is kept once it was asked for.
    """
    module_of = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> Any:
        module = module_of.get(name)
        if module is not None:
            value = getattr(importlib.import_module(f".{module}", package), name)
        elif not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(module_of)


def late_function(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported at the first call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def import_all(*packages: ModuleType) -> None:
    """Import every module that lies in packages."""
    for package in packages:
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
