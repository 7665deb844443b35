"""Colours for script: ANSI escapes for a terminal, HTML for a notebook.

A small tokeniser of its own, so nothing beyond the standard library is needed. Invariant: removing the colours gives the
text back unchanged.
"""

from __future__ import annotations

import html
import keyword
import os
import re
from typing import TextIO

_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<decorator>@[A-Za-z_][\w.]*)"
    r"|(?P<mark>\^{2,}[^\n]*)"
    r"|(?P<number>\b(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)\b)"
    r"|(?P<construct>\b[ITR]\.[A-Za-z_][\w.]*)"
    r"|(?P<word>[A-Za-z_]\w*)"
)
_ANSI = {
    "comment": "\x1b[90m", "string": "\x1b[32m", "decorator": "\x1b[35m", "mark": "\x1b[31;1m", "number": "\x1b[33m",
    "construct": "\x1b[36m", "keyword": "\x1b[34;1m",
}  # fmt: skip
_RESET = "\x1b[0m"
_CSS = {
    "comment": "color:#6a737d", "string": "color:#22863a", "decorator": "color:#6f42c1", "mark": "color:#d73a49;font-weight:bold",
    "number": "color:#b08800", "construct": "color:#005cc5", "keyword": "color:#d73a49",
}  # fmt: skip
_KEYWORDS = frozenset(keyword.kwlist)


def tokens(text: str) -> list[tuple[str, str]]:
    """(kind, piece) pairs that join to ``text``; kind is empty for plain text."""
    found: list[tuple[str, str]] = []
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() > position:
            found.append(("", text[position : match.start()]))
        kind = match.lastgroup or ""
        piece = match.group()
        if kind == "word":
            kind = "keyword" if piece in _KEYWORDS else ""
        found.append((kind, piece))
        position = match.end()
    if position < len(text):
        found.append(("", text[position:]))
    return found


def ansi(text: str) -> str:
    """Text with terminal colours."""
    return "".join([f"{_ANSI[kind]}{piece}{_RESET}" if kind else piece for kind, piece in tokens(text)])


def html_block(text: str) -> str:
    """Text as one ``<pre>`` element with inline styles."""
    parts = [
        f'<span style="{_CSS[kind]}">{html.escape(piece)}</span>' if kind else html.escape(piece)
        for kind, piece in tokens(text)
    ]
    return f'<pre style="line-height:1.3">{"".join(parts)}</pre>'


def wants_color(stream: TextIO) -> bool:
    """True for a terminal, unless ``NO_COLOR`` is set or the terminal is dumb."""
    if os.environ.get("NO_COLOR"):
        return False
    return stream.isatty() and os.environ.get("TERM") != "dumb"
