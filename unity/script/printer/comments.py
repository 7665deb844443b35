"""Comments of the text that a program was read from, written above the statements they stand at, or at the end of their block.

The place of a node is enough: its text holds the comments between it and the statement before, the one behind it, and those that
end its block, which are indented as the block is. Invariant: a comment is written once, in the order of the text.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import Any

from ...ir.expr import VarBinding
from ...ir.stmt import SeqStmt
from ...support.source import Source

_HEADER = re.compile(r":\s*(#[^\"']*)?$")
_IMPORTS = "# from tvm.script import"


@dataclass(slots=True)
class Comments:
    """The comments written so far, and where the statements written last come from."""

    written: set[tuple[int, int]] = field(default_factory=set)
    tables: dict[int, dict[int, str]] = field(default_factory=dict)
    """Text -> its comments by line."""
    reached: dict[int, int] = field(default_factory=dict)
    """Text -> the line up to which its comments are written."""
    blocks: dict[int, tuple[Source, int]] = field(default_factory=dict)
    """Level of indentation in print -> the text that its first statement comes from, and the column it begins at there."""
    last: tuple[Source, int] | None = None
    """The line where the last statement ends."""


def comments(p: Any, node: Any) -> None:
    """Write the comments up to a node on lines of their own, where they are asked for."""
    state = p.comments
    span = None if state is None or type(node) is SeqStmt else getattr(node, "span", None)
    if span is None:
        return
    source, first = span.source, span.line
    if id(source) not in state.reached:  # a function that stands alone: the comments above it
        line = first - 1
        while line >= source.first_line and source.line_text(line).strip()[:1] in ("", "#", "@"):
            line -= 1
        state.reached[id(source)] = line
    value = getattr(node.value, "span", None) if isinstance(node, VarBinding) else None
    end = max(span.end, value.end) if value is not None and value.source is source else span.end
    last = source.line_column(max(end - 1, span.start))[0]
    whole = _HEADER.search(source.line_text(first)) or hasattr(node, "body") or hasattr(node, "then_case")
    _write_up_to(p, source, first if whole else last)
    state.blocks.setdefault(p.indent, (source, _column(source.line_text(first))))
    state.last = (source, last)


def comments_above(p: Any, source: Source | None) -> None:
    """Write the comments above a module's class."""
    if p.comments is not None and source is not None:
        lines = range(source.first_line, source.first_line + len(source.line_starts()))
        p.comments.reached[id(source)] = source.first_line - 1
        _write_up_to(
            p, source, next((n for n in lines if source.line_text(n).startswith("class ")), source.first_line - 1)
        )


def comments_below(p: Any, source: Source | None) -> None:
    """Write the comments after a module's end."""
    if p.comments is not None and source is not None:
        _write_up_to(p, source, source.first_line + len(source.line_starts()) - 1)


def comments_at_end(p: Any) -> None:
    """Write the comments that stand below the last statement of the block being written."""
    state = p.comments
    if state is None or p.indent not in state.blocks:
        return
    source, column = state.blocks.pop(p.indent)
    first = state.last[1] + 1 if state.last[0] is source else source.first_line + len(source.line_starts())
    found: list[tuple[int, str, int]] = []
    for line in range(first, source.first_line + len(source.line_starts())):
        whole = source.line_text(line)
        text, at = whole.strip(), _column(whole)
        if text.startswith(("@", "def ", "class ")):  # the next function, whose comments stand above it
            found = [row for row in found if row[2] > at]
            break
        if text and text[0] != "#" and at < column:
            break
        if at >= column:
            found.append((line, text, at))
    for line, text, _ in found:
        _write(p, source, line, text)


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _write_up_to(p: Any, source: Source, last: int) -> None:
    """Write the comments of a text up to a line that are not written yet."""
    state = p.comments
    table = state.tables.get(id(source))
    if table is None:
        table = state.tables[id(source)] = _comments_of(source)
    for line, text in table.items():
        if state.reached[id(source)] < line <= last:
            _write(p, source, line, text)
    state.reached[id(source)] = max(state.reached[id(source)], last)


def _comments_of(source: Source) -> dict[int, str]:
    """The comments of a text by line, as Python's own lexer sees them."""
    found: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                found[source.first_line + token.start[0] - 1] = token.string
    except (tokenize.TokenError, SyntaxError):  # what follows is not Python
        pass
    return found


def _write(p: Any, source: Source, line: int, text: str) -> None:
    if text.startswith("#") and not text.startswith(_IMPORTS) and (id(source), line) not in p.comments.written:
        p.comments.written.add((id(source), line))
        p.line(text)
