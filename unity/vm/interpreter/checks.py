"""The check instructions: is a value what its declaration says. Every failure is a VMError with the declared place.

``CONDITIONS[name](value, *operands)`` gives the fault of a value or None; the conditions are those of the checked entries
(``ffi/conditions.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ffi.abi import evaluate
from ...ffi.conditions import (
    Fault,
    compact_fault,
    dimension_fault,
    kind_fault,
    length_fault,
    range_fault,
    read_only_fault,
)
from ...ffi.device import Device
from ...ffi.dtype import DataType
from ...ffi.tensor import Tensor
from ...support.errors import Note, VMError
from ..builtins.values import Closure, describe
from ..executable.bytecode import Arg, Bind, Context, Program, Size, Slot


def failure(program: Program, context: Context, fault: Fault) -> VMError:
    """An error about a declared place."""
    place = program.place(context.place)
    declared = Note(f"{context.what} is declared {context.annotation}{f', at {place}' if place else ''}")
    return VMError(fault[0], f"{context.function}: {context.what}: {fault[1]}", notes=[declared])


def _kind(good: bool, wanted: str, value: Any) -> Fault | None:
    return None if good else ("E603", f"expected {wanted}, got {describe(value)}")


def _tensor(value: Any, dtype: str | None, ndim: int) -> Fault | None:
    """A C-contiguous tensor of a dtype and rank (None and -1: any)."""
    if not isinstance(value, Tensor):
        return _kind(False, "a tensor", value)
    array = value.layout
    fault = kind_fault(array, str(value.dtype), dtype, ndim if ndim >= 0 else None) or compact_fault(array)
    return fault or (None if array.flags.aligned else ("E609", "expected a tensor at an aligned address"))


def _shape(value: Any, ndim: int) -> Fault | None:
    """A tuple of integers of a length (-1: any)."""
    good = isinstance(value, tuple) and all([isinstance(v, int) and not isinstance(v, bool) for v in value])
    return _kind(good, "a shape (a tuple of integers)", value) or (
        length_fault(len(value), ndim, "entries") if ndim >= 0 else None
    )


def _scalar(value: Any, dtype: str) -> Fault | None:
    """A Python number that fits a dtype; a bool is an integer, as in Python, and no float."""
    kind = DataType(dtype)
    types = (int, float) if kind.is_float else bool if kind.is_bool else int
    good = isinstance(value, types) and not (kind.is_float and isinstance(value, bool))
    return _kind(good, f"a {dtype} number", value) or (range_fault(value, dtype) if kind.is_integral else None)


def _tuple(value: Any, count: int) -> Fault | None:
    """A tuple of a length."""
    return _kind(isinstance(value, tuple), "a tuple", value) or length_fault(len(value), count, "fields")


CONDITIONS: dict[str, Callable[..., Fault | None]] = {
    "check_tensor": _tensor, "check_shape": _shape, "check_scalar": _scalar, "check_tuple": _tuple,
    "check_writable": lambda value: read_only_fault(value.layout),
    "check_function": lambda value: _kind(isinstance(value, Closure) or callable(value), "a function", value),
}  # fmt: skip


def device_fault(value: Any, device: Device) -> Fault | None:
    """A tensor that lies on the device of the program."""
    if not isinstance(value, Tensor) or value.device == device:
        return None
    return "E612", f"expected a tensor on {device}, got one on {value.device}"


def bounds_fault(value: int, least: int | None, most: int | None) -> Fault | None:
    """A symbol between what the attributes of the function say (None: no bound)."""
    if least is not None and value < least:
        return "E749", f"is {value}, less than its lower bound {least}"
    if most is not None and value > most:
        return "E749", f"is {value}, more than its upper bound {most}"
    return None


def match_shape(value: Any, axes: tuple[Arg, ...], values: list[int], slots: tuple[Slot, ...]) -> Fault | None:
    """Compare the dimensions of a tensor or shape with formulas and store new symbols into their slots."""
    shape = value.shape if isinstance(value, Tensor) else value
    fault = length_fault(len(shape), len(axes), f"dimensions of shape {tuple(shape)}")
    if fault is not None:
        return fault
    names, origins = [s.name for s in slots], {k: s.origin for k, s in enumerate(slots)}
    for axis, (extent, wanted) in enumerate(zip(shape, axes, strict=True)):
        if isinstance(wanted, Bind):
            values[wanted.slot] = extent
        elif isinstance(wanted, Size):
            expected = evaluate(wanted.dim, values)
            fault = dimension_fault(wanted.dim, expected, extent, names, dict(enumerate(values)), origins)
            if fault is not None:
                return fault[0], f"dimension {axis}: {fault[1]}"
    return None
