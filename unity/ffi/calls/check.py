"""The argument checks of a checked entry in Python: the words of every error, and conversions native code leaves out.

Native code calls ``ArgumentChecker`` when a fast check fails; the VM's interpreter may call it directly.
Invariant: what it returns passes the native checks, so both agree on what is a valid call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...support.errors import DeviceError, FFIError, Note, UnityError, VMError
from ..abi import Dim, evaluate
from ..conditions import (
    Fault,
    compact_fault,
    dimension_fault,
    kind_fault,
    length_fault,
    range_fault,
    read_only_fault,
)
from ..device import CPU
from ..dtype import DataType, from_numpy
from ..formula import formula_text
from ..native.runtime_table import activate_torch
from ..tensor import Tensor, float_bits, plain_array, shared_tensor
from ..torch_bridge import array_from_torch, is_torch_tensor
from .entry_spec import Arg, EntrySpec, Leaf, ObjectArg, ScalarArg, ShapeArg, TensorArg, TupleArg
from .host_copies import device_copy

COMPACT = "pass numpy.ascontiguousarray(x) or x.contiguous()"
COMPACT_RESULT = "it is written in place: make it compact, e.g. numpy.empty(shape, dtype), and copy the result from it"


def declaration(arg: Arg, symbols: tuple[str, ...]) -> str:
    """The declaration of an argument, e.g. ``Tensor((n, 4), "float32")``."""
    if isinstance(arg, TensorArg):
        dims = "any rank" if arg.shape is None else _dims_text(arg.shape, symbols)
        return f"Tensor({dims}, {chr(34) + arg.dtype + chr(34) if arg.dtype else 'any type'})"
    if isinstance(arg, ScalarArg):
        return arg.dtype
    if isinstance(arg, ShapeArg):
        return "Shape" if arg.dims is None else f"Shape({_dims_text(arg.dims, symbols)})"
    if isinstance(arg, TupleArg):
        return f"Tuple({', '.join([declaration(field, symbols) for field in arg.fields])})"
    return "Object"


def _dims_text(dims: tuple[Dim | None, ...], symbols: tuple[str, ...]) -> str:
    parts = ["?" if dim is None else formula_text(dim, symbols) for dim in dims]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class Finished:
    """A checker returns this instead of arguments where the call is done already: native code hands ``value`` on."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Refused(Exception):
    """A silent checker raises this: the arguments do not fit as they are, and nothing has run. Whoever made it so catches it."""


OutHandler = Callable[[tuple[Any, ...], dict[str, Any], Any], Any]
"""Implementation of calls with ``out=``: (arguments, named arguments, what was given) -> result."""


class ArgumentChecker:
    """Checks and converts the arguments of one entry. Calling it returns the converted arguments as a tuple.

    ``out(args, kwargs, given)`` does calls with ``out=given``, where the entry has no parameter of that name. A ``silent`` one
    raises ``Refused`` in place of errors.
    """

    def __init__(self, spec: EntrySpec, out: OutHandler | None = None, silent: bool = False) -> None:
        self.spec = spec
        self.out = out
        self.silent = silent

    def __call__(self, *args: object, **kwargs: object) -> tuple[Any, ...] | Finished:
        """Arguments in the form native code reads. Raises VMError E602 to E613."""
        if self.out is not None and "out" in kwargs and "out" not in [arg.name for arg in self.spec.args]:
            given = kwargs.pop("out")
            if given is not None:
                return Finished(self.out(args, kwargs, given))
        try:
            return self.bind(args, kwargs)[0]
        except UnityError:
            if self.silent:
                raise Refused from None
            raise

    def bind(
        self, args: tuple[object, ...], kwargs: dict[str, object] | None = None
    ) -> tuple[tuple[Any, ...], list[int]]:
        """(converted arguments, values of the symbols). Raises VMError E602 to E613."""
        call = _Call(self.spec)
        given = self.order(args, kwargs or {})
        converted = tuple(
            [call.convert(arg, value, arg.name) for arg, value in zip(self.spec.args, given, strict=True)]
        )
        call.check_formulas()
        return converted, [call.values[number] for number in range(len(self.spec.symbols))]

    def order(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        """Arguments in the order of the parameters. Raises VMError E602."""
        spec = self.spec
        names = [arg.name for arg in spec.args]
        signature = f"{spec.name}({', '.join(names)})"
        if len(args) > len(names):
            raise VMError("E602", f"{signature} takes {len(names)} arguments, got {len(args)}")
        unknown = [name for name in kwargs if name not in names[len(args) :]]
        if unknown:
            twice = unknown[0] in names
            raise VMError(
                "E602", f"{signature} {'got' if twice else 'has no'} argument {unknown[0]!r}{' twice' if twice else ''}"
            )
        missing = [name for name in names[len(args) :] if name not in kwargs]
        if missing:
            raise VMError(
                "E602", f"{signature} misses the arguments {', '.join(missing)}; got {len(args) + len(kwargs)}"
            )
        return [*args, *[kwargs[name] for name in names[len(args) :]]]


class _Call:
    """One call: the symbols found so far, and the formulas that wait for them."""

    def __init__(self, spec: EntrySpec) -> None:
        self.spec = spec
        self.values: dict[int, int] = {}
        self.origin: dict[int, str] = {}
        self.waiting: list[tuple[Arg, str, Dim, int]] = []

    def fail(self, code: str, arg: Arg, path: str, message: str, help: str | None = None) -> VMError:
        """The error for an argument; the note repeats its declaration."""
        place = f", {arg.where}" if arg.where else ""
        note = Note(f"{arg.name} is declared {declaration(arg, self.spec.symbols)}{place}")
        return VMError(code, f"{self.spec.name}: argument {path}: {message}", notes=[note], help=help)

    def require(self, arg: Arg, path: str, fault: Fault | None, help: str | None = None) -> None:
        """Raise the error of a condition that does not hold."""
        if fault is not None:
            raise self.fail(fault[0], arg, path, fault[1], help)

    def convert(self, arg: Arg, value: object, path: str) -> object:
        if isinstance(arg, TensorArg):
            return self.tensor(arg, value, path)
        if isinstance(arg, ScalarArg):
            return self.scalar(arg, value, path)
        if isinstance(arg, ShapeArg):
            return self.shape(arg, value, path)
        if isinstance(arg, ObjectArg):
            return value
        if not isinstance(value, (tuple, list)):
            raise self.fail("E603", arg, path, f"expected a tuple, got {type(value).__name__}")
        if len(value) != len(arg.fields):
            raise self.fail("E602", arg, path, f"expected a tuple of {len(arg.fields)}, got {len(value)} fields")
        return tuple(
            [self.convert(f, v, f"{path}[{i}]") for i, (f, v) in enumerate(zip(arg.fields, value, strict=True))]
        )

    def array_of(self, arg: TensorArg | ScalarArg, value: object, path: str) -> np.ndarray:
        """The numpy array behind anything we take as a tensor."""
        if isinstance(value, Tensor):
            if value.device != CPU:
                raise self.fail("E612", arg, path, f"expected a tensor on {CPU}, got one on {value.device}",
                                help='copy it first: x.to("cpu"), or compile the program for the device')  # fmt: skip
            return value.numpy()
        if is_torch_tensor(value):
            activate_torch()  # native code reads the next one itself
            if value.device.type != "cpu":  # type: ignore[attr-defined]
                raise self.fail("E612", arg, path, f"expected a tensor on cpu, got one on {value.device}",  # type: ignore[attr-defined]
                                help="call .cpu() first")  # fmt: skip
            return array_from_torch(value)[0]  # type: ignore[arg-type]
        if isinstance(value, np.ndarray) or (
            isinstance(value, np.generic) and type(arg) is TensorArg and not arg.written
        ):
            return np.asarray(value)
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return Tensor.from_dlpack(value).numpy()
        if isinstance(value, (memoryview, bytearray)):
            return np.asarray(value)
        raise self.fail("E603", arg, path, f"expected a tensor, got {type(value).__name__}",
                        help="pass a numpy array, a unity.Tensor or a torch tensor")  # fmt: skip

    def exact_array(self, arg: TensorArg | ScalarArg, value: object, path: str) -> np.ndarray:
        """``array_of`` as an exact ndarray of a data type that we have."""
        try:
            return plain_array(self.array_of(arg, value, path))
        except FFIError as error:
            raise self.fail("E604" if error.code == "E702" else "E603", arg, path, error.message) from error

    def on_device(self, arg: TensorArg, value: object, path: str) -> Tensor:
        """The tensor of a device; an array of the host is copied there, and back after the call where that writes to it."""
        place = arg.device
        if isinstance(value, (np.ndarray, np.generic, memoryview, bytearray)):
            array = self.exact_array(replace(arg, device=CPU), value, path)
            if not arg.written:
                return Tensor(array, place)
            self.require(arg, path, read_only_fault(array))
            return device_copy(array, place)
        activate_torch()  # native code reads the next one itself
        try:
            found = shared_tensor(value)
        except DeviceError:
            raise
        except FFIError as error:
            raise self.fail("E604" if error.code == "E702" else "E603", arg, path, error.message) from error
        if found is None:
            raise self.fail("E603", arg, path, f"expected a tensor, got {type(value).__name__}",
                            help=f"pass a numpy array or a tensor on {place}")  # fmt: skip
        if arg.copied and found.device.host_memory:
            return found.to(place)
        if found.device != place:
            raise self.fail("E612", arg, path, f"expected a tensor on {place}, got one on {found.device}",
                            help=f'copy it first: unity.tensor(x, device="{place}"), or x.to(...) in torch')  # fmt: skip
        return found

    def tensor(self, arg: TensorArg, value: object, path: str) -> np.ndarray | Tensor:
        if arg.device is CPU:
            return self.checked_array(arg, self.exact_array(arg, value, path), path)
        found = self.on_device(arg, value, path)
        layout = self.checked_array(arg, found.layout, path)
        return (
            found if layout is found.layout else Tensor(layout, arg.device)
        )  # no elements, at an address that does not fit

    def checked_array(self, arg: TensorArg, array: np.ndarray, path: str) -> np.ndarray:
        """The array, after all checks of it."""
        ndim = None if arg.shape is None else len(arg.shape)
        self.require(arg, path, kind_fault(array, from_numpy(array.dtype).name, arg.dtype, ndim))
        for axis, dim in enumerate(arg.shape or ()):
            self.match(arg, f"{path}.shape[{axis}]", dim, array.shape[axis])
        return self.layout(arg, array, path)

    def layout(self, arg: TensorArg, array: np.ndarray, path: str) -> np.ndarray:
        """The array, after the checks of strides, writeability and alignment."""
        if arg.strides is None:
            self.require(arg, path, compact_fault(array), COMPACT_RESULT if arg.written else COMPACT)
        else:
            for axis, dim in enumerate(arg.strides):
                if array.strides[axis] % array.itemsize:
                    raise self.fail(
                        "E609", arg, path, f"stride {array.strides[axis]} bytes is not a whole number of elements"
                    )
                if is_free(dim, self.values) or (array.shape[axis] > 1 and array.size):  # else nobody takes a step
                    self.match(arg, f"{path}.strides[{axis}]", dim, array.strides[axis] // array.itemsize)
        if arg.written:
            self.require(arg, path, read_only_fault(array))
        align = max(arg.align, array.itemsize if array.itemsize & (array.itemsize - 1) == 0 else 1)
        if array.size == 0 and array.ctypes.data % align:
            return aligned_empty(array, align)
        if not array.flags.aligned or array.ctypes.data % align:
            raise self.fail("E611", arg, path, f"expected an address that is a multiple of {align} bytes",
                            help="copy the tensor: x.copy()")  # fmt: skip
        return array

    def match(self, arg: Arg, path: str, dim: Dim | None, value: int) -> None:
        """Compare a value with a formula; a symbol alone is defined by its first value."""
        if dim is None:
            return
        if isinstance(dim, tuple) and dim[0] == "sym":
            known = self.values.setdefault(dim[1], value)
            self.origin.setdefault(dim[1], path)
            self.compare(arg, path, dim, known, value)
        elif isinstance(dim, int):
            self.compare(arg, path, dim, dim, value)
        else:
            self.waiting.append((arg, path, dim, value))

    def compare(self, arg: Arg, path: str, dim: Dim, expected: int, value: int) -> None:
        names = self.spec.symbols
        self.require(arg, path, dimension_fault(dim, expected, value, names, self.values, self.origin))

    def check_formulas(self) -> None:
        for arg, path, dim, value in self.waiting:
            symbols = [self.values.get(number, 0) for number in range(len(self.spec.symbols))]
            self.compare(arg, path, dim, evaluate(dim, symbols), value)

    def integer(self, arg: Leaf, value: object, path: str, what: str) -> int:
        if isinstance(value, np.bool_):
            return int(value)
        if isinstance(value, (float, str)) or not hasattr(value, "__index__"):
            raise self.fail("E603", arg, path, f"expected {what}, got {type(value).__name__}")
        try:
            return operator.index(value)
        except TypeError:
            raise self.fail("E603", arg, path, f"expected {what}, got {type(value).__name__}") from None

    def scalar(self, arg: ScalarArg, value: object, path: str) -> object:
        dtype = DataType(arg.dtype)
        if isinstance(value, Tensor) and value.ndim == 0:
            value = value.item()
        if dtype.code == "handle":
            return self.address(arg, value, path)
        if dtype.is_float:
            if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
                raise self.fail("E603", arg, path, f"expected a {arg.dtype} number, got {type(value).__name__}")
            try:
                return float_bits(arg.dtype, float(value)) if arg.bits else float(value)
            except OverflowError:
                raise self.fail(
                    "E613", arg, path, f"an integer of {int(value).bit_length()} bits has no {arg.dtype} value"
                ) from None
        if dtype.is_bool:
            if not isinstance(value, (bool, np.bool_)):
                raise self.fail("E603", arg, path, f"expected a bool, got {type(value).__name__}")
            return bool(value)
        number = self.integer(arg, value, path, f"an {arg.dtype} number")
        self.require(arg, path, range_fault(number, arg.dtype))
        if arg.symbol is not None:
            self.match(arg, path, ("sym", arg.symbol), number - 2**64 if number >= 2**63 else number)
        return number

    def address(self, arg: ScalarArg, value: object, path: str) -> int:
        """The address in a pointer: an integer itself, 0 for None, of a tensor where its elements lie, which may be written."""
        if value is None:
            return 0
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not 0 <= value < 2**64:
                raise self.fail("E613", arg, path, f"{value} is not an address")
            return int(value)
        array = self.exact_array(arg, value, path)
        self.require(arg, path, compact_fault(array), COMPACT)
        self.require(arg, path, read_only_fault(array))
        return self.address(arg, array.ctypes.data, path)

    def shape(self, arg: ShapeArg, value: object, path: str) -> tuple[int, ...]:
        if not isinstance(value, (tuple, list)):
            raise self.fail("E603", arg, path, f"expected a tuple of integers, got {type(value).__name__}")
        items = tuple([self.integer(arg, item, f"{path}[{i}]", "an integer") for i, item in enumerate(value)])
        for index, item in enumerate(items):
            self.require(arg, f"{path}[{index}]", range_fault(item, "int64"))
        if arg.dims is not None:
            self.require(arg, path, length_fault(len(items), len(arg.dims), "entries"))
            for index, dim in enumerate(arg.dims):
                self.match(arg, f"{path}[{index}]", dim, items[index])
        return items


def is_free(dim: Dim | None, values: dict[int, int]) -> bool:
    """True for a symbol alone that has no value yet."""
    return isinstance(dim, tuple) and dim[0] == "sym" and dim[1] not in values


def aligned_empty(array: np.ndarray, align: int) -> np.ndarray:
    """A tensor without elements like the given one, at an aligned address."""
    store = np.empty(2 * align, np.uint8)
    start = -store.ctypes.data % align
    base = store[start : start + align].view(array.dtype)
    return np.lib.stride_tricks.as_strided(base, array.shape, array.strides)
