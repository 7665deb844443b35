"""Loops: ``for`` over ``range``, ``T.serial``, ``T.grid``, ``T.thread_binding`` and their kin, ``while``."""

from __future__ import annotations

from typing import Any

from ....ir import Expr, For, IntImm, Type, Var, While, build as b, seq
from ....support.errors import suggest
from ...parser import syntax as s
from ...spelling.ranges import extent_of
from ...spelling.spelling import LOOPS
from ..common.calls import arguments
from ..common.constants import attribute_value
from ..common.names import path_of
from ..common.plain import is_number
from ..common.targets import unpack
from ..common.values import as_dtype, as_expr, as_index, as_text, read_expr
from .expr import as_condition
from .program import ProgramReading, read_body


def read_while(r: ProgramReading, node: s.While) -> None:
    """``while condition:``."""
    condition = as_condition(r, read_expr(r, node.condition), node.condition)
    r.out.append(While(condition, read_body(r, node.body), r.span(node)))


def read_for(r: ProgramReading, node: s.For) -> None:
    """``for i in range(...)``."""
    source = node.source
    path = path_of(r, source.func) if type(source) is s.Call else None
    if type(source) is not s.Call or path is None or not (path == "T.grid" or path in LOOPS):
        raise r.error(
            "E113",
            "a loop runs over range, T.serial, T.grid, T.parallel, ...",
            source,
            suggest(path, ("T.grid", *LOOPS)),
        )
    args, keywords = arguments(r, source)
    if path == "T.grid":
        _grid(r, node, args, keywords)
    else:
        _single_loop(r, node, LOOPS[path], path, args, keywords)


def _grid(r: ProgramReading, node: s.For, args: list[Any], keywords: dict[str, Any]) -> None:
    span = r.span(node)
    dtype = keywords.pop("dtype", None)
    if keywords or not args:
        raise r.error("E112", "T.grid takes the extents of the loops", node.source)
    bounds = [_bounds(r, arg if isinstance(arg, (tuple, list)) else (0, arg), node.source) for arg in args]
    if dtype is not None:
        want = as_dtype(r, dtype, node.source)
        bounds = [(b.cast(low, want), b.cast(extent, want)) for low, extent in bounds]
    variables, names = _loop_variables(r, node, [low.ty for low, _ in bounds])
    for var, (low, extent) in zip(variables, bounds):
        r.loops[var] = For(var, low, extent, "serial", seq())
    outer = r.indents
    if not all([type(low) is IntImm and low.value == 0 for low, _ in bounds]):
        r.deeper(len(bounds) - 1, node.source)  # such loops are not printed as one grid
    body = read_body(r, node.body, names)
    r.indents = outer
    for var, (low, extent) in zip(reversed(variables), reversed(bounds)):
        body = For(var, low, extent, "serial", body, span=span)
    r.out.append(body)


def _single_loop(
    r: ProgramReading, node: s.For, kind: str, path: str, args: list[Any], keywords: dict[str, Any]
) -> None:
    span = r.span(node)
    thread = keywords.pop("thread", None)
    annotations = keywords.pop("annotations", None)
    step = keywords.pop("step", None)
    if "start" in keywords:
        args.insert(0, keywords.pop("start"))
    length = keywords.pop("extent", None)
    for name in ("stop", "end"):
        stop = keywords.pop(name, None)
        if stop is not None:
            args.append(stop)
    keywords.pop("dtype", None)
    if keywords:
        wrong = next(iter(keywords))
        known = ("start", "stop", "step", "annotations", "thread", "extent")
        raise r.error("E112", f"{path} has no argument {wrong!r}", node.source, suggest(wrong, known))
    if kind == "thread_binding" and args and type(args[-1]) is str:
        thread = args.pop()
    if len(args) == 3 and step is None and path in ("range", "T.serial"):
        step = args.pop()
    if length is not None and not args:
        args, length = [length], None
    if not 1 <= len(args) <= (2 if length is None else 1):
        raise r.error("E112", f"{path} takes an extent, or start and stop", node.source)
    if kind == "thread_binding" and thread is None:
        raise r.error("E112", 'T.thread_binding needs thread="threadIdx.x"', node.source)
    if annotations is not None and not isinstance(annotations, dict):
        raise r.error("E113", "annotations must be a dict", node.source)
    if length is not None:
        low, extent = as_index(r, args[0], node.source), as_index(r, length, node.source)
    else:
        low, extent = _bounds(r, (0, *args) if len(args) == 1 else args, node.source)
    by = None
    if step is not None:
        if type(step) is int and step <= 0:
            raise r.error("E113", "a loop's step must be positive", node.source)
        by = b.cast(as_index(r, step, node.source), b.dtype_of(low))
    (var,), names = _loop_variables(r, node, [low.ty])
    r.loops[var] = For(var, low, extent, kind, seq())
    body = read_body(r, node.body, names)
    noted = attribute_value(annotations) if annotations else None
    if type(by) is IntImm and by.value == 1:
        by = None
    tag = None if thread is None else as_text(r, thread, node.source)
    r.out.append(For(var, low, extent, kind, body, tag, noted, by, span))


def _bounds(r: ProgramReading, args: Any, node: s.Syntax) -> tuple[Expr, Expr]:
    """Minimum and extent from start and stop."""
    if len(args) != 2:
        raise r.error("E112", "a loop goes over an extent, or from start to stop", node)
    low_value, high_value = args
    if type(low_value) is int and not is_number(high_value):
        high = as_expr(r, high_value, node)
        low: Expr = b.const(low_value, b.dtype_of(high), r.span(node))
    elif type(high_value) is int and not is_number(low_value):
        low = as_expr(r, low_value, node)
        high = b.const(high_value, b.dtype_of(low), r.span(node))
    else:
        low, high = as_index(r, low_value, node), as_index(r, high_value, node)
    if not b.dtype_of(low).is_integral or not b.dtype_of(high).is_integral:
        raise r.error("E113", "loop bounds must be integers", node)
    low, high = b.unify(low, high)
    return low, extent_of(low, high)


def _loop_variables(r: ProgramReading, node: s.For, types: list[Type]) -> tuple[list[Var], dict[str, Any]]:
    """The variables of a nest of loops, and what the names of its target stand for."""
    target, variables = node.target, []

    def make(name: str, ty: Type) -> Var:
        variables.append(Var(name, ty, r.span(node)))
        return variables[-1]

    if type(target) is s.Name:
        name = target.name
        if len(types) == 1:
            return variables, {name: make(name, types[0])}
        return variables, {name: tuple([make(f"{name}{k}", ty) for k, ty in enumerate(types)])}
    names: dict[str, Any] = {}
    for part, item in unpack(r, target, types):
        if type(part) is not s.Name:
            raise r.error("E113", "a loop target is a name", part)
        if isinstance(item, list):
            names[part.name] = [make(f"{part.name}{len(variables)}", ty) for ty in item]
        else:
            names[part.name] = make(part.name, item)
    return variables, names
