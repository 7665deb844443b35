"""Names while reading: scopes, the values a name may stand for, and the one way values of the user come in.

Not here: evaluation of syntax. Invariant: a user's object is only looked up by name and classified by its exact type; no
attribute of it is read, nothing of it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.registry import PackedFunc, get_global_func, list_global_func_names
from ....ffi.tensor import Tensor
from ....ffi.torch_bridge import is_torch_tensor
from ....ir import Buffer, Expr, ExternFunc, IRModule, Node, PrimType
from ....support.source import Source
from ...parser import syntax as s
from ...spelling.spelling import CANONICAL, DTYPE_ALIASES, DTYPES, MODULE_ALIASES

NAMESPACES: dict[int, str] = {}
"""Identity of our namespace modules (``unity.script.tir``...) -> letter. They fill it when imported."""

SCRIPT_OBJECTS: dict[int, str] = {}
"""Identity of the functions of the namespaces -> spelling (``T.exp``)."""

KNOWN_NAMES: dict[str, Callable[[], Mapping[str, str]]] = {}
"""Letter of a namespace -> what gives its names. The namespace modules fill it when imported."""


class Missing:
    """A name that stands for nothing."""


MISSING = Missing()


class Poison:
    """A name whose definition had an error: using it is silent."""


POISON = Poison()


@dataclass(slots=True, frozen=True)
class Dotted:
    """A name of script: ``T.axis.spatial``."""

    text: str


@dataclass(slots=True, frozen=True)
class ModuleRef:
    """The module being read, under its class name or ``cls``."""

    name: str


@dataclass(slots=True, frozen=True)
class Member:
    """A function of the module being read, by name."""

    name: str


@dataclass(slots=True, frozen=True)
class SymbolName:
    """``n = TypeVar("n")``, ``I.dynamic("n", "int32")``: a name that becomes a symbol in each function that uses it."""

    name: str
    type: PrimType


@dataclass(slots=True, frozen=True)
class Cell:
    """A name that stands for a mutable scalar kept in a buffer without axes."""

    buffer: Buffer


@dataclass(slots=True, eq=False)
class Macro:
    """``@T.macro`` / ``@T.inline`` / ``@R.macro``: definition and the scope it was defined in. ``source`` is its own text
    where that is not the text being read."""

    definition: s.FunctionDef
    scope: Scope
    hygienic: bool
    level: str
    source: Source | None = None


class Scope:
    """Names of one block and, behind it, of the blocks around it."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None, names: dict[str, Any] | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {} if names is None else names

    def get(self, name: str) -> Any:
        """The value of a name, MISSING if there is none."""
        scope = self
        while True:
            found = scope.names.get(name, MISSING)
            if found is not MISSING:
                return found
            if scope.parent is None:
                return scope.outside(name)
            scope = scope.parent

    def outside(self, name: str) -> Any:
        """The outermost scope's answer to a name it does not hold."""
        return MISSING

    def all_names(self) -> list[str]:
        """Every visible name, for suggestions."""
        found: dict[str, None] = {}
        scope: Scope | None = self
        while scope is not None:
            found.update(dict.fromkeys(scope.names))
            scope = scope.parent
        return list(found)


def canonical_path(text: str) -> str:
    """``tvm.script.tir.sblock`` -> ``T.block``: prefix to its letter, old name to the present one."""
    found = _PATHS.get(text)
    if found is not None:
        return found
    parts = text.split(".")
    result = text
    for count in range(len(parts), 0, -1):
        letter = MODULE_ALIASES.get(".".join(parts[:count]))
        if letter is not None:
            result = ".".join([letter, *parts[count:]])
            break
    result = CANONICAL.get(result, result)
    if len(_PATHS) < 5000:
        _PATHS[text] = result
    return result


def dtype_name(path: str) -> str | None:
    """``float32x4`` of ``T.float32x4``; None when the path names no data type."""
    if not path.startswith("T."):
        return None
    name = path[2:]
    name = DTYPE_ALIASES.get(name, name)
    base, _, lanes = name.partition("x")
    if base in _DTYPES and (not lanes or lanes.removeprefix("vscalex").isdecimal()):
        return name
    return None


_DTYPES = frozenset(DTYPES)
DTYPE_NAMES = tuple([f"T.{name}" for name in DTYPES])
"""Data types as script writes them."""
_PATHS: dict[str, str] = {}
_PLAIN = (bool, int, float, str, type(None))


def outside_value(value: Any) -> Any:
    """A value of the enclosing Python scope as the reader understands it; MISSING for anything else.

    Understood: numbers, strings, None, data types, numpy scalars and arrays, tensors (torch's too), registered functions,
    IR nodes and modules, tuples, lists and dicts of these, Python's ``math``, and the namespaces of script.
    """
    kind = type(value)
    if kind in _PLAIN or kind is DataType or kind is Macro:
        return value
    if value is math:
        return Dotted("math")
    letter = NAMESPACES.get(id(value))
    if letter is not None:
        return Dotted(letter)
    spelled = SCRIPT_OBJECTS.get(id(value))
    if spelled is not None:
        return Dotted(spelled)
    if isinstance(value, (IRModule, Expr, Node)):
        return value
    if kind is Tensor or kind is np.ndarray:
        return value
    if is_torch_tensor(value):
        return Tensor.from_torch(value)
    if kind is PackedFunc:
        return ExternFunc(value.name)
    if kind is FunctionType:
        return _registered(value)
    if isinstance(value, np.generic):
        return value.item() if kind.__module__ == "numpy" else float(value)
    if isinstance(value, np.dtype):
        return DataType(value.name)
    if isinstance(value, type) and issubclass(value, np.generic):
        return DataType(np.dtype(value).name)
    if kind is tuple or kind is list:
        items = [outside_value(item) for item in value]
        if any([item is MISSING for item in items]):
            return MISSING
        return tuple(items) if kind is tuple else items
    if kind is dict:
        result = {key: outside_value(item) for key, item in value.items()}
        return MISSING if any([item is MISSING for item in result.values()]) else result
    return MISSING


def _registered(function: FunctionType) -> Any:
    """The registered function a Python function is, MISSING if it is none."""
    for name in list_global_func_names():
        found = get_global_func(name, True)
        if found is not None and found.function is function:
            return ExternFunc(name)
    return MISSING


class OutsideScope(Scope):
    """The user's mapping behind all scopes of a text; values are converted when looked up."""

    __slots__ = ("mapping",)

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        super().__init__()
        self.mapping = mapping

    def outside(self, name: str) -> Any:
        if name not in self.mapping:
            return MISSING
        found = outside_value(self.mapping[name])
        if found is not MISSING:
            self.names[name] = found
        return found

    def all_names(self) -> list[str]:
        return list(self.names)
