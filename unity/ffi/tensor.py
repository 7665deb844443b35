"""``Tensor``: the run-time value. A thin wrapper around memory of a device; on the cpu, around a numpy array.

Invariant: ``_array`` is an exact ``numpy.ndarray`` whose dtype object is the canonical one of its ``DataType``, so
that generated code compares types by pointer; ``_device`` says whose memory it is over, and the host reads the elements only where
that is the host's (else they are copied: `device_array.py`). Wrapping never copies. Native code creates tensors by storing the two
slots directly, so the slots and their meaning are part of the calling convention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.arguments import guarded_class
from ..support.errors import FFIError
from .cuda_array_interface import export_cuda, import_cuda
from .device import CPU, CUDA_KIND, Device, memory_device
from .device_array import assign, copy_within, empty, to_device, to_host
from .dlpack import export_array, export_from, import_from
from .dtype import DataType, from_numpy
from .torch_bridge import array_from_torch, is_torch_tensor, torch_from_array, torch_from_device

if TYPE_CHECKING:
    import torch


def plain_array(array: np.ndarray) -> np.ndarray:
    """The same memory as an exact ndarray with the canonical dtype object. Raises FFIError E702."""
    canonical = from_numpy(array.dtype).numpy
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return array if array.dtype is canonical else array.view(canonical)


@guarded_class
class Tensor:
    """A tensor in memory. ``Tensor(array)`` wraps a numpy array without copying; ``unity.tensor`` takes anything.

    Raises FFIError E702 for element types we do not have, E703 for a device whose memory is not the host's, and E704 where the
    argument is not a numpy array.
    """

    __slots__ = ("__weakref__", "_array", "_device")
    _array: np.ndarray
    _device: Device

    def __init__(self, array: np.ndarray, device: Device = CPU) -> None:
        if not isinstance(array, np.ndarray):
            raise FFIError("E704", f"Tensor wraps a numpy array, got {type(array).__name__}",
                           help="use unity.tensor(...) for other values")  # fmt: skip
        self._array = plain_array(array)
        self._device = CPU
        if device is not CPU:
            self._device = place = memory_device(device)
            if not place.host_memory:
                self._array = to_device(self._array, place)

    @classmethod
    def over(cls, array: np.ndarray, device: Device) -> Tensor:
        """A tensor over memory of a device: ``array`` is one of ``device_array``, or one of the host with the CPU."""
        made = cls.__new__(cls)
        made._array, made._device = plain_array(array), device
        return made

    @staticmethod
    def from_numpy(array: np.ndarray) -> Tensor:
        """A tensor over a numpy array's memory."""
        return Tensor(array)

    @staticmethod
    def from_torch(value: torch.Tensor) -> Tensor:
        """A tensor over a torch tensor's memory (on the cpu or a CUDA device, strided); gradients are cut as by ``detach``."""
        return Tensor.over(*array_from_torch(value))

    @staticmethod
    def from_dlpack(producer: object) -> Tensor:
        """A tensor over the memory of ``producer``, an object with ``__dlpack__``. Raises FFIError E702 to E704 (E703: an
        unknown device)."""
        if isinstance(producer, Tensor):
            return producer
        if is_torch_tensor(producer):
            return Tensor.from_torch(producer)  # type: ignore[arg-type]
        return Tensor.over(*import_from(producer))

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
        """The device of the memory."""
        return self._device

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between neighbours, in elements, as in torch. Raises FFIError E704 where they are not whole elements."""
        size = self._array.itemsize
        if any(step % size for step in self._array.strides):
            raise FFIError("E704", f"strides {self._array.strides} bytes are not a multiple of {size}-byte elements",
                           help="copy it first: numpy.ascontiguousarray(x)")  # fmt: skip
        return tuple([step // size for step in self._array.strides])

    @property
    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self._array.__array_interface__["data"][0])

    @property
    def layout(self) -> np.ndarray:
        """The memory as an array: its shape, strides, data type and address. The host must not read a device's elements by it."""
        return self._array

    def numpy(self) -> np.ndarray:
        """The tensor as a numpy array: no copy on the host; a copy, made when the work before it is done, of a device's memory."""
        return self._array if self._device is CPU or self._device.host_memory else to_host(self._array, self._device)

    def torch(self) -> torch.Tensor:
        """The tensor in torch, without a copy. Raises FFIError E712 for read-only memory, E703 for a device unknown to torch."""
        return torch_from_array(self._array) if self._device.host_memory else torch_from_device(self, self._device)

    def item(self) -> Any:
        """The single element as a Python number. Raises FFIError E704 where there is not exactly one."""
        if self._array.size != 1:
            raise FFIError("E704", f"item() needs exactly one element, this tensor has shape {self.shape}",
                           help="numpy() gives all elements")  # fmt: skip
        return self.numpy().item()

    def copyfrom(self, source: object) -> Tensor:
        """Fill this tensor with the elements of ``source`` (a tensor, array or number), cast to its type. Raises FFIError E704."""
        given = tensor(source)
        if given.shape != self.shape:
            raise FFIError("E704", f"cannot copy shape {given.shape} into a tensor of shape {self.shape}",
                           help="reshape or broadcast one of them first")  # fmt: skip
        if self._device.host_memory:
            np.copyto(self._array, given.numpy(), casting="unsafe")
        elif given._device == self._device and given._array.dtype == self._array.dtype:
            copy_within(self._array, given._array, self._device)
        else:
            assign(self._array, self._device, given.numpy().astype(self._array.dtype))
        return self

    def copyto(self, target: Tensor | Device | str) -> Tensor:
        """Copy the elements into ``target``, a tensor of this shape, or into a new one on that device; return it.

        Raises DeviceError E734 if there is no such device, FFIError E704 for another shape.
        """
        if isinstance(target, Tensor):
            return target.copyfrom(self)
        place = memory_device(target)
        if place.host_memory:
            return Tensor(np.array(self.numpy(), order="C") if self._device.host_memory else self.numpy(), place)
        return Tensor.over(empty(place, self.shape, self._array.dtype), place).copyfrom(self)

    def to(self, device: Device | str) -> Tensor:
        """This tensor where it lies on the device already, else a copy there."""
        return self if self._device == memory_device(device) else self.copyto(device)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        here = self._device.host_memory
        if copy is False and (not here or (dtype is not None and np.dtype(dtype) != self._array.dtype)):
            raise ValueError(
                f"a copy is needed to turn a {self.dtype} tensor on {self._device} into {dtype or 'an array'}"
            )
        found = self.numpy()
        if dtype is None or np.dtype(dtype) == found.dtype:
            return found.copy() if copy and here else found
        return found.astype(dtype)

    def __dlpack__(self, **options: Any) -> object:
        return (
            export_array(self._array, **options)
            if self._device.host_memory
            else export_from(self._array, self._device, **options)
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.dlpack

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a CUDA device, as pycuda, cupy, numba and torch show it to each other."""
        if self._device.kind != CUDA_KIND.name:
            raise AttributeError(f"a tensor on {self._device} is not a CUDA array")
        return export_cuda(self._array, self._device)

    def __getitem__(self, index: Any) -> Tensor:
        if self._device.host_memory:
            return Tensor(np.asarray(self._array[index]), self._device)
        view = _part(self._array, index)
        return (
            Tensor(np.asarray(self.numpy()[index]), self._device) if view is None else Tensor.over(view, self._device)
        )

    def __setitem__(self, index: Any, value: object) -> None:
        given = tensor(value)
        if self._device.host_memory:
            self._array[index] = given.numpy()
            return
        view = _part(self._array, index)
        if view is None:
            whole = self.numpy()
            whole[index] = given.numpy()
            assign(self._array, self._device, whole)
        elif given.shape == view.shape:
            Tensor.over(view, self._device).copyfrom(given)
        else:
            assign(view, self._device, np.broadcast_to(given.numpy(), view.shape).astype(view.dtype))

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a tensor without dimensions")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        for index in range(len(self)):
            yield self[index]

    def __repr__(self) -> str:
        text = np.array2string(self.numpy(), separator=", ", threshold=100, edgeitems=3, prefix="tensor(")
        return f'tensor({text}, shape={self.shape}, dtype="{self.dtype}", device="{self._device}")'

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __reduce__(self) -> tuple[object, ...]:
        return Tensor, (self.numpy(), self._device)


def _part(array: np.ndarray, index: Any) -> np.ndarray | None:
    """A view of part of a device's array; None for an index that numpy follows by reading elements."""
    parts = index if isinstance(index, tuple) else (index,)
    plain = (int, np.integer, slice, type(None), type(...))
    if any([isinstance(p, bool) or not isinstance(p, plain) for p in parts]):
        return None
    found: np.ndarray = array[parts if ... in parts else (*parts, ...)]
    return found


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
        raise FFIError(
            "E704", f"{what}: {error}", help=f"write numbers of {dtype.name}, in rows of one length"
        ) from error
    numbers = plain.dtype.kind in "biufc" or all([type(item) is int for item in plain.flat])
    if not numbers or plain.dtype.kind in "US":
        raise FFIError("E704", what, help="write numbers")
    whole = plain.dtype.kind != "f" or bool(np.all(np.isfinite(plain) & (plain == np.trunc(plain))))
    if not dtype.is_float and not (whole and (dtype.is_bool or np.array_equal(back, plain))):
        raise FFIError("E704", f"{what}: {dtype.name} does not hold every number",
                       help="take a wider data type, or round the numbers first")  # fmt: skip
    return made


def tensor(value: object, dtype: str | DataType | None = None, device: Device | str | None = None) -> Tensor:
    """Make a tensor from numpy, torch, DLPack or CUDA array objects (sharing memory where the type fits), numbers or nested lists.

    ``dtype``: data type of the elements; None: that of ``value``, float32 for Python floats, int64 for Python integers. ``device``:
    where the tensor lies; None: where ``value`` does. Raises FFIError E702, E703 (memory of an unknown device), E704, and
    E734 where there is no such device.
    """
    wanted = None if dtype is None else DataType(dtype).numpy
    place = CPU if device is None else memory_device(device)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif (found := shared_tensor(value)) is not None:
        place = found._device if device is None else place
        if not place.host_memory and (wanted is None or found._array.dtype == wanted):
            return found.to(place)
        array = found.numpy()
    elif wanted is not None and not hasattr(value, "__array__"):
        array = _numbers(value, DataType(dtype))  # type: ignore[arg-type]
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise FFIError("E704", f"cannot make a tensor of this {type(value).__name__}: {error}",
                           help="write numbers, in rows of one length") from error  # fmt: skip
        if wanted is None and array.dtype == np.float64 and not hasattr(value, "__array__"):
            array = array.astype(np.float32)
    if wanted is not None and array.dtype != wanted:
        if array.dtype.kind in "OUSMm":
            raise FFIError("E704", f"cannot make a {dtype} tensor from {type(value).__name__} values",
                           help="convert them to numbers first")  # fmt: skip
        array = rounded(array, DataType(dtype)) if array.dtype == np.float64 else array.astype(wanted)  # type: ignore[arg-type]
    return Tensor(array, place)


def shared_tensor(value: object) -> Tensor | None:
    """A tensor over the memory of an object that has such, wherever it lies; None for numbers, lists and the like."""
    if isinstance(value, Tensor):
        return value
    if is_torch_tensor(value):
        return Tensor.from_torch(value)  # type: ignore[arg-type]
    if isinstance(value, (np.ndarray, np.generic)):
        return Tensor(np.asarray(value))
    if hasattr(value, "__dlpack__"):
        return Tensor.over(*import_from(value))
    return Tensor.over(*import_cuda(value)) if hasattr(value, "__cuda_array_interface__") else None
