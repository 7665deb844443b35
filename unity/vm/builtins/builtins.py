"""The VM's own operations on values, by name. Used by the interpreter, and by native code for what it does not cover.

Each takes run-time values (sizes as int) and returns a value. Checks and control flow are not here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ...ffi.device import CPU, Device
from ...ffi.device_array import empty
from ...ffi.dlpack import dlpack_type
from ...ffi.dtype import DataType
from ...ffi.registry import CONTEXT, register_func
from ...ffi.tensor import Tensor, float_bits, float_of_bits
from ...support.errors import DeviceError, FFIError, VMError
from .dynamic import dynamic_strided_slice, nonzero, unique
from .values import describe, new_array, to_device_value


def alloc_storage(size: int, *, device: Device = CPU) -> np.ndarray:
    """Bytes that tensors are placed in."""
    return new_tensor("uint8", size, device=device).layout


def check_extent(extent: int) -> int:
    """A size that memory can have. Raises VMError E615."""
    if extent < 0:
        raise VMError("E615", f"a tensor or storage computed at run time has the impossible extent {extent}")
    return extent


def new_tensor(dtype: str, *shape: int, device: Device = CPU) -> Tensor:
    """A tensor with memory of its own. Raises VMError E615, DeviceError E736."""
    data_type = DataType(dtype).numpy
    total = most = data_type.itemsize
    for extent in shape:
        total *= check_extent(extent)
        most *= max(extent, 1)  # numpy bounds the product of the other extents also where one is zero
    if total >= 2**47 or most >= 2**63:
        raise VMError("E615", f"a tensor of shape {shape} is too large")
    if not device.host_memory:
        return Tensor.over(empty(device, shape, data_type), device)
    try:
        return Tensor(new_array(shape, data_type))
    except MemoryError:
        raise VMError("E615", f"out of memory: {total} bytes for a tensor of shape {shape}") from None


def _tensor_over(
    memory: np.ndarray, offset: int, dtype: str, shape: tuple[int, ...], what: str, device: Device
) -> Tensor:
    data_type = DataType(dtype).numpy
    size = data_type.itemsize * math.prod([check_extent(extent) for extent in shape])
    if offset < 0 or offset + size > memory.size:
        raise VMError("E638", f"a {what} of {size} bytes at offset {offset} does not fit into {memory.size} bytes")
    if size == 0:
        return new_tensor(dtype, *shape, device=device)
    piece = memory[offset : offset + size]
    if piece.ctypes.data % data_type.itemsize:
        raise VMError("E638", f"a {what} at offset {offset} is not aligned for {dtype}")
    return Tensor.over(piece.view(data_type).reshape(shape), device)


def tensor_in(storage: np.ndarray, offset: int, dtype: str, *shape: int, device: Device = CPU) -> Tensor:
    """A tensor inside storage at a byte offset."""
    return _tensor_over(storage, offset, dtype, shape, "tensor", device)


def view(source: Tensor, offset: int, dtype: str, *shape: int) -> Tensor:
    """The same memory with another shape, dtype and start."""
    array = source.layout
    memory = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
    return _tensor_over(memory, offset, dtype, shape, "view", source.device)


def arith(kind: str, a: float, b: float) -> float:
    """Arithmetic on floating-point scalars."""
    if kind == "add":
        return a + b
    if kind == "sub":
        return a - b
    if kind == "mul":
        return a * b
    if kind == "min":
        return min(a, b)
    if kind == "max":
        return max(a, b)
    if b == 0:
        return float("nan") if a == 0 or a != a else float("inf") if a > 0 else float("-inf")
    return a / b


def cast(dtype: str, value: float) -> float | int:
    """A scalar as another type; integers wrap around."""
    if isinstance(value, int) and DataType(dtype).is_integral:
        return int(np.array(value & 2**64 - 1, np.uint64).astype(DataType(dtype).numpy))
    return DataType(dtype).numpy.type(value).item()  # type: ignore[no-any-return]


def address(value: Any) -> int:
    """The address in a pointer: where a tensor's elements lie, an integer itself, 0 for None. Raises VMError E603."""
    if isinstance(value, Tensor):
        return value.data_ptr
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value or 0
    raise VMError("E603", f"a pointer is made of a tensor, an integer or None, got {describe(value)}")


def get_item(value: Any, index: int) -> Any:
    """A field of a tuple."""
    if not isinstance(value, tuple) or not 0 <= index < len(value):
        raise VMError("E603", f"expected a tuple with a field {index}, got {type(value).__name__}")
    return value[index]


def tensor_to_shape(value: Tensor) -> tuple[int, ...]:
    """A rank-1 integer tensor as a shape."""
    return tuple([int(v) for v in value.numpy()])


def shape_to_tensor(value: tuple[int, ...]) -> Tensor:
    """A shape as an int64 tensor."""
    return Tensor(np.array(value, np.int64))


def inspect_tensor(field: str, value: Tensor, axis: int = 0) -> int:
    """A fact about a run-time tensor. Raises VMError E605 for an axis it does not have."""
    if field in ("shape_i", "stride_i"):
        if not 0 <= axis < value.ndim:
            raise VMError("E605", f"axis {axis} of a tensor of {value.ndim} dimensions")
        return value.shape[axis] if field == "shape_i" else value.strides[axis]
    if field == "ndim":
        return value.ndim
    if field == "dtype_code":
        return dlpack_type(value.data_type)[0]
    if field == "dtype_bits":
        return dlpack_type(value.data_type)[1]
    return 1 if field == "dtype_lanes" else 0


def _text(parts: tuple[Any, ...]) -> str:
    form = parts[-1] if parts and isinstance(parts[-1], str) else ""
    values = parts[:-1] if parts and isinstance(parts[-1], str) else parts
    return form.format(*values) if form else " ".join([str(v) for v in values])


def print_values(*parts: Any) -> None:
    """Print values, through a format where the last one is text."""
    print(_text(parts))


class _Deferred(threading.local):
    """The assertions about tensors that this thread puts off, None where it looks at them at once."""

    assertions: list[tuple[Any, ...]] | None = None


_DEFERRED = _Deferred()


@contextmanager
def deferred_assertions() -> Iterator[list[tuple[Any, ...]]]:
    """A block in which assertions about tensors are noted, as arguments of ``assert_op`` in memory of their own."""
    before, _DEFERRED.assertions = _DEFERRED.assertions, []
    try:
        yield _DEFERRED.assertions
    finally:
        _DEFERRED.assertions = before


def assert_op(condition: Any, *parts: Any) -> None:
    """Stop unless a condition holds. Raises VMError E635."""
    if _DEFERRED.assertions is not None and isinstance(condition, Tensor):
        copies = [x.copyto(x.device) if isinstance(x, Tensor) else x for x in (condition, *parts)]
        _DEFERRED.assertions.append(tuple(copies))
    elif not bool(condition):
        raise VMError("E635", f"assertion failed: {_text(parts)}" if parts else "assertion failed")


def truth(value: Any) -> bool:
    """A condition: a bool, a number, or a tensor with one element. Raises VMError E603."""
    if isinstance(value, Tensor) and value.size != 1:
        raise VMError("E603", f"a condition must be a scalar, got a tensor of shape {value.shape}")
    return bool(value)


def _checked_operation(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that may be given anything. Raises VMError E603 for what it cannot take."""

    def call(*args: Any) -> Any:
        try:
            return operation(*args)
        except DeviceError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, FFIError) as error:
            raise VMError("E603", f"{name} cannot take {', '.join([describe(a) for a in args])}: {error}") from error

    return call


ARITHMETIC = ("add", "sub", "mul", "div", "min", "max")
"""The operations of ``arith``."""
INSPECTED = ("ndim", "dtype_code", "dtype_bits", "dtype_lanes", "shape_i", "stride_i", "byte_offset", "elem_offset")
"""The properties that ``inspect`` looks at."""
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "alloc_storage": alloc_storage,
    "new_tensor": new_tensor,
    "new_tensor_of": lambda dtype, shape, **where: new_tensor(dtype, *shape, **where),
    "tensor_in": tensor_in,
    "tensor_in_of": lambda storage, offset, dtype, shape, **where: tensor_in(storage, offset, dtype, *shape, **where),
    "view": view,
    "view_of": lambda source, offset, dtype, shape: view(source, offset, dtype, *shape),
    "move": lambda value: value,
    "tuple": lambda *fields: fields,
    "shape": lambda *extents: extents,
    "get_item": get_item,
    "arith": arith,
    "cast": cast,
    "address": address,
    "float_bits": float_bits,
    "float_of_bits": float_of_bits,
    "shape_of": lambda value: tuple(value.shape),
    "tensor_to_shape": tensor_to_shape,
    "shape_to_tensor": shape_to_tensor,
    "size": lambda value: Tensor(np.array(value.size, np.int64)),
    "inspect": inspect_tensor,
    "print": print_values,
    "assert_op": assert_op,
    "null_value": lambda: None,
    "vm_context": lambda: CONTEXT,
    "nonzero": nonzero,
    "unique": unique,
    "dynamic_strided_slice": dynamic_strided_slice,
}
BUILTINS = {name: _checked_operation(name, operation) for name, operation in _OPERATIONS.items()}
"""Operations by name."""
_ALLOCATIONS = ("alloc_storage", "new_tensor", "new_tensor_of", "tensor_in", "tensor_in_of")


def builtins_on(device: Device) -> dict[str, Callable[..., Any]]:
    """The operations for tensors of a device: what is allocated lies there, and what is computed on the host is copied there."""
    if device.host_memory:
        return BUILTINS

    def moved(operation: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: to_device_value(operation(*args), device)

    return {
        name: _checked_operation(name, partial(operation, device=device) if name in _ALLOCATIONS else moved(operation))
        for name, operation in _OPERATIONS.items()
    }


register_func(
    "vm.builtin.reshape", lambda tensor, shape: view(tensor, 0, tensor.dtype, *shape), override=True, on_device=True
)
register_func("vm.builtin.tuple_getitem", get_item, override=True, on_device=True)


@register_func("vm.builtin.invoke_closure", override=True, on_device=True)
def _invoke_closure(context: Any, closure: Any, *args: Any) -> Any:
    return closure(*args)
