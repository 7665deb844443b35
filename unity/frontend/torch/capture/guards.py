"""The guards of torch.export, its assumptions about the sizes, as conditions of the IR. Not here: ranges of single sizes.

A guard is Python text over inputs, ``L['x'].size()[0] % 2 == 0``: a branch of the model was decided by it. It is read, never run.
Invariant: what torch assumes of every size by itself, that it is neither zero nor one, is not a condition here.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import Any

from ....arith.analyzer import Analyzer
from ....ir import build
from ....ir.expr import Var
from ....ir.types import Expr, prim_type
from ....support.optional import require
from ..context.report import FallbackWarning, Gap

Size = Callable[[str, int | None], Expr]
"""Expression of a size: name of an input, axis; or the input itself, a number, without an axis. Raises Gap."""
Curve = Callable[[int], float]
"""Value of a part of a guard at every value of the only count in it, by torch's own floats: it only grows, or only falls."""

_ARITHMETIC: dict[type, Callable[[Any, Any], Expr]] = {
    ast.Add: build.add, ast.Sub: build.sub, ast.Mult: build.mul, ast.FloorDiv: build.floordiv, ast.Mod: build.floormod,
}  # fmt: skip
_COMPARISONS: dict[type, tuple[Callable[[Any, Any], Expr], Callable[[float, float], bool]]] = {
    ast.Eq: (build.eq, operator.eq), ast.NotEq: (build.ne, operator.ne), ast.Lt: (build.lt, operator.lt),
    ast.LtE: (build.le, operator.le), ast.Gt: (build.gt, operator.gt), ast.GtE: (build.ge, operator.ge),
}  # fmt: skip
_CALLS = {"max": build.maximum, "min": build.minimum}
_QUOTIENTS = {"math.trunc": build.truncdiv, "math.floor": build.floordiv, "math.ceil": build.ceildiv}
_EXACT = 1 << 20
"""Numerators and denominators below it leave products of sizes exact."""
_MOST = 1 << 48
"""Sizes are below it, and integers among the inputs between it and its negative."""
_GROWING: dict[str, Callable[..., float]] = {
    "torch.sym_float": float, "torch._sym_sqrt": math.sqrt, "math.trunc": math.trunc, "math.floor": math.floor,
    "math.ceil": math.ceil, "round": round, "max": max, "min": min,
}  # fmt: skip
"""Functions that grow with each argument."""
_NUMBERS: dict[type, tuple[Callable[[Any, Any], float], Callable[[int, int, float, float], bool]]] = {
    ast.Add: (operator.add, lambda a, b, low_a, low_b: a * b >= 0),
    ast.Sub: (operator.sub, lambda a, b, low_a, low_b: a * b <= 0),
    ast.Mult: (operator.mul, lambda a, b, low_a, low_b: a * b == 0 or min(a, b, low_a, low_b) >= 0),
    ast.Div: (operator.truediv, lambda a, b, low_a, low_b: b == 0),
    ast.FloorDiv: (operator.floordiv, lambda a, b, low_a, low_b: b == 0),
    ast.Pow: (operator.pow, lambda a, b, low_a, low_b: b == 0 and min(a, low_a) >= 0),
}
"""Operators, and whether the result only grows, or only falls, where operands of these slopes and least values do."""
_SPECIAL = {(ast.NotEq, 0), (ast.NotEq, 1), (ast.Gt, 0), (ast.Gt, 1), (ast.GtE, 1), (ast.GtE, 2)}
"""Comparisons of a size with a constant that torch adds by itself."""
_OF_LAYOUTS = frozenset([
    "is_contiguous", "check_contiguous_sizes_strides", "is_channels_last_contiguous_2d", "is_channels_last_contiguous_3d",
    "are_strides_like_channels_last_or_false", "_is_non_overlapping_and_dense_or_false", "_reshape_view_helper_core_alg",
    "_reshape_view_helper", "_collapse_view_helper", "compute_elementwise_output_logical_to_physical_perm", "should_swap", "ge",
    "_exec_fft",
])  # fmt: skip
"""Functions of torch that decide between views and copies, and which strides a result has: no element depends on them."""
_MIRRORED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.NotEq: ast.NotEq}


def guard_conditions(program: Any, size: Size) -> list[Expr]:
    """The conditions that a program was exported under, without those that torch always adds and those of single sizes."""
    found = []
    texts = getattr(program, "_guards_code", None) or ()
    layouts = layout_guards(program) if texts else set()
    for text in texts:
        tree = ast.parse(text, mode="eval").body
        if text in layouts or _is_special(tree) or _is_range(tree) or _is_of_layouts(tree):
            continue
        reader = _Reader(size)
        try:
            condition = reader.read(tree)
        except Gap:
            if _is_of_counts(tree):
                warnings.warn(f"a condition of the export is not checked: {text}", FallbackWarning, stacklevel=2)
            continue  # a condition on strides or objects: inputs are made compact, objects are compared with the example
        found += [c for c in (*reader.divisible, condition) if not build.is_const(c)]
    return list({str(c): c for c in found}.values())


def holds_in_range(guard: str, low: str, high: str) -> bool:
    """True if a guard on one size is proved for the sizes from ``low`` (2 where empty, as torch has it) to ``high``, or to any."""
    size, known = Var("size", prim_type("int64")), Analyzer()
    known.bind_range(size, int(low or 2), int(high or _MOST))
    reader = _Reader(lambda name, axis: size)
    try:
        condition = reader.read(ast.parse(guard, mode="eval").body)
    except Gap:
        return False
    return all([known.can_prove(c) for c in (*reader.divisible, condition)])


def layout_guards(program: Any) -> set[str]:
    """The guards that torch needed only to know how tensors lie in its memory, by the function of torch that asked.

    A program that was read from a file no longer says who asked.
    """
    environment = _environment(program)
    if environment is None:
        return set()
    sources = environment.var_to_sources
    printer = require("torch.fx.experimental.symbolic_shapes").ShapeGuardPythonPrinter(sources, source_name, sources)
    asked: dict[bool, set[str]] = {True: set(), False: set()}
    for guard in environment.guards:
        if all([symbol in sources for symbol in guard.expr.free_symbols]):
            texts = {printer.doprint(guard.expr), printer.doprint(environment.simplify(guard.expr))}
            asked[getattr(guard.sloc.framework_loc, "name", "") in _OF_LAYOUTS] |= texts
    return asked[True] - asked[False]


def fixes_a_size(program: Any) -> bool:
    """True if torch took a size of an input that may vary for the example's."""
    environment = _environment(program)
    return environment is None or any([new.is_number for new in environment.replacements.values()])


def source_name(source: Any) -> str:
    """``L['x']`` of an input, which torch keeps in an attribute or, in some versions, gives by a method."""
    return str(source.name if isinstance(source.name, str) else source.name())


def _environment(program: Any) -> Any:
    """The shape environment of a program, in which torch keeps its symbols; None where no input has one."""
    graph = getattr(program, "graph", None)
    for node in graph.nodes if graph is not None else ():
        for size in getattr(node.meta.get("val"), "shape", ()) if node.op == "placeholder" else ():
            if not isinstance(size, int):
                return size.node.shape_env
    return None


def _parts(tree: ast.expr) -> tuple[ast.expr, type, ast.expr] | None:
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
        return tree.left, type(tree.ops[0]), tree.comparators[0]
    return None


def _is_special(tree: ast.expr) -> bool:
    parts = _parts(tree)
    if parts is None:
        return False
    left, kind, right = parts
    if isinstance(left, ast.Constant):
        left, kind, right = right, _MIRRORED.get(kind, kind), left
    return isinstance(right, ast.Constant) and (kind, right.value) in _SPECIAL and _is_count(left)


def _is_count(tree: ast.expr) -> bool:
    """True for a size or a product of sizes: a number of elements."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return _is_count(tree.left) and _is_count(tree.right)
    return _size_of(tree) is not None


def _is_of_layouts(tree: ast.expr) -> bool:
    """True for ``a * b != a``, by which torch sees strides of axes of size one, which it takes for none, and for ``a * max(1, b) >=
    a``."""
    parts = _parts(tree)
    if parts is None:
        return False
    (first, left), (second, right) = [_product(side) for side in (parts[0], parts[2])]
    more, less = left - right, right - left
    holds = parts[1] is ast.GtE and not less and all([k.startswith(_AT_LEAST_ONE) for k in more])
    return first == second and (holds or (parts[1] is ast.NotEq and bool(left & right) and bool(more) != bool(less)))


_AT_LEAST_ONE = ast.dump(ast.parse("max(1, 0)", mode="eval").body).partition("Constant(value=0)")[0]


def _product(tree: ast.expr) -> tuple[int, Counter[str]]:
    """The factors of a product: that of its constants, and how often each other one occurs."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        (first, left), (second, right) = _product(tree.left), _product(tree.right)
        return first * second, left + right
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value, Counter()
    return 1, Counter([ast.dump(tree)])


def _is_range(tree: ast.expr) -> bool:
    """True if one size is compared with constants. Such bounds stand in the ranges."""
    if not isinstance(tree, ast.Compare) or not all(
        [isinstance(o, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for o in tree.ops]
    ):
        return False
    sides = [tree.left, *tree.comparators]
    return sum([not isinstance(s, ast.Constant) for s in sides]) == 1 and any([_size_of(s) for s in sides])


def _size_of(tree: ast.expr) -> tuple[ast.expr, int] | None:
    """(input, axis) of ``x.size()[axis]``."""
    match tree:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]), slice=ast.Constant(value=int(axis))
        ):
            return source, axis
    return None


def _is_of_counts(tree: ast.expr) -> bool:
    """True if a condition is about sizes, or computes with inputs, and is about no strides. ``math.trunc`` and ``torch.sym_float``
    are functions, no attributes."""
    asked = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr != "size"]
    used = [part for n in ast.walk(tree) if _computes(n) for part in ast.iter_child_nodes(n) if _is_input(part)]
    counted = used or [part for part in _counts(tree) if _size_of(part)]
    return bool(counted) and all([isinstance(n.value, ast.Name) and n.value.id in ("math", "torch") for n in asked])


def _computes(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and ast.unparse(node.func) in _GROWING)


def _is_input(node: ast.AST) -> bool:
    """True for ``L['n']``, or a part of an input, ``L['pair'][0]``."""
    while isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Name):
        node = node.value
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "L"


def _counts(tree: ast.AST) -> list[ast.expr]:
    """The sizes and the inputs in a part of a guard, each once."""
    if isinstance(tree, ast.expr) and (_size_of(tree) or _is_input(tree)):
        return [tree]
    found = [count for part in ast.iter_child_nodes(tree) for count in _counts(part)]
    return list({ast.unparse(n): n for n in found}.values())


def _name(tree: ast.expr) -> str:
    """``pair_a_0`` of ``L['pair']['a'][0]``: what torch calls the input. Raises Gap."""
    match tree:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=str(key))):
            return key
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
            return f"{_name(inner)}_{key}"
    raise Gap(f"the guard speaks of {ast.unparse(tree)}")


def _direction(curve: Curve, low: int) -> int:
    """1 where a curve grows from ``low`` on, -1 where it falls, 0 for a constant."""
    return (curve(low) < curve(_MOST)) - (curve(_MOST) < curve(low))


def _curve(tree: ast.expr, low: int) -> Curve:
    """The curve of a part of a guard from ``low`` on. Raises Gap."""
    match tree:
        case ast.Constant(value=int() | float() as number):
            return lambda _: number
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _curve(ast.BinOp(ast.Constant(0), ast.Sub(), inner), low)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _NUMBERS:
            (fn, is_curve), a, b = _NUMBERS[type(kind)], _curve(left, low), _curve(right, low)
            if is_curve(_direction(a, low), _direction(b, low), a(low), b(low)):
                return lambda count: fn(a(count), b(count))
        case ast.Call(func=called, args=args) if ast.unparse(called) in _GROWING:
            grows, parts = _GROWING[ast.unparse(called)], [_curve(a, low) for a in args]
            if not {-1, 1} <= {_direction(part, low) for part in parts}:
                return lambda count: grows(*[part(count) for part in parts])
        case _ if _size_of(tree) or _is_input(tree):
            return int
    raise Gap(f"no curve of a count: {ast.unparse(tree)}")


def _bounds(count: Expr, curve: Curve, kind: type[ast.cmpop], low: int) -> Expr:
    """The counts from ``low`` on at which a curve compares so with zero."""
    if kind is ast.Eq:
        return build.logical_and(_bounds(count, curve, ast.GtE, low), _bounds(count, curve, ast.LtE, low))
    if kind is ast.NotEq:
        return build.logical_or(_bounds(count, curve, ast.Lt, low), _bounds(count, curve, ast.Gt, low))
    compare = _COMPARISONS[kind][1]
    last = compare(curve(_MOST), 0)
    bound = low + bisect_left(range(low, _MOST), True, key=lambda n: compare(curve(n), 0) == last)
    return (build.ge if last else build.lt)(count, build.const(bound, "int64"))


def _exact_quotient(tree: ast.expr) -> tuple[ast.expr, int, int]:
    """(part, numerator, denominator) of a float that is exactly ``part * numerator / denominator``. Raises Gap."""
    match tree:
        case ast.BinOp(left=part, op=ast.Div(), right=ast.Constant(value=int(by))) if by > 0:
            return part, 1, by
        case ast.BinOp(left=ast.Constant(value=float(factor)), op=ast.Mult(), right=ast.Call(args=[part])):
            times, over = factor.as_integer_ratio()
            if max(times, over) < _EXACT and _size_of(part):
                return part, times, over
    raise Gap(f"no quotient of integers: {ast.unparse(tree)}")


class _Reader:
    def __init__(self, size: Size) -> None:
        self._size = size
        self.divisible: list[Expr] = []
        """That no divisor is zero: to be checked before the condition itself is computed."""

    def read(self, tree: ast.expr) -> Expr:
        """Expression of a guard's part. Raises Gap."""
        match tree:
            case ast.Constant(value=int(number)):
                return build.const(number, "bool" if isinstance(number, bool) else "int64")
            case ast.BoolOp(op=kind, values=values):
                join = build.logical_and if isinstance(kind, ast.And) else build.logical_or
                return reduce(join, [self.read(v) for v in values])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return build.logical_not(self.read(inner))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return build.negate(self.read(inner))
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
                over, by = self.read(left), self.read(right)
                if isinstance(kind, (ast.FloorDiv, ast.Mod)):
                    self.divisible.append(build.ne(by, 0))
                return _ARITHMETIC[type(kind)](over, by)
            case ast.Compare(left=left, ops=kinds, comparators=others) if all([type(k) in _COMPARISONS for k in kinds]):
                made = [self._compared(a, type(k), b) for a, k, b in zip([left, *others], kinds, others)]
                return reduce(build.logical_and, made)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
                return reduce(_CALLS[name], [self.read(a) for a in args])
            case ast.Call(func=called, args=[inner]) if ast.unparse(called) in _QUOTIENTS:
                part, times, parts = _exact_quotient(inner)
                scaled = self.read(part) * times
                return _QUOTIENTS[ast.unparse(called)](scaled, build.const(parts, "int64"))
        source, axis = _size_of(tree) or (tree, None)
        return self._size(_name(source), axis)

    def _compared(self, left: ast.expr, kind: type[ast.cmpop], right: ast.expr) -> Expr:
        """A comparison: as bounds of the count where its floats follow a single one, else of integers. Raises Gap."""
        difference = ast.BinOp(left, ast.Sub(), right)
        floats = [n for n in ast.walk(difference) if isinstance(n, ast.Div) or getattr(n, "attr", "size") != "size"]
        counts = _counts(difference)
        if floats and len(counts) == 1:
            low = 0 if _size_of(counts[0]) else -_MOST
            with suppress(Gap, ArithmeticError, ValueError):
                return _bounds(self.read(counts[0]), _curve(difference, low), kind, low)
        return _COMPARISONS[kind][0](self.read(left), self.read(right))
