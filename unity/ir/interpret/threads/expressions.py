"""Scalar expressions to closures over a batch of lanes: ``closure(mask)`` gives the value in the mask's lanes.

Invariant: lanes outside the mask are never checked (bounds, division), and what they hold has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, FloatImm, GlobalVar, IntImm, Op, StringImm, Var
from ...scalar import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
)  # fmt: skip
from ...types import Expr
from ..scalar.machine import lanes_of
from .access import Closure, Locator
from .findings import Site
from .lanes import Mask, Value
from .memory import Address
from .numbers import binary, caster, typed
from .wave import Wave

INTRINSICS: dict[str, Callable[[Any, Call], Closure]] = {}
"""Meaning of an intrinsic by name: ``INTRINSICS[name](compiler, call)`` gives its closure."""


def two_dimensional(value: Value) -> Value:
    """A scalar in every lane as a column, to combine with vectors."""
    return value[:, None] if np.ndim(value) == 1 else value


class ExprCompiler:
    """Compiles the expressions of one kernel."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.reducers: list[Any] = []
        """Reducers of the enclosing ``reduce_scope`` attributes."""
        self.storage_of: dict[Site, Any] = {}
        self.handlers: dict[type, Callable[[Any], Closure]] = {
            IntImm: self._constant, FloatImm: self._constant, StringImm: self._text, Var: self._var, Cast: self._cast,
            And: self._and, Or: self._or, Not: self._not, Select: self._select, BufferLoad: self._load, Ramp: self._ramp,
            Broadcast: self._broadcast, Shuffle: self._shuffle, Let: self._let, Call: self._call,
        }  # fmt: skip
        for cls in (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE):
            self.handlers[cls] = self._binary

    def visit(self, expr: Expr) -> Closure:
        handler = self.handlers.get(type(expr))
        if handler is None:
            raise InterpreterError(
                "E369", f"{type(expr).__name__} has no meaning inside a kernel", getattr(expr, "span", None)
            )
        return handler(expr)

    def site(self, buffer: Buffer, kind: str, span: Any, atomic: bool = False) -> Site:
        """A new access site of a buffer."""
        return self.wave.log.site(buffer.name, kind, buffer.scope, span, atomic)

    def locator(
        self, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None, kind: str, span: Any
    ) -> Locator:
        """The locator of a load or store."""
        made = self.visit(predicate) if predicate is not None else None
        site = self.site(buffer, kind, span)
        return Locator(self.wave, buffer, indices, [self.index(i) for i in indices], made, site)

    def index(self, expr: Expr) -> Closure:
        """An integer expression in 64 bits."""
        value = self.visit(expr)
        dtype = dtype_of(expr)
        if not dtype.is_integral:
            text = f"expected an integer, got {dtype.name}"
            raise InterpreterError("E372", text, getattr(expr, "span", None))
        if dtype.element.name == "int64":
            return value
        return lambda mask: np.asarray(value(mask)).astype(np.int64)[()]

    def address(self, expr: Expr, call: Call) -> Callable[[Mask], Address]:
        """An expression that must be an address, as an argument of an intrinsic."""
        value = self.visit(expr)

        def run(mask: Mask) -> Address:
            found = value(mask)
            if not isinstance(found, Address):
                raise InterpreterError("E372", f"{getattr(call.op, 'name', 'intrinsic')} takes an address", call.span)
            return found

        return run

    def _constant(self, expr: IntImm | FloatImm) -> Closure:
        value = typed(expr.value, expr.ty.dtype) if expr.ty.dtype.code != "handle" else np.uint64(expr.value)
        return lambda mask: value

    def _text(self, expr: StringImm) -> Closure:
        return lambda mask: expr.value

    def _var(self, expr: Var) -> Closure:
        wave = self.wave

        def lookup(mask: Mask) -> Value:
            try:
                return wave.env[expr]
            except KeyError:
                raise InterpreterError("E323", f"variable {expr.name} has no value here", expr.span) from None

        return lookup

    def _binary(self, expr: Any) -> Closure:
        a, b, span, wave = self.visit(expr.a), self.visit(expr.b), expr.span, self.wave
        dtype = dtype_of(expr.a)
        name = type(expr).__name__
        found = binary(name, dtype)
        if found is None:
            raise InterpreterError("E369", f"{name} is not defined on {dtype.name}", span)
        function = found
        if name not in ("Div", "Mod", "FloorDiv", "FloorMod") or dtype.is_float:
            return lambda mask: function(a(mask), b(mask))

        def divide(mask: Mask) -> Value:
            x, y = a(mask), b(mask)
            zero = np.asarray(y == 0)
            if zero.any():
                where = mask.lanes & (zero.any(axis=1) if zero.ndim == 2 else zero)
                if where.any():
                    raise wave.failure("E313", "integer division by zero", span, int(np.flatnonzero(where)[0]))
            return function(x, y)

        return divide

    def _cast(self, expr: Cast) -> Closure:
        value = self.visit(expr.value)
        convert = caster(dtype_of(expr.value), expr.ty.dtype)
        return lambda mask: convert(value(mask))

    def _and(self, expr: And) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda mask: a(mask) & b(mask)

        def run(mask: Mask) -> Value:
            left = a(mask)
            inner = mask.where(left)
            return left & b(inner) if inner.count else left

        return run

    def _or(self, expr: Or) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda mask: a(mask) | b(mask)

        def run(mask: Mask) -> Value:
            left = a(mask)
            inner = mask.where(~np.asarray(left, np.bool_))
            return left | b(inner) if inner.count else left

        return run

    def _not(self, expr: Not) -> Closure:
        a = self.visit(expr.a)
        return lambda mask: np.logical_not(a(mask))

    def _select(self, expr: Select) -> Closure:
        cond, yes, no = self.visit(expr.cond), self.visit(expr.true_value), self.visit(expr.false_value)
        flat = lanes_of(dtype_of(expr.cond)) == 1 and lanes_of(expr.ty.dtype) > 1

        def choose(mask: Mask) -> Value:
            test = cond(mask)
            return np.asarray(np.where(two_dimensional(test) if flat else test, yes(mask), no(mask)))[()]

        return choose

    def lazily(self, cond: Closure, yes: Closure, no: Closure, vector: bool) -> Closure:
        """A conditional value whose sides are evaluated only in the lanes that take them."""

        def run(mask: Mask) -> Value:
            test = cond(mask)
            first = mask.where(test)
            if first is mask:
                return yes(mask)
            if not first.count:
                return no(mask)
            other = mask.where(~np.asarray(test, np.bool_))
            if vector:
                test = two_dimensional(test)
            return np.where(test, yes(first), no(other))

        return run

    def _ramp(self, expr: Ramp) -> Closure:
        base, stride = self.visit(expr.base), self.visit(expr.stride)
        dtype = expr.ty.dtype
        steps = np.arange(lanes_of(dtype)).astype(dtype.numpy)

        def run(mask: Mask) -> Value:
            first, step = np.asarray(base(mask)), np.asarray(stride(mask))
            return first.reshape(-1, 1) + step.reshape(-1, 1) * steps

        return run

    def _broadcast(self, expr: Broadcast) -> Closure:
        value = self.visit(expr.value)
        inner = lanes_of(dtype_of(expr.value))
        times = lanes_of(expr.ty.dtype) // inner

        def run(mask: Mask) -> Value:
            found = np.asarray(value(mask))
            rows = found.reshape(-1, inner)
            return np.tile(rows, (1, times))

        return run if times * inner > 1 else value

    def _shuffle(self, expr: Shuffle) -> Closure:
        parts = [self.visit(v) for v in expr.vectors]
        indices = [self.visit(i) for i in expr.indices]
        wave = self.wave

        def run(mask: Mask) -> Value:
            columns = [np.asarray(p(mask)) for p in parts]
            size = wave.batch.size
            wide = [np.broadcast_to(c if c.ndim == 2 else c.reshape(-1, 1), (size, c.shape[1] if c.ndim == 2 else 1))
                    for c in columns]  # fmt: skip
            pool = np.concatenate(wide, axis=1)
            picked = pool[:, [int(i(mask)) for i in indices]]
            return picked if picked.shape[1] > 1 else picked[:, 0]

        return run

    def _let(self, expr: Let) -> Closure:
        var, value, body, wave = expr.var, self.visit(expr.value), self.visit(expr.body), self.wave

        def run(mask: Mask) -> Value:
            wave.env[var] = value(mask)
            return body(mask)

        return run

    def _call(self, expr: Call) -> Closure:
        make = INTRINSICS.get(expr.op.name) if type(expr.op) is Op else None
        if make is None:
            name = getattr(expr.op, "name", type(expr.op).__name__)
            text = "a kernel cannot call functions of the module" if type(expr.op) is GlobalVar else "it has no meaning"
            raise InterpreterError("E369", f"{name} inside a kernel: {text} for the thread-level checker", expr.span)
        return make(self, expr)

    def _load(self, expr: BufferLoad) -> Closure:
        return self.locator(expr.buffer, expr.indices, expr.predicate, "load", expr.span).load
