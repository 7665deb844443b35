"""Closed nodes as bytes and back: what a cache keeps of a tensor program between processes.

Derived from the field markers, as the walks are. Not here: script text, which people read and files hold; this form belongs to one
state of the package and is never read by another. Invariant: ``structural_equal(unpack(pack(node)), node)``, shared nodes stay
shared, spans are left out; what cannot be written (constants' data, cycles, foreign values) is a ``NotPackable``. ``fingerprint``
says of a node everything but the elements of its constants, spans included.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from ..ffi.dtype import DataType
from ..ffi.tensor import Tensor
from ..support.source import Source, Span
from .expr import Constant, Op, op
from .node import Node
from .types import PrimType, prim_type

DATA_BYTES = 1 << 20
"""Tensors that are not constants of the graph (tables inside tensor programs, attributes) are told apart up to this size."""
Foreign = Callable[[Any], Any]
"""A function that makes of a value that no node holds something JSON can write. Raises NotPackable."""


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


def _refuse(value: Any) -> Any:
    raise NotPackable(f"a {type(value).__name__}")


class _Writer:
    def __init__(self, foreign: Foreign = _refuse, spans: bool = False) -> None:
        self.foreign, self.spans = foreign, spans
        self.rows: list[list[Any]] = []
        self.numbers: dict[int, int | None] = {}
        self.keep: list[Node] = []

    def node(self, node: Node) -> int:
        """Number of a node's row; children come first."""
        if id(node) in self.numbers:
            number = self.numbers[id(node)]
            if number is None:
                raise NotPackable("a cycle")
            return number
        self.numbers[id(node)] = None
        self.keep.append(node)
        kind = type(node)
        row: list[Any]
        if isinstance(node, (PrimType, Op)):
            row = [kind.__name__, node.dtype.name if isinstance(node, PrimType) else node.name]
        elif _classes().get(kind.__name__) is not kind:
            raise NotPackable(f"a {kind.__name__}")
        else:
            row = [kind.__name__]
            for name, _ in kind.plan:
                row.append(None if name == "span" and not self.spans else self.value(getattr(node, name)))
        self.rows.append(row)
        number = self.numbers[id(node)] = len(self.rows) - 1
        return number

    def value(self, value: Any) -> Any:
        """A field: a node is its number, everything else says what it is."""
        if isinstance(value, Node):
            return self.node(value)
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is tuple or kind is list:
            return ["t" if kind is tuple else "l", *[self.value(item) for item in value]]
        if isinstance(value, dict):
            return ["d", *[[self.value(key), self.value(item)] for key, item in value.items()]]
        if kind is int:
            return ["i", value]
        if kind is float:
            return ["f", struct.pack("<d", value).hex()]  # by bits: NaN has a sign
        if kind is DataType:
            return ["y", value.name]
        return ["#", self.foreign(value)]


def pack(node: Node) -> bytes:
    """A closed node as bytes. Raises NotPackable."""
    writer = _Writer()
    writer.node(node)
    return json.dumps(writer.rows, separators=(",", ":")).encode()


def pack_value(value: Any, foreign: Foreign) -> Any:
    """Numbers, strings and dtypes, nested, as JSON data; anything else is what ``foreign`` makes of it. Raises NotPackable."""
    writer = _Writer(foreign)
    made = writer.value(value)
    if writer.rows:
        raise NotPackable("a node inside a value")
    return made


def fingerprint(node: Node) -> tuple[bytes, list[Tensor]]:
    """Everything that can be seen of a node but the elements of its constants, and those in the order of first use.

    Raises NotPackable.
    """
    sources: dict[int, tuple[int, Source]] = {}
    tensors: dict[int, tuple[int, Tensor]] = {}

    def foreign(value: Any) -> Any:
        kind = type(value)
        if kind is Span:
            number, _ = sources.setdefault(id(value.source), (len(sources), value.source))
            return [number, value.start, value.end]
        if kind is Tensor and value.numpy().nbytes <= DATA_BYTES:
            return [value.dtype, value.shape, value.numpy().tobytes().hex()]
        return _refuse(value)

    class Fingerprint(_Writer):
        def value(self, value: Any) -> Any:
            if type(value) is Constant:
                number, _ = tensors.setdefault(id(value.data), (len(tensors), value.data))
                return ["c", number, self.value(value.ty), self.value(value.span)]
            return super().value(value)

    writer = Fingerprint(foreign, spans=True)
    writer.node(node)
    texts = [[s.name, s.text, s.first_line, s.indent, s.owner] for _, s in sources.values()]
    data = json.dumps([writer.rows, texts], separators=(",", ":")).encode()
    return data, [tensor for _, tensor in tensors.values()]


class _Reader:
    def __init__(self, foreign: Foreign) -> None:
        self.foreign = foreign
        self.nodes: list[Any] = []

    def value(self, item: Any) -> Any:
        """The value that ``_Writer.value`` was given."""
        kind = type(item)
        if kind is int:
            return self.nodes[item]
        if kind is not list:
            return item
        tag = item[0]
        if tag == "t":
            return tuple([self.value(part) for part in item[1:]])
        if tag == "i":
            return item[1]
        if tag == "y":
            return DataType(item[1])
        if tag == "f":
            return struct.unpack("<d", bytes.fromhex(item[1]))[0]
        if tag == "l":
            return [self.value(part) for part in item[1:]]
        if tag == "#":
            return self.foreign(item[1])
        return {self.value(key): self.value(part) for key, part in item[1:]}


def unpack_value(data: Any, foreign: Foreign) -> Any:
    """The value that ``pack_value`` was given; ``foreign`` makes the values that no node holds of what stands for them."""
    return _Reader(foreign).value(data)


def unpack(data: bytes) -> Any:
    """The node that ``pack`` was given, made anew."""
    return _nodes(json.loads(data), _Reader(_refuse))


def _nodes(rows: list[list[Any]], reader: _Reader) -> Any:
    """The node of the last row."""
    nodes, classes = reader.nodes, _classes()
    for name, *fields in rows:
        if name == "PrimType":
            nodes.append(prim_type(fields[0]))
        elif name == "Op":
            nodes.append(op(fields[0]))
        else:
            nodes.append(classes[name](*[reader.value(field) for field in fields]))
    return nodes[-1]
