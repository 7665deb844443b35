"""Closed nodes as bytes and back: what a cache keeps of a tensor program between processes.

Derived from the field markers, as the walks are. Not here: script text, which people read and files hold; this form belongs to one
state of the package and is never read by another. Invariant: ``structural_equal(unpack(pack(node)), node)``, shared nodes stay
shared, spans are left out; what cannot be written (constants' data, cycles, foreign values) is a ``NotPackable``.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from typing import Any

from ..ffi.dtype import DataType
from .expr import Op, op
from .node import Node
from .types import PrimType, prim_type


class NotPackable(Exception):
    """The value has no packed form."""


@cache
def _classes() -> dict[str, type[Node]]:
    """Node classes of this room by name."""
    found: dict[str, type[Node]] = {}
    rest: list[type[Node]] = [Node]
    while rest:
        for kind in rest.pop().__subclasses__():
            rest.append(kind)
            if kind.__module__.startswith(__package__) and kind.plan:
                found[kind.__name__] = kind
    return found


class _Writer:
    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.places: dict[int, int | None] = {}
        self.keep: list[Node] = []

    def node(self, node: Node) -> int:
        """Number of a node's row; children come first."""
        if id(node) in self.places:
            place = self.places[id(node)]
            if place is None:
                raise NotPackable("a cycle")
            return place
        self.places[id(node)] = None
        self.keep.append(node)
        kind = type(node)
        if kind is PrimType or kind is Op:
            row = [kind.__name__, node.dtype.name if isinstance(node, PrimType) else node.name]  # type: ignore[attr-defined]
        elif _classes().get(kind.__name__) is not kind:
            raise NotPackable(f"a {kind.__name__}")
        else:
            row = [kind.__name__]
            for name, _ in kind.plan:
                row.append(None if name == "span" else self.value(getattr(node, name)))
        self.rows.append(row)
        place = self.places[id(node)] = len(self.rows) - 1
        return place

    def value(self, value: Any) -> Any:
        """A field: a node is its number, everything else says what it is."""
        if isinstance(value, Node):
            return self.node(value)
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is tuple or kind is list:
            return ["t" if kind is tuple else "l", *[self.value(item) for item in value]]
        if kind is dict:
            return ["d", *[[self.value(key), self.value(item)] for key, item in value.items()]]
        if kind is int:
            return ["i", value]
        if kind is float:
            return ["f", struct.pack("<d", value).hex()]  # by bits: NaN has a sign
        if kind is DataType:
            return ["y", value.name]
        raise NotPackable(f"a {kind.__name__}")


def pack(node: Node) -> bytes:
    """A closed node as bytes. Raises NotPackable."""
    writer = _Writer()
    writer.node(node)
    return json.dumps(writer.rows, separators=(",", ":")).encode()


def unpack(data: bytes) -> Any:
    """The node that ``pack`` was given, made anew."""
    nodes: list[Any] = []

    def value(item: Any) -> Any:
        kind = type(item)
        if kind is int:
            return nodes[item]
        if kind is not list:
            return item
        tag = item[0]
        if tag == "t":
            return tuple([value(part) for part in item[1:]])
        if tag == "i":
            return item[1]
        if tag == "y":
            return DataType(item[1])
        if tag == "f":
            return struct.unpack("<d", bytes.fromhex(item[1]))[0]
        if tag == "l":
            return [value(part) for part in item[1:]]
        return {value(key): value(part) for key, part in item[1:]}

    classes = _classes()
    for name, *fields in json.loads(data):
        if name == "PrimType":
            nodes.append(prim_type(fields[0]))
        elif name == "Op":
            nodes.append(op(fields[0]))
        else:
            nodes.append(classes[name](*[value(field) for field in fields]))
    return nodes[-1]
