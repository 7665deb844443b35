"""A device of another package whose memory is its own: addresses nobody may touch, bytes in a shadow, kernels that are numpy."""

import ctypes
import json
from functools import partial

import numpy as np
from scripted_driver import LIBC

from unity import IRModule
from unity.ffi.device import DeviceMemory
from unity.ir import interpret
from unity.script import parse
from unity.target import (
    Backend,
    DeviceKind,
    KernelCode,
    Runtime,
    TargetKind,
    kernel_signature,
    python_kernels,
    register_target,
)
from unity.transform import Pipeline

LIMIT = 1 << 26
BASE = LIBC.mmap(None, LIMIT, 0, 0x4022, -1, 0)  # no access, private, without memory
SHADOW = np.zeros(LIMIT, np.uint8)
BLOCKS: dict[int, int] = {}
COUNTS = {"to_device": 0, "to_host": 0, "within": 0, "synchronize": 0, "calling": 0}
_top = [4096]


class Block:
    def __init__(self, nbytes):
        assert _top[0] + nbytes < LIMIT, "the toy is full"
        self.address = BASE + _top[0]
        _top[0] += (max(nbytes, 1) + 63) // 64 * 64
        BLOCKS[self.address] = nbytes
        SHADOW[self.address - BASE :][:nbytes] = 0xFF

    def __del__(self):
        BLOCKS.pop(self.address, None)


def shadow(address, nbytes):
    """The bytes of device memory that lie inside one block."""
    inside = [start for start, size in list(BLOCKS.items()) if start <= address and address + nbytes <= start + size]
    assert inside or nbytes == 0, f"{nbytes} bytes at {address:#x} are no memory of the toy"
    return SHADOW[address - BASE : address - BASE + nbytes]


def _host(address, nbytes):
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)


def _to_device(index, target, source, nbytes):
    COUNTS["to_device"] += 1
    shadow(target, nbytes)[:] = _host(source, nbytes)


def _to_host(index, target, source, nbytes):
    COUNTS["to_host"] += 1
    _host(target, nbytes)[:] = shadow(source, nbytes)


def _within(index, target, source, nbytes):
    COUNTS["within"] += 1
    shadow(target, nbytes)[:] = shadow(source, nbytes).copy()


def _synchronize(index):
    COUNTS["synchronize"] += 1


MEMORY = DeviceMemory(lambda index, nbytes: Block(nbytes), _to_device, _to_host, _within, _synchronize)
KIND = DeviceKind("apart", 12, False, "Numpy behind addresses that nobody may touch.", lambda: 2, MEMORY)


def generate(functions, target, suffix):
    symbols = {name: f"apart.{name}{suffix}" for name in functions}
    signatures = {name: kernel_signature(name, fn) for name, fn in functions.items()}
    data = json.dumps([IRModule(functions).script(), symbols]).encode()
    return lambda: KernelCode(data, signatures, symbols)


def link(engine, objects, kernels):
    entries = {}
    for text, symbols in map(json.loads, objects):
        entries |= {symbol: partial(interpret.run, parse(text), name) for name, symbol in symbols.items()}
    python_kernels(engine, entries, kernels, lambda address, nbytes: shadow(address, nbytes))


BACKEND = Backend(TargetKind("apart"), Runtime(KIND, "apart", link), generate, pipeline=Pipeline(()))
register_target(BACKEND)
