"""Fresh names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

NAMESPACES = ("I", "T", "R")
_NOT_WORD = re.compile(r"\W")
_TRAILING = re.compile(r"^(.*?)_?(\d+)$")


class NameSupply:
    """Hands out names never handed out before: ``x``, ``x1``, ``x2``, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken: set[str] = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """``hint`` if free, else with the next number."""
        if hint not in self.taken:
            self.taken.add(hint)
            return hint
        match = _TRAILING.match(hint)
        stem = match.group(1) if match and match.group(1) else hint
        count = self._next.get(stem, 1)
        while f"{stem}{count}" in self.taken:
            count += 1
        self._next[stem] = count + 1
        name = f"{stem}{count}"
        self.taken.add(name)
        return name


def identifier(hint: str) -> str:
    """A Python name that resembles ``hint``: ``relu_1`` for ``relu-1``."""
    if hint.isidentifier():
        return hint
    word = _NOT_WORD.sub("_", hint) or "v"
    return word if word.isidentifier() else f"v{word}"


def is_function_name(text: str) -> bool:
    """True for what script can define and call: a Python name other than a keyword, a namespace and ``_``."""
    return text.isidentifier() and not keyword.iskeyword(text) and text not in (*NAMESPACES, "_")
