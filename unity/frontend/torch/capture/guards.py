"""The guards of torch.export, its assumptions about the sizes, as conditions of the IR. Not here: ranges of single sizes.

A guard is Python text over inputs, ``L['x'].size()[0] % 2 == 0``: a branch of the model was decided by it. It is read, never run.
Invariant: what torch assumes of every size by itself, that it is neither zero nor one, is no condition here.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from ....ir import build
from ....ir.types import Expr
from ....support.optional import require
from ..context.report import FallbackWarning, Gap

Size = Callable[[str, int | None], Expr]
"""Expression of a size: name of an input, axis; or the input itself, a number, without an axis. Raises Gap."""

_ARITHMETIC: dict[type, Callable[[Any, Any], Expr]] = {
    ast.Add: build.add, ast.Sub: build.sub, ast.Mult: build.mul, ast.FloorDiv: build.floordiv, ast.Mod: build.floormod,
}  # fmt: skip
_COMPARISONS: dict[type, Callable[[Any, Any], Expr]] = {
    ast.Eq: build.eq, ast.NotEq: build.ne, ast.Lt: build.lt, ast.LtE: build.le, ast.Gt: build.gt, ast.GtE: build.ge,
}  # fmt: skip
_CALLS = {"max": build.maximum, "min": build.minimum}
_QUOTIENTS = {"math.trunc": build.floordiv, "math.floor": build.floordiv, "math.ceil": build.ceildiv}
"""Roundings of a quotient of sizes, which are not negative."""
_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "math.trunc": math.trunc,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
}
_EXACT = 1 << 20
"""Numerators and denominators below it leave products of sizes exact."""
_MOST = 1 << 48
"""Sizes are below it."""
_SPECIAL = {(ast.NotEq, 0), (ast.NotEq, 1), (ast.Gt, 0), (ast.Gt, 1), (ast.GtE, 1), (ast.GtE, 2)}
"""Comparisons of a size with a constant that torch adds by itself."""
_OF_LAYOUTS = frozenset([
    "is_contiguous", "check_contiguous_sizes_strides", "is_channels_last_contiguous_2d", "is_channels_last_contiguous_3d",
    "are_strides_like_channels_last_or_false", "_is_non_overlapping_and_dense_or_false", "_reshape_view_helper_core_alg",
    "_collapse_view_helper",
])  # fmt: skip
"""Functions of torch that decide between views and copies, and which strides a result has: no element depends on them."""
_MIRRORED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.NotEq: ast.NotEq}


def guard_conditions(program: Any, size: Size) -> list[Expr]:
    """The conditions that a program was exported under, without those that torch always adds and those of single sizes."""
    found = []
    texts = getattr(program, "_guards_code", None) or ()
    layouts = _layout_guards(program) if texts else set()
    for text in [text for text in texts if text not in layouts]:
        tree = ast.parse(text, mode="eval").body
        if _is_special(tree) or _is_range(tree) or _is_of_unit_size(tree) or _is_multiple(tree):
            continue
        reader = _Reader(size)
        try:
            condition = reader.read(tree)
        except Gap:
            if _is_of_sizes(tree):
                warnings.warn(f"a condition of the export is not checked: {text}", FallbackWarning, stacklevel=2)
            continue  # a condition on strides or objects: inputs are made compact, objects are compared with the example
        found += [c for c in (*reader.divisible, condition) if not build.is_const(c)]
    return list({str(c): c for c in found}.values())


def _layout_guards(program: Any) -> set[str]:
    """The guards that torch needed only to know how tensors lie in its memory, by the function of torch that asked.

    A program that was read from a file no longer says who asked.
    """
    environment = _environment(program)
    if environment is None:
        return set()
    sources = environment.var_to_sources
    printer = require("torch.fx.experimental.symbolic_shapes").ShapeGuardPythonPrinter(
        sources, lambda source: source.name if isinstance(source.name, str) else source.name(), sources
    )
    asked: dict[bool, set[str]] = {True: set(), False: set()}
    for guard in environment.guards:
        if all([symbol in sources for symbol in guard.expr.free_symbols]):
            texts = {printer.doprint(guard.expr), printer.doprint(environment.simplify(guard.expr))}
            asked[getattr(guard.sloc.framework_loc, "name", "") in _OF_LAYOUTS] |= texts
    return asked[True] - asked[False]


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
    """Is it a size, or a product of sizes: a number of elements?"""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return _is_count(tree.left) and _is_count(tree.right)
    return _size_of(tree) is not None


def _is_of_unit_size(tree: ast.expr) -> bool:
    """Is it ``a * b != a``, by which torch sees strides of axes of size one, which it takes for none?"""
    parts = _parts(tree)
    if parts is None or parts[1] is not ast.NotEq:
        return False
    (first, left), (second, right) = [_product(side) for side in (parts[0], parts[2])]
    return first == second and bool(left & right) and bool(left - right) != bool(right - left)


def _is_multiple(tree: ast.expr) -> bool:
    """Is it ``a * max(1, b) >= a``, which holds for all sizes?"""
    parts = _parts(tree)
    if parts is None or parts[1] is not ast.GtE:
        return False
    (first, left), (second, right) = [_product(side) for side in (parts[0], parts[2])]
    more = left - right
    return first == second and left - more == right and all([k.startswith(_AT_LEAST_ONE) for k in more])


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
    """Is one size compared with constants? Such bounds stand in the ranges."""
    if not isinstance(tree, ast.Compare) or not all(
        [isinstance(o, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for o in tree.ops]
    ):
        return False
    sides = [tree.left, *tree.comparators]
    return sum([not isinstance(s, ast.Constant) for s in sides]) == 1 and any([_size_of(s) is not None for s in sides])


def _size_of(tree: ast.expr) -> tuple[ast.expr, int] | None:
    """(input, axis) of ``x.size()[axis]``."""
    match tree:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]), slice=ast.Constant(value=int(axis))
        ):
            return source, axis
    return None


def _is_of_sizes(tree: ast.expr) -> bool:
    """Does a condition speak of sizes, and of no strides? ``math.trunc`` and ``torch.sym_float`` are functions, no attributes."""
    nodes = list(ast.walk(tree))
    sizes = [n for n in nodes if isinstance(n, ast.expr) and _size_of(n) is not None]
    asked = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr != "size"]
    return bool(sizes) and all([isinstance(n.value, ast.Name) and n.value.id in ("math", "torch") for n in asked])


def _name(tree: ast.expr) -> str:
    """``pair_a_0`` of ``L['pair']['a'][0]``: what torch calls the input. Raises Gap."""
    match tree:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=str(key))):
            return key
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)):
            return f"{_name(inner)}_{key}"
    raise Gap(f"the guard speaks of {ast.unparse(tree)}")


def _growing(tree: ast.expr) -> Callable[[int], float] | None:
    """The float that grows with the one size in it: the size itself, times or over positive constants, plus constants."""
    made: Callable[[float], float]
    match tree:
        case ast.Call(func=ast.Attribute(attr="sym_float"), args=[inner]):
            return _growing(inner)
        case ast.BinOp(left=ast.Constant(value=int() | float() as first), op=ast.Mult(), right=inner) if first > 0:
            made = partial(operator.mul, first)
        case ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant(value=int() | float() as last)) if last > 0:
            made = partial(operator.mul, last)
        case ast.BinOp(left=inner, op=ast.Div(), right=ast.Constant(value=int() | float() as last)) if last > 0:
            made = partial(_over, last)
        case ast.BinOp(left=inner, op=ast.Add(), right=ast.Constant(value=int() | float() as last)):
            made = partial(operator.add, last)
        case _:
            return float if _size_of(tree) is not None else None
    value = _growing(inner)
    return None if value is None else lambda size: made(value(size))


def _is_rounded(called: ast.expr, inner: ast.expr) -> bool:
    """Is it a rounding of a float that grows with one size?"""
    floats = any([isinstance(n, ast.Attribute) and n.attr == "sym_float" for n in ast.walk(inner)])
    return floats and ast.unparse(called) in _ROUNDINGS and _growing(inner) is not None


def _over(last: float, value: float) -> float:
    return value / last


def _least(holds: Callable[[int], bool]) -> int:
    """The least size for which something holds that holds for all larger ones; ``_MOST`` where there is none."""
    low, high = 0, _MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


class _Reader:
    def __init__(self, size: Size) -> None:
        self._size = size
        self.divisible: list[Expr] = []
        """That no divisor is zero: to be checked before the condition itself is computed."""

    def read(self, tree: ast.expr) -> Expr:
        """Expression of a guard's part. Raises Gap."""
        match tree:
            case ast.Constant(value=bool(flag)):
                return build.const(flag, "bool")
            case ast.Constant(value=int(number)):
                return build.const(number, "int64")
            case ast.BoolOp(op=kind, values=values):
                join = build.logical_and if isinstance(kind, ast.And) else build.logical_or
                return self._joined(join, [self.read(v) for v in values])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return build.logical_not(self.read(inner))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return build.sub(build.const(0, "int64"), self.read(inner))
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
                over, by = self.read(left), self.read(right)
                if isinstance(kind, (ast.FloorDiv, ast.Mod)):
                    self.divisible.append(build.ne(by, build.const(0, "int64")))
                return _ARITHMETIC[type(kind)](over, by)
            case ast.Compare(
                left=ast.Call(func=called, args=[inner]), ops=[kind], comparators=[ast.Constant(value=int(number))]
            ) if _is_rounded(called, inner) and type(kind) in _COMPARISONS:
                return self._rounded(_ROUNDINGS[ast.unparse(called)], inner, type(kind), number)
            case ast.Compare(left=left, ops=kinds, comparators=others) if all([type(k) in _COMPARISONS for k in kinds]):
                sides = [self.read(side) for side in (left, *others)]
                made = [_COMPARISONS[type(k)](a, b) for k, a, b in zip(kinds, sides, sides[1:])]
                return self._joined(build.logical_and, made)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
                return self._joined(_CALLS[name], [self.read(a) for a in args])
            case ast.Call(func=called, args=[ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int(by)))]):
                rounding = _QUOTIENTS.get(ast.unparse(called))
                if rounding is not None and by > 0:
                    return rounding(self.read(left), build.const(by, "int64"))
            case ast.Call(
                func=called,
                args=[ast.BinOp(left=ast.Constant(value=float(factor)), op=ast.Mult(), right=ast.Call(args=[part]))],
            ) if ast.unparse(called) in _QUOTIENTS and _size_of(part) is not None:
                times, parts = factor.as_integer_ratio()
                if 0 <= times < _EXACT and parts < _EXACT:  # the product is exact
                    scaled = build.mul(self.read(part), build.const(times, "int64"))
                    return _QUOTIENTS[ast.unparse(called)](scaled, build.const(parts, "int64"))
        axis = _size_of(tree)
        return self._size(_name(tree), None) if axis is None else self._size(_name(axis[0]), axis[1])

    def _rounded(self, rounding: Callable[[float], int], inner: ast.expr, kind: type[ast.cmpop], number: int) -> Expr:
        """``math.trunc(0.7 * torch.sym_float(n)) == 2`` as bounds of n, found by torch's own floats. Raises Gap."""
        grows = _growing(inner)
        assert grows is not None
        (tree,) = [n for n in ast.walk(inner) if isinstance(n, ast.expr) and _size_of(n) is not None]
        size = self.read(tree)
        first = build.const(_least(lambda n: rounding(grows(n)) >= number), "int64")
        behind = build.const(_least(lambda n: rounding(grows(n)) > number), "int64")
        reached, before = build.ge(size, first), build.lt(size, first)
        passed, within = build.ge(size, behind), build.lt(size, behind)
        return {
            ast.Eq: build.logical_and(reached, within), ast.NotEq: build.logical_or(before, passed),
            ast.GtE: reached, ast.Lt: before, ast.Gt: passed, ast.LtE: within,
        }[kind]  # fmt: skip

    @staticmethod
    def _joined(join: Callable[[Any, Any], Expr], values: list[Expr]) -> Expr:
        made = values[0]
        for value in values[1:]:
            made = join(made, value)
        return made


__all__ = ["guard_conditions"]
