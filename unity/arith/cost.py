"""Work of a tensor program as formulas of its symbols: floating-point operations, bytes read, bytes written.

An estimate for reports and cost models, not an upper bound: the dearer branch of a conditional counts, a while loop counts
one round, a loop whose extent depends on an outer one counts its mean trip. Bytes are the compulsory traffic: an element of
a parameter counts once however often it is touched, and no more elements count than are touched (a gather reads its rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..ir.buffer import Buffer
from ..ir.build import add, cast, const, floordiv, maximum, mul, sub
from ..ir.expr import Call, IntImm, Op, Var
from ..ir.function import PrimFunc
from ..ir.intrinsic import BINARY_MATH, UNARY_MATH
from ..ir.node import Node
from ..ir.scalar import ARITHMETIC, BufferLoad
from ..ir.stmt import BlockRealize, BufferStore, For, IfThenElse, SeqStmt, Stmt
from ..ir.types import Expr, PrimType
from ..ir.walk import children, collect, free_vars, substitute
from ..support.errors import UnityError
from .analyzer import Analyzer
from .formula import NoFormula, from_formula, to_formula
from .views import elements_of

WORK = "tir.work"
"""Attribute of a scheduled program: formulas (`formula.py`) of the operations, bytes read and bytes written of its source."""
MATH_CALLS = frozenset([f"T.{name}" for name in UNARY_MATH + BINARY_MATH])
"""Mathematical functions."""
TYPICAL = 64
"""Value of a symbol where two counts must be compared that no proof orders."""


@dataclass(slots=True, frozen=True)
class Cost:
    """int64 expressions of the program's symbols."""

    flops: Expr
    read: Expr
    written: Expr


def _flops(expr: Node) -> int:
    """Floating-point operations of one evaluation of an expression (indices of loads do not count)."""
    total = 0
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            continue
        lanes = getattr(getattr(node.ty, "dtype", None), "lanes", 1) if hasattr(node, "ty") else 1
        if type(node) in ARITHMETIC and node.ty.dtype.is_float:
            total += lanes
        elif isinstance(node, Call) and type(node.op) is Op:
            if node.op.name in MATH_CALLS:
                total += lanes
            elif node.op.name == "T.fma":
                total += 2 * lanes
        stack.extend([c for c in children(node) if not c.is_reference])
    return total


def _as_int64(value: Expr | int) -> Expr:
    return cast(value, "int64") if isinstance(value, Expr) else const(value, "int64")


class _Counter:
    """Sums over the statements of one program; ``trips`` is how often the current statement runs."""

    def __init__(self) -> None:
        self.loads: dict[Buffer, Expr] = {}
        self.stores: dict[Buffer, Expr] = {}

    def visit(self, stmt: Any, trips: Expr, means: dict[Var, Expr]) -> Expr:
        """Operations of a statement, all its runs together."""
        match stmt:
            case For():
                low, extent = substitute(stmt.min, means), substitute(stmt.extent, means)
                middle = add(low, floordiv(maximum(sub(extent, 1), 0), 2))
                return self.visit(stmt.body, mul(trips, _as_int64(extent)), {**means, stmt.loop_var: middle})
            case SeqStmt():
                total: Expr = const(0, "int64")
                for inner in stmt.stmts:
                    total = add(total, self.visit(inner, trips, means))
                return total
            case IfThenElse():
                cost = self.expression(stmt.cond, trips)
                then = self.visit(stmt.then_case, trips, means)
                other = self.visit(stmt.else_case, trips, means) if stmt.else_case is not None else const(0, "int64")
                if type(other) is IntImm and other.value == 0:
                    return add(cost, then)
                return add(cost, maximum(then, other))
            case BlockRealize():
                inside = dict(means)
                for var, value in stmt.bindings:
                    inside[var.var] = substitute(value, means)
                if stmt.block.init is not None:
                    self.visit(stmt.block.init, trips, inside)
                return self.visit(stmt.block.body, trips, inside)
            case BufferStore():
                self.stores[stmt.buffer] = add(self.stores.get(stmt.buffer, const(0, "int64")), trips)
                return self.expression(stmt.value, trips, stmt.indices)
        total = const(0, "int64")
        for child in children(stmt):
            if child.is_reference:
                continue
            part = self.expression(child, trips) if isinstance(child, Expr) else self.visit(child, trips, means)
            total = add(total, part)
        return total

    def expression(self, expr: Expr, trips: Expr, also: tuple[Expr, ...] = ()) -> Expr:
        """Operations of an expression; its loads are recorded."""
        for part in (expr, *also):
            for load in collect(part, BufferLoad):
                lanes = load.ty.dtype.lanes if isinstance(load.ty, PrimType) else 1
                self.loads[load.buffer] = add(self.loads.get(load.buffer, const(0, "int64")), mul(trips, lanes))
        return mul(trips, _flops(expr))


def _smaller(a: Expr, b: Expr) -> Expr:
    """The smaller of two counts: by proof, else at ``TYPICAL`` values of the symbols."""
    at = {v: const(TYPICAL, v.ty.dtype) for v in {*free_vars(a), *free_vars(b)} if isinstance(v.ty, PrimType)}
    ana = Analyzer()
    x, y = ana.simplify(substitute(a, at)), ana.simplify(substitute(b, at))
    return b if type(x) is IntImm and type(y) is IntImm and y.value < x.value else a


def _symbols(fn: PrimFunc) -> list[Var]:
    """Symbols of a program in the order of its parameters, which schedules keep."""
    found: dict[Var, None] = {}
    for param in fn.params:
        buffer = fn.buffer_map.get(param)
        found.update(dict.fromkeys([v for e in buffer.shape for v in free_vars(e)] if buffer is not None else [param]))
    return list(found)


def keep_cost(fn: PrimFunc, source: PrimFunc) -> PrimFunc:
    """A schedule of a program with the work of its source in it: tiles that reach beyond the last row do no more of that."""
    cost, number = cost_of(source), {var: index for index, var in enumerate(_symbols(source))}
    try:
        amounts = [to_formula(amount, number.__getitem__) for amount in (cost.flops, cost.read, cost.written)]
    except (NoFormula, KeyError):  # an extent that is loaded
        return fn
    return fn.with_attr(WORK, tuple(amounts))


def _own_cost(fn: PrimFunc) -> Cost | None:
    """The work that is written in a program."""
    symbols = _symbols(fn)
    try:
        flops, read, written = [from_formula(amount, symbols) for amount in fn.attrs[WORK]]
    except (TypeError, ValueError, UnityError):  # somebody else's attribute
        return None
    return Cost(flops, read, written)


def operations_of(stmt: Stmt) -> Expr:
    """Floating-point operations of one run of a statement."""
    return Analyzer().simplify(_Counter().visit(stmt, const(1, "int64"), {}))


def cost_of(fn: PrimFunc) -> Cost:
    """Work of one run of a tensor program, before or after lowering; of a default schedule, that of the program it was made for."""
    kept = _own_cost(fn) if WORK in fn.attrs else None
    if kept is not None:
        return kept
    counter = _Counter()
    one = const(1, "int64")
    flops = counter.visit(fn.body, one, {})
    ana = Analyzer([v for buffer in fn.buffer_map.values() for extent in buffer.shape for v in free_vars(extent)])
    totals = []
    for touched in (counter.loads, counter.stores):
        total: Expr = const(0, "int64")
        for param in fn.buffer_map.values():
            counts = [count for buffer, count in touched.items() if buffer.data is param.data]
            if counts:
                accesses = ana.simplify(reduce(add, counts))
                total = add(total, mul(_smaller(elements_of(param), accesses), param.dtype.itemsize))
        totals.append(ana.simplify(total))
    return Cost(ana.simplify(flops), totals[0], totals[1])
