"""``Tensor``: the run-time value. A thin wrapper around memory of a device; on the cpu, around a numpy array.

Invariant: ``_array`` is an exact ``numpy.ndarray`` whose dtype object is the canonical one of its ``DataType``, so
that generated code compares types by pointer. Wrapping never copies. Native code creates tensors by storing the two
slots directly, so the slots and their meaning are part of the calling convention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import FFIError
from .device import CPU, Device, with_host_memory
from .dlpack import export_array, import_array
from .dtype import DataType, from_numpy
from .torch_bridge import array_from_torch, is_torch_tensor, torch_from_array

if TYPE_CHECKING:
    import torch


def plain_array(array: np.ndarray) -> np.ndarray:
    """The same memory as an exact ndarray with the canonical dtype object. Raises FFIError E702."""
    canonical = from_numpy(array.dtype).numpy
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return array if array.dtype is canonical else array.view(canonical)


class Tensor:
    """A tensor in memory. ``Tensor(array)`` wraps a numpy array without copying; ``unity.tensor`` takes anything.

    Raises FFIError E702 for element types we do not have, E703 for a device whose memory is not the host's, and E704 where the
    argument is no numpy array.
    """

    __slots__ = ("__weakref__", "_array", "_device")
    _array: np.ndarray
    _device: Device

    def __init__(self, array: np.ndarray, device: Device = CPU) -> None:
        if not isinstance(array, np.ndarray):
            raise FFIError("E704", f"Tensor wraps a numpy array, got {type(array).__name__}",
                           help="use unity.tensor(...) for other values")  # fmt: skip
        self._array = plain_array(array)
        self._device = device if device is CPU else with_host_memory(device)

    @staticmethod
    def from_numpy(array: np.ndarray) -> Tensor:
        """A tensor over a numpy array's memory."""
        return Tensor(array)

    @staticmethod
    def from_torch(value: torch.Tensor) -> Tensor:
        """A tensor over a torch tensor's memory (cpu, strided); gradients are cut as by ``detach``."""
        return Tensor(array_from_torch(value))

    @staticmethod
    def from_dlpack(producer: object) -> Tensor:
        """A tensor over the memory of any object with ``__dlpack__``. Raises FFIError E703 (not on the cpu), E704."""
        if isinstance(producer, Tensor):
            return producer
        if is_torch_tensor(producer):
            return Tensor(array_from_torch(producer))  # type: ignore[arg-type]
        return Tensor(import_array(producer))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def dtype(self) -> str:
        """Name of the element type, e.g. ``"float32"``."""
        return from_numpy(self._array.dtype).name

    @property
    def data_type(self) -> DataType:
        """The element type."""
        return from_numpy(self._array.dtype)

    @property
    def device(self) -> Device:
        """Where the memory lives."""
        return self._device

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between neighbours, in elements, as in torch. Raises FFIError E704 where they are no whole elements."""
        size = self._array.itemsize
        if any(step % size for step in self._array.strides):
            raise FFIError("E704", f"strides {self._array.strides} bytes are no multiple of {size}-byte elements")
        return tuple([step // size for step in self._array.strides])

    @property
    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self._array.__array_interface__["data"][0])

    def numpy(self) -> np.ndarray:
        """The memory as a numpy array; not a copy."""
        return self._array

    def torch(self) -> torch.Tensor:
        """The memory as a torch tensor; not a copy. Raises FFIError E712 for read-only memory."""
        return torch_from_array(self._array)

    def item(self) -> Any:
        """The single element as a Python number. Raises FFIError E704 where there is not exactly one."""
        if self._array.size != 1:
            raise FFIError("E704", f"item() needs exactly one element, this tensor has shape {self.shape}")
        return self._array.item()

    def copyfrom(self, source: object) -> Tensor:
        """Fill this tensor with the elements of another one, an array or a number, cast to its type. Raises FFIError E704."""
        given = tensor(source).numpy()
        if given.shape != self.shape:
            raise FFIError("E704", f"cannot copy shape {given.shape} into a tensor of shape {self.shape}")
        np.copyto(self._array, given, casting="unsafe")
        return self

    def copyto(self, target: Tensor | Device) -> Tensor:
        """Copy the elements into another tensor of this shape, or into a new one on a device; gives that.

        Raises FFIError E703 for a device whose memory is not the host's, E704 for another shape.
        """
        if isinstance(target, Tensor):
            return target.copyfrom(self)
        return Tensor(self._array.copy(order="C"), target)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        if dtype is None or np.dtype(dtype) == self._array.dtype:
            return self._array.copy() if copy else self._array
        if copy is False:
            raise ValueError(f"a copy is needed to turn {self.dtype} into {dtype}")
        return self._array.astype(dtype)

    def __dlpack__(self, **options: object) -> object:
        return export_array(self._array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.dlpack

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(np.asarray(self._array[index]), self._device)

    def __setitem__(self, index: Any, value: object) -> None:
        self._array[index] = tensor(value).numpy()

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a tensor without dimensions")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        for index in range(len(self)):
            yield self[index]

    def __repr__(self) -> str:
        text = np.array2string(self._array, separator=", ", threshold=100, edgeitems=3, prefix="tensor(")
        return f'tensor({text}, shape={self.shape}, dtype="{self.dtype}", device="{self._device}")'

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __reduce__(self) -> tuple[object, ...]:
        return Tensor, (self._array,)


def rounded(values: np.ndarray | np.float64, dtype: DataType) -> np.ndarray:
    """Values of float64 in a data type. ml_dtypes rounds twice, first to float32: here to odd, so that the second rounding sees
    what was lost."""
    if not dtype.is_narrow or dtype.name == "float16":
        return values.astype(dtype.numpy)
    near = values.astype(np.float32)
    lost = (near != values) & (values == values)
    down = np.abs(near.astype(np.float64)) > np.abs(values)
    odd = (near.view(np.uint32) - down.astype(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(lost, odd, near).astype(dtype.numpy)


def float_bits(dtype: str, value: float) -> int:
    """The bits of a number in a narrow float type."""
    narrow = DataType(dtype)
    with np.errstate(all="ignore"):
        return int(np.asarray(rounded(np.float64(value), narrow)).view(f"uint{narrow.bits}")[()])


def float_of_bits(dtype: str, bits: int) -> float:
    """The number that bits mean in a narrow float type."""
    narrow = DataType(dtype)
    return float(np.array(bits, f"uint{narrow.bits}").view(narrow.numpy)[()])


def _numbers(value: object, dtype: DataType) -> np.ndarray:
    """Python numbers and nested lists of them in a data type. Raises FFIError E704 where one is outside its range."""
    what = f"cannot make a {dtype.name} tensor of this {type(value).__name__}"
    try:
        plain = np.asarray(value)
        with np.errstate(all="ignore"):
            made = rounded(plain, dtype) if plain.dtype == np.float64 else np.array(value, dtype.numpy)
            back = made.astype(plain.dtype) if plain.dtype.kind in "biuf" else plain
    except (ValueError, TypeError, OverflowError) as error:
        raise FFIError("E704", f"{what}: {error}") from error
    numbers = plain.dtype.kind in "biufc" or all([type(item) is int for item in plain.flat])
    if not numbers or plain.dtype.kind in "US":
        raise FFIError("E704", what, help="write numbers")
    whole = plain.dtype.kind != "f" or bool(np.all(np.isfinite(plain) & (plain == np.trunc(plain))))
    if not dtype.is_float and not (whole and (dtype.is_bool or np.array_equal(back, plain))):
        raise FFIError("E704", f"{what}: {dtype.name} does not hold every number")
    return made


def tensor(value: object, dtype: str | DataType | None = None) -> Tensor:
    """Make a tensor from numpy, torch or DLPack objects (sharing memory where the type fits), numbers or nested lists.

    ``dtype``: data type of the elements; None: that of ``value``, float32 for Python floats, int64 for Python integers. Raises
    FFIError E702, E703 (a tensor that is not on the CPU) and E704.
    """
    wanted = None if dtype is None else DataType(dtype).numpy
    if isinstance(value, Tensor):
        array = value.numpy()
    elif is_torch_tensor(value):
        array = array_from_torch(value)  # type: ignore[arg-type]
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = import_array(value)
    elif wanted is not None and not hasattr(value, "__array__"):
        array = _numbers(value, DataType(dtype))  # type: ignore[arg-type]
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise FFIError("E704", f"cannot make a tensor of this {type(value).__name__}: {error}") from error
        if wanted is None and array.dtype == np.float64 and not hasattr(value, "__array__"):
            array = array.astype(np.float32)
    if wanted is not None and array.dtype != wanted:
        if array.dtype.kind in "OUSMm":
            raise FFIError("E704", f"cannot make a {dtype} tensor from {type(value).__name__} values")
        array = rounded(array, DataType(dtype)) if array.dtype == np.float64 else array.astype(wanted)  # type: ignore[arg-type]
    return Tensor(array)
