"""Comments of the text that a program was read from, written above the statements they stand at, or at the end of their block.

The place of a node is enough: its text holds the comment lines above it, the comment behind it, and those that end its block, which
are indented as the block is. Invariant: a comment is written once, at the first statement that comes from its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...ir.expr import VarBinding
from ...ir.stmt import SeqStmt
from ...support.source import Source

_HEADER = re.compile(r":\s*(#[^\"']*)?$")
_AFTER = re.compile(r"[ \t),\]]*(#[^\n]*)")
_IMPORTS = "# from tvm.script import"


@dataclass(slots=True)
class Comments:
    """The comments written so far, and where the statements written last come from."""

    written: set[tuple[int, int]] = field(default_factory=set)
    blocks: dict[int, tuple[Source, int]] = field(default_factory=dict)
    """Level of indentation in print -> the text that its first statement comes from, and the column it begins at there."""
    last: tuple[Source, int] | None = None
    """The line where the last statement ends."""


def comments(p: Any, node: Any) -> None:
    """Write the comments at a node on lines of their own, where they are asked for."""
    kept = p.comments
    span = None if kept is None or type(node) is SeqStmt else getattr(node, "span", None)
    if span is None:
        return
    source, first = span.source, span.line
    found: list[tuple[int, str]] = []
    line = first - 1
    while line >= source.first_line:
        text = source.line_text(line).strip()
        if text and text[0] not in "#@" and text != "with R.dataflow():":
            break
        found.append((line, text))
        line -= 1
    found.reverse()
    header = _HEADER.search(source.line_text(first))
    value = getattr(node.value, "span", None) if isinstance(node, VarBinding) else None
    end = max(span.end, value.end) if value is not None and value.source is source else span.end
    behind = header or _AFTER.match(source.text, end)
    found.append((first, behind.group(1) if behind is not None and behind.group(1) else ""))
    for place, text in found:
        _write(p, source, place, text)
    kept.blocks.setdefault(p.indent, (source, _column(source.line_text(first))))
    kept.last = (source, source.line_column(max(end - 1, span.start))[0])


def comments_at_end(p: Any) -> None:
    """Write the comments that stand below the last statement of the block being written."""
    kept = p.comments
    if kept is None or p.indent not in kept.blocks:
        return
    source, column = kept.blocks.pop(p.indent)
    first = kept.last[1] + 1 if kept.last[0] is source else source.first_line + len(source.line_starts())
    for line in range(first, source.first_line + len(source.line_starts())):
        whole = source.line_text(line)
        text = whole.strip()
        inside = _column(whole) >= column
        if text and text[0] != "#" and not inside:
            return
        if inside:
            _write(p, source, line, text)


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _write(p: Any, source: Source, line: int, text: str) -> None:
    if text.startswith("#") and not text.startswith(_IMPORTS) and (id(source), line) not in p.comments.written:
        p.comments.written.add((id(source), line))
        p.line(text)
