"""The table of primitives. One decorated function is a primitive: method, trace instruction and docs page come from its
row.

``@primitive(...)`` reads the row off the function: its name, parameters (annotated BlockRef, LoopRef, ItemRef, or plain
types), defaults and docstring. The first parameter is the state; it is not an argument of the method.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ....ir.types import Expr
from .sref import Sref

_F = TypeVar("_F", bound=Callable[..., Any])

Normalize = Callable[[Any, Any, dict[str, Any]], Any]
"""From (state, argument, all resolved arguments) to the value a trace records and the primitive takes."""

Accepts = Callable[[Any], bool]
"""True if a resolved argument is of the kind its annotation says."""

QUERY, SAMPLE, STEP = "query", "sample", "step"


@dataclass(slots=True, frozen=True)
class Row:
    """A primitive.

    ``kind``: a query changes nothing, a sample chooses (its ``decision`` argument is kept by the trace apart from the
    others), a step changes the program. ``normalize`` turns arguments into what is recorded (a Python function into an
    index map). ``checks`` name the conditions it refuses without; ``rewrite`` says what becomes of the program.
    ``unsafe`` marks a step that changes what the program computes on purpose. ``example`` is executed by the docs page.
    """

    name: str
    kind: str
    apply: Callable[..., Any]
    signature: inspect.Signature
    annotations: dict[str, str]
    returns: str
    doc: str
    checks: tuple[str, ...]
    rewrite: str
    unsafe: bool
    example: str
    family: str
    normalize: dict[str, Normalize]
    accepts: dict[str, Accepts]


@dataclass(slots=True, frozen=True)
class Sampled:
    """The result of a sampling primitive: its values and the decision that repeats them."""

    outputs: Any
    decision: Any


def accepts(annotation: str) -> Accepts:
    """The test an annotation stands for: references, plain types, lists of them, unions. Another name accepts anything:
    the primitive checks itself."""

    def test_of(at: ast.expr) -> Accepts:
        if isinstance(at, ast.BinOp):
            tests = [test_of(part) for part in (at.left, at.right)]
            return lambda value: any([test(value) for test in tests])
        name = ast.unparse(at.value if isinstance(at, ast.Subscript) else at)
        if isinstance(at, ast.Subscript) and name == "list":
            inner = test_of(at.slice)
            return lambda value: isinstance(value, (list, tuple)) and all([inner(item) for item in value])
        return _PLAIN.get(name, lambda value: True)

    return test_of(ast.parse(annotation, mode="eval").body)


def _is_int(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, Expr)


_PLAIN: dict[str, Accepts] = {
    "int": _is_int,
    "bool": lambda value: isinstance(value, (bool, int)) and value in (0, 1),
    "str": lambda value: isinstance(value, str),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "None": lambda value: value is None,
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, (list, tuple)),
    "BlockRef": lambda value: isinstance(value, Sref) and value.is_block,
    "LoopRef": lambda value: isinstance(value, Sref) and not value.is_block,
    "ItemRef": lambda value: isinstance(value, Sref),
}
KINDS = {
    "BlockRef": ("a block", "its name, or what sch.get_block(name) gives"),
    "LoopRef": ("a loop", "sch.get_loops(block) gives the loops around a block"),
    "ItemRef": ("a block or a loop", "sch.get_block(name) gives a block, sch.get_loops(block) the loops around it"),
}
"""The words for the references, and where a user gets them from."""

ROWS: dict[str, Row] = {}
"""Every primitive by name, in the order of the docs page."""


def primitive(
    *,
    kind: str = STEP,
    checks: tuple[str, ...] = (),
    rewrite: str = "",
    unsafe: bool = False,
    example: str = "",
    normalize: dict[str, Normalize] | None = None,
) -> Callable[[_F], _F]:
    """Register a function as a primitive (see Row). ``example`` is Python over ``sch``, a schedule of
    the program at the head of docs/schedule.md."""

    def register(apply: _F) -> _F:
        whole = inspect.signature(apply)
        parameters = list(whole.parameters.values())[1:]
        annotations = {p.name: str(p.annotation) for p in parameters}
        public = inspect.Signature(parameters)
        family = apply.__module__.rsplit(".", 1)[-1]
        ROWS[apply.__name__] = Row(
            apply.__name__, kind, apply, public, annotations, str(whole.return_annotation), inspect.getdoc(apply) or "", checks,
            rewrite, unsafe, example, family, normalize or {},
            {name: accepts(text) for name, text in annotations.items()},
        )  # fmt: skip
        return apply

    return register
