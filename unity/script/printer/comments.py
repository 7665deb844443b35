"""Comments of the text that a program was read from, written above the statements they stand at.

What a node's place says is enough: its text holds the comment lines above it and the comment behind it. Invariant: a comment is
written once, above the first statement that comes from its line.
"""

from __future__ import annotations

import re
from typing import Any

from ...ir.expr import VarBinding
from ...ir.stmt import SeqStmt

_HEADER = re.compile(r":\s*(#[^\"']*)?$")
_AFTER = re.compile(r"[ \t),\]]*(#[^\n]*)")
_IMPORTS = "# from tvm.script import"


def comments(p: Any, node: Any) -> None:
    """Write the comments at a node on lines of their own, where they are asked for."""
    span = None if p.comments is None or type(node) is SeqStmt else getattr(node, "span", None)
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
        if text.startswith("#") and not text.startswith(_IMPORTS) and (id(source), place) not in p.comments:
            p.comments.add((id(source), place))
            p.line(text)
