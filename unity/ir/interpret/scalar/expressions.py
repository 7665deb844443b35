"""Expressions of a program that runs one thread at a time: its memory and its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ....ffi.dtype import DataType
from ....ffi.registry import get_global_func
from ....ffi.tensor import Tensor
from ....support.errors import InterpreterError
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Call, GlobalVar, Op, Var
from ...scalar import BufferLoad, Ramp, Reduce
from ...types import Expr, PrimType
from ..common import arrays, numbers
from ..common.arrays import Value
from ..common.expressions import Closure, Env, ExprCompiler as SharedCompiler, lanes_of
from ..common.numbers import caster, python_type
from .intrinsics import INTRINSICS
from .machine import READ, Machine
from .memory import Pointer, View


class GuardKey:
    """Key in the environment of a block's region guard; ``inside`` are the buffers declared within the block."""

    __slots__ = ("inside",)

    def __init__(self) -> None:
        self.inside: set[Buffer] = set()


class ExprCompiler(SharedCompiler):
    """Compiles the expressions of one function. ``guards`` are keys of the enclosing blocks' region guards in the environment."""

    code, location, batched = "E318", "a tensor program", False
    intrinsics: ClassVar = INTRINSICS

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.guards: list[GuardKey] = []
        self.handlers[Reduce] = self._reduce

    def refuse(self, wrong: Value, env: Env, code: str, text: str, span: Any, value: Value = None) -> None:
        """Raise an InterpreterError where ``wrong`` holds in a lane; the text ends with the ``value`` there."""
        if wrong if type(wrong) is not np.ndarray else wrong.any():
            raise InterpreterError(code, text if value is None else f"{text}{value}", span)

    # ---- calls

    def call(self, expr: Call) -> Closure:
        """A call of an intrinsic, or of a function of the module that returns something."""
        callee = expr.op
        if type(callee) is not GlobalVar:
            if type(callee) is Op and callee.name in self.intrinsics:
                return super().call(expr)

            def unknown(env: Env) -> Any:
                name = getattr(callee, "name", type(callee).__name__)
                raise InterpreterError("E318", f"the interpreter gives no meaning to {name}", expr.span)

            return unknown
        call = self.function_call(expr)

        def value(env: Env) -> Any:
            result = call(env)
            if result is None:
                raise InterpreterError("E318", f"{callee.name} returns nothing: a call of it is not a value", expr.span)
            return result

        return value

    def function_call(self, expr: Call) -> Closure:
        """A call of a function of the module; nothing comes back from a tensor program without a result."""
        args = [self.visit(a) for a in expr.args]
        machine, name = self.machine, getattr(expr.op, "name", "")
        return lambda env: machine.call(name, [a(env) for a in args], expr.span)

    def foreign(self, name: str, call: Call) -> Closure:
        """A call of a function of the registry."""
        args = [self.visit(a) for a in call.args[1:]]
        dtype = call.ty.dtype if isinstance(call.ty, PrimType) else DataType("void")

        def run(env: Env) -> Any:
            function = get_global_func(name, allow_missing=True)
            if function is None:
                raise InterpreterError("E318", f"no function is registered as {name!r}", call.span)
            values = [a(env) for a in args]
            views = [_view_of_pointer(source, value, env) for source, value in zip(call.args[1:], values)]
            if any([isinstance(value, Pointer) and view is None for value, view in zip(values, views)]):
                raise InterpreterError(
                    "E318", f"{name!r} takes an address, which a registered Python function cannot", call.span
                )
            result = function(*[v if view is None else Tensor(view.array()) for v, view in zip(values, views)])
            for view in views:
                if view is not None:
                    view.mark_written()
            if dtype.code == "void" or result is None:
                return result
            result = result.item() if isinstance(result, np.generic) else result
            return caster(python_type(result), dtype)(result)

        return run

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
        """Record that a buffer is declared here: guards of the enclosing blocks do not cover it."""
        for key in self.guards:
            key.inside.add(buffer)

    def guards_of(self, buffer: Buffer) -> list[GuardKey]:
        """Guards of the enclosing blocks that cover a buffer."""
        return [key for key in self.guards if buffer not in key.inside]

    def locator(self, buffer: Buffer, kind: int, span: Any) -> Callable[[Env, View, list[int]], int]:
        """Function giving the checked offset in elements of a point of a view."""
        guards = self.guards_of(buffer)

        def locate(env: Env, view: View, point: list[int]) -> int:
            offset = view.base
            if len(point) != len(view.shape):
                text = f"{view.name} has {len(view.shape)} axes, indexed with {len(point)}"
                raise InterpreterError("E310", text, span)
            for index, extent, stride in zip(point, view.shape, view.strides):
                if not 0 <= index < extent:
                    shown = ", ".join([str(i) for i in point])
                    text = f"{view.name}[{shown}] is outside its shape {tuple(view.shape)}"
                    raise InterpreterError("E310", text, span)
                offset += index * stride
            for guard in guards:
                active = env.get(guard)
                if active is not None:
                    active.check(buffer, point, kind, span)
            return offset

        return locate

    def offset(
        self, buffer: Buffer, indices: tuple[Expr, ...], kind: int, span: Any
    ) -> Callable[[Env], tuple[View, int]]:
        """Closure giving the view and the checked offset in elements of an access by single indices."""
        locate, compiled = self.locator(buffer, kind, span), [self.visit(i) for i in indices]
        guarded, rank = bool(self.guards_of(buffer)), len(indices)

        def run(env: Env) -> tuple[View, int]:
            view = env.get(buffer)
            if view is None or not view.memory.alive:
                view = view_of(env, buffer, span)
            point = [c(env) for c in compiled]
            if guarded or len(view.shape) != rank:
                return view, locate(env, view, point)
            offset = view.base  # what locate does, in place: half of the time goes into accesses
            for index, extent, stride in zip(point, view.shape, view.strides):
                if not 0 <= index < extent:
                    return view, locate(env, view, point)
                offset += index * stride
            return view, offset

        return run

    def places(self, index: Expr) -> Callable[[Env], Sequence[int]]:
        """Closure giving an index in each lane, as a range where it is one."""
        if type(index) is not Ramp or self.has_rows(index.base, index.stride):
            rows = self.rows(index)
            return lambda env: rows(env)[0].tolist()
        base, stride, lanes = self.visit(index.base), self.visit(index.stride), lanes_of(index.ty.dtype)
        fit = numbers.fits(index.ty.dtype.element)

        def run(env: Env) -> Sequence[int]:
            first, step = base(env), stride(env)
            end = first + step * lanes
            if step and fit(end) == end:
                return range(first, end, step)
            return [fit(first + step * k) for k in range(lanes)]

        return run

    def offsets(
        self, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None, kind: int, span: Any
    ) -> Callable[[Env], tuple[View, Sequence[int | None]]]:
        """Closure giving the view and the checked offsets in numbers of the lanes of an access; None where there is none."""
        locate, compiled = self.locator(buffer, kind, span), [self.places(i) for i in indices]
        mask = self.rows(predicate) if predicate is not None else None
        if predicate is not None and lanes_of(dtype_of(predicate)) == 1:
            raise self.undefined("a predicate is for vectors, this access is of a single element", predicate)
        vectors = indices if predicate is None else (*indices, predicate)
        lanes, width = max([lanes_of(dtype_of(i)) for i in vectors], default=1), buffer.dtype.lanes
        is_flat = len(indices) == width == 1 and not self.guards_of(buffer)

        def run(env: Env) -> tuple[View, Sequence[int | None]]:
            view = view_of(env, buffer, span)
            active = None if mask is None else mask(env)[0].tolist()
            columns = [c(env) for c in compiled]
            if is_flat and view.strides == (1,) and type(columns[0]) is range:
                row, extent = columns[0], view.shape[0]
                if 0 <= row[0] < extent and 0 <= row[-1] < extent:  # what locate does, for all lanes at once
                    places = range(row.start + view.base, row.stop + view.base, row.step)
                    return view, places if active is None else [o if a else None for o, a in zip(places, active)]
            points = [list(c) * lanes if len(c) == 1 else c for c in columns]
            found: list[int | None] = []
            for lane in range(lanes):
                is_active = active is None or active[lane]
                at = locate(env, view, [c[lane] for c in points]) * width if is_active else None
                found.extend([None] * width if at is None else range(at, at + width))
            return view, found

        return run

    def is_single(self, buffer: Buffer, indices: tuple[Expr, ...], predicate: Expr | None) -> bool:
        """True if an access always touches a single number."""
        return predicate is None and buffer.dtype.lanes == 1 and not self.has_rows(*indices)

    def load(self, expr: BufferLoad) -> Closure:
        """A load from a buffer; lanes whose predicate is false are not read and give zero."""
        span, machine, buffer = expr.span, self.machine, expr.buffer
        read = machine.read
        if self.is_single(buffer, expr.indices, expr.predicate):
            single = self.offset(buffer, expr.indices, READ, span)

            def load(env: Env) -> Any:
                view, offset = single(env)
                return read(view, offset, span)

            return load
        many, kind = self.offsets(buffer, expr.indices, expr.predicate, READ, span), arrays.holder(buffer.dtype)

        def load_lanes(env: Env) -> Any:
            view, found = many(env)
            if type(found) is range and (cells := machine.row(view, found, READ)) is not None:
                return np.array(cells, kind, ndmin=2)
            return np.array([[read(view, offset, span) if offset is not None else 0 for offset in found]], kind)

        return load_lanes


def _view_of_pointer(source: Expr, value: Any, env: Env) -> View | None:
    """The buffer that a pointer handed to a registered function stands for."""
    if not isinstance(value, Pointer) or type(source) is not Var:
        return None
    buffer = next((known for known in env if type(known) is Buffer and known.data is source), None)
    return None if buffer is None else env[buffer]


def view_of(env: Env, buffer: Buffer, span: Any) -> View:
    """The view of a buffer; InterpreterError E323 where it is not declared."""
    view = env.get(buffer)
    if view is None:
        raise InterpreterError("E323", f"buffer {buffer.name} is not declared here", span)
    if not view.memory.alive:
        raise InterpreterError("E319", f"buffer {buffer.name} is used after its memory was freed", span)
    return view  # type: ignore[no-any-return]
