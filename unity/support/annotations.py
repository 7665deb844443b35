"""Annotations as tests of values: what the verifier asks of the fields of nodes, and public functions of their arguments."""

from __future__ import annotations

import collections.abc
import numbers
import re
import types
import typing
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]


def fits(hint: Any, exact: bool = True) -> Check | None:
    """A function that tests the annotated kind of a value (its items included); None if everything fits.

    ``exact``: a bool is not an int, nor an int a float; else what Python takes for a number is one, numpy's too, and a class that
    ``converts`` what it is given says itself what it refuses.
    """
    if hint is None:
        hint = type(None)
    if not exact and getattr(hint, "converts", False):
        return None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return fits(args[0], exact)
    if origin is typing.Literal:
        return lambda value: any([type(value) is type(a) and value == a for a in args])
    if origin in (typing.Union, types.UnionType):
        if not exact and any([getattr(a, "converts", False) for a in args]):
            return None
        if all([_is_class(a) for a in args]):
            return _has_class(args, exact)
        options = [fits(a, exact) for a in args]
        return None if None in options else lambda value: any([option(value) for option in options if option])
    if origin is tuple and not (len(args) == 2 and args[1] is Ellipsis):
        items = [fits(a, exact) for a in args]
        return lambda value: (
            type(value) is tuple
            and len(value) == len(items)
            and all([part is None or part(v) for part, v in zip(items, value)])
        )
    if origin is collections.abc.Callable:
        return callable
    if origin in _MAPPINGS:
        key, entry = [fits(a, exact) for a in args]
        return lambda value: (
            isinstance(value, origin)
            and all([(key is None or key(k)) and (entry is None or entry(v)) for k, v in value.items()])
        )
    if origin in _COLLECTIONS:
        item = fits(args[0], exact)
        return lambda value: isinstance(value, origin) and (item is None or all([item(v) for v in value]))
    if isinstance(origin, type):
        hint = origin
    return _has_class((hint,), exact) if _is_class(hint) else None


_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_COLLECTIONS = (
    tuple, list, set, frozenset, collections.abc.Collection, collections.abc.Sequence, collections.abc.MutableSequence,
    collections.abc.Set, collections.abc.MutableSet,
)  # fmt: skip
"""Compared by identity: to ask whether a class is a subclass of an abstract one takes much of a small stack of C."""


def _is_class(hint: Any) -> bool:
    return (
        isinstance(hint, type)
        and hint is not Any
        and not getattr(hint, "_is_protocol", False)
        and not isinstance(hint, types.GenericAlias)
    )


_NUMBERS: dict[type, tuple[type, ...]] = {int: (numbers.Integral,), float: (numbers.Real,), bool: (numbers.Integral,)}
"""Classes that pass for a number of Python."""


def _has_class(classes: tuple[type, ...], exact: bool) -> Check:
    """True if a value is of one of some classes. Classes once found right are cached."""
    known = {cls for cls in classes if cls in (int, float)}
    others = tuple([cls for cls in classes if cls not in (int, float)])
    if not exact:
        others += tuple([number for cls in classes for number in _NUMBERS.get(cls, ())])

    def check(value: Any) -> bool:
        kind = type(value)
        if kind in known:
            return True
        if isinstance(value, others):
            known.add(kind)
            return True
        return False

    return check


def hint_text(hint: Any) -> str:
    """Readable form of an annotation: names of classes without those of their modules."""
    return hint.__name__ if _is_class(hint) else re.sub(r"(\w+\.)+(\w+)", r"\2", str(hint))
