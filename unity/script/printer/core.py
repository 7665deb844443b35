"""The printer's frame: pieces of text, indentation, names, underlines, and the tables that dispatch by node type.

Not here: how any node is spelled (``scalar.py``, ``tir.py``, ``relax.py``). Invariant: text is a list of pieces that
only grows, so printing is linear in the length of the text, however deep the tree.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from typing import Any

from ...ffi.tensor import Tensor
from ...ir.names import NAMESPACES, identifier
from ...ir.node import Node, short_repr
from ...ir.types import Type
from ...support.errors import InternalError
from ..spelling.spelling import TVM_NAMES
from .comments import Comments, comments, comments_at_end

RAW, VALUE, INDEX, PAIR = "raw", "value", "index", "pair"
"""The position of an expression. A plain integer literal reads as int32 in VALUE, as int64 in INDEX, as the type of its partner in
PAIR; in RAW every literal is written with its type."""

_RESERVED = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(NAMESPACES) | {
    "range", "float", "int", "str", "bool", "metadata", "cls", "print", "unity", "tvm", "ir", "tir", "relax", "tirx",
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Dialect:
    """The spellings of a family of readers. ``names`` replaces operator and construct names."""

    name: str
    names: dict[str, str] = field(default_factory=dict)
    tvm: bool = False


UNITY = Dialect("unity")
TVM = Dialect("tvm", TVM_NAMES, tvm=True)
DIALECTS = {"unity": UNITY, "tvm": TVM}

Part = str | Node | tuple[Any, str]
Emit = Callable[["Printer", Any], None]
EmitExpr = Callable[["Printer", Any, str], None]


class Names:
    """Unique Python names for variables, buffers and functions of one function."""

    __slots__ = ("by_node", "counts", "taken")

    def __init__(self, taken: set[str]) -> None:
        self.by_node: dict[Node, str] = {}
        self.taken = taken
        self.counts: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A name not yet taken that resembles ``hint``."""
        base = identifier(hint)
        name = base
        count = self.counts.get(base, 0)
        while name in self.taken or name in _RESERVED:
            count += 1
            name = f"{base}_{count}"
        if count:
            self.counts[base] = count
        self.taken.add(name)
        return name

    def of(self, node: Node, hint: str) -> str:
        """The name of a node, chosen the first time it is asked for."""
        name = self.by_node.get(node)
        if name is None:
            name = self.by_node[node] = self.fresh(hint)
        return name


def is_name(text: str) -> bool:
    """True for text that can stand as a Python name."""
    return text.isidentifier() and not keyword.iskeyword(text)


def quote(text: str) -> str:
    """A double-quoted Python string literal on one line."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = text.encode("unicode_escape", "surrogatepass").decode("ascii")
    return '"' + escaped.replace('"', '\\"') + '"'


def closing(items: Sized) -> str:
    """The end of a tuple."""
    return ",)" if len(items) == 1 else ")"


class Printer:
    """Collects text. Rows of ``EXPRS``, ``STMTS``, ``TYPES`` and ``TOPS`` say how nodes are written."""

    __slots__ = (
        "bound", "class_name", "comments", "costs", "data_of", "dialect", "free", "indent", "level", "loops", "loose", "marks",
        "metadata", "module_names", "names", "out", "pending", "place", "quoting", "strict", "underline",
    )  # fmt: skip

    def __init__(self, dialect: Dialect = UNITY, underline: tuple[Node, ...] = ()) -> None:
        self.out: list[str] = []
        self.indent = 0
        self.dialect = dialect
        self.underline = {id(node) for node in underline}
        self.marks: list[tuple[int, int]] = []
        self.names = Names(set())
        self.pending: dict[Node, int] = {}
        self.loops: dict[Node, Any] = {}
        self.data_of: dict[Node, Any] = {}
        self.free: dict[Node, None] = {}
        self.bound: set[Node] = set()
        self.quoting = False
        self.level = "R"
        self.module_names: frozenset[str] = frozenset()
        self.class_name = "Module"
        self.loose = False
        self.strict = True
        self.metadata: list[Tensor] | None = None
        """Large constants left out of the text so far; None where they are written."""
        self.place: str | None = None
        """The origin of the last binding; None if places are not wanted."""
        self.comments: Comments | None = None
        """Comments written so far; None where they are not asked for."""
        self.costs = False
        """Write the work of tensor programs as comments."""

    def word(self, name: str) -> str:
        """A canonical construct or operator name in the dialect at hand."""
        return self.dialect.names.get(name, name)

    def put(self, *parts: Part) -> None:
        """Write parts in order: a text as it is, a type, an expression that stands alone, or ``(expressions, where)``."""
        for part in parts:
            self.part(part)

    def line(self, text: str = "", *parts: Part) -> None:
        """Begin a new line with the present indentation, and write parts as ``put`` does."""
        self.out.append("\n" + "    " * self.indent + text if self.out else "    " * self.indent + text)
        for part in parts:
            self.part(part)

    def part(self, part: Part) -> None:
        """Write one part. No call unpacks arguments: those take C's stack, of which deep trees need too much."""
        if isinstance(part, str):
            self.out.append(part)
        elif isinstance(part, Type):
            self.type(part)
        elif isinstance(part, Node):
            self.expr(part)
        elif isinstance(part[0], (tuple, list)):
            self.exprs(part[0], part[1])
        else:
            self.expr(part[0], part[1])

    def dedent(self) -> None:
        """End an indented block."""
        comments_at_end(self)
        self.indent -= 1

    def name_of(self, node: Any) -> str:
        """Name of a variable or buffer; a nameless ``_`` binding that turns out to be used gets a name here."""
        name = self.names.by_node.get(node)
        if name is None:
            hint = node.name
            slot = self.pending.pop(node, None)
            if slot is not None:
                name = self.names.by_node[node] = self.names.fresh("v")
                self.out[slot] = self.out[slot] + f"{name} = "
            else:
                name = self.names.by_node[node] = self.names.fresh(hint)
        return name

    def expr(self, node: Any, where: str = VALUE) -> None:
        """Write an expression that stands alone (in an argument list, after ``=``)."""
        emit = EXPRS.get(type(node))
        if emit is None:
            self.out.append(short_repr(node))
            return
        if self.underline and id(node) in self.underline:
            start = len(self.out)
            emit(self, node, where)
            self.marks.append((start, len(self.out)))
            return
        emit(self, node, where)

    def exprs(self, nodes: Any, where: str = VALUE) -> None:
        """Write expressions separated by commas."""
        separator = ""
        for node in nodes:  # without ``joined``, which would stand on the stack of a deep tree
            self.out.append(separator)
            separator = ", "
            self.expr(node, where)

    def joined(self, items: Iterable[Any], emit: Emit) -> None:
        """Write items separated by commas."""
        separator = ""
        for item in items:
            self.out.append(separator)
            separator = ", "
            emit(self, item)

    def type(self, node: Any) -> None:
        """Write a type."""
        emit = TYPES.get(type(node))
        if emit is None:
            raise InternalError("E902", f"the printer knows no type {type(node).__name__}")
        emit(self, node)

    def stmt(self, node: Any) -> None:
        """Write a statement on lines of its own."""
        emit = STMTS.get(type(node))
        if emit is None:
            self.line(short_repr(node))
            return
        comments(self, node)
        if self.underline and id(node) in self.underline:
            start = len(self.out)
            emit(self, node)
            self.marks.append((start, len(self.out)))
            return
        emit(self, node)

    def text_of(self, emit: Callable[[], None]) -> str:
        """The text that ``emit`` writes, taken out again (underlines inside are dropped)."""
        start, marks = len(self.out), len(self.marks)
        emit()
        del self.marks[marks:]
        text = "".join(self.out[start:])
        del self.out[start:]
        return text

    def text(self) -> str:
        """Everything written so far."""
        return "".join(self.out)

    def marked(self, note: str | None = None) -> str:
        """The text with a line of ``^^^^`` under each underlined node, and the note beside the first."""
        return _underlined(self.out, self.marks, note) if self.marks else self.text()


EXPRS: dict[type, EmitExpr] = {}
STMTS: dict[type, Emit] = {}
TYPES: dict[type, Emit] = {}
TOPS: dict[type, Emit] = {}


def _underlined(pieces: list[str], marks: list[tuple[int, int]], note: str | None) -> str:
    offsets = [0]
    for piece in pieces:
        offsets.append(offsets[-1] + len(piece))
    text = "".join(pieces)
    spans = [(offsets[a], offsets[b]) for a, b in marks]
    lines = text.split("\n")
    shown: list[str] = []
    position = 0
    noted = note is None
    open_spans = []
    for start, stop in spans:
        while start < stop and text[start] in "\n ":
            start += 1
        open_spans.append((start, stop))
    for line in lines:
        end = position + len(line)
        shown.append(line)
        carets = ""
        for start, stop in open_spans:
            if position <= start < end or (position == start == end):
                left = start - position
                width = max(1, min(stop, end) - start)
                carets = carets.ljust(left) + "^" * width if left >= len(carets) else carets
        if carets:
            if not noted:
                carets += f" {note}"
                noted = True
            shown.append(carets)
        position = end + 1
    return "\n".join(shown)


def excerpt(text: str, context: int) -> str:
    """Only the lines around the ``^^^^`` lines of a marked text, ``context`` on either side."""
    lines = text.split("\n")
    keep: set[int] = set()
    for number, line in enumerate(lines):
        if line.lstrip().startswith("^"):
            keep.update(range(number - context - 1, number + context + 1))
    shown: list[str] = []
    last = -1
    for number in sorted(n for n in keep if 0 <= n < len(lines)):
        if number != last + 1:
            shown.append("...")
        shown.append(lines[number])
        last = number
    if last != len(lines) - 1:
        shown.append("...")
    return "\n".join(shown)
