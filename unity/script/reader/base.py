"""State that the readers of a text share: the errors collected, suggestions for misspelled names, argument binding.

Not here: any form of script. Invariant: an error in one statement is recorded and reading goes on with the next;
``Silent`` leaves a statement that depends on an error already recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...support.errors import Note, ScriptError, UnityError, suggest as suggest
from ...support.source import Source, Span
from ..parser import syntax as s
from .scope import Scope


class Silent(Exception):
    """A consequence of an error that is already recorded."""


class Reading:
    """One text being read: source, errors, outer scope."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.errors: list[ScriptError] = []
        self.lost: frozenset[str] = frozenset()
        """Names on the lines that could not be read: what is missing because of them is no second error."""

    def span(self, node: s.Syntax) -> Span:
        """Place of a syntax node."""
        return Span(self.source, node.start, node.end)

    def error(
        self, code: str, message: str, node: s.Syntax, help: str | None = None, notes: Sequence[Note] = ()
    ) -> ScriptError:
        """An error at a node, to be raised."""
        return ScriptError(code, message, Span(self.source, node.start, node.end), notes, help)

    def record(self, problem: UnityError, node: s.Syntax) -> None:
        """Keep an error met inside ``node``; errors of other rooms keep their code."""
        if isinstance(problem, ScriptError):
            if problem.span is None:
                problem.span = self.span(node)
            self.errors.append(problem)
            return
        span = problem.span or self.span(node)
        self.errors.append(ScriptError(problem.code, problem.message, span, problem.notes, problem.help))


def bind_arguments(
    reading: Reading, node: s.Call, name: str, fields: Sequence[str], args: Sequence[Any], keywords: dict[str, Any],
    required: int,
) -> dict[str, Any]:  # fmt: skip
    """Arguments by field name. Raises ScriptError E112 for too many, too few, or unknown ones."""
    if len(args) > len(fields):
        raise reading.error("E112", f"{name} takes at most {len(fields)} arguments, got {len(args)}", node)
    bound = dict(zip(fields, args))
    for key, value in keywords.items():
        if key in bound:
            raise reading.error("E112", f"{name} got {key!r} twice", node)
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise reading.error(
                "E112", f"{name} has no argument {key!r}", node, suggest(key, fields) or f"it has: {known}"
            )
        bound[key] = value
    for field in fields[:required]:
        if field not in bound:
            raise reading.error("E112", f"{name} needs the argument {field!r}", node)
    return bound
