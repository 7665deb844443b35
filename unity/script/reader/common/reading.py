"""The state of reading: a ``Text`` with its errors, a ``Reading`` for each function, a ``Level`` that says what syntax means in it.

Not here: any form of script. Invariant: an error in one statement is recorded and reading goes on with the next;
``Silent`` leaves a statement that depends on an error already recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ....ir import Expr, GlobalVar, PrimType, Type, Var
from ....support.errors import Note, ScriptError, UnityError, suggest
from ....support.source import Source, Span
from ...parser import syntax as s
from .scope import POISON, Scope

Form = Callable[[Any, str, s.Call], Any]
"""Reads one call: the state of reading, the dotted name called, the call."""
Table = Mapping[type, Callable[[Any, Any], Any]]
"""Kind of syntax -> what reads it."""


class Silent(Exception):
    """A consequence of an error that is already recorded."""


@dataclass(slots=True, eq=False)
class Text:
    """One text being read: its source, the names lent to it, the errors found."""

    source: Source
    outside: Scope
    errors: list[ScriptError] = field(default_factory=list)
    lost: frozenset[str] = frozenset()
    """Names on the lines that could not be read: what is missing because of them is not a second error."""
    vdevices: list[Any] = field(default_factory=list)
    """The virtual devices of the module, in the order that ``"vdevice:1"`` counts."""


class Module(Protocol):
    """The functions of the module being read, as its functions see them."""

    def member(self, r: Reading, name: str, node: s.Syntax) -> GlobalVar:
        """A reference to a function of the module."""

    def adopt(self, r: Reading, fn: Any, node: s.Syntax) -> GlobalVar:
        """A reference to a function of the enclosing scope, which becomes part of the module."""

    def returned(self, name: str) -> Type:
        """The type that a tensor program of the module returns."""

    def parameters(self, callee: Expr) -> Sequence[Type | None] | None:
        """The types of a function's parameters, None for a buffer's; None where they are not known."""


@dataclass(slots=True, frozen=True)
class Level:
    """The meaning of syntax in graph functions or in tensor programs: tables and plain functions."""

    letter: str
    expressions: Table
    statements: Table
    forms: Mapping[str, Form]
    """Dotted names with a reading rule of their own: ``T.alloc_buffer``, ``R.const``."""
    convert: Callable[[Reading, Any, s.Syntax], Expr]
    """A value as expression."""
    unknown: Callable[[Reading, s.Name], Any]
    """A name without a value."""
    binary: Callable[[Reading, str, Any, Any, s.Syntax], Any]
    """``left op right`` where a side is not a plain number."""
    unary: Callable[[Reading, str, Any, s.Syntax], Any]
    conditional: Callable[[Reading, Any, s.IfExp], Any]
    """``a if condition else b`` where running decides."""
    subscript: Callable[[Reading, Any, s.Subscript], Any]
    attribute: Callable[[Reading, Any, s.Attribute], Any]
    method: Callable[[Reading, Any, str, s.Call], Any]
    """``value.name(...)``."""
    path: Callable[[Reading, str, s.Syntax], Any]
    """A dotted name of script that is not called."""
    call: Callable[[Reading, str, s.Call], Any]
    """A call of any other dotted name: an intrinsic, a data type, an operator."""
    call_value: Callable[[Reading, Any, s.Call], Any]


class Reading:
    """The state of reading one function, or the lines of a module outside of its functions."""

    def __init__(self, text: Text, scope: Scope, level: Level, module: Module) -> None:
        self.text = text
        self.source = text.source
        """The text that what is read now stands in: the macro's own while one is expanded."""
        self.errors = text.errors
        self.scope = scope
        self.level = level
        self.module = module
        self.depth = 0
        """Expressions being read inside each other."""
        self.symbols: dict[str, Expr] = {}
        self.symbol_types: dict[str, PrimType] = {}
        """Types of symbols that the body declares; the others are int64."""
        self.defining = False
        """A signature or pattern is read: a name without value is a new symbol."""
        self.hint = ""
        """The name that the value being read will get."""
        self.naming: s.Syntax | None = None
        """The expression that gets it."""
        self.param_name = ""
        """The parameter whose type is being read."""
        self.declared: set[Var] = set()
        """Variables made by the expression at hand: a name given to one stands for it."""
        self.let_bound: set[Var] = set()
        self.expansions = 0
        self.expansion_depth = 0

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
        span = problem.span or self.span(node)
        if isinstance(problem, ScriptError):
            problem.span = span
            self.errors.append(problem)
        else:
            self.errors.append(ScriptError(problem.code, problem.message, span, problem.notes, problem.help))

    def try_read(self, read: Callable[[Any, Any], Any], node: s.Syntax) -> Any:
        """Read a node. After an error, which is recorded, the result is None, and the names it defines are silent."""
        try:
            return read(self, node)
        except Silent:
            assert self.errors
            poison(self, node)
        except UnityError as problem:
            self.record(problem, node)
            poison(self, node)
        return None


def poison(r: Reading, node: s.Syntax) -> None:
    """Mark the names that a statement or parameter defines: using them after an error in it is silent."""
    targets: list[s.Syntax] = []
    match node:
        case s.Assign():
            targets = list(node.targets)
        case s.AnnAssign():
            targets = [node.target]
        case s.FunctionDef() | s.Parameter():
            r.scope.names[node.name] = POISON
    while targets:
        target = targets.pop()
        if type(target) is s.Name:
            r.scope.names[target.name] = POISON
        elif isinstance(target, (s.TupleLit, s.ListLit)):
            targets += target.items
        elif type(target) is s.Starred:
            targets.append(target.value)


def bind_arguments(
    r: Reading, node: s.Syntax, name: str, fields: Sequence[str], args: Sequence[Any], keywords: dict[str, Any],
    required: int,
) -> dict[str, Any]:  # fmt: skip
    """Arguments by field name. Raises ScriptError E112 for too many, too few, or unknown ones."""
    if len(args) > len(fields):
        raise r.error("E112", f"{name} takes at most {len(fields)} arguments, got {len(args)}", node)
    bound = dict(zip(fields, args))
    for key, value in keywords.items():
        if key in bound:
            raise r.error("E112", f"{name} got {key!r} twice", node)
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise r.error("E112", f"{name} has no argument {key!r}", node, suggest(key, fields) or f"it has: {known}")
        bound[key] = value
    for key in fields[:required]:
        if key not in bound:
            raise r.error("E112", f"{name} needs the argument {key!r}", node)
    return bound
