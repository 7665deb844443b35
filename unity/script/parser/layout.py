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


def error_at(token: Token, code: str, message: str, help: str | None = None, width: int | None = None) -> TextError:
    """The error of a token, or of its last ``width`` characters."""
    start = token.start_pos if width is None else (token.end_pos or 0) - width
    return TextError(code, message, start, token.end_pos, help)


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
                help = "pass large data as a constant of the enclosing scope"
                raise error_at(token, "E105", f"a statement of more than {MAX_STATEMENT_TOKENS} words", help)
            if kind in _OPENING:
                brackets.append(token)
                if len(brackets) > MAX_BRACKETS:
                    help = "bind parts of the expression to names"
                    raise error_at(token, "E105", f"more than {MAX_BRACKETS} brackets inside each other", help)
            elif kind in _CLOSING:
                if brackets and _OPENING[brackets[-1].type] != kind:
                    raise error_at(token, "E102", f"{token.value!r} does not close {brackets[-1].value!r}")
                if brackets:
                    brackets.pop()
            yield token
        if brackets:
            raise error_at(brackets[0], "E102", f"{brackets[0].value!r} is never closed")
        while len(self.indents) > 1:
            self.indents.pop()
            yield Token("_DEDENT", "")

    def _count_branch(self, token: Token) -> None:
        """Count a clause of the chains that are open here."""
        if token.type != "ELSE":
            self.branches[-1] = self.branches[-1] + 1 if token.type == "ELIF" else 0
        if token.type == "ELIF" and sum(self.branches) > MAX_BRANCHES:
            help = "write conditionals one after the other, or look a value up in a buffer"
            raise error_at(token, "E105", f"more than {MAX_BRANCHES} branches of conditionals inside each other", help)

    def _first(self, token: Token) -> Iterator[Token]:
        width = _width(token)
        if width:
            raise error_at(token, "E103", "unexpected indentation", width=width)
        return
        yield

    def _indent(self, token: Token) -> Iterator[Token]:
        width = _width(token)
        indents = self.indents
        if width > indents[-1]:
            if len(indents) > MAX_INDENTS:
                raise error_at(token, "E105", f"more than {MAX_INDENTS} levels of indentation", width=width)
            indents.append(width)
            self.branches.append(0)
            yield Token("_INDENT", token.value[-width:], token.start_pos, end_pos=token.end_pos)
            return
        while width < indents[-1]:
            indents.pop()
            self.branches.pop()
            yield Token("_DEDENT", "", token.start_pos, end_pos=token.end_pos)
        if width != indents[-1]:
            help = f"use {indents[-1]} columns, or {indents[-1] + 4} for a nested block"
            raise error_at(token, "E103", "this indentation matches no outer line", help, width)


def _width(token: Token) -> int:
    text = token.value
    line = text[text.rfind("\n") + 1 :]
    if line.startswith("#"):
        return 0
    if "\t" in line or "\f" in line:
        raise error_at(token, "E104", "tab in the indentation", "indent with spaces", len(line))
    return len(line)
