"""Arguments of public functions: an error of Python that one ends in becomes a UnityError that names the argument at fault.

The annotations are the check. They are read when a call has failed, so that a call that works costs nothing but itself; ``checked``
reads them before, for what would keep a wrong argument and fail much later. Not here: what values an argument of the right type may
have, which the functions say themselves. Invariant: an error of the caller's own code passes as it is.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import wraps
from typing import Any, TypeVar

from .annotations import Check, fits, hint_text
from .errors import ArgumentError, PlaceError, UnityError, suggest

_T = TypeVar("_T", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)
_PACKAGE = __name__.partition(".")[0]
_LIBRARIES = frozenset({*sys.stdlib_module_names, "numpy", "torch", "llvmlite", "lark"}) - {"__main__"}
_BARE = (TypeError, AttributeError, AssertionError, LookupError, ValueError, ArithmeticError, RuntimeError)
"""Errors of Python for a value that code did not expect."""
_OPERATORS = frozenset((
    "init", "call", "getitem", "setitem", "contains", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv",
    "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow", "neg", "abs", "invert", "and", "or", "xor", "lshift", "rshift",
    "lt", "le", "gt", "ge", "eq", "ne", "enter",
))  # fmt: skip
"""Methods that a program calls by a sign; errors of others are for Python and numpy, which wait for them."""
FAULTS: list[Callable[[Any], UnityError | None]] = []
"""Functions that find a fault inside an argument of the right type: filled by the verifier."""


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of parameters; those that name what only a type checker imports are left out."""
    function = inspect.unwrap(function)
    try:
        found = typing.get_type_hints(function)
        keywords = [hint for hint in found.values() if typing.get_origin(hint) is typing.Unpack]
        return found | {
            name: h for hint in keywords for name, h in typing.get_type_hints(*typing.get_args(hint)).items()
        }
    except (NameError, TypeError, AttributeError):
        found = {}
        for name, text in getattr(function, "__annotations__", {}).items():
            try:
                found[name] = eval(text, function.__globals__) if isinstance(text, str) else text
            except (NameError, TypeError, AttributeError):
                continue
        return found


def _given(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Parameters and what a call gives them, each of several by itself. Raises TypeError for a call that does not bind."""
    signature = inspect.signature(function)
    found: list[tuple[str, Any]] = []
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [(name, v) for v in value]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found += list(value.items())
        else:
            found.append((name, value))
    return found


def _accepts(hint: Any, value: Any) -> bool:
    check = fits(hint, exact=False)
    return check is None or check(value)


def short(value: Any) -> str:
    """A value as an error names it: its class, and what it is, or holds, where that is short."""
    kind = type(value).__name__
    if isinstance(value, (list, tuple, set, dict)):
        inside = ", ".join(sorted({type(v).__name__ for v in value}))
        return f"a {kind} of {inside}" if value else f"an empty {kind}"
    plain = isinstance(value, (str, bytes, int, float, complex, type(None), type(Ellipsis)))
    text = repr(value) if plain and not (isinstance(value, int) and abs(value) >> 128) else ""
    return f"{text} ({kind})" if 0 < len(text) <= 60 else f"a {kind}"


def _name(function: Callable[..., Any]) -> str:
    whole: str = getattr(function, "__qualname__", type(function).__name__)
    return whole.rpartition("<locals>.")[2].replace(".__init__", "")


def misfit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ArgumentError | None:
    """The error of the first argument that is not what its annotation says, or that the function does not have."""
    hints = _hints(function)
    try:
        given = _given(function, args, kwargs)
    except TypeError as error:
        return _unbound(function, kwargs, error)
    keywords = any([typing.get_origin(hint) is typing.Unpack for hint in hints.values()])
    for name, value in given:
        if keywords and name not in hints:
            return _absent(function, name, list(hints))
        if name in hints and name != "self" and not _accepts(hints[name], value):
            return ArgumentError(
                "E717", f"{_name(function)}: the argument {name} is {short(value)}, expected {hint_text(hints[name])}",
                help=_usage(function),
            )  # fmt: skip
    return None


def _usage(function: Callable[..., Any]) -> str:
    """The form of a call of a function, and its purpose."""
    doc = (inspect.getdoc(function) or "").partition("\n")[0]
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    form = f"{_name(function)}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
    return f"{form}: {doc}" if doc else form


def callers_line(error: BaseException) -> str:
    """The innermost line of the caller's own code that ran inside the call; "" where none did. An error of it is its own."""
    trace = error.__traceback__
    trace = trace.tb_next if trace is not None else None
    found = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", _PACKAGE)  # code made of texts has no name
        owner = str(module).partition(".")[0]
        if owner != _PACKAGE and owner not in _LIBRARIES:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def explained(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> UnityError | None:
    """The UnityError that tells what is wrong with a call that ended in an error of Python; None where that tells it better."""
    if isinstance(error, (UnityError, NotImplementedError)) or callers_line(error):
        return None
    wrong = misfit(function, args, kwargs)
    if wrong is not None:
        return wrong
    for value in (*args, *kwargs.values()):
        for find in FAULTS:
            fault = find(value)
            if fault is not None:
                return fault
    what = ", ".join([short(v) for v in (*args, *kwargs.values())])
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
        return None  # of a library, which says what it means
    made = PlaceError if isinstance(error, IndexError) else ArgumentError
    return made("E717", f"{_name(function)}: cannot work with {what or 'what it is given'} ({reason})",
                         help=_usage(function))  # fmt: skip


def _unbound(function: Callable[..., Any], kwargs: Mapping[str, Any], error: TypeError) -> ArgumentError:
    """The error of a call with a keyword that the function does not have, or with too few or too many arguments."""
    known = list(inspect.signature(function).parameters)
    for name in kwargs:
        if name not in known and str(error).startswith("got an unexpected"):
            return _absent(function, name, known)
    return ArgumentError("E717", f"{_name(function)}: {error}", help=_usage(function))


def _absent(function: Callable[..., Any], name: str, known: list[str]) -> ArgumentError:
    """The error of an argument that the function does not have."""
    return ArgumentError("E717", f"{_name(function)} has no argument {name!r}",
                         help=suggest(name, known) or _usage(function))  # fmt: skip


def guarded(function: _T) -> _T:
    """Decorator: errors of Python that a call ends in are explained by its arguments."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _BARE as error:
            found = explained(function, args, kwargs, error)
            if found is None:
                raise
            raise found from error

    call.__dict__["is_guarded"] = True
    return typing.cast(_T, call)


def checked(function: _T) -> _T:
    """Decorator: as ``guarded``, and arguments that do not fit their annotations are refused before the function sees them."""
    checks: dict[str, Check | None] = {}
    order: list[str] = []
    run = guarded(function)

    def prepare() -> None:
        hints = _hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            checks[name] = fits(hints[name], exact=False) if name in hints and name != "self" else None
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                order.append(name)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not checks:
            prepare()
        for name, value in (*zip(order, args), *kwargs.items()):
            check = checks.get(name)
            if check is not None and not check(value):
                break
        else:
            return run(*args, **kwargs)
        wrong = misfit(function, args, kwargs)
        if wrong is not None:
            raise wrong
        return run(*args, **kwargs)

    call.__dict__["is_guarded"] = True
    return typing.cast(_T, call)


def guarded_class(cls: _C, guard: Callable[[Any], Any] = guarded) -> _C:
    """Decorator: a class whose public methods and operators are ``guarded``."""
    for name, value in list(vars(cls).items()):
        public = not name.startswith("_") or name.strip("_") in _OPERATORS
        if public and isinstance(value, types.FunctionType) and not hasattr(value, "is_guarded"):
            if value.__name__ == "<lambda>":  # made by another function
                value.__name__, value.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, guard(value))
        elif public and isinstance(value, (staticmethod, classmethod)):
            setattr(cls, name, type(value)(guard(value.__func__)))
    return cls


def checked_class(cls: _C) -> _C:
    """Decorator: a class whose public methods and operators are ``checked``."""
    return guarded_class(cls, checked)


_PUBLIC: dict[Callable[..., Any], Callable[..., Any]] = {}


def public(value: Any, guard: Callable[[Any], Any] = guarded) -> Any:
    """A value as a package hands it on: a function of this package guarded, anything else as it is."""
    own = isinstance(value, types.FunctionType) and value.__module__.partition(".")[0] == _PACKAGE
    if not own or hasattr(value, "is_guarded"):
        return value
    if value not in _PUBLIC:
        _PUBLIC[value] = guard(value)
    return _PUBLIC[value]


def make_public(
    namespace: MutableMapping[str, Any], names: Iterable[str], guard: Callable[[Any], Any] = guarded
) -> None:
    """Guard the functions among the names that a package gives away."""
    for name in names:
        if name in namespace:
            namespace[name] = public(namespace[name], guard)


def gathered(namespace: MutableMapping[str, Any]) -> list[str]:
    """The names that a package has gathered: all but private ones and modules. Their functions are guarded."""
    names = [name for name, value in namespace.items() if name[0] != "_" and not isinstance(value, types.ModuleType)]
    make_public(namespace, names)
    return names
