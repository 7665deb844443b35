"""Values of one kind, where only some plain values fit: an integer, a text, a data type, parts to unpack.

Not here: reading itself (``expr.py`` fills the table of handlers). Invariant: a value of another kind is an error with
the place of its syntax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ffi.dtype import DataType
from ...ir import IntImm
from ..parser import syntax as s
from .base import Reading
from .scope import Dotted, Scope

MAX_DEPTH = 180
"""Nesting of an expression: below the brackets that the layout allows, because printing may add some."""


class ValueReader:
    """Evaluates syntax by a table of handlers, and takes the values apart."""

    def __init__(self, reading: Reading, scope: Scope) -> None:
        self.reading = reading
        self.scope = scope
        self.depth = 0
        """Expressions being evaluated inside each other."""
        self._handlers: dict[type, Callable[[Any], Any]] = {}

    def error(self, code: str, message: str, node: s.Syntax, help: str | None = None) -> Exception:
        """An error to raise."""
        return self.reading.error(code, message, node, help)

    def evaluate(self, node: s.Syntax) -> Any:
        """The value of an expression. Raises E105 inside ``MAX_DEPTH`` others: what is read must print in few brackets."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise self.too_deep(node)
            return self._handlers[type(node)](node)
        finally:
            self.depth -= 1

    def too_deep(self, node: s.Syntax) -> Exception:
        """The error of an expression inside too many others."""
        message = f"more than {MAX_DEPTH} expressions inside each other"
        return self.error("E105", message, node, "bind parts of the expression to names")

    def integer(self, node: s.Syntax) -> int:
        """An expression that must be an integer known while reading."""
        return self.as_integer(self.evaluate(node), node)

    def as_integer(self, value: Any, node: s.Syntax) -> int:
        """A value as integer known while reading. Raises E113."""
        if type(value) is int:
            return value
        if type(value) is IntImm:
            return value.value
        if type(value) is bool:
            return int(value)
        raise self.error("E113", "expected an integer known while reading", node)

    def items(self, value: Any, node: s.Syntax) -> list[Any]:
        """A value as the items of a tuple or list. Raises E113."""
        if isinstance(value, (tuple, list)):
            return list(value)
        raise self.error("E113", "expected a tuple or a list", node)

    def text(self, value: Any, node: s.Syntax, what: str = "a text") -> str:
        """A value as text. Raises E113."""
        if type(value) is str:
            return value
        raise self.error("E113", f"expected {what}", node)

    def dtype(self, value: Any, node: s.Syntax) -> DataType:
        """A value as data type: a text, a DataType, or ``T.float32``."""
        if type(value) is DataType:
            return value
        if type(value) is str:
            return DataType(value)
        if type(value) is Dotted and value.text.startswith("T."):
            return DataType(value.text[2:])
        raise self.error("E113", 'expected a data type such as "float32"', node)

    def unpack(self, target: s.Syntax, value: Any) -> list[tuple[s.Syntax, Any]]:
        """Pairs of target part and value for a tuple target, one starred part allowed."""
        if not isinstance(target, (s.TupleLit, s.ListLit)):
            raise self.error("E113", "cannot assign to this", target)
        if not isinstance(value, (tuple, list)):
            raise self.error("E113", "this value has no parts to unpack", target)
        parts = target.items
        stars = [index for index, part in enumerate(parts) if type(part) is s.Starred]
        if not stars:
            if len(parts) != len(value):
                raise self.error("E113", f"{len(parts)} names for {len(value)} values", target)
            return list(zip(parts, value))
        if len(stars) > 1 or len(value) < len(parts) - 1:
            raise self.error("E113", f"{len(parts)} names for {len(value)} values", target)
        at, rest = stars[0], len(value) - (len(parts) - stars[0] - 1)
        starred = parts[at]
        assert type(starred) is s.Starred
        pairs = list(zip(parts[:at], value[:at]))
        pairs.append((starred.value, list(value[at:rest])))
        return pairs + list(zip(parts[at + 1 :], value[rest:]))
