"""The quick way from text to concrete syntax: the loop of an LALR parser over lark's own tables, for texts without errors.

One expression finds every word, where lark has one for each set of words that may come next; a word that may not come next, or none
at all, ends the attempt, and lark reads the text again to say what is wrong. Invariant: what is read here is what lark reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from lark import Lark, Token
from lark.parse_tree_builder import ExpandSingleChild
from lark.parsers.lalr_analysis import Shift

from .layout import Layout, TextError

_Make = Callable[[list[Any]], Any] | None
_Row = dict[str, Any]
"""Actions by word or rule: the next state, or a reduction."""


class QuickParser:
    """Lark's tables in the form that the loop wants: a row of actions by state. To shift is the next state; to reduce is how many
    parts a rule takes, what makes its node of them (None: its only part is the node), and the name of the rule."""

    def __init__(self, parser: Lark, layout: Layout) -> None:
        self.layout = layout
        inner: Any = parser.parser.parser
        lexer: Any = parser.parser.lexer.lexer.root_lexer
        table = inner._parse_table
        self.start, self.end = table.start_states["start"], table.end_states["start"]
        callbacks = inner.parser.callbacks
        self.rows: dict[int, _Row] = {
            state: {
                name: to if action is Shift else _reduction(to, callbacks[to]) for name, (action, to) in row.items()
            }
            for state, row in table.states.items()
        }
        fixed = {t.pattern.value: t.name for t in lexer.terminals if t.pattern.type == "str"}
        self.keywords = {text: name for text, name in fixed.items() if text.isidentifier()}
        ways = {t.name: t.pattern.to_regexp() for t in lexer.terminals if t.name not in self.keywords.values()}
        blank = "|".join([ways.pop(name) for name in lexer.ignore_types])
        words = "|".join([f"(?P<{name}>{way})" for name, way in ways.items()])
        self.match = re.compile(f"(?:{blank})*+(?:{words})").match  # possessive: blanks are parted in one way only

    def words(self, text: str, states: list[int]) -> Iterator[Token]:
        """The words of a text as tokens, for the state that the parser is in when it asks for one."""
        match, keywords, rows, new = self.match, self.keywords, self.rows, str.__new__
        position, end = 0, len(text)
        while position < end:
            found = match(text, position)
            if found is None:
                raise KeyError(position)
            kind = found.lastgroup
            start, position = found.span(kind)  # type: ignore[arg-type]
            word = text[start:position]
            if kind == "NAME" and word in keywords and keywords[word] in rows[states[-1]]:
                kind = keywords[word]
            token = new(Token, word)
            token.type, token.value, token.start_pos, token.end_pos = kind, word, start, position  # type: ignore[assignment]
            yield token

    def parse(self, text: str) -> Any:
        """The tree of a text; None where lark should say what is wrong with it."""
        rows, states = self.rows, [self.start]
        values: list[Any] = []
        try:
            for token in chain(self.layout.process(self.words(text, states)), [Token("$END", "")]):
                kind = token.type
                action = rows[states[-1]][kind]
                while type(action) is tuple:
                    count, make, name = action
                    if make is None:
                        states.pop()
                    elif count:
                        parts = values[-count:]
                        del states[-count:], values[-count:]
                        values.append(make(parts))
                    else:
                        values.append(make([]))
                    state: Any = rows[states[-1]][name]
                    if state == self.end:
                        return values[-1]
                    states.append(state)
                    action = rows[state][kind]
                states.append(action)
                values.append(token)
        except (KeyError, TextError):
            pass
        return None


def _reduction(rule: Any, make: Any) -> tuple[int, _Make, str]:
    alone = len(rule.expansion) == 1 and type(make) is ExpandSingleChild
    return len(rule.expansion), None if alone else make, rule.origin.name
