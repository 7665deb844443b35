"""Values of the graph level and their agreement with types.

Tensors are Views, shapes ShapeValues, tuples Python tuples, scalars Python numbers, functions FunctionValues; everything
else (objects of registered functions) is kept as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....ffi.dtype import DataType, from_numpy
from ....ffi.tensor import Tensor, tensor
from ....support.errors import FFIError, InterpreterError
from ...expr import ShapeExpr, Var
from ...function import Function
from ...types import Expr, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ...walk import free_vars
from ..common.numbers import caster, python_type
from .memory import Memory, Pointer, View
from .primfunc import view_of_array

Env = dict[Any, Any]
Evaluate = Callable[[Expr, Env], Any]


class ShapeValue(tuple):  # type: ignore[type-arg]
    """A shape at run time."""

    __slots__ = ()


class FunctionValue:
    """A function with the values it captured, and arguments already given (closures made by ``R.make_closure``)."""

    __slots__ = ("bound_args", "callee", "env")

    def __init__(self, callee: Function | str, env: Env | None = None, given: tuple[Any, ...] = ()) -> None:
        self.callee, self.env, self.bound_args = callee, env, given


class Mismatch(Exception):
    """A value does not have a type; the text says why."""


def to_value(value: Any) -> Any:
    """Value of a Python object: arrays and tensors are shared, lists and tuples become tuples."""
    if isinstance(value, (View, ShapeValue, FunctionValue, bool, int, float, str, Pointer)) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return view_of_array(value, "tensor")
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return tuple([to_value(v) for v in value])
    if isinstance(value, Tensor) or hasattr(value, "__dlpack__"):
        found = tensor(value)
        if not found.device.host_memory:
            raise FFIError("E703", f"the reference interpreter reads the host's memory, and the tensor lies on {found.device}",
                           help='copy it first: x.to("cpu")')  # fmt: skip
        return view_of_array(found.numpy(), "tensor")
    return value


def array_of(view: View, span: Any = None) -> np.ndarray:
    """The array of a tensor that has been written everywhere. Raises InterpreterError E311 and E319."""
    if not view.memory.alive:
        raise InterpreterError("E319", f"tensor {view.name} is used after its memory was freed", span)
    array = view.array()
    written = view.memory.written
    if written is not None and array.size:
        flags = View(Pointer(Memory(np.frombuffer(written, np.uint8), None, view.name), view.start), DataType("uint8"),
                     (), (), 0, view.name)  # fmt: skip
        item = array.itemsize
        base = np.frombuffer(flags.memory.raw, np.uint8)[view.start + view.base * item * view.lanes :]
        mask = np.lib.stride_tricks.as_strided(base, array.shape, array.strides)
        if not mask.all():
            where = tuple([int(i) for i in np.argwhere(mask == 0)[0]])
            count = int((mask == 0).sum())
            raise InterpreterError(
                "E311",
                f"{view.name}{list(where)} is read before anything was written there ({count} of {array.size} elements)",
                span,
            )
    return array


def convert_value(value: Any, span: Any, tensor: Callable[[View, Any], Any]) -> Any:
    """A value with its tensors as ``tensor(view, span)`` gives them, shapes as tuples."""
    if isinstance(value, View):
        return tensor(value, span)
    if isinstance(value, tuple):
        return tuple([convert_value(v, span, tensor) for v in value])
    return value


def to_foreign(value: Any, span: Any = None, output: bool = False) -> Any:
    """The form in which a registered function receives a value: Tensors over the same memory, tuples, numbers, objects."""
    if output:
        return Tensor(value.array())
    return convert_value(value, span, lambda view, span: Tensor(array_of(view, span)))


def from_value(value: Any) -> Any:
    """Python object of a value: tensors become arrays of their own."""
    return convert_value(value, None, lambda view, span: np.array(array_of(view, span)))


def fresh_tensor(memory_name: str, shape: tuple[int, ...], dtype: DataType) -> View:
    """A tensor nobody has written yet. Raises InterpreterError E319 for a negative dimension."""
    if min(shape, default=0) < 0:
        raise InterpreterError("E319", f"a tensor of shape {shape} cannot exist")
    return View(
        Pointer(Memory.fresh(math.prod(shape) * dtype.itemsize, memory_name)), dtype, tuple(shape), (), 0, memory_name
    )


def agree(ty: Type, value: Any, env: Env, evaluate: Evaluate, bind: bool) -> Any:
    """The value as one of type ``ty`` (numbers are brought to the type's dtype). With ``bind``, symbols that stand alone get
    their value. Raises Mismatch."""
    if bind:
        bind_value(ty, value, env)
    return check(ty, value, env, evaluate)


def bind_value(ty: Type, value: Any, env: Env) -> None:
    """Give unbound symbols and shape variables of a type their values."""
    if isinstance(ty, TensorType) and isinstance(value, View):
        if isinstance(ty.shape, Var):
            env.setdefault(ty.shape, ShapeValue(value.shape))
        elif isinstance(ty.shape, ShapeExpr):
            bind_dims(ty.shape.values, value.shape, env)
    elif isinstance(ty, ShapeType) and isinstance(value, tuple) and ty.values is not None:
        bind_dims(ty.values, [v for v in value if type(v) is int], env)
    elif isinstance(ty, TupleType) and isinstance(value, tuple):
        for field, item in zip(ty.fields, value):
            bind_value(field, item, env)


def bind_dims(dims: tuple[Expr, ...], sizes: Any, env: Env) -> None:
    """Bind symbols standing alone among dimensions."""
    if len(dims) == len(sizes):
        for dim, size in zip(dims, sizes):
            if isinstance(dim, Var):
                env.setdefault(dim, size)


def _check_dims(dims: tuple[Expr, ...], sizes: Any, env: Env, evaluate: Evaluate) -> None:
    if len(dims) != len(sizes):
        raise Mismatch(f"rank {len(dims)} expected, got shape {tuple(sizes)}")
    for axis, (dim, size) in enumerate(zip(dims, sizes)):
        if any([v not in env for v in free_vars(dim)]):
            continue
        expected = evaluate(dim, env)
        if expected != size:
            name = f"{dim.name} = {expected}" if isinstance(dim, Var) else str(expected)
            raise Mismatch(f"dimension {axis} must be {name}, got shape {tuple(sizes)}")


def check(ty: Type, value: Any, env: Env, evaluate: Evaluate) -> Any:
    """The value, if it has the type as far as the type's symbols are known. Raises Mismatch."""
    match ty:
        case TensorType():
            if not isinstance(value, View):
                raise Mismatch(f"expected a tensor, got {describe(value)}")
            if ty.dtype is not None and value.dtype is not ty.dtype:
                raise Mismatch(f"expected dtype {ty.dtype.name}, got {value.dtype.name}")
            if ty.ndim not in (-1, len(value.shape)):
                raise Mismatch(f"expected rank {ty.ndim}, got shape {value.shape}")
            if isinstance(ty.shape, Var):
                if ty.shape in env and tuple(env[ty.shape]) != tuple(value.shape):
                    raise Mismatch(f"expected shape {ty.shape.name} = {tuple(env[ty.shape])}, got {value.shape}")
            elif isinstance(ty.shape, ShapeExpr):
                _check_dims(ty.shape.values, value.shape, env, evaluate)
        case ShapeType():
            if not isinstance(value, tuple) or not all([type(v) is int for v in value]):
                raise Mismatch(f"expected a shape, got {describe(value)}")
            if ty.ndim not in (-1, len(value)):
                raise Mismatch(f"expected a shape of rank {ty.ndim}, got {tuple(value)}")
            if ty.values is not None:
                _check_dims(ty.values, value, env, evaluate)
            return ShapeValue(value)
        case PrimType():
            if isinstance(value, Pointer) or (value is None and ty.dtype.code == "handle"):
                return value
            if not isinstance(value, (bool, int, float)):
                raise Mismatch(f"expected a scalar, got {describe(value)}")
            if isinstance(value, float) and not ty.dtype.is_float:
                raise Mismatch(f"expected {ty.dtype.name}, got the float {value}")
            return caster(python_type(value), ty.dtype)(value)
        case TupleType():
            if not isinstance(value, tuple) or (isinstance(value, ShapeValue) and ty.fields):
                if value is None and not ty.fields:
                    return ()
                raise Mismatch(f"expected a tuple, got {describe(value)}")
            if len(value) != len(ty.fields):
                raise Mismatch(f"expected a tuple of {len(ty.fields)}, got one of {len(value)}")
            return tuple([check(f, v, env, evaluate) for f, v in zip(ty.fields, value)])
        case FuncType():
            if not isinstance(value, FunctionValue) and not callable(value):
                raise Mismatch(f"expected a function, got {describe(value)}")
    return value


def describe(value: Any) -> str:
    """Short description of a value for messages."""
    if isinstance(value, View):
        return f"a tensor {tuple(value.shape)} of {value.dtype.name}"
    if isinstance(value, ShapeValue):
        return f"the shape {tuple(value)}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{value!r}" if isinstance(value, (bool, int, float, str)) else f"a {type(value).__name__}"


def scalar_of(value: Any) -> Any:
    """The number in a rank-0 tensor (or a tensor of one element), or the number itself."""
    if isinstance(value, View):
        array = array_of(value)
        if array.size != 1:
            raise Mismatch(f"expected a single value, got {describe(value)}")
        return array.reshape(-1)[0].item()
    return value


def from_reference(value: Any, ty: Type) -> Any:
    """Value of what an operator's numpy meaning gave: arrays for tensors, tuples of them for tuples."""
    if isinstance(ty, TupleType) and isinstance(value, (tuple, list)):
        return (
            tuple([from_reference(v, f) for v, f in zip(value, ty.fields)])
            if len(value) == len(ty.fields)
            else tuple(value)
        )
    if isinstance(ty, TensorType) and isinstance(value, (np.ndarray, np.generic, int, float, bool)):
        array = np.asarray(value)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).reshape(array.shape)
        from_numpy(array.dtype)  # a dtype we know
        return view_of_array(array, "result")
    if isinstance(ty, ShapeType):
        return ShapeValue([int(v) for v in value])
    return value.item() if isinstance(value, np.generic) else to_value(value)
