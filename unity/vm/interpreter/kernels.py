"""Compiled tensor programs in memory: raw entries by name, and calls of them through ctypes (slow, clear)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from ...ffi.abi import BufferParam, KernelSignature, ScalarParam, check_failed
from ...ffi.dtype import DataType, dtype_names
from ...ffi.machine_code.engine import Engine
from ...ffi.tensor import Tensor, float_of_bits
from ...support.errors import VMError
from ..executable.bytecode import Program

C_TYPES: dict[str, Any] = {
    "bool": ctypes.c_bool, "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float, "float64": ctypes.c_double, "handle": ctypes.c_void_p, "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16, **{name: ctypes.c_uint8 for name in dtype_names() if name.startswith("float8")},
}  # fmt: skip


@cache
def _function_type(*kinds: Any) -> Any:
    """The ctypes class of functions of these parameters, which takes long to make."""
    return ctypes.PYFUNCTYPE(ctypes.c_int32, *kinds)


class RawKernel:
    """One raw entry. Called with the values of its parameters, then those of its symbols. ``keep`` owns the machine code."""

    def __init__(self, signature: KernelSignature, address: int, keep: object = None) -> None:
        self.signature = signature
        self.address = address
        self.keep = keep
        kinds = [self._kind(p) for p in signature.params] + [ctypes.c_int64] * len(signature.symbols)
        if signature.result is not None:
            kinds.append(ctypes.c_void_p)
        self._function = _function_type(*kinds)(address)

    @staticmethod
    def _kind(param: BufferParam | ScalarParam) -> Any:
        if isinstance(param, BufferParam):
            return ctypes.c_void_p
        return C_TYPES[param.dtype]

    def __call__(self, values: list[Any]) -> Any:
        """Run it. Raises VMError E614 for a failed check, and what a registered function it calls back raises."""
        plain = [v.data_ptr if isinstance(v, Tensor) else v for v in values]
        result = None
        if self.signature.result is not None:
            result = C_TYPES[self.signature.result]()
            plain.append(ctypes.addressof(result))
        status = self._function(*plain)  # a pending Python exception is raised by ctypes itself
        if status != 0:
            raise kernel_failure(self.signature, status, values)
        return None if result is None else result.value


def kernel_failure(signature: KernelSignature, status: int, values: Sequence[Any]) -> VMError:
    """The error of a failed check inside a kernel that was called with values for its parameters and symbols; None: not known."""
    params, count = signature.params, len(signature.params)
    known: list[tuple[str, object]] = [(s.name, v) for s, v in zip(signature.symbols, values[count:], strict=True)]
    for param, value in zip(params, values):
        if isinstance(param, ScalarParam) and param.dtype != "handle" and value is not None:
            kind = DataType(param.dtype)
            known.append((param.name, float_of_bits(param.dtype, value) if kind.is_narrow else bool(value) if kind.is_bool
                          else value & 2**64 - 1 if kind.is_uint else value))  # fmt: skip
    return check_failed(signature.name, signature.messages, status, known)


def raw_kernels(engine: Engine, program: Program) -> dict[str, RawKernel]:
    """All raw entries of a linked object."""
    return {
        name: RawKernel(signature, engine.address(program.linked(name)), engine)
        for name, signature in program.kernels.items()
    }
