"""PTX text as tokens, passed one after the other."""

from __future__ import annotations

import re

from ....support.errors import InterpreterError
from ....support.source import Source, Span

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<float>0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16})
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
      | (?P<word>[%.]?[A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*|[%.]\d+[\w$]*|_)
      | (?P<text>"[^"]*")
      | (?P<mark>[{}()\[\]<>;:,+\-|!@=*~])""",
    re.VERBOSE | re.DOTALL,
)


def refused(message: str, span: Span | None = None) -> InterpreterError:
    """The error of text that is not PTX of the kinds that are read."""
    return InterpreterError("E391", message, span)


class Tokens:
    """Tokens of a text, one after the other."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.starts: list[int] = []
        self.at = 0
        position, text = 0, source.text
        while position < len(text):
            found = TOKEN.match(text, position)
            if found is None:
                raise refused(f"{text[position]!r} is not PTX", Span(source, position, position + 1))
            if found.lastgroup != "skip":
                self.kinds.append(str(found.lastgroup))
                self.words.append(found[0])
                self.starts.append(position)
            position = found.end()
        self.kinds.append("end")
        self.words.append("")
        self.starts.append(len(text))

    # ---- tokens

    def peek(self, ahead: int = 0) -> str:
        """The next token, or a later one."""
        return self.words[min(self.at + ahead, len(self.words) - 1)]

    def take(self) -> str:
        """The next token, which is passed."""
        word = self.words[self.at]
        if self.kinds[self.at] == "end":
            raise refused("the text ends in the middle of a statement", self.span(self.at))
        self.at += 1
        return word

    def accept(self, word: str) -> bool:
        """Pass the next token if it is ``word``."""
        if self.words[self.at] != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        """Pass ``word``, which must come next."""
        if not self.accept(word):
            raise refused(f"{word!r} is wanted here, not {self.peek()!r}", self.span(self.at))

    def span(self, first: int, last: int | None = None) -> Span:
        """The text of tokens ``first`` to ``last``."""
        last = first if last is None else last
        return Span(self.source, self.starts[first], self.starts[last] + len(self.words[last]))

    def integer(self) -> int:
        """An integer constant."""
        negative = self.accept("-")
        first, word = self.at, self.take()
        if self.kinds[first] != "number":
            raise refused(f"an integer is wanted here, not {word!r}", self.span(first))
        value = (
            int(word.rstrip("U"), 0)
            if len(word) > 1 and word[1] in "xXbB"
            else int(word.rstrip("U"), 8 if octal(word) else 10)
        )
        return -value if negative else value

    def integers(self) -> tuple[int, ...]:
        """Integers separated by commas."""
        found = [self.integer()]
        while self.accept(","):
            found.append(self.integer())
        return tuple(found)

    def skip_line(self) -> None:
        """Pass the rest of a directive that ends with its line."""
        line = self.source.line_column(self.starts[self.at - 1])[0]
        while self.kinds[self.at] != "end" and self.source.line_column(self.starts[self.at])[0] == line:
            self.at += 1


def octal(word: str) -> bool:
    """True if the decimal-looking word is an octal number."""
    return len(word) > 1 and word[0] == "0" and word.rstrip("U").isdigit()
