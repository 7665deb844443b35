"""Layout between lexer and parser: indentation tokens, line joining inside brackets, and the bounds on nesting.

Not here: grammar; the nesting of operators, conditions and calls (``script/reader/common/values.py``). Invariant: every failure is
a ``TextError`` with offsets, and no text opens more than ``MAX_BRACKETS`` brackets, ``MAX_INDENTS`` blocks or
``MAX_BRANCHES`` branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

MAX_BRACKETS = 200
MAX_INDENTS = 100
MAX_STATEMENT_TOKENS = 200_000
MAX_BRANCHES = 4_000
"""Clauses ``elif`` inside each other: each is a conditional in the one before, which every walk enters."""

_OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_CLOSING = frozenset(_OPENING.values())


class TextError(Exception):
    """An error of the text before there is a tree: code, message, offsets, help."""

    def __init__(self, code: str, message: str, start: int | None, end: int | None, help: str | None) -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help
        self.start, self.end = start or 0, end or 0


class Layout(PostLex):
    """Turns newlines into ``_NEWLINE``, ``_INDENT``, ``_DEDENT``; one object per parser, reset at each text.

    ``statement_start`` is the offset at which the current logical line begins; ``brackets`` are the open ones.
    """

    always_accept = ("_NEWLINE",)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the last text."""
        self.statement_start = 0
        self.brackets: list[Token] = []
        self.indents = [0]
        self.branches = [0]

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Generator of the tokens the parser sees."""
        self.reset()
        brackets = self.brackets
        count = 0
        fresh = True
        for token in stream:
            kind = token.type
            if kind == "_NEWLINE":
                if brackets:
                    continue
                count = 0
                fresh = True
                if token.start_pos == 0:
                    yield from self._first(token)
                    continue
                yield token
                yield from self._indent(token)
                continue
            if fresh:
                fresh = False
                self.statement_start = token.start_pos or 0
                self._count_branch(token)
            count += 1
            if count > MAX_STATEMENT_TOKENS:
                raise TextError(
                    "E105", f"a statement of more than {MAX_STATEMENT_TOKENS} words", token.start_pos, token.end_pos,
                    "pass large data as a constant of the enclosing scope",
                )  # fmt: skip
            if kind in _OPENING:
                brackets.append(token)
                if len(brackets) > MAX_BRACKETS:
                    raise TextError(
                        "E105", f"more than {MAX_BRACKETS} brackets inside each other", token.start_pos,
                        token.end_pos, "bind parts of the expression to names",
                    )  # fmt: skip
            elif kind in _CLOSING:
                if brackets and _OPENING[brackets[-1].type] != kind:
                    opened = brackets[-1]
                    raise TextError(
                        "E102", f"{token.value!r} does not close {opened.value!r}", token.start_pos, token.end_pos, None
                    )
                if brackets:
                    brackets.pop()
            yield token
        if brackets:
            opened = brackets[0]
            raise TextError("E102", f"{opened.value!r} is never closed", opened.start_pos, opened.end_pos, None)
        while len(self.indents) > 1:
            self.indents.pop()
            yield Token("_DEDENT", "")

    def _count_branch(self, token: Token) -> None:
        """Count a clause of the chains that are open here."""
        if token.type != "ELSE":
            self.branches[-1] = self.branches[-1] + 1 if token.type == "ELIF" else 0
        if token.type == "ELIF" and sum(self.branches) > MAX_BRANCHES:
            raise TextError(
                "E105", f"more than {MAX_BRANCHES} branches of conditionals inside each other", token.start_pos, token.end_pos,
                "write conditionals one after the other, or look a value up in a buffer",
            )  # fmt: skip

    def _first(self, token: Token) -> Iterator[Token]:
        width = _width(token)
        if width:
            raise TextError("E103", "unexpected indentation", (token.end_pos or 0) - width, token.end_pos, None)
        return
        yield

    def _indent(self, token: Token) -> Iterator[Token]:
        width = _width(token)
        indents = self.indents
        if width > indents[-1]:
            if len(indents) > MAX_INDENTS:
                raise TextError(
                    "E105",
                    f"more than {MAX_INDENTS} levels of indentation",
                    (token.end_pos or 0) - width,
                    token.end_pos,
                    None,
                )
            indents.append(width)
            self.branches.append(0)
            yield Token("_INDENT", token.value[-width:], token.start_pos, end_pos=token.end_pos)
            return
        while width < indents[-1]:
            indents.pop()
            self.branches.pop()
            yield Token("_DEDENT", "", token.start_pos, end_pos=token.end_pos)
        if width != indents[-1]:
            raise TextError(
                "E103", "this indentation matches no outer line", (token.end_pos or 0) - width, token.end_pos,
                f"use {indents[-1]} columns, or {indents[-1] + 4} for a nested block",
            )  # fmt: skip


def _width(token: Token) -> int:
    text = token.value
    line = text[text.rfind("\n") + 1 :]
    if line.startswith("#"):
        return 0
    if "\t" in line or "\f" in line:
        end = token.end_pos or 0
        raise TextError("E104", "tab in the indentation", end - len(line), end, "indent with spaces")
    return len(line)
