"""C functions by address: a textual signature such as ``(const float32*, float32*, int64) -> int32`` and the call.

A pointer parameter takes a C-contiguous tensor of that element type (``void*``: any type, or an address). Calls from
Python go through ctypes with every argument checked first; generated code calls the address directly.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.errors import FFIError
from .dtype import DataType
from .tensor import Tensor
from .torch_bridge import is_torch_tensor

_SCALARS: dict[str, type] = {
    "bool": ctypes.c_bool, "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64, "float32": ctypes.c_float, "float64": ctypes.c_double,
}  # fmt: skip
_SIGNATURE = re.compile(r"\s*\(([^()]*)\)\s*->\s*(\w+\s*\*?)\s*$")
_PARAM = re.compile(r"(const\s+)?(\w+)\s*(\*)?$")


@dataclass(slots=True, frozen=True)
class CType:
    """One parameter or the result: element type, and whether it is a pointer to constant or mutable elements."""

    dtype: str
    pointer: bool = False
    const: bool = False

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.dtype}{'*' if self.pointer else ''}"


@dataclass(slots=True, frozen=True)
class CSignature:
    """Parameters and result of a C function; ``str`` gives the text back."""

    params: tuple[CType, ...]
    result: CType

    def __str__(self) -> str:
        return f"({', '.join([str(param) for param in self.params])}) -> {self.result}"


def _c_type(text: str, whole: str) -> CType:
    match = _PARAM.match(text.strip())
    if match is not None:
        const, name, star = match.groups()
        if name == "void" and star:
            return CType("void", True, const is not None)
        dtype = "" if name == "void" else DataType(name).name
        known = dtype in _SCALARS or (star and DataType(dtype).lanes == 1)
        if dtype and known and (star or not const):
            return CType(dtype, star is not None, const is not None)
    raise FFIError("E707", f"cannot read {text.strip()!r} in the signature {whole!r}",
                   help='write for example "(const float32*, float32*, int64) -> int32"')  # fmt: skip


def parse_signature(text: str) -> CSignature:
    """A signature from text. Raises FFIError E707."""
    match = _SIGNATURE.match(text)
    if match is None:
        raise FFIError("E707", f"cannot read the signature {text!r}",
                       help='write for example "(const float32*, float32*, int64) -> int32"')  # fmt: skip
    inside, result = match.groups()
    params = tuple([_c_type(part, text) for part in inside.split(",")]) if inside.strip() else ()
    return CSignature(params, CType("void") if result == "void" else _c_type(result, text))


class CFunction:
    """A C function that Python can call: checks each argument against the signature, then calls through ctypes."""

    __slots__ = ("_call", "address", "name", "signature")

    def __init__(self, name: str, address: int, signature: CSignature) -> None:
        if address == 0:
            raise FFIError("E707", f"the address of {name!r} is null")
        self.name, self.address, self.signature = name, address, signature
        kinds = [ctypes.c_void_p if p.pointer else _SCALARS[p.dtype] for p in signature.params]
        result = signature.result
        returned = None if result == CType("void") else ctypes.c_void_p if result.pointer else _SCALARS[result.dtype]
        self._call = ctypes.CFUNCTYPE(returned, *kinds)(address)

    def _fail(self, index: int, expected: str, value: object) -> FFIError:
        return FFIError("E713", f"{self.name}: argument {index} must be {expected}, got {value}")

    def _pointer(self, index: int, param: CType, value: object) -> int:
        if is_torch_tensor(value):
            value = Tensor.from_torch(value)  # type: ignore[arg-type]
        if isinstance(value, Tensor):
            if not value.device.host_memory:
                raise self._fail(index, f"in the host's memory ({param})", f"a tensor on {value.device}")
            value = value.numpy()
        if not isinstance(value, np.ndarray):
            if param.dtype == "void" and isinstance(value, int):
                return value
            raise self._fail(index, f"a tensor ({param})", f"a {type(value).__name__}")
        if param.dtype != "void" and value.dtype != DataType(param.dtype).numpy:
            raise self._fail(index, f"a tensor of {param.dtype}", f"one of {value.dtype}")
        if not (value.flags.c_contiguous and value.flags.aligned):
            raise self._fail(index, "C-contiguous and aligned", f"strides {value.strides} (bytes)")
        if not (param.const or value.flags.writeable):
            raise self._fail(index, f"writeable ({param})", "a read-only tensor")
        return int(value.ctypes.data)

    def _scalar(self, index: int, param: CType, value: Any) -> object:
        if isinstance(value, (Tensor, np.ndarray, np.generic)) and value.size == 1:
            value = value.item()
        dtype = DataType(param.dtype)
        if dtype.is_float:
            if isinstance(value, (int, float)):
                return float(value)
        elif isinstance(value, int):
            low, high = (0, 1) if dtype.is_bool else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
            if dtype.is_uint:
                low, high = 0, 2**dtype.bits - 1
            if low <= value <= high:
                return value
        raise self._fail(index, f"a {param.dtype}", repr(value))

    def __call__(self, *args: object) -> Any:
        params = self.signature.params
        if len(args) != len(params):
            raise FFIError("E713", f"{self.name} takes {len(params)} arguments {self.signature}, got {len(args)}")
        plain = [
            self._pointer(i, p, a) if p.pointer else self._scalar(i, p, a)
            for i, (p, a) in enumerate(zip(params, args, strict=True))
        ]
        return self._call(*plain)
