"""The check instructions: is a value what its declaration says. Every failure is a VMError with the declared place.

Codes are those of the checked entries (``ffi/check.py``): E603 kind, E604 dtype, E605 rank, E606 constant dimension,
E607 symbol, E608 formula, E609 layout, E610 read-only, E613 range.
"""

from __future__ import annotations

from typing import Any

from ...ffi.abi import Dim, evaluate, symbols_of
from ...ffi.dtype import DataType
from ...ffi.tensor import Tensor
from ...support.errors import Note, VMError
from ..builtins.values import Closure, describe
from ..executable.bytecode import Arg, Bind, Context, Program, Size, Slot, dim_text


def failure(program: Program, context: Context, code: str, message: str, notes: tuple[Note, ...] = ()) -> VMError:
    """An error about a declared place."""
    place = program.place(context.place)
    declared = Note(f"{context.what} is declared {context.annotation}{f', at {place}' if place else ''}")
    return VMError(code, f"{context.function}: {context.what}: {message}", notes=[declared, *notes])


def check_tensor(program: Program, value: Any, context: Context, dtype: str | None, ndim: int) -> None:
    """A C-contiguous tensor of a dtype and rank (None and -1: any)."""
    if not isinstance(value, Tensor):
        raise failure(program, context, "E603", f"expected a tensor, got {describe(value)}")
    if dtype is not None and value.dtype != dtype:
        raise failure(program, context, "E604", f"expected {dtype}, got {value.dtype}")
    if ndim >= 0 and value.ndim != ndim:
        raise failure(program, context, "E605", f"expected {ndim} dimensions, got {value.ndim} (shape {value.shape})")
    array = value.numpy()
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise failure(
            program,
            context,
            "E609",
            f"expected a C-contiguous tensor, got shape {value.shape} with strides {value.strides}",
        )


def check_writable(program: Program, value: Tensor, context: Context) -> None:
    """Memory that the function writes."""
    if not value.numpy().flags.writeable:
        raise failure(program, context, "E610", "the function writes it, the tensor is read-only")


def check_shape(program: Program, value: Any, context: Context, ndim: int) -> None:
    """A tuple of integers of a length (-1: any)."""
    if not isinstance(value, tuple) or any([not isinstance(v, int) or isinstance(v, bool) for v in value]):
        raise failure(program, context, "E603", f"expected a shape (a tuple of integers), got {describe(value)}")
    if ndim >= 0 and len(value) != ndim:
        raise failure(program, context, "E605", f"expected a shape of {ndim} entries, got {value}")


def check_scalar(program: Program, value: Any, context: Context, dtype: str) -> None:
    """A Python number that fits a dtype."""
    data_type = DataType(dtype)
    if data_type.is_float:
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif data_type.is_bool:
        good = isinstance(value, bool)
    else:
        good = isinstance(value, int) and not isinstance(value, bool)
    if not good:
        raise failure(program, context, "E603", f"expected a {dtype} scalar, got {describe(value)}")
    if data_type.is_integral:
        low, high = (
            (-(1 << (data_type.bits - 1)), (1 << (data_type.bits - 1)) - 1)
            if data_type.is_int
            else (0, (1 << data_type.bits) - 1)
        )
        if not low <= value <= high:
            raise failure(program, context, "E613", f"{value} does not fit {dtype}")


def check_tuple(program: Program, value: Any, context: Context, count: int) -> None:
    """A tuple of a length."""
    if not isinstance(value, tuple):
        raise failure(program, context, "E603", f"expected a tuple, got {describe(value)}")
    if len(value) != count:
        raise failure(program, context, "E605", f"expected a tuple of {count}, got one of {len(value)}")


def check_function(program: Program, value: Any, context: Context) -> None:
    """Something that can be called."""
    if not (isinstance(value, Closure) or callable(value)):
        raise failure(program, context, "E603", f"expected a function, got {describe(value)}")


def check_bounds(program: Program, value: int, context: Context, least: int | None, most: int | None) -> None:
    """A symbol between what the attributes of the function say (None: no bound)."""
    if least is not None and value < least:
        raise failure(program, context, "E749", f"is {value}, less than its lower bound {least}")
    if most is not None and value > most:
        raise failure(program, context, "E749", f"is {value}, more than its upper bound {most}")


def match_shape(
    program: Program, value: Any, context: Context, axes: tuple[Arg, ...], values: list[int], slots: tuple[Slot, ...]
) -> None:
    """Compare the dimensions of a tensor or shape with formulas and store new symbols into their slots."""
    shape = value.shape if isinstance(value, Tensor) else value
    if len(shape) != len(axes):
        raise failure(
            program, context, "E605", f"expected {len(axes)} dimensions, got {len(shape)} (shape {tuple(shape)})"
        )
    for axis, (extent, wanted) in enumerate(zip(shape, axes, strict=True)):
        if isinstance(wanted, Bind):
            values[wanted.slot] = extent
        elif isinstance(wanted, Size):
            expected = evaluate(wanted.dim, values)
            if expected != extent:
                raise dimension_error(program, context, axis, extent, wanted.dim, expected, values, slots)


def dimension_error(program: Program, context: Context, axis: int, extent: int, dim: Dim, expected: int, values: list[int],
                    slots: tuple[Slot, ...]) -> VMError:  # fmt: skip
    """A dimension that is not what it should be: expected, got, and where its symbols were defined."""
    if isinstance(dim, int):
        return failure(program, context, "E606", f"dimension {axis} must be {expected}, got {extent}")
    names = tuple([s.name for s in slots])
    notes = tuple(
        [Note(f"{slots[k].name} = {values[k]}, defined by {slots[k].origin}") for k in sorted(symbols_of(dim))]
    )
    code = "E607" if dim[0] == "sym" else "E608"
    return failure(
        program, context, code, f"dimension {axis} must be {dim_text(dim, names)} = {expected}, got {extent}", notes
    )
