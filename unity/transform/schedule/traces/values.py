"""Values a step takes and gives: random variables, and how arguments are written as JSON and as Python.

Random variables stand for themselves (identity); the schedule's symbol table says what they are now.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Any

from ....arith.index_map import IndexMap
from ....ir import build
from ....ir.expr import IntImm, Var
from ....ir.scalar import Add, FloorDiv, FloorMod, Mul, Sub
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


def _expr_text(expr: Expr, names: Mapping[Var, str], inner: bool = False) -> str:
    """Integer arithmetic over named variables, in Python."""
    if isinstance(expr, Var):
        return names[expr]
    if type(expr) is IntImm:
        return str(expr.value)
    symbol = _SYMBOLS.get(type(expr))
    if symbol is None:
        raise ScheduleError("E405", f"{type(expr).__name__} cannot be written into a trace")
    text = f"{_expr_text(expr.a, names, True)} {symbol} {_expr_text(expr.b, names, True)}"  # type: ignore[attr-defined]
    return f"({text})" if inner else text


_SYMBOLS: dict[type, str] = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%"}
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


def _map_json(value: IndexMap) -> Any:
    names = _map_names(value)
    return {
        "inputs": [names[v] for v in value.initial_indices],
        "outputs": [_expr_text(e, names) for e in value.final_indices],
    }


def _map_from_json(payload: Any) -> IndexMap:
    if type(payload) is not dict or any([type(payload.get(key)) is not list for key in ("inputs", "outputs")]):
        raise ScheduleError("E405", f"a trace holds {payload!r}, which is not an index map")
    if any([type(text) is not str for text in (*payload["inputs"], *payload["outputs"])]):
        raise ScheduleError("E405", f"a trace holds {payload!r}, which is not an index map")
    variables = {n: build.index_var(n) for n in payload["inputs"]}
    outputs = tuple([read_arithmetic(t, _Sizes(variables)) for t in payload["outputs"]])
    return IndexMap(tuple(variables.values()), outputs)


class _Sizes(dict[str, Expr]):
    """Variables by name; another name stands for a size of the function that the trace is replayed on."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Expr:
        found = self[name] = build.index_var(name)
        return found


def _map_python(value: IndexMap) -> str:
    names = _map_names(value)
    inputs = [names[v] for v in value.initial_indices]
    own = {v: text if v in value.initial_indices else f'unity.te.var("{text}")' for v, text in names.items()}
    outputs = [_expr_text(e, own) for e in value.final_indices]
    return f"lambda {', '.join(inputs)}: ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"


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
    if type(value) is IndexMap:
        return {"index_map": _map_json(value)}
    raise ScheduleError("E405", f"a {type(value).__name__} cannot be written into a trace")


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
        if tag == "index_map":
            return _map_from_json(payload)
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
    return _map_python(value) if type(value) is IndexMap else repr(value)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with other values in its lists, tuples and dictionaries, which are new."""
    if type(value) in (list, tuple):
        return type(value)([mapped(item, change) for item in value])
    if type(value) is dict:
        return {mapped(key, change): mapped(item, change) for key, item in value.items()}
    return change(value)


def copied(value: Any) -> Any:
    """An argument as a trace keeps it: lists and dictionaries copied, so that the caller may change his."""
    return mapped(value, lambda item: item)


def variables_in(value: Any) -> list[RandomVar]:
    """Random variables an argument holds."""
    found: list[Any] = []
    mapped(value, found.append)
    return [item for item in found if isinstance(item, RandomVar)]


def expr_name(value: ExprRV, names: Mapping[Var, str]) -> str:
    """An ExprRV in terms of the sampled variables a trace names."""
    return _expr_text(value.expr, names)
