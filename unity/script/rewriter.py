"""Edits of a text, and the text around a node of script: what rewriting a file byte for byte needs.

Not here: which spellings are rewritten (``upgrade.py``). Invariant: what no edit covers stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import IRModule, Node, Type
from ..ir.expr import Call, MatchCast
from ..ir.walk import collect
from ..support.errors import UnityError
from ..support.source import Source
from .embedded import Definition, dedented_source, dotted, script_path
from .parser import syntax as s
from .reader.module import parse

Place = tuple[int, int]


class Edits:
    """Replacements of ranges of a text; a later one may enclose earlier ones, after taking their effect with ``apply``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.made: list[tuple[int, int, str]] = []

    def replace(self, start: int, end: int, new: str) -> None:
        """Write ``new`` instead of ``text[start:end]``; edits inside are dropped."""
        self.made = [edit for edit in self.made if not (start <= edit[0] and edit[1] <= end and end > start)]
        self.made.append((start, end, new))

    def apply(self, start: int, end: int) -> str:
        """The text of a range with the edits inside it."""
        parts, last = [], start
        for edit_start, edit_end, new in sorted([edit for edit in self.made if start <= edit[0] and edit[1] <= end]):
            parts += [self.text[last:edit_start], new]
            last = edit_end
        return "".join([*parts, self.text[last:end]])


class Rewriter:
    """The text of one definition: offsets and names of its nodes, and the types read there."""

    def __init__(
        self, source: Source, edits: Edits, base: int, names: Mapping[str, str], definition: Definition
    ) -> None:
        self.source, self.edits, self.base = source, edits, base
        self.names, self.definition = names, definition
        self.bare: dict[str, str] = {}
        self.read_types: dict[Place, list[Type]] | None = None

    def path(self, node: s.Syntax) -> str | None:
        """The present name of a dotted name of script."""
        written = dotted(node)
        return script_path(written, self.names) or self.bare.get(written or "")

    def at(self, node: s.Syntax) -> tuple[int, int]:
        """Offsets of a node in the file."""
        return node.start + self.base, node.end + self.base

    def take(self, node: s.Syntax) -> str:
        """Text of a node with the edits made inside it."""
        return self.edits.apply(*self.at(node))

    def rename(self, func: s.Syntax, new: str) -> None:
        """Write another last part of a name; a name without namespace gets it."""
        start, end = self.at(func)
        if type(func) is s.Attribute:
            self.edits.replace(end - len(func.name), end, new)
        else:
            self.edits.replace(start, end, f"R.{new}")

    def graph(self, node: s.Call) -> str:
        """The spelling of the namespace R at a call."""
        written = dotted(node.func)
        return written.rpartition(".")[0] if written is not None and "." in written else "R"

    def tensor(self, node: s.Call, shape: str, dtype: str | None) -> str:
        """A tensor type."""
        return f"{self.graph(node)}.Tensor({shape}{'' if dtype is None else ', ' + dtype})"

    def argument(self, call: s.Call, node: s.Syntax) -> tuple[int, int]:
        """Offsets of an argument with the parentheses around it."""
        text = self.source.text
        low, high = text.index("(", call.func.end + self.base) + 1, call.end - 1 + self.base
        start, end = self.at(node)
        while True:
            before, after = text[low:start].rstrip(), text[end:high].lstrip()
            if not before.endswith("(") or not after.startswith(")"):
                return start, end
            start = low + len(before) - 1
            end = high - len(after) + 1

    def types_at(self, node: s.Call) -> list[Type]:
        """Types of the results of a call, read from the program; empty where it needs names of the enclosing Python."""
        if self.read_types is None:
            self.read_types = _read_types(self.definition, self.source)
        return self.read_types.get(self.source.line_column(node.start + self.base), [])


def _read_types(definition: Definition, source: Source) -> dict[Place, list[Type]]:
    try:
        mod = parse(dedented_source(definition, source), check=False)
    except UnityError:
        return {}
    roots: list[Node] = list(mod.functions.values()) if isinstance(mod, IRModule) else [mod]
    found: dict[Place, list[Type]] = {}
    for root in roots:
        for node in collect(root, (Call, MatchCast)):
            if node.span is not None:
                found[node.span.line, node.span.column] = (
                    [node.target] if type(node) is MatchCast else list(node.ty_args)
                )
    return found
