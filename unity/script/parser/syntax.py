"""Concrete syntax: small slotted nodes, one per form of the Python subset that script is written in.

Here: data with ``start`` and ``end`` offsets into the text, and walks over it. Not here: meaning; names are plain strings and
nothing is looked up. Invariants: a node never refers to a parser object, so a tree outlives the parse that made it; a walk lists
the functions inside a definition and does not enter them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, dataclass_transform


@dataclass_transform(eq_default=False)
class _Kind(type):
    """The class of the kinds of syntax: each is a dataclass with slots, compared by identity."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        made: type = super().__new__(cls, name, bases, body | {"__slots__": tuple(body.get("__annotations__", ()))})
        return dataclass(eq=False)(made)


class Syntax(metaclass=_Kind):
    """Base of all nodes; ``text[start:end]`` is what was written."""

    start: int
    end: int


# -------------------------------------------------------------------------------------------------------- expressions


class Name(Syntax):
    """A plain name."""

    name: str


class Attribute(Syntax):
    """``value.name``."""

    value: Syntax
    name: str


class Keyword(Syntax):
    """``name=value`` in a call; ``name`` is None for ``**value``."""

    name: str | None
    value: Syntax


class Call(Syntax):
    """``func(args, keywords)``."""

    func: Syntax
    args: list[Syntax]
    keywords: list[Keyword]


class Subscript(Syntax):
    """``value[items]``."""

    value: Syntax
    items: list[Syntax]


class Slice(Syntax):
    """``lower:upper:step`` inside a subscript."""

    lower: Syntax | None
    upper: Syntax | None
    step: Syntax | None


class BinOp(Syntax):
    """``left op right`` for arithmetic, bit and boolean operators (see ``spelling.INFIX``)."""

    op: str
    left: Syntax
    right: Syntax


class Compare(Syntax):
    """``first op0 rest0 op1 rest1 ...``."""

    first: Syntax
    ops: list[str]
    rest: list[Syntax]


class Unary(Syntax):
    """``-x``, ``+x``, ``~x``, ``not x``."""

    op: str
    value: Syntax


class IfExp(Syntax):
    """``then if condition else otherwise``."""

    condition: Syntax
    then: Syntax
    otherwise: Syntax


class Lambda(Syntax):
    """``lambda params: body``."""

    params: list[Parameter]
    body: Syntax


class TupleLit(Syntax):
    """``(a, b)`` or bare ``a, b``."""

    items: list[Syntax]


class ListLit(Syntax):
    """``[a, b]``."""

    items: list[Syntax]


class DictLit(Syntax):
    """``{k: v}``; a key is None for ``**v``."""

    keys: list[Syntax | None]
    values: list[Syntax]


class Number(Syntax):
    """An integer or float literal."""

    value: int | float


class String(Syntax):
    """A string literal, adjacent ones joined."""

    value: str


class Literal(Syntax):
    """``True``, ``False``, ``None`` or ``...``."""

    value: object


class Starred(Syntax):
    """``*value``."""

    value: Syntax


class ListComp(Syntax):
    """``[item for target in source if conditions]``, also the generator form."""

    item: Syntax
    target: Syntax
    source: Syntax
    conditions: list[Syntax]


class Refused(Syntax):
    """A form of Python that script does not have; ``kind`` names it (``walrus``, ``f-string``, ``try``, ...)."""

    kind: str


# --------------------------------------------------------------------------------------------------------- statements


class Assign(Syntax):
    """``target = value``; more than one target for a chain ``a = b = value``."""

    targets: list[Syntax]
    value: Syntax


class AnnAssign(Syntax):
    """``target: annotation = value``, the value may be absent."""

    target: Syntax
    annotation: Syntax
    value: Syntax | None


class AugAssign(Syntax):
    """``target op= value``; ``op`` without the equal sign."""

    target: Syntax
    op: str
    value: Syntax


class ExprStmt(Syntax):
    """An expression as a statement."""

    value: Syntax


class For(Syntax):
    """``for target in source: body``."""

    target: Syntax
    source: Syntax
    body: list[Syntax]


class While(Syntax):
    """``while condition: body``."""

    condition: Syntax
    body: list[Syntax]


class If(Syntax):
    """``if``/``elif`` clauses in order and the ``else`` body (None when absent)."""

    clauses: list[tuple[Syntax, list[Syntax]]]
    otherwise: list[Syntax] | None


class WithItem(Syntax):
    """``value as target``."""

    value: Syntax
    target: Syntax | None


class With(Syntax):
    """``with items: body``."""

    items: list[WithItem]
    body: list[Syntax]


class Return(Syntax):
    """``return value``."""

    value: Syntax | None


class Assert(Syntax):
    """``assert condition, message``."""

    condition: Syntax
    message: Syntax | None


class Pass(Syntax):
    """``pass``."""


class Break(Syntax):
    """``break``."""


class Continue(Syntax):
    """``continue``."""


class Parameter(Syntax):
    """A parameter; ``star`` is ``""``, ``"*"``, ``"**"`` or ``"/"``."""

    name: str
    annotation: Syntax | None
    default: Syntax | None
    star: str


class TypeParameter(Syntax):
    """``name: bound`` in ``def f[name: bound](...)``."""

    name: str
    bound: Syntax | None


class FunctionDef(Syntax):
    """A function with its decorators."""

    name: str
    decorators: list[Syntax]
    type_params: list[TypeParameter]
    params: list[Parameter]
    returns: Syntax | None
    body: list[Syntax]


class ClassDef(Syntax):
    """A class with its decorators."""

    name: str
    decorators: list[Syntax]
    bases: list[Syntax]
    body: list[Syntax]


class Import(Syntax):
    """``import a.b as c`` and ``from a.b import c as d``: triples (module, name or "", bound name)."""

    names: list[tuple[str, str, str]]


class Skipped(Syntax):
    """Stands where a statement with a syntax error was; the error is already reported."""


class File(Syntax):
    """The statements of a text; ``lost`` are the names on the lines with a syntax error."""

    body: list[Syntax]
    lost: frozenset[str]


def nodes_of(top: Syntax) -> list[Syntax]:
    """Every node below ``top``, parents first, in order; a function below it is listed but not entered."""
    found: list[Syntax] = []
    stack: list[Any] = [top]
    while stack:
        at = stack.pop()
        if isinstance(at, (list, tuple)):
            stack.extend(reversed(at))
        elif isinstance(at, Syntax):
            if at is not top:
                found.append(at)
            if at is top or not isinstance(at, FunctionDef):
                stack.extend([getattr(at, name) for name in reversed(type(at).__match_args__)])
            else:
                stack.extend(reversed(at.decorators))
    return found


def bound_names(function: FunctionDef) -> set[str]:
    """Names a function binds: parameters and targets of assignments, loops and ``with``."""
    found = {param.name for param in function.params} | {param.name for param in function.type_params}
    for node in nodes_of(function):
        targets: list[Syntax | None] = []
        if isinstance(node, Assign):
            targets = list(node.targets)
        elif isinstance(node, (AnnAssign, For, WithItem)):
            targets = [node.target]
        while targets:
            target = targets.pop()
            if isinstance(target, Name):
                found.add(target.name)
            elif isinstance(target, (TupleLit, ListLit)):
                targets += target.items
    return found
