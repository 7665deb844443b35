"""Rooms and names that are loaded when something first needs them.

A room on the left asks by a word for what stands on its right ("script"); ``LOADED`` is the whole list of words, and
``docs/architecture.md`` says why none is an import. A package with many names hands them on with `lazy_names`: a program pays for
what it uses. Invariant: nothing is loaded by importing this file.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .arguments import public
from .gc_pause import young_collection

LOADED = {
    "script": "unity.script",
    "names": "unity.relax.names",
    "compiler": "unity.vm.build",
    "options": "unity.frontend.choose.options",
    "torch": "unity.frontend.torch.compiled_model",
}
"""Word to module: everything in the package that is imported by a name in a text, but for the names of packages."""


def load(word: str) -> ModuleType:
    """The module behind a word of ``LOADED``, imported now if it was not. Raises ImportError where it is not installed."""
    with young_collection():  # what modules make stays
        return importlib.import_module(LOADED[word])


Find = Callable[[str], Any]
List = Callable[[], list[str]]


def stub_names(package: str) -> tuple[Find, List, list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are the imports of its ``__init__.pyi``.

    The stub is the one list of these names: editors and type checkers read it, and so does the package when it is imported. A line
    ``from .relax.fuse_ops import fuse_ops as fuse_ops`` gives a name of a module, ``from . import dpl as dpl`` a module,
    ``other = name`` another name of one.
    """
    text = pkgutil.get_data(package, "__init__.pyi")
    assert text is not None, f"{package} has no stub"
    tree = ast.parse(text)
    given = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    places = {
        a.name: f"{'.' * node.level}{node.module}:{a.name}" if node.module else f".{a.name}:"
        for node in given
        for a in node.names
    }
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(other)], value=ast.Name(name)):
                places[other] = places[name]
    return *lazy_names(package, places), sorted(places)


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Find, List]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562): ``places`` maps a name to the module that has it, as one imports it
    in the package (``".relax.fuse_ops"``), ``".module:other"`` where it has another name there, ``".module:"`` for the module.

    Modules of the package are found too. A name is kept once it was asked for.
    """

    def find(name: str) -> Any:
        if name in places:
            module, colon, own = places[name].partition(":")
            with young_collection():  # what modules make stays
                value = importlib.import_module(module, package)
            if own or not colon:
                inner = f"{value.__name__}.{own or name}"
                value = getattr(value, own or name) if hasattr(value, own or name) else importlib.import_module(inner)
        elif not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = public(value)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(places)


def absent_names(module: str, instead: Mapping[str, str], others: Find | None = None) -> Find:
    """``__getattr__`` of a module that lacks names of TVM: the AttributeError says what to use instead. ``others`` finds further
    names."""

    def find(name: str) -> Any:
        if name in instead:
            raise AttributeError(f"there is no {module.removeprefix('unity.')}.{name}: {instead[name]}")
        if others is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return others(name)

    return find


OTHER_PATHS = {
    "unity.nd": "unity.runtime", "unity.tirx": "unity.tir", "unity.s_tir": "unity.tir",
    "unity.script.tirx": "unity.script.tir", "unity.script.s_tir": "unity.script.tir",
    "unity.ir.instrument": "unity.instrument", "unity.ir.transform": "unity.transform",
    "unity.tir.meta_schedule": "unity.meta_schedule",
    **{f"unity.tir.{name}": "unity.tir" for name in ("buffer", "expr", "function", "op", "stmt")},
    **{f"unity.relax.{name}": "unity.relax" for name in ("block_builder", "expr", "struct_info", "ty")},
}  # fmt: skip
"""Modules by the names that other versions of TVM have for them, to import from."""


class OtherPaths(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules by ``OTHER_PATHS``, and what lies in packages by them: the module itself, no second one made of its file."""

    def name(self, other: str) -> str:
        """The name of a module by another one; "" for all that is none."""
        package, _, own = other.rpartition(".")
        return OTHER_PATHS.get(other) or (f"{found}.{own}" if package and (found := self.name(package)) else "")

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """A module by another name."""
        return ModuleSpec(fullname, self) if fullname.startswith("unity.") and self.name(fullname) else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module in the place of the empty one that the import made."""
        sys.modules[module.__name__] = importlib.import_module(self.name(module.__name__))
