"""Calls of registered functions from inside compiled tensor programs (``T.call_packed``).

The kernel fills an array of 64-bit words and calls the Python object behind the symbol ``BRIDGE`` with (name, format,
address of the words). The format has one item per argument, then the result: ``i:<dtype>`` an integer or bool, ``f`` a
float as float64 bits, ``h`` a pointer, ``s`` a C string, ``t:<dtype>:<ndim>`` a compact tensor (its address, then its
extents); the result's item is ``i:<dtype>``, ``f`` or ``v`` (none), its word comes last.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from ...support.recursion import outside_calls
from ..device import CPU
from ..device_array import array_at
from ..dtype import DataType
from ..registry import get_global_func
from ..tensor import Tensor
from .host_copies import call_from_device, running_device

BRIDGE = "unity_packed_bridge"
"""Symbol whose address is the Python callable ``call_from_kernel``."""

KERNEL_LEVELS = 50
"""Levels of stack (``outside_calls``) of a kernel, whose buffers may take 128 KiB."""


def call_from_kernel(name: bytes, layout: bytes, address: int) -> None:
    """Decode the words, call the registered function, write its result back. Raises what the function raises."""
    items, device = layout.decode().split(","), running_device()
    arguments: list[Any] = []
    place = address
    for item in items[:-1]:
        kind, *rest = item.split(":")
        word = ctypes.c_int64.from_address(place).value
        place += 8
        if kind == "i":
            arguments.append(bool(word) if rest[0] == "bool" else word & 2**64 - 1 if rest[0] == "uint64" else word)
        elif kind == "f":
            arguments.append(struct.unpack("<d", struct.pack("<q", word))[0])
        elif kind == "h":
            arguments.append(word & 2**64 - 1)
        elif kind == "s":
            arguments.append(ctypes.string_at(word).decode())
        else:
            ndim = int(rest[1])
            shape = [ctypes.c_int64.from_address(place + 8 * axis).value for axis in range(ndim)]
            place += 8 * ndim
            arguments.append(Tensor.over(array_at(word, DataType(rest[0]).numpy, shape, None), device))
    function = get_global_func(name.decode())
    with outside_calls.entered(function.name, KERNEL_LEVELS):
        result = function.function(*arguments) if device is CPU else call_from_device(function, arguments)
    kind = items[-1]
    if kind == "f":
        ctypes.c_double.from_address(place).value = float(0.0 if result is None else result)
    elif kind != "v":
        value = int(0 if result is None else result)
        ctypes.c_uint64.from_address(place).value = value & 2**64 - 1


BRIDGE_ADDRESS = id(call_from_kernel)
"""Address to give to an Engine for the symbol ``BRIDGE``."""
