"""The global table of functions that programs call by name: Python callables and C functions.

A name is registered once; replacing it takes ``override=True``. Calls by name happen when a program runs, so a program
may be built before its functions are registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from ..support.errors import FFIError, suggest
from ..support.forking import fork_lock
from .cfunc import CFunction, CSignature, parse_signature

AnyFunction = Callable[..., Any]


class PackedFunc:
    """A callable with a name. ``address`` and ``signature`` are those of a C function, else 0 and None. ``on_device``: see
    ``register_func``."""

    __slots__ = ("__weakref__", "address", "function", "name", "on_device", "signature")

    def __init__(self, name: str, function: AnyFunction, on_device: bool = False) -> None:
        self.on_device = on_device
        if isinstance(function, PackedFunc):
            function = function.function
        self.name = name
        self.function: AnyFunction = function
        self.address = function.address if isinstance(function, CFunction) else 0
        self.signature: CSignature | None = function.signature if isinstance(function, CFunction) else None

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"PackedFunc({self.name!r}{f', {self.signature}' if self.signature else ''})"


class Context:
    """The first argument of a function called by ``R.call_builtin_with_ctx``: it stands for the VM, and says nothing about it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Context()"


CONTEXT = Context()

_TABLE: dict[str, PackedFunc] = {}
_LOCK = fork_lock()


def _insert(packed: PackedFunc, override: bool) -> None:
    with _LOCK:
        if packed.name in _TABLE and not override:
            raise FFIError("E705", f"the function {packed.name!r} is already registered",
                           help="pass override=True to replace it")  # fmt: skip
        _TABLE[packed.name] = packed


@overload
def register_func(
    name: AnyFunction, f: None = None, override: bool = False, on_device: bool = False
) -> AnyFunction: ...
@overload
def register_func(name: str, f: AnyFunction, override: bool = False, on_device: bool = False) -> AnyFunction: ...
@overload
def register_func(
    name: str | None = None, f: None = None, override: bool = False, on_device: bool = False
) -> Callable[[AnyFunction], AnyFunction]: ...
def register_func(
    name: str | AnyFunction | None = None,
    f: AnyFunction | None = None,
    override: bool = False,
    on_device: bool = False,
) -> AnyFunction | Callable[[AnyFunction], AnyFunction]:
    """Register the function ``f`` as ``name`` (default: its ``__name__``) and return it unchanged.

    Works as a call, ``register_func("my.relu", relu)``, and as a decorator, with or without a name. A program of a device
    gives the function copies of its tensors in the host's memory, and takes what it writes there back; with ``on_device`` it gets
    the tensors themselves. Raises FFIError E705 if the name is taken and ``override`` is false, E713 if ``f`` is
    not callable.
    """
    if callable(name):
        _insert(PackedFunc(name.__name__, name, on_device), override)
        return name
    given: str | None = name

    def register(function: AnyFunction) -> AnyFunction:
        if not callable(function):
            raise FFIError("E713", f"cannot register a {type(function).__name__}: it is not callable")
        _insert(PackedFunc(given if given is not None else function.__name__, function, on_device), override)
        return function

    return register if f is None else register(f)


def register_c_func(name: str, address: int, signature: str, override: bool = False) -> PackedFunc:
    """Register a C function under ``name`` by its ``address``.

    ``signature``: its C type, e.g. ``(const float32*, float32*, int64) -> int32``. Raises FFIError E705 if the name is taken and
    ``override`` is false, E707 for a wrong signature.
    """
    packed = PackedFunc(name, CFunction(name, address, parse_signature(signature)))
    _insert(packed, override)
    return packed


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """Return the function registered as ``name``. Raises FFIError E706 if there is none, or returns None with ``allow_missing``."""
    found = _TABLE.get(name)
    if found is None and not allow_missing:
        advice = suggest(name, _TABLE) or "register it with unity.register_func"
        raise FFIError("E706", f"no function is registered as {name!r}", help=advice)
    return found


def list_global_func_names() -> list[str]:
    """Return all registered names in order."""
    return sorted(_TABLE)


def remove_global_func(name: str) -> None:
    """Remove the function registered as ``name``. Raises FFIError E706 where there is none."""
    with _LOCK:
        if _TABLE.pop(name, None) is None:
            raise FFIError("E706", f"no function is registered as {name!r}")
