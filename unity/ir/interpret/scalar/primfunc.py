"""Running a tensor program: arguments to views, symbols from shapes, body, result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.conditions import range_fault
from ....ffi.dtype import DataType, from_numpy
from ....support.errors import InterpreterError
from ...analysis.reductions import init_empty_reductions
from ...buffer import Buffer
from ...build import dtype_of
from ...expr import Var
from ...function import PrimFunc
from ...types import PrimType
from ...walk import free_vars
from ..common.blocks import view_maker
from ..common.numbers import caster, python_type
from .machine import Machine
from .memory import Memory, Pointer, View
from .statements import RESULT, StmtCompiler

Env = dict[Any, Any]


class CompiledPrimFunc:
    """A tensor program as closures; ``call(args)`` runs it."""

    def __init__(self, fn: PrimFunc, name: str, machine: Machine) -> None:
        self.fn, self.name = fn, name
        self.statements = self.statement_compiler(machine)
        self.makers: dict[Buffer, Callable[[Env, Pointer], View]] = {}
        self.body = self.statements.visit(init_empty_reductions(fn.body))
        for buffer in fn.buffer_map.values():
            self.makers[buffer] = view_maker(self.statements.expr, buffer)

    def statement_compiler(self, machine: Machine) -> StmtCompiler:
        """The compiler of the body's statements."""
        return StmtCompiler(machine)

    def call(self, args: list[Any], span: Any = None) -> Any:
        """Run with arguments: arrays, Pointers or numbers, one per parameter."""
        fn = self.fn
        if len(args) != len(fn.params):
            raise InterpreterError("E316", f"{self.name} takes {len(fn.params)} arguments, got {len(args)}", span)
        env: Env = {}
        for param, arg in zip(fn.params, args):
            if param not in fn.buffer_map:
                env[param] = self._scalar(param, arg, span)
        arrays: list[tuple[Buffer, View]] = []
        for param, arg in zip(fn.params, args):
            buffer = fn.buffer_map.get(param)
            if buffer is None:
                continue
            if isinstance(arg, View):
                arrays.append((buffer, arg))
                self._bind_symbols(env, buffer, arg)
        for param, arg in zip(fn.params, args):
            buffer = fn.buffer_map.get(param)
            if buffer is None:
                continue
            if isinstance(arg, Pointer):
                env[param] = env[buffer.data] = arg
                env[buffer] = self.makers[buffer](env, arg)
            elif not isinstance(arg, View):
                raise InterpreterError(
                    "E316", f"{self.name}: argument {param.name} must be a tensor, got {arg!r}", span
                )
        for buffer, view in arrays:
            env[buffer] = self._checked_view(env, buffer, view, span)
            env[buffer.data] = view.first
        self.body(env)
        if RESULT not in env and type(fn.ret_ty) is PrimType and fn.ret_ty.dtype.code != "void":
            raise InterpreterError("E323", f"{self.name} ended without returning a value", fn.span)
        return env.get(RESULT)

    def _scalar(self, param: Var, arg: Any, span: Any) -> Any:
        if isinstance(arg, Pointer):
            return arg
        if isinstance(arg, View):
            return arg.first
        if not isinstance(param.ty, PrimType) or not isinstance(arg, (bool, int, float, np.generic)):
            if arg is None:
                return None
            raise InterpreterError("E316", f"{self.name}: parameter {param.name} cannot take {arg!r}", span)
        value = arg.item() if isinstance(arg, np.generic) else arg
        source = python_type(value)
        target = param.ty.dtype
        if source.is_float and not target.is_float:
            raise InterpreterError("E316", f"{self.name}: parameter {param.name} is {target.name}, got {arg!r}", span)
        return self._integer(param, int(value), span) if source.is_int else caster(source, target)(value)

    def _integer(self, var: Var, value: int, span: Any) -> Any:
        """A whole number for a scalar or a symbol. Raises InterpreterError E316 where its type cannot hold it."""
        target = dtype_of(var)
        fault = range_fault(value, target.name) if target.is_integral and not target.is_bool else None
        if fault is not None:
            raise InterpreterError("E316", f"{self.name}: {var.name}: {fault[1]}", span)
        return caster(DataType("int64"), target)(value)

    def _bind_symbols(self, env: Env, buffer: Buffer, view: View) -> None:
        """Symbols that stand alone as a dimension, stride or offset get their value from the argument."""
        if len(buffer.shape) == len(view.shape):
            for dim, size in zip(buffer.shape, view.shape):
                if isinstance(dim, Var) and dim not in env:
                    env[dim] = self._integer(dim, size, buffer.span)
            for stride, step in zip(buffer.strides, view.strides):
                if isinstance(stride, Var):
                    env.setdefault(stride, step)
        if isinstance(buffer.elem_offset, Var):
            env.setdefault(buffer.elem_offset, 0)

    def _checked_view(self, env: Env, buffer: Buffer, view: View, span: Any) -> View:
        name = f"{self.name}: argument {buffer.name}"
        if view.dtype.element is not buffer.dtype.element:
            raise InterpreterError("E316", f"{name} must be {buffer.dtype.name}, got {view.dtype.name}", span)
        missing = [v.name for dim in (*buffer.shape, *buffer.strides) for v in free_vars(dim) if v not in env]
        if missing:
            raise InterpreterError("E316", f"{name}: symbol {missing[0]} follows from no argument", span)
        given = self.makers[buffer](env, view.first)
        shape = view.shape
        if buffer.dtype.lanes > 1 and view.lanes == 1:
            shape = (*shape[:-1], shape[-1] // buffer.dtype.lanes) if shape else shape
        if given.shape != shape:
            raise InterpreterError("E316", f"{name} must have shape {given.shape}, got {shape}", span)
        expected = given.strides if buffer.strides else None
        steps = [(n, s) for n, s in zip(view.shape, view.strides) if n > 1]
        wanted = [(n, s) for n, s in zip(given.shape, given.strides) if n > 1]
        if steps != wanted and buffer.dtype.lanes == 1 and 0 not in view.shape:
            what = f"strides {expected}" if expected else "compact row-major memory"
            raise InterpreterError("E316", f"{name} must have {what}, got strides {view.strides}", span)
        return given


def view_of_array(array: np.ndarray, name: str) -> View:
    """A view over a numpy array's own memory."""
    dtype = from_numpy(array.dtype)
    low = np.lib.array_utils.byte_bounds(array)[0] if array.size else 0
    start = array.__array_interface__["data"][0] - low if array.size else 0
    strides = tuple([s // array.itemsize for s in array.strides])
    if array.flags.c_contiguous:
        strides = ()
    return View(Pointer(Memory.of_array(array, name)), dtype, array.shape, strides, start // array.itemsize, name)
