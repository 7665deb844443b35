"""Scalar expressions to Python closures over an environment ``dict[Var | Buffer, value]``: one closure per node.

Vectors are tuples of lanes. Invariant: an expression is compiled once per function and evaluated without dispatch on nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Reduce,
    Select,
    Shuffle,
    Sub,
)  # fmt: skip
from ...types import Expr
from .checks import READ
from .intrinsics import INTRINSIC_CLOSURES
from .machine import Machine, lanes_of
from .memory import View
from .numbers import COMPARE, DivisionByZero, arithmetic, caster

Env = dict[Any, Any]
Closure = Callable[[Env], Any]


class GuardKey:
    """Key in the environment of a block's region guard; ``inside`` are the buffers declared within the block."""

    __slots__ = ("inside",)

    def __init__(self) -> None:
        self.inside: set[Buffer] = set()


class ExprCompiler:
    """Compiles the expressions of one function. ``guards`` are keys of the enclosing blocks' region guards in the environment."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.guards: list[GuardKey] = []
        self.handlers: dict[type, Callable[[Any], Closure]] = {
            IntImm: self._int, FloatImm: self._constant, StringImm: self._constant, Var: self._var, Cast: self._cast,
            And: self._and, Or: self._or, Not: self._not, Select: self._select, BufferLoad: self._load, Ramp: self._ramp,
            Broadcast: self._broadcast, Shuffle: self._shuffle, Let: self._let, Call: self._call, Reduce: self._reduce,
        }  # fmt: skip
        for cls in (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE):
            self.handlers[cls] = self._binary

    def visit(self, expr: Expr) -> Closure:
        handler = self.handlers.get(type(expr))
        if handler is None:
            raise InterpreterError(
                "E318", f"{type(expr).__name__} has no meaning inside a tensor program", getattr(expr, "span", None)
            )
        return handler(expr)

    def _int(self, expr: IntImm) -> Closure:
        value: Any = bool(expr.value) if expr.ty.dtype.is_bool else expr.value
        return lambda env: value

    def _constant(self, expr: FloatImm | StringImm) -> Closure:
        value = expr.value
        return lambda env: value

    def _var(self, expr: Var) -> Closure:
        def lookup(env: Env) -> Any:
            try:
                return env[expr]
            except KeyError:
                raise InterpreterError("E323", f"variable {expr.name} has no value here", expr.span) from None

        return lookup

    def _binary(self, expr: Any) -> Closure:
        a, b, span = self.visit(expr.a), self.visit(expr.b), expr.span
        dtype = dtype_of(expr.a)
        name = type(expr).__name__
        found = COMPARE.get(name) or arithmetic(dtype).get(name)
        if found is None:
            raise InterpreterError("E318", f"{name} is not defined on {dtype.name}", span)
        function = found
        lanes = lanes_of(dtype)
        if name in ("Div", "Mod", "FloorDiv", "FloorMod") and not dtype.is_float:

            def divide(env: Env) -> Any:
                x, y = a(env), b(env)
                try:
                    if lanes == 1:
                        return function(x, y)
                    return tuple([function(p, q) for p, q in zip(x, y)])
                except DivisionByZero:
                    raise InterpreterError("E313", "integer division by zero", span) from None

            return divide
        if lanes > 1:
            return lambda env: tuple([function(p, q) for p, q in zip(a(env), b(env))])
        return lambda env: function(a(env), b(env))

    def _cast(self, expr: Cast) -> Closure:
        value = self.visit(expr.value)
        convert = caster(dtype_of(expr.value), expr.ty.dtype)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: tuple([convert(v) for v in value(env)])
        return lambda env: convert(value(env))

    def _and(self, expr: And) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: tuple([p and q for p, q in zip(a(env), b(env))])
        return lambda env: a(env) and b(env)

    def _or(self, expr: Or) -> Closure:
        a, b = self.visit(expr.a), self.visit(expr.b)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: tuple([p or q for p, q in zip(a(env), b(env))])
        return lambda env: a(env) or b(env)

    def _not(self, expr: Not) -> Closure:
        a = self.visit(expr.a)
        if lanes_of(expr.ty.dtype) > 1:
            return lambda env: tuple([not v for v in a(env)])
        return lambda env: not a(env)

    def _select(self, expr: Select) -> Closure:
        cond, yes, no = self.visit(expr.cond), self.visit(expr.true_value), self.visit(expr.false_value)
        if lanes_of(dtype_of(expr.cond)) > 1:
            return lambda env: tuple([p if c else q for c, p, q in zip(cond(env), yes(env), no(env))])

        def choose(env: Env) -> Any:
            test, x, y = cond(env), yes(env), no(env)
            return x if test else y

        return choose

    def _ramp(self, expr: Ramp) -> Closure:
        base, stride = self.visit(expr.base), self.visit(expr.stride)
        dtype = expr.ty.dtype
        table = arithmetic(dtype)
        add, mul = table["Add"], table["Mul"]
        lanes = range(lanes_of(dtype))

        def run(env: Env) -> Any:
            first, step = base(env), stride(env)
            return tuple([add(first, mul(step, k)) for k in lanes])

        return run

    def _broadcast(self, expr: Broadcast) -> Closure:
        value = self.visit(expr.value)
        inner = lanes_of(dtype_of(expr.value))
        times = lanes_of(expr.ty.dtype) // inner
        if inner > 1:
            return lambda env: value(env) * times
        if times == 1:
            return value
        return lambda env: (value(env),) * times

    def _shuffle(self, expr: Shuffle) -> Closure:
        parts = [(self.visit(v), lanes_of(dtype_of(v))) for v in expr.vectors]
        indices = [self.visit(i) for i in expr.indices]

        def run(env: Env) -> Any:
            pool: list[Any] = []
            for part, lanes in parts:
                value = part(env)
                if lanes == 1:
                    pool.append(value)
                else:
                    pool.extend(value)
            picked = [pool[i(env)] for i in indices]
            return picked[0] if len(picked) == 1 else tuple(picked)

        return run

    def _let(self, expr: Let) -> Closure:
        var, value, body = expr.var, self.visit(expr.value), self.visit(expr.body)

        def run(env: Env) -> Any:
            env[var] = value(env)
            return body(env)

        return run

    def _call(self, expr: Call) -> Closure:
        callee = expr.op
        if type(callee) is GlobalVar:
            return self._result_of(callee.name, self.function_call(expr), expr)
        make = INTRINSIC_CLOSURES.get(callee.name) if type(callee) is Op else None
        if make is None:
            name = getattr(callee, "name", type(callee).__name__)
            span = expr.span

            def unknown(env: Env) -> Any:
                raise InterpreterError("E318", f"the interpreter gives no meaning to {name}", span)

            return unknown
        return make(self, expr)

    def function_call(self, expr: Call) -> Closure:
        """A call of a function of the module; nothing comes back from a tensor program without a result."""
        args = [self.visit(a) for a in expr.args]
        machine, name = self.machine, getattr(expr.op, "name", "")
        return lambda env: machine.call(name, [a(env) for a in args], expr.span)

    def _result_of(self, name: str, call: Closure, expr: Call) -> Closure:
        def value(env: Env) -> Any:
            result = call(env)
            if result is None:
                raise InterpreterError("E318", f"{name} returns nothing: a call of it is no value", expr.span)
            return result

        return value

    def _reduce(self, expr: Reduce) -> Closure:
        reducer = expr.combiner
        identity = [self.visit(e) for e in reducer.identity]
        result = [self.visit(e) for e in reducer.result]
        sources = [self.visit(e) for e in expr.source]
        condition = self.visit(expr.condition)
        axes = [
            (axis.var, self.visit(axis.dom.min), self.visit(axis.dom.extent))
            for axis in expr.axis
            if axis.dom is not None
        ]
        init = [self.visit(e) for e in expr.init]

        def fold(env: Env, depth: int, state: list[Any]) -> list[Any]:
            if depth < len(axes):
                var, low, extent = axes[depth]
                start = low(env)
                for value in range(start, start + extent(env)):
                    env[var] = value
                    state = fold(env, depth + 1, state)
                return state
            if not condition(env):
                return state
            values = [s(env) for s in sources]
            for left, right, old, new in zip(reducer.lhs, reducer.rhs, state, values):
                env[left], env[right] = old, new
            return [r(env) for r in result]

        return lambda env: fold(env, 0, [e(env) for e in (init or identity)])[expr.value_index]

    # ---- memory

    def declare(self, buffer: Buffer) -> None:
        """Note that a buffer is declared here: guards of the enclosing blocks do not cover it."""
        for key in self.guards:
            key.inside.add(buffer)

    def guards_of(self, buffer: Buffer) -> list[GuardKey]:
        """Guards of the enclosing blocks that cover a buffer."""
        return [key for key in self.guards if buffer not in key.inside]

    def offsets(
        self, buffer: Buffer, indices: tuple[Expr, ...], kind: int, span: Any
    ) -> Callable[[Env], tuple[View, list[int]]]:
        """Closure giving the view and the checked offsets (in numbers) that an access touches, one per lane."""
        compiled = [self.visit(i) for i in indices]
        vector = [lanes_of(dtype_of(i)) for i in indices]
        lanes = max(vector, default=1)
        if lanes == 1:
            single = self._offset(buffer, compiled, kind, span)
            width = buffer.dtype.lanes
            if width == 1:

                def one(env: Env) -> tuple[View, list[int]]:
                    view, offset = single(env)
                    return view, [offset]

                return one

            def whole(env: Env) -> tuple[View, list[int]]:
                view, offset = single(env)
                return view, list(range(offset * width, offset * width + width))

            return whole
        guards = self.guards_of(buffer)
        width = buffer.dtype.lanes

        def many(env: Env) -> tuple[View, list[int]]:
            view = view_of(env, buffer, span)
            columns = [c(env) if v > 1 else (c(env),) * lanes for c, v in zip(compiled, vector)]
            found: list[int] = []
            for lane in range(lanes):
                point = [column[lane] for column in columns]
                offset = linear(view, point, span)
                found.extend(range(offset * width, offset * width + width))
                for guard in guards:
                    active = env.get(guard)
                    if active is not None:
                        active.check(buffer, point, kind, span)
            return view, found

        return many

    def _offset(
        self, buffer: Buffer, compiled: list[Closure], kind: int, span: Any
    ) -> Callable[[Env], tuple[View, int]]:
        guards = self.guards_of(buffer)

        def run(env: Env) -> tuple[View, int]:
            view = view_of(env, buffer, span)
            point = [c(env) for c in compiled]
            offset = view.base
            if len(point) != len(view.shape):
                raise bad_rank(view, point, span)
            for index, extent, stride in zip(point, view.shape, view.strides):
                if not 0 <= index < extent:
                    raise out_of_bounds(view, point, span)
                offset += index * stride
            for guard in guards:
                active = env.get(guard)
                if active is not None:
                    active.check(buffer, point, kind, span)
            return view, offset

        return run

    def _load(self, expr: BufferLoad) -> Closure:
        span, read = expr.span, self.machine.read
        buffer = expr.buffer
        if (
            expr.predicate is None
            and buffer.dtype.lanes == 1
            and all([lanes_of(dtype_of(i)) == 1 for i in expr.indices])
        ):
            single = self._offset(buffer, [self.visit(i) for i in expr.indices], READ, span)

            def load(env: Env) -> Any:
                view, offset = single(env)
                return read(view, offset, span)

            return load
        if expr.predicate is not None:
            return self._masked_load(expr)
        many = self.offsets(buffer, expr.indices, READ, span)

        def load_lanes(env: Env) -> Any:
            view, found = many(env)
            return tuple([read(view, offset, span) for offset in found])

        return load_lanes

    def _masked_load(self, expr: BufferLoad) -> Closure:
        """Lanes whose predicate is false are not read; they give zero."""
        assert expr.predicate is not None
        predicate, span, read = self.visit(expr.predicate), expr.span, self.machine.read
        lane_offset = self.lane_offsets(expr.buffer, expr.indices, READ, span)
        zero: Any = 0.0 if expr.ty.dtype.is_float else False if expr.ty.dtype.is_bool else 0

        def load(env: Env) -> Any:
            mask = predicate(env)
            view, offset_of = lane_offset(env)
            return tuple([read(view, offset_of(k), span) if active else zero for k, active in enumerate(mask)])

        return load

    def lane_offsets(
        self, buffer: Buffer, indices: tuple[Expr, ...], kind: int, span: Any
    ) -> Callable[[Env], tuple[View, Callable[[int], int]]]:
        """Closure giving the view and a function from lane to checked offset (for predicated access)."""
        compiled = [(self.visit(i), lanes_of(dtype_of(i))) for i in indices]
        guards = self.guards_of(buffer)

        def run(env: Env) -> tuple[View, Callable[[int], int]]:
            view = view_of(env, buffer, span)
            values = [(c(env), v) for c, v in compiled]

            def offset_of(lane: int) -> int:
                point = [value[lane] if v > 1 else value for value, v in values]
                for guard in guards:
                    active = env.get(guard)
                    if active is not None:
                        active.check(buffer, point, kind, span)
                return linear(view, point, span)

            return view, offset_of

        return run


def view_of(env: Env, buffer: Buffer, span: Any) -> View:
    """The view of a buffer; InterpreterError E323 where it is not declared."""
    view = env.get(buffer)
    if view is None:
        raise InterpreterError("E323", f"buffer {buffer.name} is not declared here", span)
    if not view.memory.alive:
        raise InterpreterError("E319", f"buffer {buffer.name} is used after its memory was freed", span)
    return view  # type: ignore[no-any-return]


def linear(view: View, point: list[int], span: Any) -> int:
    """Offset in elements of checked indices."""
    if len(point) != len(view.shape):
        raise bad_rank(view, point, span)
    offset = view.base
    for index, extent, stride in zip(point, view.shape, view.strides):
        if not 0 <= index < extent:
            raise out_of_bounds(view, point, span)
        offset += index * stride
    return offset


def bad_rank(view: View, point: list[int], span: Any) -> InterpreterError:
    """The error for a wrong number of indices."""
    return InterpreterError("E310", f"{view.name} has {len(view.shape)} axes, indexed with {len(point)}", span)


def out_of_bounds(view: View, point: list[int], span: Any) -> InterpreterError:
    """The error for an index outside the shape."""
    shown = ", ".join([str(i) for i in point])
    return InterpreterError("E310", f"{view.name}[{shown}] is outside its shape {tuple(view.shape)}", span)
