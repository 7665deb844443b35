"""Plain data, as JSON has it, against declared types: the declaration is the schema, and one walk reads or refuses everything.

A dataclass is a row, its fields in order; one with a tag begins with it, so that a union of tagged classes tells them apart.
``Annotated[str, one_of("a", "b")]`` narrows a field. Not here: what fields of different rows have to do with each other.
Invariant: what ``read`` gives has exactly the declared types, and anything else is a Misfit, never another exception.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
Reader = Callable[[Any], Any]
_SCALARS = frozenset((str, int, float, bool, type(None)))
_WIDEST = 1 << 64


class Misfit(ValueError):
    """Data that is not what its type says; ``path`` leads to it, innermost last."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []

    def __str__(self) -> str:
        place = "".join([f".{p}" if p.isidentifier() else f"[{p}]" for p in reversed(self.path)]).removeprefix(".")
        return f"{place}: {self.message}" if place else self.message


def need(condition: bool, what: str) -> None:
    """Raise Misfit unless what has to be so is so."""
    if not condition:
        raise Misfit(what)


def one_of(*values: str) -> Callable[[Any], bool]:
    """The mark of a field that has one of some values."""

    def known(value: Any) -> bool:
        return value in values

    known.__doc__ = f"one of {', '.join(values)}"
    return known


def within(low: int, high: int) -> Callable[[Any], bool]:
    """The mark of an integer from ``low`` up to, but not, ``high``."""

    def inside(value: Any) -> bool:
        return bool(low <= value < high)

    inside.__doc__ = f"from {low} to {high - 1}"
    return inside


class Schema:
    """Reads and writes rows of some dataclasses. ``tags``: first words of rows; ``leaves``: types with readers of their own."""

    def __init__(self, tags: Mapping[type, str] | None = None, leaves: Mapping[Any, Reader] | None = None) -> None:
        self.tags = dict(tags or {})
        self.readers: dict[Any, Reader] = dict(leaves or {})
        self.hints: dict[type, dict[str, Any]] = {}
        self.rows: dict[type, tuple[list[str], list[str]]] = {}
        """Of classes that were written: the tag, and the names of the fields."""

    def read(self, kind: type[_T], data: Any) -> _T:
        """Data as a value of a type. Raises Misfit."""
        try:
            made: _T = self._reader(kind)(data)
            return made
        except RecursionError:
            raise Misfit("it is nested too deeply") from None

    def record(self, kind: type, data: Any) -> Any:
        """A dataclass from an object with exactly its fields. Raises Misfit."""
        hints = self.hints.get(kind)
        if hints is None:  # evaluated once: each evaluation makes new marks, and they new readers
            hints = self.hints[kind] = get_type_hints(kind, include_extras=True)
        names = [f.name for f in fields(kind)]
        if type(data) is not dict or set(data) != set(names):
            found = sorted(data) if type(data) is dict else type(data).__name__
            raise Misfit(f"expected an object with the fields {', '.join(names)}, got {found}")
        return kind(**{name: _at(name, partial(self.read, hints[name]), data[name]) for name in names})

    def write(self, value: Any) -> Any:
        """A value as plain data."""
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is dict:
            return {key: self.write(v) for key, v in value.items()}
        if kind in (list, tuple):
            return [v if type(v) in _SCALARS else self.write(v) for v in value]
        row = self.rows.get(kind)
        if row is None:
            head = [self.tags[kind]] if kind in self.tags else []
            row = self.rows[kind] = (head, [f.name for f in fields(kind)])
        parts = [getattr(value, name) for name in row[1]]
        return row[0] + [v if type(v) in _SCALARS else self.write(v) for v in parts]

    def _reader(self, kind: Any) -> Reader:
        found = self.readers.get(kind)
        if found is None:
            found = self.readers[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> Reader:
        if kind is Any:
            return lambda value: value
        if kind in _SCALARS:
            return _scalar(kind)
        if is_dataclass(kind):
            return self._row(kind)
        origin, given = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return _marked(self._reader(given[0]), given[1:])
        if origin is tuple and len(given) == 2 and given[1] is Ellipsis:
            return self._sequence(given[0], tuple)
        if origin is tuple:
            return self._fixed(
                [self._reader(g) for g in given], lambda *values: values, [str(k) for k in range(len(given))]
            )
        if origin is list:
            return self._sequence(given[0], list)
        if origin is dict and given[0] is str:
            return self._mapping(given[1])
        if origin in (Union, types.UnionType):
            return self._union(given)
        raise TypeError(f"a schema knows no {kind!r}")

    def _row(self, kind: Any) -> Reader:
        names = [f.name for f in fields(kind)]
        tag = self.tags.get(kind)
        inner: list[Reader] = []

        def read(value: Any) -> Any:
            if not inner:  # now, for a class may hold itself
                hints = get_type_hints(kind, include_extras=True)
                read_fields = self._fixed([self._reader(hints[n]) for n in names], kind, names)
                inner.append(read_fields)
            if tag is None:
                return inner[0](value)
            if type(value) is not list or not value or value[0] != tag:
                raise Misfit(f"expected a row that begins with {tag!r}, got {_short(value)}")
            return inner[0](value[1:])

        return read

    def _fixed(self, readers: list[Reader], make: Callable[..., Any], names: list[str]) -> Reader:
        count = len(readers)

        def read(value: Any) -> Any:
            if type(value) is not list or len(value) != count:
                raise Misfit(f"expected a row of {', '.join(names) or 'nothing'}, got {_short(value)}")
            try:
                return make(*[r(v) for r, v in zip(readers, value)])
            except Misfit:
                for name, reader, part in zip(names, readers, value):
                    _at(name, reader, part)
                raise

        return read

    def _sequence(self, kind: Any, make: type) -> Reader:
        reader = self._reader(kind)

        def read(value: Any) -> Any:
            if type(value) is not list:
                raise Misfit(f"expected a list, got {_short(value)}")
            try:
                return make([reader(v) for v in value])
            except Misfit:
                for number, part in enumerate(value):
                    _at(str(number), reader, part)
                raise

        return read

    def _mapping(self, kind: Any) -> Reader:
        reader = self._reader(kind)

        def read(value: Any) -> Any:
            if type(value) is not dict:
                raise Misfit(f"expected an object, got {_short(value)}")
            return {key: _at(key, reader, part) for key, part in value.items()}

        return read

    def _union(self, kinds: tuple[Any, ...]) -> Reader:
        plain = {kind: self._reader(kind) for kind in kinds if kind in _SCALARS}
        tagged = {self.tags[kind]: self._reader(kind) for kind in kinds if kind in self.tags}
        rest = [self._reader(kind) for kind in kinds if kind not in _SCALARS and kind not in self.tags]
        words = [f"a row of {', '.join(tagged)}"] if tagged else []
        expected = " or ".join([*[_word(k) for k in plain], *words, *["another form"] * len(rest)])

        def read(value: Any) -> Any:
            reader = plain.get(type(value))
            if reader is None and tagged and type(value) is list and value and type(value[0]) is str:
                reader = tagged.get(value[0])
            if reader is not None:
                return reader(value)
            for other in rest[:1]:
                return other(value)
            raise Misfit(f"expected {expected}, got {_short(value)}")

        return read


def _at(name: str, reader: Reader, value: Any) -> Any:
    """The value that a reader makes of a value; a Misfit learns where it was."""
    try:
        return reader(value)
    except Misfit as error:
        error.path.append(name)
        raise


def _scalar(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind or (isinstance(value, int) and not -_WIDEST < value < _WIDEST):
            raise Misfit(f"expected {_word(kind)}, got {_short(value)}")
        return value

    return read


def _marked(reader: Reader, marks: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        made = reader(value)
        for mark in marks:
            if not mark(made):
                raise Misfit(f"{_short(value)} is not {mark.__doc__}")
        return made

    return read


def _word(kind: type) -> str:
    return {str: "a string", int: "an integer", float: "a float", bool: "a bool"}.get(kind, "null")


def _short(value: Any) -> str:
    """A value in few characters; one may be large, or hold what cannot be printed."""
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) >= _WIDEST:
        return "an integer of more than 64 bits"
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
