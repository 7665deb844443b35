"""Tensor programs for a device whose memory is another one than the program's: their buffers are copied there and back.

So one module may hold tensor programs for both the host and a device: a program on a GPU calls those for the host, and a program
on the host calls those for a GPU. Invariant: such a call changes the program's memory as code that works on it would.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from ..ffi.abi import BufferParam
from ..ffi.calls.host_copies import RunningOn
from ..ffi.calls.kernel_calls import BRIDGE, BRIDGE_ADDRESS
from ..ffi.device import Device, memory_device
from ..ffi.device_array import array_at
from ..ffi.machine_code.engine import Engine
from ..ffi.runtime.python_kernels import reach, word_kernels
from ..ffi.runtime.runtime import Runtime
from ..ffi.tensor import Tensor
from .executable.bytecode import Program
from .interpreter.kernels import C_TYPES, RawKernel


def link_foreign(
    engine: Engine, runtime: Runtime, objects: list[bytes], program: Program, here: Device, there: Device
) -> set[str]:
    """Give the tensor programs of a section for the device ``there`` entries in a program whose tensors lie on ``here``; their
    names."""
    kernels = {program.symbol(name): signature for name, signature in program.kernels.items()}
    host_engine = Engine({BRIDGE: BRIDGE_ADDRESS})
    with RunningOn(there):
        runtime.link(host_engine, objects, kernels)
        defined = set(host_engine.names())
    found: dict[str, ForeignKernel] = {}
    names = set()
    for name, signature in program.kernels.items():
        linked = program.linked(name)
        if linked in defined:
            raw = RawKernel(signature, host_engine.address(linked), host_engine)
            found[program.symbol(name)] = ForeignKernel(raw, here, there)
            names.add(name)
    word_kernels(engine, found, kernels)
    return names


class ForeignKernel:
    """One tensor program behind its copies. Called with the address of the words of a raw entry."""

    def __init__(self, raw: RawKernel, here: Device, there: Device) -> None:
        self.raw, self.here, self.there = raw, here, there
        self.running = RunningOn(there)

    def __call__(self, address: int) -> None:
        signature = self.raw.signature
        first = address + 8 * len(signature.params)
        symbols = [ctypes.c_int64.from_address(first + 8 * k).value for k in range(len(signature.symbols))]
        values: list[object] = []
        written: list[tuple[Tensor, Tensor]] = []
        with self.running:
            for place, param in zip(range(address, first, 8), signature.params, strict=True):
                if not isinstance(param, BufferParam):
                    values.append(C_TYPES[param.dtype].from_address(place).value)
                    continue
                host = self.bytes_of(place, param, symbols)
                copy = host.copyto(self.there)
                values.append(copy)
                if param.written:
                    written.append((host, copy))
            result = self.raw([*values, *symbols])
            for host, copy in written:
                host.copyfrom(copy)
        if signature.result is not None:
            target = ctypes.c_uint64.from_address(first + 8 * len(symbols)).value
            C_TYPES[signature.result].from_address(target).value = result

    def bytes_of(self, place: int, param: BufferParam, symbols: list[int]) -> Tensor:
        """The memory of a buffer whose address lies at an address."""
        _, _, count = reach(param, symbols)
        start = ctypes.c_uint64.from_address(place).value
        return Tensor.over(array_at(start, np.dtype(np.uint8), (count,), None), self.here)


def foreign_sections(sections: Mapping[str, Runtime], here: Device) -> dict[str, Device]:
    """The sections whose code works on another memory than that of ``here``, and the device of each."""
    found = {}
    for name, runtime in sections.items():
        kind = runtime.device
        if (here.host_memory and not kind.host_memory) or (not here.host_memory and kind.name != here.kind):
            found[name] = memory_device(kind.name)
    return found
