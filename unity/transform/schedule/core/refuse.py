"""Refusals: a primitive whose precondition does not hold, with the picture of the loop nest.

Not here: the checks. A primitive calls ``refuse(...)``; the schedule adds the name of the primitive and draws the
picture, and the module stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ....ir.expr import Var
from ....ir.node import Node
from ....script.printer.show import script
from ....support.errors import Note, ScheduleError
from .sref import Sref


@dataclass(slots=True, frozen=True)
class Conflict:
    """Iterations that meet in one cell: ``values`` of the second, and the sentence that says it."""

    values: dict[Var, int]
    words: str


LEVELS = ("detail", "fast", "none")
"""Levels of detail of a refusal: "detail" draws the loop nest, "fast" leaves it out, "none" gives code and message alone."""
CONTEXT = 12


class Refused(ScheduleError):
    """A primitive that does not apply.

    Attributes: ``primitive`` its name, ``condition`` the failed condition by name ("complete block"), ``marks`` the loops and
    blocks at fault, ``counterexample`` values of iterators that show it (None where there is none).
    """

    def __init__(
        self,
        code: str,
        message: str,
        condition: str,
        marks: Sequence[Sref | Node],
        nearest: str | None,
        clash: Conflict | None,
    ) -> None:
        super().__init__(code, message, help=nearest)
        self.primitive = ""
        self.condition = condition
        self.marks = tuple(marks)
        nodes = [mark.node if isinstance(mark, Sref) else mark for mark in marks]
        self.locate(next((span for node in nodes if (span := getattr(node, "span", None)) is not None), None))
        self.counterexample = clash and {var.name: value for var, value in clash.values.items()}
        self.why = clash.words if clash is not None else ""

    def finish(self, primitive: str, function: Any, level: str) -> None:
        """Add what only the schedule knows: the name of the primitive and the picture (``function`` maps a name to its
        program)."""
        self.primitive = primitive
        if level == "none":
            self.help = None
            return
        self.message = f"{primitive}: {self.message}"
        self.notes.append(Note(f"condition: {self.condition}"))
        if self.why:
            self.notes.append(Note(f"counter-example: {self.why}"))
        if level == "detail" and self.marks:
            self.notes.append(Note("here:\n" + picture(function, self.marks, self.condition)))


def refuse(
    code: str,
    message: str,
    condition: str,
    at: Sref | Node | Sequence[Sref | Node] = (),
    nearest: str | None = None,
    clash: Conflict | None = None,
) -> NoReturn:
    """Refuse a step.

    ``condition`` names what does not hold; ``at`` are the loops and blocks (or any nodes of the function) to mark; ``nearest`` is
    the nearest legal step; ``clash`` are iterations that show it.
    """
    marks = [at] if isinstance(at, (Sref, Node)) else at
    raise Refused(code, plain(message), condition, marks, nearest and plain(nearest), clash)


def plain(text: str) -> str:
    """A message with integers written without their type."""
    return re.sub(r"T\.u?int\d+\((-?\d+)\)", r"\1", text)


def picture(function: Any, marks: Sequence[Sref | Node], note: str = "") -> str:
    """The function as script around the marked loops and blocks, each underlined."""
    nodes: list[Node] = []
    func = None
    for mark in marks:
        if isinstance(mark, Sref):
            func = func or mark.func
            if mark.node is not None:
                nodes.append(mark.node)
        else:
            nodes.append(mark)
    if func is None or not nodes:
        return ""
    return script(function(func), underline=nodes, note=note, context=CONTEXT)
