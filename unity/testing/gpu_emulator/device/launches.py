"""Launches before they run: do grid and block fit the device, and which bytes are the arguments."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p

from .attributes import MAX_BLOCK_Z, MAX_GRID_X, MAX_GRID_YZ, MAX_THREADS, SHARED_DEFAULT, Limits
from .kernels import Kernel
from .status import INVALID_VALUE, OUT_OF_RESOURCES, Refused


def check_sizes(limits: Limits, kernel: Kernel, grid: tuple[int, ...], block: tuple[int, ...], shared: int) -> None:
    """Raises Refused for a launch that does not fit the device."""
    threads = block[0] * block[1] * block[2]
    if not all(grid) or not threads or threads > MAX_THREADS or block[2] > MAX_BLOCK_Z:
        raise Refused(INVALID_VALUE)
    if grid[0] > MAX_GRID_X or grid[1] > MAX_GRID_YZ or grid[2] > MAX_GRID_YZ:
        raise Refused(INVALID_VALUE)
    promised = kernel.program.kernel.limits
    if threads > kernel.threads or ("reqntid" in promised and promised["reqntid"] != block[: len(promised["reqntid"])]):
        raise Refused(OUT_OF_RESOURCES if "reqntid" not in promised else INVALID_VALUE)
    static = kernel.program.shared_bytes
    room = max(SHARED_DEFAULT - static, kernel.dynamic_limit)
    if shared > room or static + shared > limits.shared_opt_in:
        raise Refused(INVALID_VALUE)


def argument_bytes(kernel: Kernel, params: int | None, extra: int | None) -> bytes:
    """The bytes of a kernel's parameters, from pointers to each or from one buffer. Raises Refused where some are missing."""
    program = kernel.program
    made = bytearray(program.param_bytes)
    if params:
        pointers = (c_void_p * len(program.params)).from_address(params)
        for (offset, size), pointer in zip(program.params, pointers):
            if not pointer:
                raise Refused(INVALID_VALUE)
            made[offset : offset + size] = ctypes.string_at(pointer, size)
        return bytes(made)
    if extra:
        found, k = {}, 0
        while (key := c_void_p.from_address(extra + 8 * k).value or 0) != 0:
            found[key] = c_void_p.from_address(extra + 8 * k + 8).value or 0
            k += 2
        size = c_size_t.from_address(found[2]).value if found.get(2) else 0
        if not found.get(1) or size < program.param_bytes:
            raise Refused(INVALID_VALUE)
        return ctypes.string_at(found[1], program.param_bytes)
    if program.params:
        raise Refused(INVALID_VALUE)
    return bytes(made)
