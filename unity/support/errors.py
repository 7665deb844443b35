"""Errors with codes: one class per kind, rendered with place, caret, notes and help.

Every code has a page ``support/error_docs/<code>.md`` (cause, example, fix); ``python -m unity explain E203`` shows it.
Ranges: E0xx options, command line and import of models, E1xx script, E2xx types, E3xx verifier and interpreter, E4xx schedules,
E5xx passes and code generation, E6xx running in the VM, E7xx foreign functions and tensors, E8xx saved files,
E9xx internal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Self

from .source import Span

MAX_MESSAGE = 4000
"""Characters of one message that are shown."""
MAX_SHOWN = 20
"""Errors of one text that are shown; ``errors`` holds more."""


@dataclass(slots=True, frozen=True)
class Note:
    """A second place or fact that helps to understand an error."""

    message: str
    span: Span | None = None


def render_place(span: Span) -> list[str]:
    """Lines ``--> file:line:col``, the source line, and a caret line under the span."""
    line, column = span.source.line_column(span.start)
    text = span.source.line_text(line)
    owner = f" in {span.source.owner}" if span.source.owner else ""
    lines = [f"  --> {span.source.name}:{line}:{column}{owner}"]
    if not text:
        return lines
    start = column - 1 - span.source.indent
    width = max(1, min(span.end - span.start, len(text) - start))
    shown, offset = text, start
    if len(text) > 160:  # a very long line: show a window around the place
        left = max(0, start - 60)
        shown = ("..." if left else "") + text[left : left + 140]
        offset = start - left + (3 if left else 0)
        shown += "..." if left + 140 < len(text) else ""
        width = min(width, len(shown) - offset)
    number = str(line)
    pad = "".join("\t" if c == "\t" else " " for c in shown[:offset])
    lines.append(f"{number} | {shown}")
    lines.append(f"{' ' * len(number)} | {pad}{'^' * max(1, width)}")
    return lines


def _shortened(text: str) -> str:
    """A message without the middle of an excessive one (a name of a million characters, say)."""
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 4 :]}"


@cache
def advice(code: str) -> str:
    """The first sentence of the fix on the page of a code, for errors that bring no help of their own; "" without a page."""
    page = resources.files(__package__) / "error_docs" / f"{code}.md"
    if not page.is_file():
        return ""
    fix = page.read_text(encoding="utf-8").partition("**Fix.** ")[2].partition("\n\n")[0].replace("\n", " ")
    ends = [m.start() for m in re.finditer(r"[.:](?=\s|$)", fix)]
    at = next((k for k in ends if fix.count("(", 0, k) == fix.count(")", 0, k)), None)
    if at is None:
        return ""
    text, end = fix[:at], fix[at]
    return f"{text[0].lower()}{text[1:]}" + (f" (python -m unity explain {code} shows how)" if end == ":" else "")


def suggest(name: object, known: Iterable[str]) -> str | None:
    """A sentence that names known names close to a misspelled one; the same word in another case comes first."""
    names = list(known)
    same = [text for text in names if text.lower() == str(name).lower()]
    close = list(dict.fromkeys([*same, *difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)]))[:3]
    return f"did you mean {', '.join(close)}?" if close else None


class UnityError(Exception):
    """Base of all errors of the package.

    Attributes: ``code`` ("E203"), ``message``, ``span`` (place in script or None), ``notes``, ``help``.
    ``str(error)`` is the whole rendered text.
    """

    def __init__(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        notes: Sequence[Note] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.span = span
        self.notes = list(notes)
        self.help = help

    def locate(self, span: Span | None) -> Self:
        """The error with a place, where it has none of its own."""
        self.span = self.span or span
        return self

    def render(self, advised: bool = True) -> str:
        """The error as text: header, place with caret, notes, help; without help what its page advises, where ``advised``."""
        lines = [f"error[{self.code}]: {_shortened(self.message)}"]
        if isinstance(self.span, Span):
            lines += render_place(self.span)
        for note in self.notes:
            lines.append(f"note: {_shortened(note.message)}")
            if isinstance(note.span, Span):
                lines += render_place(note.span)
        help = self.help or (advice(self.code) if advised else "")
        if help:
            lines.append(f"help: {_shortened(help)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[Any, ...]:
        """From one process to another: what was set, not what the class is made with."""
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[UnityError], args: tuple[Any, ...]) -> UnityError:
    return kind.__new__(kind, *args)


def render_all(errors: Sequence[UnityError]) -> str:
    """Several errors as text, the first ``MAX_SHOWN`` of them whole."""
    shown = errors[:MAX_SHOWN]
    first = {error.code: error for error in reversed(shown) if not error.help}
    lines = [error.render(advised=error is first.get(error.code)) for error in shown]
    more = f", {len(errors) - MAX_SHOWN} not shown" if len(errors) > MAX_SHOWN else ""
    return "\n".join([*lines, f"{len(errors)} errors{more}"])


class SeveralErrors(UnityError):
    """An error that stands for all that one reading found: ``errors`` holds every one, this one included."""

    def __init__(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        notes: Sequence[Note] = (),
        help: str | None = None,
        errors: Sequence[Self] = (),
    ) -> None:
        super().__init__(code, message, span, notes, help)
        self.errors: list[Self] = list(errors) or [self]

    def __str__(self) -> str:
        return self.render() if len(self.errors) <= 1 else render_all(self.errors)


class ScriptError(SeveralErrors):
    """Script text that is not a program, with every error of the text."""


class TypeRuleError(UnityError):
    """A call whose arguments do not fit the operator's type rule."""


class VerifyError(SeveralErrors):
    """A module that breaks a rule of the IR, with every violation found."""


class InterpreterError(UnityError):
    """The reference interpreter met an access out of bounds, a race, or another broken promise."""


class ScheduleError(UnityError):
    """A schedule primitive whose precondition does not hold."""


@contextmanager
def using(path: str | Path) -> Iterator[None]:
    """Turn what the system refuses, and bytes that are not text, into a ScheduleError E461."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError("E461", f"{path}: {error}", help="give another file") from error


class PassError(UnityError):
    """A pass that cannot go on with this module."""


class CodegenError(UnityError):
    """Code generation cannot express the program on the target."""


class VMError(UnityError):
    """Wrong arguments or a failure while a compiled module runs."""


class FFIError(UnityError):
    """A problem with a registered function or a foreign tensor."""


class DeviceError(FFIError):
    """A device that is not there, has no memory left, or is lost."""


class ArtifactError(UnityError):
    """A saved file that is damaged, too new, or not ours."""


class FrontendError(UnityError):
    """A model of another framework that cannot be imported, or is called with inputs it was not imported for."""


class OptionError(UnityError):
    """An option, command line or environment value that is not understood."""


class ArgumentError(UnityError, TypeError):
    """An argument of a public function that is not what the function takes."""


class DifferenceError(VerifyError, ValueError):
    """Programs that were to be equal differ."""


class PlaceError(ArgumentError, IndexError):
    """An index after the last field or element; Python's iteration ends there."""


class InternalError(UnityError):
    """A broken assertion of the compiler itself."""


class MissingExtraError(UnityError, ImportError):
    """An optional package is needed and not installed."""
