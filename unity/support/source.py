"""Source texts and spans. A span is two offsets into a source; line and column are computed only when shown."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Source:
    """A text with a name. ``first_line`` is the line number, in the file, of the text's first line (1-based);
    ``indent`` is the number of columns removed from each line before parsing; ``owner`` names the part of a model the text
    stands for (the path of a torch module), empty for script."""

    name: str
    text: str
    first_line: int = 1
    indent: int = 0
    owner: str = ""
    _starts: list[int] = field(default_factory=list, repr=False)

    def line_starts(self) -> list[int]:
        """Offsets at which each line begins."""
        if not self._starts:
            starts = [0]
            find = self.text.find
            position = find("\n")
            while position >= 0:
                starts.append(position + 1)
                position = find("\n", position + 1)
            self._starts = starts
        return self._starts

    def line_column(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) within the original file of a 0-based offset."""
        starts = self.line_starts()
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1 + self.indent

    def line_text(self, line: int) -> str:
        """Text of a line given by its number in the original file; empty when out of range."""
        starts = self.line_starts()
        index = line - self.first_line
        if not 0 <= index < len(starts):
            return ""
        end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        return self.text[starts[index] : end].rstrip("\r\n")


@dataclass(slots=True, eq=False)
class Span:
    """Half-open range ``[start, end)`` of character offsets in a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """1-based line of the first character."""
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        """1-based column of the first character."""
        return self.source.line_column(self.start)[1]

    @property
    def place(self) -> str:
        """Owner, file and line, as reports and comments show it: ``layers.0.norm (model.py:12)`` or ``model.py:12``."""
        where = f"{self.source.name}:{self.line}"
        return f"{self.source.owner} ({where})" if self.source.owner else where

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"
