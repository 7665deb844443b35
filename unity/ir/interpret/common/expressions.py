"""Scalar expressions to closures: ``closure(env)`` gives the value in the lanes of ``env``, one closure per node.

An environment gives values to variables and buffers. It is a dict where a program runs one thread at a time; values are then
Python numbers. In a kernel it is a set of lanes, and a value is a numpy scalar that all share or an array with a row per lane.
Vectors are arrays of rows in both. Invariants: an expression is compiled once per function; what lies outside the lanes is
never checked (bounds, division) and has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ....ffi.abi import DIVISIONS
from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, FloatImm, IntImm, Op, StringImm, Var
from ...scalar import OPERATOR_NAMES, And, Broadcast, BufferLoad, Cast, Let, Not, Or, Ramp, Select, Shuffle
from ...types import Expr
from . import arrays, numbers
from .arrays import Value

Env = Any
Closure = Callable[[Env], Any]
VSCALE = 1
"""Value of ``T.vscale()``: the smallest legal one."""


def lanes_of(dtype: DataType) -> int:
    """Number of lanes at run time."""
    return dtype.lanes * VSCALE if dtype.scalable else dtype.lanes


def two_dimensional(value: Value) -> Value:
    """A scalar in every lane as a column, to combine with vectors."""
    return value[:, None] if np.ndim(value) == 1 else value


def union_lanes(first: Env, second: Env) -> Env:
    """The lanes of either environment; None stands for no lanes."""
    return second if first is None else first if second is None else first.union(second)


def split(env: Env, test: Value) -> tuple[Env, Env]:
    """The lanes for which a condition holds and the others."""
    if type(test) is not np.ndarray:
        return (env, None) if test else (None, env)
    return env.split(test)  # type: ignore[no-any-return]


class ExprCompiler:
    """Compiles the expressions of one function; what depends on how threads run (memory, calls) is left to its subclasses."""

    code: ClassVar[str]
    """Code of the error for what has no meaning ``location``."""
    location: ClassVar[str]
    batched: ClassVar[bool]
    """Many threads run at once: even single numbers are numpy's."""
    intrinsics: ClassVar[dict[str, Callable[[Any, Call], Closure]]]
    """Meaning of an intrinsic by name: ``intrinsics[name](compiler, call)`` gives its closure."""

    def __init__(self) -> None:
        self.handlers: dict[type, Callable[[Any], Closure]] = {
            **dict.fromkeys(OPERATOR_NAMES, self._binary), And: self._and, Or: self._or, Not: self._not, Var: self._var,
            IntImm: self._constant, FloatImm: self._constant, StringImm: self._text, Cast: self._cast,
            Select: self._select, BufferLoad: self.load, Ramp: self._ramp, Broadcast: self._broadcast,
            Shuffle: self._shuffle, Let: self._let, Call: self.call,
        }  # fmt: skip

    def visit(self, expr: Expr) -> Closure:
        handler = self.handlers.get(type(expr))
        if handler is None:
            raise self.undefined(f"{type(expr).__name__} has no meaning inside {self.location}", expr)
        return handler(expr)

    def undefined(self, message: str, expr: Any) -> InterpreterError:
        """The error for what cannot be run."""
        return InterpreterError(self.code, message, getattr(expr, "span", None))

    # ---- what subclasses say

    def refuse(self, wrong: Value, env: Env, code: str, text: str, span: Any, value: Value = None) -> None:
        """Raise an InterpreterError where ``wrong`` holds in a lane; the text ends with the ``value`` there."""
        raise NotImplementedError

    def load(self, expr: BufferLoad) -> Closure:
        """A load from a buffer."""
        raise NotImplementedError

    def declare(self, buffer: Buffer) -> None:
        """Record that a buffer is declared here."""

    def index(self, expr: Expr) -> Closure:
        """An integer that takes part in the arithmetic of addresses."""
        return self.visit(expr)

    def address(self, expr: Expr, call: Call) -> Closure:
        """An address that an intrinsic takes."""
        return self.visit(expr)

    def call(self, expr: Call) -> Closure:
        """A call of an intrinsic."""
        make = self.intrinsics.get(expr.op.name) if type(expr.op) is Op else None
        if make is None:
            raise self.undefined(
                f"{getattr(expr.op, 'name', 'this callee')} has no meaning inside {self.location}", expr
            )
        return make(self, expr)

    def foreign(self, name: str, call: Call) -> Closure:
        """A call of a function that is not a C function of mathematics."""
        raise self.undefined(f"no function {name!r} is known inside {self.location}", call)

    # ---- numbers or arrays

    def has_rows(self, *exprs: Expr) -> bool:
        """True if one of the values is an array."""
        return self.batched or any([lanes_of(dtype_of(e)) > 1 for e in exprs])

    def column(self, value: np.ndarray, dtype: DataType) -> Value:
        """Rows of one number as a value."""
        found = value.reshape(-1)
        return found if found.size > 1 else found[0] if self.batched else numbers.number(found[0], dtype)

    def rows(self, expr: Expr) -> Closure:
        """An expression as rows of its lanes."""
        value, dtype = self.visit(expr), dtype_of(expr)
        lanes = lanes_of(dtype)
        return lambda env: np.asarray(arrays.typed(value(env), dtype)).reshape(-1, lanes)

    def side_by_side(self, vectors: Sequence[Expr]) -> Closure:
        """The lanes of several vectors as those of one."""
        parts = [self.rows(v) for v in vectors]

        def run(env: Env) -> Value:
            rows = [p(env) for p in parts]
            size = max([len(r) for r in rows])
            return np.concatenate([np.broadcast_to(r, (size, r.shape[1])) for r in rows], axis=1)

        return run

    def choose(self, cond: Closure, yes: Closure, no: Closure, vector: bool = False) -> Closure:
        """A conditional value whose sides are evaluated only in the lanes that take them."""
        if not self.batched:
            return lambda env: yes(env) if cond(env) else no(env)

        def run(env: Env) -> Value:
            test = cond(env)
            first, other = split(env, test)
            if other is None:
                return yes(first)
            if first is None:
                return no(other)
            return np.where(two_dimensional(test) if vector else test, yes(first), no(other))

        return run

    # ---- expressions

    def _constant(self, expr: IntImm | FloatImm) -> Closure:
        value = (arrays if self.batched else numbers).typed(expr.value, expr.ty.dtype)
        return lambda env: value

    def _text(self, expr: StringImm) -> Closure:
        return lambda env: expr.value

    def _var(self, expr: Var) -> Closure:
        def lookup(env: Env) -> Value:
            try:
                return env[expr]
            except KeyError:
                raise InterpreterError("E323", f"variable {expr.name} has no value here", expr.span) from None

        return lookup

    def _binary(self, expr: Any) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        dtype, name = dtype_of(expr.a), OPERATOR_NAMES[type(expr)]
        found = (arrays if self.has_rows(expr.a) else numbers).binary(name, dtype)
        if found is None:
            raise self.undefined(f"{type(expr).__name__} is not defined on {dtype.name}", expr)
        function, span = found, expr.span
        divides = name in DIVISIONS and not dtype.is_float
        if not divides or (type(expr.b) is IntImm and expr.b.value != 0):
            return lambda env: function(a(env), b(env))

        def divide(env: Env) -> Value:
            x, y = a(env), b(env)
            zero = y == 0
            if zero is not False:
                y = self.replace_invalid(zero, y, env, "integer division by zero", span)
            return function(x, y)

        return divide

    def replace_invalid(self, wrong: Value, value: Value, env: Env, text: str, span: Any) -> Value:
        """The value with 1 where it is wrong outside the lanes. Raises InterpreterError E313 where it is within."""
        self.refuse(wrong, env, "E313", text, span)
        return np.where(wrong, np.ones_like(value), value)[()]

    def _cast(self, expr: Cast) -> Closure:
        value = self.visit(expr.value)
        convert = (arrays if self.has_rows(expr) else numbers).caster(dtype_of(expr.value), expr.ty.dtype)
        return lambda env: convert(value(env))

    def _and(self, expr: And) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: a(env) & b(env)
        return self.choose(a, b, lambda env: False)

    def _or(self, expr: Or) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: a(env) | b(env)
        return self.choose(a, lambda env: True, b)

    def _not(self, expr: Not) -> Closure:
        a = self.visit(expr.a)
        if self.has_rows(expr):
            return lambda env: np.logical_not(a(env))
        return lambda env: not a(env)

    def _select(self, expr: Select) -> Closure:
        cond, yes, no = self.visit(expr.cond), self.visit(expr.true_value), self.visit(expr.false_value)
        wide = lanes_of(expr.ty.dtype) > 1
        if self.batched or wide:

            def choose_rows(env: Env) -> Value:
                test = cond(env)
                return np.asarray(np.where(two_dimensional(test) if wide else test, yes(env), no(env)))[()]

            return choose_rows

        def choose(env: Env) -> Any:
            test, x, y = cond(env), yes(env), no(env)
            return x if test else y

        return choose

    def _ramp(self, expr: Ramp) -> Closure:
        base, stride = self.rows(expr.base), self.rows(expr.stride)
        steps = np.arange(lanes_of(expr.ty.dtype)).astype(arrays.holder(expr.ty.dtype))
        return lambda env: base(env) + stride(env) * steps

    def _broadcast(self, expr: Broadcast) -> Closure:
        times = lanes_of(expr.ty.dtype) // lanes_of(dtype_of(expr.value))
        if lanes_of(expr.ty.dtype) == 1:
            return self.visit(expr.value)
        rows, single = self.rows(expr.value), lanes_of(dtype_of(expr.value)) == 1
        return lambda env: rows(env).repeat(times, 1) if single else np.tile(rows(env), (1, times))

    def _shuffle(self, expr: Shuffle) -> Closure:
        pool, indices = self.side_by_side(expr.vectors), [self.visit(i) for i in expr.indices]
        dtype = expr.ty.dtype

        def run(env: Env) -> Value:
            picked = pool(env)[:, [int(i(env)) for i in indices]]
            return picked if picked.shape[1] > 1 else self.column(picked, dtype)

        return run

    def _let(self, expr: Let) -> Closure:
        var, value, body = expr.var, self.visit(expr.value), self.visit(expr.body)

        def run(env: Env) -> Value:
            env[var] = value(env)
            return body(env)

        return run
