"""Concrete syntax: small slotted nodes, one per form of the Python subset that script is written in.

Here: data only, with ``start`` and ``end`` offsets into the text. Not here: meaning; names are plain strings and nothing
is looked up. Invariant: a node never refers to a parser object, so a tree outlives the parse that made it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Syntax:
    """Base of all nodes; ``text[start:end]`` is what was written."""

    start: int
    end: int


# -------------------------------------------------------------------------------------------------------- expressions


@dataclass(slots=True, eq=False)
class Name(Syntax):
    """A plain name."""

    name: str


@dataclass(slots=True, eq=False)
class Attribute(Syntax):
    """``value.name``."""

    value: Syntax
    name: str


@dataclass(slots=True, eq=False)
class Keyword(Syntax):
    """``name=value`` in a call; ``name`` is None for ``**value``."""

    name: str | None
    value: Syntax


@dataclass(slots=True, eq=False)
class Call(Syntax):
    """``func(args, keywords)``."""

    func: Syntax
    args: list[Syntax]
    keywords: list[Keyword]


@dataclass(slots=True, eq=False)
class Subscript(Syntax):
    """``value[items]``."""

    value: Syntax
    items: list[Syntax]


@dataclass(slots=True, eq=False)
class Slice(Syntax):
    """``lower:upper:step`` inside a subscript."""

    lower: Syntax | None
    upper: Syntax | None
    step: Syntax | None


@dataclass(slots=True, eq=False)
class BinOp(Syntax):
    """``left op right`` for arithmetic, bit and boolean operators (see ``spelling.INFIX``)."""

    op: str
    left: Syntax
    right: Syntax


@dataclass(slots=True, eq=False)
class Compare(Syntax):
    """``first op0 rest0 op1 rest1 ...``."""

    first: Syntax
    ops: list[str]
    rest: list[Syntax]


@dataclass(slots=True, eq=False)
class Unary(Syntax):
    """``-x``, ``+x``, ``~x``, ``not x``."""

    op: str
    value: Syntax


@dataclass(slots=True, eq=False)
class IfExp(Syntax):
    """``then if condition else otherwise``."""

    condition: Syntax
    then: Syntax
    otherwise: Syntax


@dataclass(slots=True, eq=False)
class Lambda(Syntax):
    """``lambda params: body``."""

    params: list[Parameter]
    body: Syntax


@dataclass(slots=True, eq=False)
class TupleLit(Syntax):
    """``(a, b)`` or bare ``a, b``."""

    items: list[Syntax]


@dataclass(slots=True, eq=False)
class ListLit(Syntax):
    """``[a, b]``."""

    items: list[Syntax]


@dataclass(slots=True, eq=False)
class DictLit(Syntax):
    """``{k: v}``; a key is None for ``**v``."""

    keys: list[Syntax | None]
    values: list[Syntax]


@dataclass(slots=True, eq=False)
class Number(Syntax):
    """An integer or float literal."""

    value: int | float


@dataclass(slots=True, eq=False)
class String(Syntax):
    """A string literal, adjacent ones joined."""

    value: str


@dataclass(slots=True, eq=False)
class Literal(Syntax):
    """``True``, ``False``, ``None`` or ``...``."""

    value: object


@dataclass(slots=True, eq=False)
class Starred(Syntax):
    """``*value``."""

    value: Syntax


@dataclass(slots=True, eq=False)
class ListComp(Syntax):
    """``[item for target in source if conditions]``, also the generator form."""

    item: Syntax
    target: Syntax
    source: Syntax
    conditions: list[Syntax]


@dataclass(slots=True, eq=False)
class Refused(Syntax):
    """A form of Python that script does not have; ``kind`` names it (``walrus``, ``f-string``, ``try``, ...)."""

    kind: str


# --------------------------------------------------------------------------------------------------------- statements


@dataclass(slots=True, eq=False)
class Assign(Syntax):
    """``target = value``; more than one target for a chain ``a = b = value``."""

    targets: list[Syntax]
    value: Syntax


@dataclass(slots=True, eq=False)
class AnnAssign(Syntax):
    """``target: annotation = value``, the value may be absent."""

    target: Syntax
    annotation: Syntax
    value: Syntax | None


@dataclass(slots=True, eq=False)
class AugAssign(Syntax):
    """``target op= value``; ``op`` without the equal sign."""

    target: Syntax
    op: str
    value: Syntax


@dataclass(slots=True, eq=False)
class ExprStmt(Syntax):
    """An expression as a statement."""

    value: Syntax


@dataclass(slots=True, eq=False)
class For(Syntax):
    """``for target in source: body``."""

    target: Syntax
    source: Syntax
    body: list[Syntax]


@dataclass(slots=True, eq=False)
class While(Syntax):
    """``while condition: body``."""

    condition: Syntax
    body: list[Syntax]


@dataclass(slots=True, eq=False)
class If(Syntax):
    """``if``/``elif`` clauses in order and the ``else`` body (None when absent)."""

    clauses: list[tuple[Syntax, list[Syntax]]]
    otherwise: list[Syntax] | None


@dataclass(slots=True, eq=False)
class WithItem(Syntax):
    """``value as target``."""

    value: Syntax
    target: Syntax | None


@dataclass(slots=True, eq=False)
class With(Syntax):
    """``with items: body``."""

    items: list[WithItem]
    body: list[Syntax]


@dataclass(slots=True, eq=False)
class Return(Syntax):
    """``return value``."""

    value: Syntax | None


@dataclass(slots=True, eq=False)
class Assert(Syntax):
    """``assert condition, message``."""

    condition: Syntax
    message: Syntax | None


@dataclass(slots=True, eq=False)
class Pass(Syntax):
    """``pass``."""


@dataclass(slots=True, eq=False)
class Break(Syntax):
    """``break``."""


@dataclass(slots=True, eq=False)
class Continue(Syntax):
    """``continue``."""


@dataclass(slots=True, eq=False)
class Parameter(Syntax):
    """A parameter; ``star`` is ``""``, ``"*"``, ``"**"`` or ``"/"``."""

    name: str
    annotation: Syntax | None
    default: Syntax | None
    star: str


@dataclass(slots=True, eq=False)
class TypeParameter(Syntax):
    """``name: bound`` in ``def f[name: bound](...)``."""

    name: str
    bound: Syntax | None


@dataclass(slots=True, eq=False)
class FunctionDef(Syntax):
    """A function with its decorators."""

    name: str
    decorators: list[Syntax]
    type_params: list[TypeParameter]
    params: list[Parameter]
    returns: Syntax | None
    body: list[Syntax]


@dataclass(slots=True, eq=False)
class ClassDef(Syntax):
    """A class with its decorators."""

    name: str
    decorators: list[Syntax]
    bases: list[Syntax]
    body: list[Syntax]


@dataclass(slots=True, eq=False)
class Import(Syntax):
    """``import a.b as c`` and ``from a.b import c as d``: triples (module, name or "", bound name)."""

    names: list[tuple[str, str, str]]


@dataclass(slots=True, eq=False)
class Skipped(Syntax):
    """Stands where a statement with a syntax error was; the error is already reported."""


@dataclass(slots=True, eq=False)
class File(Syntax):
    """The statements of a text; ``lost`` are the names on the lines with a syntax error."""

    body: list[Syntax]
    lost: frozenset[str] = frozenset()
