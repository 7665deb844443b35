"""Script inside an arbitrary Python file: which definitions are script, and what the file calls the namespaces.

Not here: changes to the text. Invariant: nothing is executed or imported; the rest of the file is looked at as logical
lines only, so that it may hold any Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..support.errors import ScriptError
from ..support.source import Source, Span
from .parser import syntax as s
from .parser.read_text import read_tree
from .reader.common.scope import canonical_path
from .spelling.spelling import MODULE_ALIASES

_TOKEN = re.compile(
    r"#[^\n]*|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\\\r?\n|[()\[\]{}\n]",
    re.S,
)
_DECORATOR = re.compile(r"@\s*(\w+(?:\s*\.\s*\w+)*)")
_DEFINITION = re.compile(r"(?:class|def)\b")
_SCRIPT = frozenset(("I.ir_module", "T.prim_func", "R.function", "T.macro", "T.inline", "R.macro"))
_ROOTS = frozenset(name.partition(".")[0] for name in MODULE_ALIASES)
_PREFIX = "if 1:\n"


@dataclass(slots=True, frozen=True)
class Line:
    """A logical line: ``text[begin:end]`` from the start of its first line, ``first`` the offset of its first word."""

    begin: int
    first: int
    end: int

    @property
    def indent(self) -> int:
        """Columns before the first word."""
        return self.first - self.begin


@dataclass(slots=True, frozen=True)
class Definition:
    """A decorated class or function: its decorators begin at ``begin``, its body ends at ``end``."""

    begin: int
    end: int
    indent: int


def logical_lines(text: str) -> list[Line]:
    """Logical lines of Python text, without the blank ones and comments."""
    lines: list[Line] = []
    begin = depth = 0
    for match in [*_TOKEN.finditer(text), None]:
        found = "\n" if match is None else match.group()
        if found in ("(", "[", "{"):
            depth += 1
        elif found in (")", "]", "}"):
            depth = max(0, depth - 1)
        elif found == "\n" and (depth == 0 or match is None):
            end = len(text) if match is None else match.start()
            words = text[begin:end].lstrip(" \t\f\r\n")
            if words and not words.startswith("#"):
                lines.append(Line(begin, end - len(words), end))
            begin = end + 1
    return lines


def namespaces(text: str, lines: list[Line]) -> dict[str, str]:
    """The meaning of the file's names: ``{"T": "T", "tvm": "tvm", ...}``; the empty text for names imported from elsewhere."""
    found = {name: name for name in _ROOTS}
    for line in lines:
        words = text[line.first : line.end]
        if not words.startswith(("import ", "from ")):
            continue
        tree, errors = read_tree(Source("<import>", words + "\n"))
        for statement in tree.body if tree is not None and not errors else ():
            for module, name, bound in statement.names if isinstance(statement, s.Import) else ():
                full = (f"{module}.{name}" if name else module).replace(".parser.", ".")
                if not name and bound == module.partition(".")[0]:
                    full = bound  # ``import tvm.script`` binds ``tvm``
                if full in MODULE_ALIASES or canonical_path(full) != full:
                    found[bound] = full
                else:
                    found[bound] = ""
    return found


def dotted(node: s.Syntax) -> str | None:
    """``a.b.c`` of nested attributes of a name, else None."""
    names: list[str] = []
    while type(node) is s.Attribute:
        names.append(node.name)
        node = node.value
    if type(node) is not s.Name:
        return None
    return ".".join(reversed([*names, node.name]))


def script_path(text: str | None, names: Mapping[str, str]) -> str | None:
    """``T.block`` of a dotted name as the file writes it; None when it is not a name of script."""
    if text is None:
        return None
    root, dot, rest = text.partition(".")
    full = names.get(root)
    if not full:
        return None
    path = canonical_path(full + dot + rest)
    return path if path[:2] in ("T.", "R.", "I.") else None


def definitions(text: str, lines: list[Line], names: Mapping[str, str]) -> list[Definition]:
    """Decorated definitions that are script, outermost only."""
    found: list[Definition] = []
    position = 0
    while position < len(lines):
        start, script = position, False
        while (
            position < len(lines)
            and text[lines[position].first] == "@"
            and lines[position].indent == lines[start].indent
        ):
            match = _DECORATOR.match(text, lines[position].first)
            written = re.sub(r"\s", "", match.group(1)) if match is not None else None
            script = script or script_path(written, names) in _SCRIPT
            position += 1
        if (
            position == start
            or position == len(lines)
            or not script
            or not _DEFINITION.match(text, lines[position].first)
        ):
            position = max(position, start + 1)
            continue
        last = position
        while last + 1 < len(lines) and lines[last + 1].indent > lines[start].indent:
            last += 1
        found.append(Definition(lines[start].begin, lines[last].end, lines[start].indent))
        position = last + 1
    return found


def tree_of(definition: Definition, source: Source) -> tuple[s.Syntax, int]:
    """Concrete syntax of a definition, and what to add to its offsets. Raises ScriptError for text that cannot be read."""
    prefix = _PREFIX if definition.indent else ""
    base = definition.begin - len(prefix)
    inner = Source(source.name, prefix + source.text[definition.begin : definition.end] + "\n")
    tree, errors = read_tree(inner)
    moved = [_relocate(error, source, base) for error in errors]
    if tree is None or moved:
        first = moved[0]
        raise ScriptError(first.code, first.message, first.span, first.notes, first.help, errors=moved)
    return tree, base


def _relocate(error: ScriptError, source: Source, base: int) -> ScriptError:
    """The error with its place in the whole file."""
    assert error.span is not None
    span = Span(source, max(0, error.span.start + base), max(1, error.span.end + base))
    return ScriptError(error.code, error.message, span, error.notes, error.help)


def dedented_source(definition: Definition, source: Source) -> Source:
    """The definition alone, without the indentation it stands in; its places are those of the file."""
    lines = source.text[definition.begin : definition.end].split("\n")
    indent = definition.indent
    text = "\n".join([line[indent:] if not line[:indent].strip() else line for line in lines])
    return Source(source.name, text + "\n", source.line_column(definition.begin)[0], indent)
