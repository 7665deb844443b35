"""Operators the interpreter defines itself: calls across the border, closures, memory, printing, assertions.

``BUILTINS[name](evaluator, call, env, *values)`` gives the value, from those of the arguments: of a registered function its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....ffi.dtype import DataType
from ....ffi.registry import CONTEXT
from ....ffi.tensor import Tensor
from ....support.errors import InterpreterError
from ...expr import Call
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

Env = dict[Any, Any]
Builtin = Callable[..., Any]


def _call_dps(ev: Any, call: Call, env: Env, function: Any, given: Any, scalars: Any = ()) -> Any:
    args = list(given)
    inplace = call.attrs.get("inplace_indices")
    results: list[View] = []
    extra: list[View] = []
    for k, ty in enumerate(call.output_types):
        if inplace is not None and inplace[k] != -1:
            view = args[inplace[k]]
            check(ty, view, env, ev.visit)
        else:
            if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
                raise InterpreterError("E316", "an output needs a known shape and dtype", call.span)
            view = fresh_tensor(f"output {k} of {callee_name(call)}", tuple(ev.visit(ty.shape, env)), ty.dtype)
            extra.append(view)
        results.append(view)
    if isinstance(function, FunctionValue):
        ev.apply(function, [*args, *extra, *scalars], call.span)
    else:
        foreign = [to_foreign(a, call.span) for a in args]
        outputs = [Tensor(v.array()) for v in extra]
        ev.visit(call.args[0], env)(*foreign, *outputs, *scalars)
        for view in extra:
            view.mark_written()
    return tuple(results) if isinstance(call.ty, TupleType) else results[0]


def _call_tir_dyn(ev: Any, call: Call, env: Env, function: Any, given: Any) -> tuple[()]:
    values = [given] if isinstance(given, ShapeValue) else list(given)
    args = [v for value in values for v in (value if isinstance(value, ShapeValue) else (value,))]
    ev.apply(function, args, call.span)
    return ()


def callee_name(call: Call) -> str:
    """Name of the function a call_dps or call_packed names."""
    return str(getattr(call.args[0], "name", getattr(call.args[0], "value", "function")))


def _call_packed(ev: Any, call: Call, env: Env, function: Any, *given: Any) -> Any:
    result = ev.apply(function, [*given], call.span)
    return result if result is not None else ()


def _call_with_ctx(ev: Any, call: Call, env: Env, function: Any, given: Any) -> Any:
    if function == "vm.builtin.invoke_closure":
        return _call_packed(ev, call, env, *given)
    return _call_packed(ev, call, env, function, CONTEXT, *given)


def _make_closure(ev: Any, call: Call, env: Env, function: Any, given: Any) -> FunctionValue:
    if not isinstance(function, FunctionValue):
        raise InterpreterError("E318", "R.make_closure takes a function of the module", call.span)
    return FunctionValue(function.callee, function.env, (*function.bound_args, *given))


def _invoke_closure(ev: Any, call: Call, env: Env, function: Any, given: Any) -> Any:
    return ev.apply(function, list(given), call.span)


def _print(ev: Any, call: Call, env: Env, *given: Any) -> tuple[()]:
    values = [from_value(v) for v in given]
    template = call.attrs.get("format", "")
    print(template.format(*values) if template else " ".join([str(v) for v in values]))
    return ()


def _assert(ev: Any, call: Call, env: Env, condition: Any, *given: Any) -> tuple[()]:
    if not scalar_of(condition):
        values = [from_value(v) for v in given]
        template = call.attrs.get("format", "") or "assertion failed"
        raise InterpreterError("E314", template.format(*values), call.span)
    return ()


def _null(ev: Any, call: Call, env: Env) -> None:
    return None


def _identity(ev: Any, call: Call, env: Env, value: Any, *rest: Any) -> Any:
    return value


def _copy(ev: Any, call: Call, env: Env, value: Any, *rest: Any) -> Any:
    return to_value(array_of(value, call.span).copy()) if isinstance(value, View) else value


# ---- memory


def _builtin_alloc_tensor(ev: Any, call: Call, env: Env, shape: Any, dtype: Any, *rest: Any) -> View:
    return fresh_tensor("tensor", tuple(shape), DataType(dtype))


def _alloc_storage(ev: Any, call: Call, env: Env, size: Any, *rest: Any) -> Pointer:
    dtype = DataType(rest[1 if call.op_name == "R.vm.alloc_storage" else 2])
    return Pointer(allocate(math.prod(size) * dtype.itemsize, "storage"))


def _alloc_tensor(ev: Any, call: Call, env: Env, storage: Any, offset: Any, shape: Any, dtype: Any, *rest: Any) -> View:
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


def _kill_tensor(ev: Any, call: Call, env: Env, view: Any) -> tuple[()]:
    if isinstance(view, View) and view.memory.written is not None:
        start = view.start + view.base * view.size
        _forget(view.memory, start, start + view.array().nbytes)
    return ()


def _drop(ev: Any, call: Call, env: Env, value: Any) -> tuple[()]:
    """A reference is given up: what still refers to the object keeps it."""
    return ()


def _kill_storage(ev: Any, call: Call, env: Env, value: Any) -> tuple[()]:
    if isinstance(value, Pointer):
        if not value.memory.alive:
            raise InterpreterError("E319", "a storage is freed twice", call.span)
        value.memory.alive = False
        return ()
    return _kill_tensor(ev, call, env, value)


def _view(ev: Any, call: Call, env: Env, source: Any, shape: Any = None, dtype: Any = None, offset: Any = 0) -> View:
    shape = tuple(shape) if isinstance(shape, tuple) else source.shape
    dtype = source.dtype if dtype is None else DataType(dtype)
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
