"""Values a step takes and gives: random variables, and how arguments are written as JSON and as Python.

Random variables stand for themselves (identity); the schedule's symbol table says what they are now. To let a step take
another kind of value, add a row to ``CODECS``.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....arith.index_map import IndexMap
from ....ir import build
from ....ir.expr import IntImm, Var
from ....ir.types import Expr, prim_type
from ....ir.walk import free_vars
from ....support.errors import ScheduleError
from ....te.value import Operand, Value, unwrap


class RandomVar:
    """A name for something that exists only while a schedule runs."""

    __slots__ = ("hint",)
    letter = "v"

    def __init__(self, hint: str = "") -> None:
        self.hint = hint

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hint})"


class BlockRV(RandomVar):
    """A block of the program being scheduled."""

    __slots__ = ()
    letter = "b"


SBlockRV = BlockRV
"""TVM's newer name."""


class LoopRV(RandomVar):
    """A loop of the program being scheduled."""

    __slots__ = ()
    letter = "l"


def _operation(make: Callable[[Any, Any], Expr], reflected: bool = False) -> Callable[[Any, Any], Any]:
    def apply(self: ExprRV, other: Any) -> Any:
        a, b = (unwrap(other), self.expr) if reflected else (self.expr, unwrap(other))
        result = make(a if isinstance(a, Expr) else build.const(a, "int64"), b)
        return Value(result) if isinstance(other, Value) else ExprRV(expr=result)

    return apply


class ExprRV(RandomVar, Operand):
    """An integer that a sampling step chose, or arithmetic over such integers (``tx * 2``)."""

    __slots__ = ("expr",)

    def __init__(self, hint: str = "v", expr: Expr | None = None) -> None:
        super().__init__(hint)
        self.expr: Expr = expr if expr is not None else Var(hint, prim_type("int64"))

    __add__, __radd__ = _operation(build.add), _operation(build.add, reflected=True)
    __sub__, __rsub__ = _operation(build.sub), _operation(build.sub, reflected=True)
    __mul__, __rmul__ = _operation(build.mul), _operation(build.mul, reflected=True)
    __floordiv__, __rfloordiv__ = _operation(build.floordiv), _operation(build.floordiv, reflected=True)
    __mod__, __rmod__ = _operation(build.floormod), _operation(build.floormod, reflected=True)


Namer = Callable[[RandomVar], str]
"""Name of a random variable inside one trace."""


@dataclass(slots=True, frozen=True)
class Codec:
    """The encoding of one kind of argument value. ``tag`` marks it in JSON: ``{tag: payload}``."""

    kind: type
    tag: str
    to_json: Callable[[Any, Namer], Any]
    from_json: Callable[[Any, Mapping[str, RandomVar]], Any]
    to_python: Callable[[Any, Namer], str]


def _expr_text(expr: Expr, names: Mapping[Var, str], inner: bool = False) -> str:
    """Integer arithmetic over named variables, in Python."""
    if isinstance(expr, Var):
        return names[expr]
    if type(expr) is IntImm:
        return str(expr.value)
    symbol = _SYMBOLS.get(type(expr).__name__)
    if symbol is None:
        raise ScheduleError("E405", f"{type(expr).__name__} cannot be written into a trace")
    text = f"{_expr_text(expr.a, names, True)} {symbol} {_expr_text(expr.b, names, True)}"  # type: ignore[attr-defined]
    return f"({text})" if inner else text


_SYMBOLS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}
_MAKERS: dict[type, Callable[[Any, Any], Expr]] = {
    ast.Add: build.add, ast.Sub: build.sub, ast.Mult: build.mul, ast.FloorDiv: build.floordiv, ast.Mod: build.floormod,
}  # fmt: skip


def read_arithmetic(text: str, names: Mapping[str, Expr]) -> Expr:
    """Integer arithmetic over named variables; nothing is executed. Raises ScheduleError E405."""

    def visit(at: ast.AST) -> Expr:
        if isinstance(at, ast.BinOp) and type(at.op) in _MAKERS:
            return _MAKERS[type(at.op)](visit(at.left), visit(at.right))
        if isinstance(at, ast.Constant) and type(at.value) is int:
            return build.const(at.value, "int64")
        if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
            return build.sub(build.const(0, "int64"), visit(at.operand))
        if isinstance(at, ast.Name) and at.id in names:
            return names[at.id]
        raise ScheduleError("E405", f"a trace holds {text!r}, which is not arithmetic of its variables")

    try:
        return visit(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ScheduleError("E405", f"a trace holds {text[:200]!r}, which is not arithmetic: {error}") from None


def _map_names(value: IndexMap) -> dict[Var, str]:
    """Names of a map's indices, apart from those of the sizes that it uses, which keep theirs."""
    sizes = [v for e in value.final_indices for v in free_vars(e) if v not in value.initial_indices]
    letter = "i"
    while any([v.name.startswith(letter) for v in sizes]):
        letter += "_"
    return {**{v: v.name for v in sizes}, **{v: f"{letter}{k}" for k, v in enumerate(value.initial_indices)}}


def _map_json(value: IndexMap, name: Namer) -> Any:
    names = _map_names(value)
    found = {
        "inputs": [names[v] for v in value.initial_indices],
        "outputs": [_expr_text(e, names) for e in value.final_indices],
    }
    return {**found, "separators": list(value.axis_separators)} if value.axis_separators else found


def _map_from_json(payload: Any, known: Mapping[str, RandomVar]) -> IndexMap:
    if type(payload) is not dict or any([type(payload.get(key)) is not list for key in ("inputs", "outputs")]):
        raise ScheduleError("E405", f"a trace holds {payload!r}, which is not an index map")
    separators = payload.get("separators", [])
    if type(separators) is not list or any([type(position) is not int for position in separators]):
        raise ScheduleError("E405", f"a trace holds {payload!r}, which is not an index map")
    if any([type(text) is not str for text in (*payload["inputs"], *payload["outputs"])]):
        raise ScheduleError("E405", f"a trace holds {payload!r}, which is not an index map")
    variables = {n: build.index_var(n) for n in payload["inputs"]}
    outputs = tuple([read_arithmetic(t, _Sizes(variables)) for t in payload["outputs"]])
    return IndexMap(tuple(variables.values()), outputs, tuple(separators))


class _Sizes(dict[str, Expr]):
    """Variables by name; another name stands for a size of the function that the trace is replayed on."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Expr:
        found = self[name] = build.index_var(name)
        return found


def _map_python(value: IndexMap, name: Namer) -> str:
    names = _map_names(value)
    inputs = [names[v] for v in value.initial_indices]
    own = {v: text if v in value.initial_indices else f'unity.te.var("{text}")' for v, text in names.items()}
    outputs = [_expr_text(e, own) for e in value.final_indices]
    for position in reversed(value.axis_separators):
        outputs.insert(position, "...")
    return f"lambda {', '.join(inputs)}: ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"


CODECS: tuple[Codec, ...] = (Codec(IndexMap, "index_map", _map_json, _map_from_json, _map_python),)
_BY_KIND = {codec.kind: codec for codec in CODECS}
_BY_TAG = {codec.tag: codec for codec in CODECS}
_PLAIN = (int, str, float, bool, type(None))


def to_json(value: Any, name: Namer) -> Any:
    """An argument as JSON. Raises ScheduleError E405 for a value that has no JSON form."""
    if isinstance(value, RandomVar):
        return {"rv": name(value)}
    if type(value) in _PLAIN:
        return value
    if type(value) in (list, tuple):
        return [to_json(item, name) for item in value]
    if type(value) is dict:
        return {"dict": [[to_json(k, name), to_json(v, name)] for k, v in value.items()]}
    if type(value) is IntImm:
        return value.value
    codec = _BY_KIND.get(type(value))
    if codec is None:
        raise ScheduleError("E405", f"a {type(value).__name__} cannot be written into a trace")
    return {codec.tag: codec.to_json(value, name)}


def from_json(value: Any, known: Mapping[str, RandomVar]) -> Any:
    """The argument that JSON stands for. Raises ScheduleError E405."""
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [from_json(item, known) for item in value]
    if type(value) is dict and len(value) == 1:
        ((tag, payload),) = value.items()
        if tag == "rv":
            return named(payload, known)
        if tag == "dict" and type(payload) is list and all([_is_pair(pair) for pair in payload]):
            return {from_json(k, known): from_json(v, known) for k, v in payload}
        if tag in _BY_TAG:
            return _BY_TAG[tag].from_json(payload, known)
    raise ScheduleError("E405", f"a trace holds the value {value!r}, which this version does not read")


def _is_pair(pair: Any) -> bool:
    return type(pair) is list and len(pair) == 2 and type(pair[0]) in _PLAIN


def named(text: Any, known: Mapping[str, RandomVar]) -> RandomVar:
    """A random variable by its name in the trace, or arithmetic over such names."""
    if type(text) is not str:
        raise ScheduleError("E405", f"a trace names a variable {text!r}")
    if text in known:
        return known[text]
    if text.isidentifier():
        raise ScheduleError("E405", f"a trace uses {text}, which no earlier step gives")
    variables = {n: v.expr for n, v in known.items() if isinstance(v, ExprRV)}
    return ExprRV(expr=read_arithmetic(text, variables))


def to_python(value: Any, name: Namer) -> str:
    """An argument as Python."""
    if isinstance(value, RandomVar):
        return name(value)
    if type(value) is list:
        return "[" + ", ".join([to_python(item, name) for item in value]) + "]"
    if type(value) is tuple:
        inner = ", ".join([to_python(item, name) for item in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is dict:
        return "{" + ", ".join([f"{to_python(k, name)}: {to_python(v, name)}" for k, v in value.items()]) + "}"
    if type(value) is IntImm:
        return str(value.value)
    if type(value) is str:
        return json.dumps(value)
    codec = _BY_KIND.get(type(value))
    return codec.to_python(value, name) if codec is not None else repr(value)


def copied(value: Any) -> Any:
    """An argument as a trace keeps it: lists and dictionaries copied, so that the caller may change his."""
    if type(value) is list:
        return [copied(item) for item in value]
    if type(value) is tuple:
        return tuple([copied(item) for item in value])
    return {key: copied(item) for key, item in value.items()} if type(value) is dict else value


def variables_in(value: Any) -> list[RandomVar]:
    """Random variables an argument holds."""
    if isinstance(value, RandomVar):
        return [value]
    if type(value) in (list, tuple):
        return [v for item in value for v in variables_in(item)]
    if type(value) is dict:
        return [v for pair in value.items() for item in pair for v in variables_in(item)]
    return []


def expr_name(value: ExprRV, names: Mapping[Var, str]) -> str:
    """An ExprRV in terms of the sampled variables a trace names."""
    return _expr_text(value.expr, names)
