"""Operators the interpreter defines itself: calls across the border, closures, memory, printing, assertions.

``BUILTINS[name](evaluator, call, env)`` gives the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....ffi.dtype import DataType
from ....ffi.registry import CONTEXT
from ....ffi.tensor import Tensor
from ....support.errors import InterpreterError
from ...expr import Call, GlobalVar, StringImm
from ...types import TensorType, TupleType
from .machine import allocate
from .memory import Memory, Pointer, View
from .values import (
    FunctionValue,
    ShapeValue,
    array_of,
    check,
    fresh_tensor,
    from_value,
    scalar_of,
    to_foreign,
    to_value,
)

Builtin = Callable[[Any, Call, dict[Any, Any]], Any]


def _shape_of_type(ev: Any, ty: TensorType, env: dict[Any, Any], span: Any) -> tuple[int, ...]:
    if ty.shape is None or ty.dtype is None:
        raise InterpreterError("E316", "an output needs a known shape and dtype", span)
    return tuple(ev.visit(ty.shape, env))


def _call_dps(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    args = list(ev.visit(call.args[1], env))
    inplace = call.attrs.get("inplace_indices")
    results: list[View] = []
    extra: list[View] = []
    for k, ty in enumerate(call.output_types):
        if inplace is not None and inplace[k] != -1:
            view = args[inplace[k]]
            check(ty, view, env, ev.visit)
        else:
            assert isinstance(ty, TensorType) and ty.dtype is not None
            view = fresh_tensor(f"output {k} of {callee_name(call)}", _shape_of_type(ev, ty, env, call.span), ty.dtype)
            extra.append(view)
        results.append(view)
    scalars = list(ev.visit(call.args[2], env)) if len(call.args) > 2 else []
    callee = call.args[0]
    if isinstance(callee, GlobalVar) and callee.name in ev.machine.mod:
        ev.call_function(callee.name, [*args, *extra, *scalars], call.span)
    else:
        function = ev.visit(callee, env)
        if isinstance(function, FunctionValue):
            ev.apply(function, [*args, *extra, *scalars], call.span)
        else:
            foreign = [to_foreign(a, call.span) for a in args]
            outputs = [Tensor(v.array()) for v in extra]
            function(*foreign, *outputs, *scalars)
            for view in extra:
                view.mark_written()
    return tuple(results) if isinstance(call.ty, TupleType) else results[0]


def _call_tir_dyn(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    given = ev.visit(call.args[1], env)
    values = [given] if isinstance(given, ShapeValue) else list(given)
    args = [v for value in values for v in (value if isinstance(value, ShapeValue) else (value,))]
    callee = call.args[0]
    if isinstance(callee, GlobalVar) and callee.name in ev.machine.mod:
        ev.call_function(callee.name, args, call.span)
    else:
        ev.apply(ev.visit(callee, env), args, call.span)
    return ()


def callee_name(call: Call) -> str:
    """Name of the function a call_dps or call_packed names."""
    return str(getattr(call.args[0], "name", getattr(call.args[0], "value", "function")))


def _call_packed(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    callee = call.args[0]
    function = callee.value if isinstance(callee, StringImm) else ev.visit(callee, env)
    result = ev.apply(function, [ev.visit(a, env) for a in call.args[1:]], call.span)
    return result if result is not None else ()


def _call_with_ctx(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    if callee_name(call) == "vm.builtin.invoke_closure":
        function, *given = ev.visit(call.args[1], env)
        return ev.apply(function, given, call.span)
    callee = call.args[0]
    function = callee.value if isinstance(callee, StringImm) else ev.visit(callee, env)
    result = ev.apply(function, [CONTEXT, *ev.visit(call.args[1], env)], call.span)
    return result if result is not None else ()


def _make_closure(ev: Any, call: Call, env: dict[Any, Any]) -> FunctionValue:
    function, given = ev.visit(call.args[0], env), ev.visit(call.args[1], env)
    if not isinstance(function, FunctionValue):
        raise InterpreterError("E318", "R.make_closure takes a function of the module", call.span)
    return FunctionValue(function.callee, function.env, (*function.bound_args, *given))


def _invoke_closure(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    return ev.apply(ev.visit(call.args[0], env), list(ev.visit(call.args[1], env)), call.span)


def _print(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    values = [from_value(ev.visit(a, env)) for a in call.args]
    template = call.attrs.get("format", "")
    print(template.format(*values) if template else " ".join([str(v) for v in values]))
    return ()


def _assert(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    if not scalar_of(ev.visit(call.args[0], env)):
        values = [from_value(ev.visit(a, env)) for a in call.args[1:]]
        template = call.attrs.get("format", "") or "assertion failed"
        raise InterpreterError("E314", template.format(*values), call.span)
    return ()


def _null(ev: Any, call: Call, env: dict[Any, Any]) -> None:
    return None


def _identity(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    return ev.visit(call.args[0], env)


def _copy(ev: Any, call: Call, env: dict[Any, Any]) -> Any:
    value = ev.visit(call.args[0], env)
    return to_value(array_of(value, call.span).copy()) if isinstance(value, View) else value


# ---- memory


def _builtin_alloc_tensor(ev: Any, call: Call, env: dict[Any, Any]) -> View:
    shape, dtype = ev.visit(call.args[0], env), ev.visit(call.args[1], env)
    return fresh_tensor("tensor", tuple(shape), DataType(dtype))


def _alloc_storage(ev: Any, call: Call, env: dict[Any, Any]) -> Pointer:
    size = ev.visit(call.args[0], env)
    index = 2 if getattr(call.op, "name", "") == "R.vm.alloc_storage" else 3
    dtype = DataType(ev.visit(call.args[index], env))
    return Pointer(allocate(math.prod(size) * dtype.itemsize, "storage"))


def _alloc_tensor(ev: Any, call: Call, env: dict[Any, Any]) -> View:
    storage, offset, shape, dtype = [ev.visit(a, env) for a in call.args[:4]]
    if not isinstance(storage, Pointer):
        raise InterpreterError("E319", "a tensor is placed in something that is not a storage", call.span)
    kind = DataType(dtype)
    if not storage.memory.alive:
        raise InterpreterError("E319", "a tensor is placed in a storage that was freed", call.span)
    end = offset + math.prod(shape) * kind.itemsize
    if offset < 0 or end > storage.memory.size:
        raise InterpreterError(
            "E310", f"a tensor needs bytes {offset} to {end} of a storage of {storage.memory.size}", call.span
        )
    _forget(storage.memory, offset, end)
    return View(storage.offset_by(offset), kind, tuple(shape), (), 0, "tensor")


def _forget(memory: Memory, start: int, end: int) -> None:
    """Mark memory as dead: reading it is an error from now on."""
    if memory.written is not None:
        memory.written[start:end] = bytes(end - start)


def _kill_tensor(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    view = ev.visit(call.args[0], env)
    if isinstance(view, View) and view.memory.written is not None:
        start = view.start + view.base * view.size
        _forget(view.memory, start, start + view.array().nbytes)
    return ()


def _drop(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    """A reference is given up: what still refers to the object keeps it."""
    ev.visit(call.args[0], env)
    return ()


def _kill_storage(ev: Any, call: Call, env: dict[Any, Any]) -> tuple[()]:
    value = ev.visit(call.args[0], env)
    if isinstance(value, Pointer):
        if not value.memory.alive:
            raise InterpreterError("E319", "a storage is freed twice", call.span)
        value.memory.alive = False
        return ()
    return _kill_tensor(ev, call, env)


def _view(ev: Any, call: Call, env: dict[Any, Any]) -> View:
    source = ev.visit(call.args[0], env)
    values = [ev.visit(a, env) for a in call.args[1:]]
    shape = tuple(values[0]) if values and isinstance(values[0], tuple) else source.shape
    dtype = DataType(values[1]) if len(values) > 1 and values[1] is not None else source.dtype
    offset = values[2] if len(values) > 2 else 0
    start = source.start + source.base * source.size + offset
    view = View(Pointer(source.memory, start), dtype, shape, (), 0, source.name)
    if offset < 0 or math.prod(shape) > view.count:
        raise InterpreterError(
            "E310", f"R.memory.view: shape {shape} of {dtype.name} at byte {offset} leaves the tensor", call.span
        )
    return view


BUILTINS: dict[str, Builtin] = {
    "R.call_dps": _call_dps, "R.call_inplace": _call_dps, "R.call_dps_with_grad": _call_dps, "R.call_packed": _call_packed,
    "R.call_pure_packed": _call_packed, "R.call_inplace_packed": _call_packed, "R.call_py_func": _call_packed,
    "R.call_builtin_with_ctx": _call_with_ctx, "R.make_closure": _make_closure, "R.invoke_closure": _invoke_closure,
    "R.invoke_pure_closure": _invoke_closure, "R.print": _print, "R.assert_op": _assert, "R.null_value": _null,
    "R.to_vdevice": _copy, "R.hint_on_device": _identity, "R.builtin.stop_lift_params": _identity,
    "R.builtin.alloc_tensor": _builtin_alloc_tensor, "R.memory.alloc_storage": _alloc_storage,
    "R.vm.alloc_storage": _alloc_storage, "R.memory.alloc_tensor": _alloc_tensor, "R.vm.alloc_tensor": _alloc_tensor,
    "R.memory.kill_tensor": _kill_tensor, "R.memory.kill_storage": _kill_storage, "R.vm.kill_object": _drop,
    "R.vm.call_tir_dyn": _call_tir_dyn, "R.memory.view": _view, "R.memory.ensure_zero_offset": _identity,
}  # fmt: skip
