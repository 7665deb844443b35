"""Names of script in Python: objects that can stand in annotations and decorators, and say so when called.

``T.Buffer((16,), "float32")`` in the signature of a decorated function is evaluated by Python before the decorator runs;
it must do nothing. ``T.exp(x)`` outside of script is a mistake and raises ScriptError E123. Data types make constants anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from ..ir.constant import cast, const
from ..ir.expr import Var
from ..ir.types import Expr, prim_type
from ..support.arguments import guarded
from ..support.errors import ScriptError
from ..support.lazy import load
from .reader.common.scope import KNOWN_NAMES, NAMESPACES, SCRIPT_OBJECTS, canonical_path, dtype_name

_HARMLESS = frozenset((
    "T.Buffer", "T.handle", "T.Ptr", "T.match_buffer", "T.let", "T.Let", "R.Tensor", "R.Shape", "R.Prim", "R.Object",
    "R.Tuple", "R.Callable", "I.module_attrs", "I.module_global_infos", "I.vdevice", "I.dummy_global_info", "I.target",
    "R.ExternFunc",
))  # fmt: skip

IN_PYTHON: dict[str, Callable[[str, tuple[Any, ...], dict[str, Any]], Any]] = {}
"""Values of calls of a namespace's names in Python, from path and arguments; NotImplemented where they have no meaning there."""


class ScriptName:
    """A name of script, e.g. ``T.axis.spatial``."""

    def __init__(self, path: str, doc: str = "", harmless: bool = False) -> None:
        self._path = path
        self._harmless = harmless or canonical_path(path) in _HARMLESS
        self.__doc__ = doc or f"``{path}`` of script."
        self.__name__ = path.rpartition(".")[2]
        SCRIPT_OBJECTS[id(self)] = path

    @guarded
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        load("names")
        call = IN_PYTHON.get(self._path[:1])
        result = NotImplemented if call is None else call(self._path, args, kwargs)
        if result is not NotImplemented or self._harmless:
            return self if result is NotImplemented else result
        raise ScriptError(
            "E123",
            f"{self._path} has a meaning only inside script",
            help="call it in a function under @R.function or @T.prim_func",
        )

    def __getitem__(self, item: Any) -> Any:
        return self

    def __iter__(self) -> NoReturn:
        raise ScriptError("E123", f"{self._path} is a name of script, not several values", help="call it inside script")

    def __or__(self, other: Any) -> Any:
        return self  # `T.Buffer | None` in the annotations of a Python function

    __ror__ = __or__

    def __getattr__(self, name: str) -> ScriptName:
        if name.startswith("__"):
            raise AttributeError(name)
        result = ScriptName(f"{self._path}.{name}")
        setattr(self, name, result)
        return result

    def __repr__(self) -> str:
        return self._path


class DtypeName(ScriptName):
    """A data type of script: ``T.float32`` as annotation; called on a number or a scalar it gives the IR's constant or cast,
    without one a variable."""

    def __init__(self, path: str, doc: str, dtype: str) -> None:
        super().__init__(path, doc, harmless=True)
        self._dtype = dtype

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return Var("v", prim_type(self._dtype))
        value = args[0]
        if isinstance(value, Expr):
            return cast(value, self._dtype)
        if isinstance(value, (int, float, np.generic)):
            return const(value, self._dtype)
        raise ScriptError(
            "E694", f"{self._path} takes a number or a scalar expression, got {value!r}", help=f"{self._path}(1)"
        )


def namespace(
    letter: str, module: str, known: Callable[[], Mapping[str, str]], *functions: Callable[..., Any]
) -> tuple[Callable[[str], ScriptName], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the module that is a namespace of script: names with their docs, and its functions."""
    place = sys.modules[module]
    NAMESPACES[id(place)] = letter
    KNOWN_NAMES[letter] = known
    SCRIPT_OBJECTS.update({id(function): f"{letter}.{function.__name__}" for function in functions})

    def attribute(name: str) -> ScriptName:
        path, docs = f"{letter}.{name}", known()
        dtype, doc = dtype_name(path), docs.get(path)
        if dtype is None and doc is None and not any([other.startswith(path + ".") for other in docs]):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        made = ScriptName(path, doc or "")
        if dtype is not None:
            made = DtypeName(path, doc or f"``{path}(value)``: a scalar of that type.", dtype)
        setattr(place, name, made)
        return made

    def names() -> list[str]:
        own = [name[2:].partition(".")[0] for name in known() if name[0] == letter]
        return sorted({*own, *[function.__name__ for function in functions]})

    return attribute, names
