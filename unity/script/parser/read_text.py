"""Text to concrete syntax: the cached parser, recovery after errors, and messages for what the parser met.

Not here: meaning. Invariant: after a syntax error the offending logical line is replaced by one ``Skipped`` statement of
the same length, so that offsets stay true and the rest of the text is still read; at most ``MAX_ERRORS`` are reported.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from types import SimpleNamespace

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ...support.errors import ScriptError
from ...support.forking import fork_lock
from ...support.source import Source, Span
from . import syntax as s
from .layout import Layout, TextError
from .quick import QuickParser
from .tables import parser_of
from .tree import RULES

MAX_ERRORS = 20
_WORK = 5_000_000
"""Characters read again after errors before recovery gives up: a huge text with many errors must not take minutes."""
_LOCK = fork_lock()
_SKIP = "\x01"

_NAMES = {
    "NAME": "a name", "NUMBER": "a number", "STRING": "a string", "LONG_STRING": "a string", "FSTRING": "a string",
    "_NEWLINE": "the end of the line", "_INDENT": "an indented block", "_DEDENT": "the end of the block",
    "$END": "the end of the text", "AUG_ASSIGN": "an augmented assignment",
}  # fmt: skip
_OPERATORS = frozenset((
    "OPERATOR", "MINUS", "PLUS", "STAR", "SLASH", "POWER", "AT", "AND", "OR", "IN", "IS",
))  # fmt: skip
_STARTERS = frozenset((
    "NAME", "NUMBER", "STRING", "LONG_STRING", "FSTRING", "LPAR", "LSQB", "LBRACE", "TRUE", "FALSE", "NONE", "ELLIPSIS",
    "MINUS", "PLUS", "TILDE", "NOT", "LAMBDA",
))  # fmt: skip
_STATEMENTS = frozenset((
    "FOR", "WHILE", "IF", "WITH", "DEF", "CLASS", "RETURN", "ASSERT", "PASS", "BREAK", "CONTINUE", "IMPORT", "FROM",
    "DEL", "RAISE", "GLOBAL", "NONLOCAL", "YIELD", "TRY", "ASYNC",
))  # fmt: skip
_SCAN = re.compile(
    r"#[^\n]*|\"\"\"(?:[^\\\"]|\\.|\"(?!\"\"))*\"\"\"|'''(?:[^\\']|\\.|'(?!''))*'''"
    r"|\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*'|[()\[\]{}\n]",
    re.S,
)


_WORD = re.compile(r"[^\W\d]\w*")
_NEXT_LINE = re.compile(r"(?:[ \t\f]*(?:#[^\n]*)?\r?\n)*+([ \t\f]*)([^\s#])")
_LEADING = re.compile(r"[ \t\f]+(?=[^ \t\f\r\n#])")
_INDENTATION = re.compile(r"^[ \t\f]*\t[ \t\f]*", re.M)


@cache
def grammar_parser() -> tuple[Lark, QuickParser, Layout]:
    """The parser of the grammar, its quick way, and what they read lines with. Made once in a process."""
    layout = Layout()
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    parser = parser_of(grammar, layout, SimpleNamespace(**RULES))
    return parser, QuickParser(parser, layout), layout


def read_tree(source: Source) -> tuple[s.File | None, list[ScriptError]]:
    """Concrete syntax of a source and the errors met. The tree is None when too many errors were met."""
    text = source.text
    bad = _control_character(source)
    if bad is not None:
        return None, [bad]
    if not text.endswith("\n"):
        text += "\n"
    errors: list[ScriptError] = []
    lost: set[str] = set()
    leading = _LEADING.match(text)
    if leading is not None:
        tab = "\t" in leading.group()
        message = "tab in the indentation" if tab else "unexpected indentation"
        errors.append(ScriptError("E104" if tab else "E103", message, Span(source, 0, leading.end())))
    with _LOCK:
        parser, quick, layout = grammar_parser()
        while True:
            try:
                tree = quick.parse(text) or parser.parse(text)
            except (UnexpectedInput, TextError) as problem:
                error = _message(problem, text, source)
                error, shorter = _recover(error, text, source, layout)
                errors.append(error)
                tired = len(errors) >= MAX_ERRORS or len(errors) * len(text) > _WORK
                if tired or shorter == text or error.code == "E105":
                    return None, errors
                lost.update(_removed_names(text, shorter))
                text = shorter
                continue
            assert isinstance(tree, s.File)
            tree.lost = frozenset(lost)
            return tree, errors


def _removed_names(text: str, shorter: str) -> list[str]:
    """Names of the lines that recovery took out."""
    pairs = zip(text.split("\n"), shorter.split("\n"))
    return _WORD.findall("\n".join([old for old, new in pairs if old != new]))


def _control_character(source: Source) -> ScriptError | None:
    for code in ("\x00", _SKIP):
        offset = source.text.find(code)
        if offset >= 0:
            return ScriptError("E101", f"control character {code!r} in the text", Span(source, offset, offset + 1))
    return None


def _recover(error: ScriptError, text: str, source: Source, layout: Layout) -> tuple[ScriptError, str]:
    """The error to report, and the text to go on with."""
    assert error.span is not None
    offset = min(error.span.start, len(text) - 1)
    if error.code == "E104":
        return error, _INDENTATION.sub(lambda match: " " * len(match.group()), text)
    if error.code == "E103" and not error.message.startswith("expected"):
        return error, _cut_indented(text, offset)
    begin = layout.statement_start
    if begin > offset or error.code == "E103":
        begin = _line_words(text, offset)
        if error.code == "E103":  # the header before this line has no block
            begin = _line_words(text, max(0, len(text[: text.rfind("\n", 0, begin) + 1].rstrip()) - 1))
    end, opened = _logical_end(text, begin)
    if opened is not None and error.span.start >= end - 1:
        close = {"(": ")", "[": "]", "{": "}"}[text[opened]]
        error = ScriptError(
            "E102", f"{text[opened]!r} is never closed", Span(source, opened, opened + 1), help=f"add {close!r}"
        )
    elif opened is None:
        end = max(end, text.find("\n", offset))
    return error, _cut(text, begin, end)


def _line_words(text: str, offset: int) -> int:
    """Offset of the first word of the line around ``offset``."""
    begin = text.rfind("\n", 0, offset) + 1
    while begin < len(text) and text[begin] in " \t\f":
        begin += 1
    return begin


def _cut_indented(text: str, offset: int) -> str:
    """The text without the lines, from the one at ``offset``, that are indented at least as deep as it."""
    lines = text.split("\n")
    index = text.count("\n", 0, offset)
    limit = len(lines[index]) - len(lines[index].lstrip())
    while index < len(lines):
        words = lines[index].lstrip()
        if words and len(lines[index]) - len(words) < limit:
            break
        lines[index] = " " * len(lines[index])
        index += 1
    return "\n".join(lines)


def _logical_end(text: str, begin: int) -> tuple[int, int | None]:
    """Offset of the newline that ends the logical line, and the bracket still open there if any."""
    line_start = text.rfind("\n", 0, begin) + 1
    indent = begin - line_start
    opened: list[int] = []
    for match in _SCAN.finditer(text, begin):
        found = match.group()
        if found == "\n":
            if not opened:
                return match.start(), None
            following = _NEXT_LINE.match(text, match.end())
            if following is None or (len(following.group(1)) <= indent and following.group(2) not in ")]}"):
                return match.start(), opened[0]
        elif found in "([{":
            opened.append(match.start())
        elif found in ")]}":
            if opened:
                opened.pop()
    return len(text), opened[0] if opened else None


def _cut(text: str, start: int, end: int) -> str:
    """The text with one logical line replaced by a skipped statement, offsets unchanged; its block is kept."""
    old = text[start:end].rstrip()
    if not old or (old[0] == _SKIP and not old[1:].strip(" :\n")):
        return text
    blank = _SKIP + "".join([char if char in "\r\n" else " " for char in old[1:]])
    indent = start - (text.rfind("\n", 0, start) + 1)
    following = _NEXT_LINE.match(text, end + 1)
    if following is not None and len(following.group(1)) > indent and len(old) > 1:
        blank = blank[:-1] + ":"
    return text[:start] + blank + text[start + len(old) :]


def _message(problem: UnexpectedInput | TextError, text: str, source: Source) -> ScriptError:
    if isinstance(problem, TextError):
        span = Span(source, problem.start, problem.end)
        return ScriptError(problem.code, problem.message, span, help=problem.help)
    if isinstance(problem, UnexpectedCharacters):
        offset = problem.pos_in_stream or 0
        char = text[offset]
        line_end = text.find("\n", offset)
        if char in "\"'":
            return ScriptError("E106", "this string is never closed", Span(source, offset, line_end))
        return ScriptError("E101", f"unexpected character {char!r}", Span(source, offset, offset + 1))
    assert isinstance(problem, UnexpectedToken)
    token = problem.token
    offset = token.start_pos if token.start_pos is not None else len(text) - 1
    finish = token.end_pos if token.end_pos is not None and token.end_pos > offset else offset + 1
    accepted = set(problem.accepts or problem.expected)
    if accepted == {"_INDENT"}:
        return ScriptError("E103", "expected an indented block", Span(source, offset, offset + 1))
    if token.type == "_INDENT":
        return ScriptError("E103", "unexpected indentation", Span(source, finish - len(token.value), finish))
    if token.type in ("_NEWLINE", "_DEDENT", "$END"):
        finish = offset + 1
    met = _NAMES[token.type].removeprefix("the ") if token.type in ("_NEWLINE", "_DEDENT", "$END") else repr(str(token))
    message = f"unexpected {met}" if len(met) < 60 else "unexpected text"
    wanted = expected_names(accepted)
    if wanted:
        message += ", expected " + " or ".join(wanted)
    return ScriptError("E101", message, Span(source, offset, finish))


def expected_names(terminals: set[str]) -> list[str]:
    """Readable names of terminals, in groups: ``an expression``, ``an operator``, ``a statement``, then the rest."""
    left = set(terminals)
    names: list[str] = []
    if left & _STATEMENTS >= {"FOR", "RETURN", "PASS"}:
        names.append("a statement")
        left -= _STATEMENTS | _STARTERS | {"AT", "STAR", "SKIPPED"}
    if left >= {"NAME", "NUMBER", "LPAR"}:
        names.append("an expression")
        left -= _STARTERS | {"STAR", "POWER"}
    if left >= {"OPERATOR", "AND"}:
        names.append("an operator")
        left -= _OPERATORS
        if "LPAR" in left and "DOT" in left:
            left -= {"LPAR", "DOT", "LSQB"}
    left -= {"SKIPPED"}
    for name in sorted(left):
        spelled = _NAMES.get(name)
        if spelled is None:
            pattern = grammar_parser()[0].get_terminal(name).pattern
            spelled = repr(pattern.value) if pattern.type == "str" else name.lower()
        if spelled not in names:
            names.append(spelled)
    return names
