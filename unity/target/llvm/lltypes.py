"""Data types in LLVM IR: types of values in registers, types in memory, constants.

Registers: bool is ``i1``, integers ``iN``, float32 and float64 themselves, handles ``ptr``. float16, bfloat16 and float8
values are held as their bits in ``i16`` / ``i8`` ("narrow" types): arithmetic on them goes through float32 (`narrow.py`).
Memory: as in registers, but bool takes a byte.
"""

from __future__ import annotations

import struct

from ...ffi.dtype import DataType
from ...ir.build import round_float
from ...support.errors import CodegenError
from ...support.source import Span

MAX_LANES = 1024
"""Most lanes of a vector: LLVM's time and memory grow fast with wider ones."""
_VALUE: dict[str, str] = {}
_MEMORY: dict[str, str] = {}


def _element(dtype: DataType) -> str:
    if dtype.is_bool:
        return "i1"
    if dtype.is_integral and dtype.bits >= 8:
        return f"i{dtype.bits}"
    if dtype.is_float:
        return {8: "i8", 16: "i16", 32: "float", 64: "double"}[dtype.bits]
    if dtype.code == "handle":
        return "ptr"
    if dtype.code == "void":
        return "void"
    raise CodegenError("E521", f"no target has values of type {dtype.name}")


def value_type(dtype: DataType, span: Span | None = None) -> str:
    """LLVM type of a value in a register. Raises CodegenError E521 for sub-byte integers and scalable vectors."""
    found = _VALUE.get(dtype.name)
    if found is None:
        if dtype.scalable:
            raise CodegenError("E521", f"no target has scalable vectors ({dtype.name})", span)
        if dtype.lanes > MAX_LANES:
            raise CodegenError(
                "E521", f"{dtype.name} has more than {MAX_LANES} lanes", span, help="loop over shorter vectors"
            )
        element = _element(dtype)
        found = _VALUE[dtype.name] = element if dtype.lanes == 1 else f"<{dtype.lanes} x {element}>"
    return found


def llvm_type(dtype: DataType) -> str:
    """The type LLVM's own functions have for a value: ``half`` and ``bfloat`` where values are kept as their bits."""
    own = {"float16": "half", "bfloat16": "bfloat"}.get(dtype.element.name)
    if own is None:
        return value_type(dtype)
    return own if dtype.lanes == 1 else f"<{dtype.lanes} x {own}>"


def memory_type(dtype: DataType, span: Span | None = None) -> str:
    """LLVM type of a value in memory."""
    found = _MEMORY.get(dtype.name)
    if found is None:
        if dtype.code == "void":
            raise CodegenError("E521", "memory cannot hold values of type void", span)
        found = _MEMORY[dtype.name] = (
            value_type(dtype, span).replace("i1", "i8") if dtype.is_bool else value_type(dtype, span)
        )
    return found


def suffix(dtype: DataType) -> str:
    """Suffix of overloaded intrinsics: ``f32``, ``v8i64``."""
    element = {"float": "f32", "double": "f64", "ptr": "p0"}.get(_element(dtype), _element(dtype))
    return element if dtype.lanes == 1 else f"v{dtype.lanes}{element}"


def int_text(value: int, dtype: DataType) -> str:
    """Integer or bool constant; vectors are splats."""
    if dtype.is_bool:
        text = "true" if value else "false"
    else:
        text = str(value)
    return text if dtype.lanes == 1 else f"splat ({_element(dtype)} {text})"


def float_text(value: float, dtype: DataType) -> str:
    """float32 or float64 constant as the exact bits LLVM wants; vectors are splats."""
    value = round_float(value, dtype.element)
    text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return text if dtype.lanes == 1 else f"splat ({_element(dtype)} {text})"
