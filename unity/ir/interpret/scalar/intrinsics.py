"""Intrinsics of a program that runs one thread at a time: addresses, and calls of registered functions.

Intrinsics that need several threads at once (shuffles, fragments, asynchronous copies) have no entry: calling one is an error.
"""

from __future__ import annotations

from typing import Any

from ....support.errors import InterpreterError
from ...build import dtype_of
from ...expr import Call, StringImm
from ...scalar import BufferLoad
from ...types import pointed
from ..common.expressions import Closure, Env
from ..common.intrinsics import SHARED, Intrinsics, of_value
from ..common.numbers import fits
from .machine import READ
from .memory import Memory, Pointer, View

INTRINSICS = Intrinsics(SHARED)
register = INTRINSICS.register
register("tvm_storage_sync")(SHARED["T.prefetch"])
register("isnullptr")(of_value(lambda value: value is None))


@register("address_of")
def _address_of(compiler: Any, call: Call) -> Closure:
    load = call.args[0]
    if type(load) is not BufferLoad:
        raise InterpreterError("E318", "T.address_of takes a buffer element", call.span)
    located = compiler.offset(load.buffer, load.indices, READ, call.span)

    def run(env: Env) -> Pointer:
        view, offset = located(env)
        return Pointer(view.memory, view.byte(offset * view.lanes))

    return run


@register("tvm_stack_alloca")
def _stack_alloca(compiler: Any, call: Call) -> Closure:
    count = compiler.visit(call.args[1])
    return lambda env: Pointer(Memory.fresh(16 * count(env), "stack"))


@register("atomic_add")
def _atomic_add(compiler: Any, call: Call) -> Closure:
    address, value = compiler.visit(call.args[0]), compiler.visit(call.args[1])
    dtype = pointed(call.args[0].ty) or dtype_of(call.args[1])
    fit = fits(dtype)

    def run(env: Env) -> Any:
        view = View(address(env), dtype, (1,), (), 0, "atomic")
        if not view.count:
            raise InterpreterError("E310", "atomic access outside the memory", call.span)
        if not view.is_written(0):
            raise InterpreterError("E311", "atomic access to a cell nobody has written", call.span)
        old = view.get(0)
        view.set(0, fit(old + value(env)))
        return old

    return run


@register("call_packed", "tvm_call_packed", "call_cpacked")
def _call_registered(compiler: Any, call: Call) -> Closure:
    return compiler.foreign(call.args[0].value if type(call.args[0]) is StringImm else "", call)  # type: ignore[no-any-return]
