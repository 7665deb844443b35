"""The runtime of CUDA devices: kernels loaded by the driver, host code linked into this process that launches them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from ...support.errors import FFIError
from ..abi import KernelSignature
from ..calls.host_copies import running_device
from ..cuda.context import Context, context as context_of
from ..cuda.driver import driver_in_use
from ..cuda.image import CudaCode, Image
from ..cuda.launch import launch_symbols
from ..cuda.module import KernelChecks, Module
from ..device import CUDA_KIND
from ..machine_code.engine import Engine
from .cpu_runtime import host_symbols
from .runtime import Runtime, register_runtime

FUNCTION = "unity.cuda.function."
"""Prefix of the cell with a kernel's handle, which host code reads."""


def _link(engine: Engine, objects: list[bytes], kernels: Mapping[str, KernelSignature]) -> None:
    """Load the kernels for the device in use, and add the host code with the cells of their handles."""
    device = running_device()
    context = context_of(device.index if device.kind == CUDA_KIND.name else 0)
    symbols = launch_symbols(driver_in_use())
    parts = [CudaCode.unpack(data) for data in objects]
    for part in parts:
        if part.images:
            symbols |= _loaded(engine, part, context)
    symbols |= host_symbols([part.host for part in parts])
    for name, address in symbols.items():
        engine.add_symbol(name, address)
    for part in parts:
        engine.add_object(part.host)


def _loaded(engine: Engine, code: CudaCode, context: Context) -> dict[str, int]:
    """Cells with the handles of the kernels of some code."""
    module = _module(code, context)
    engine.keep_alive(KernelChecks(module, code.messages) if code.messages else module)
    cells = {}
    most = context.attribute("max_shared_memory_per_block_optin")
    for kernel in code.kernels:
        function = module.function(kernel)
        module.allow_shared(function, most - module.attribute(function, "shared_bytes"))
        cell = ctypes.c_void_p(function)
        engine.keep_alive(cell)
        cells[FUNCTION + kernel] = ctypes.addressof(cell)
    return cells


def _module(code: CudaCode, context: Context) -> Module:
    """The first image that the driver takes. Raises FFIError E739 where there is none."""
    *others, last = images_for(code, context)
    for image in others:
        try:
            return Module(context, image.data)
        except FFIError as error:
            if error.code != "E739":
                raise
    return Module(context, last.data)


def images_for(code: CudaCode, context: Context) -> list[Image]:
    """The images that a device may run, best first: its own machine code, PTX for an architecture that is not newer. Raises
    FFIError E739 where there is none."""
    own = _capability(context.arch)
    exact = [image for image in code.images if image.kind == "cubin" and _capability(image.arch) == own]
    older = [image for image in code.images if image.kind == "ptx" and _fits(image.arch, own)]
    if exact or older:
        return exact + older
    archs = ", ".join(sorted({image.arch for image in code.images}))
    raise FFIError("E739", f"the program has code for {archs}, and {context.name} is {context.arch}",
                   help=f'compile for it: target="cuda -arch={context.arch}"')  # fmt: skip


def _capability(arch: str) -> int:
    """The number in the name of an architecture."""
    digits = "".join([letter for letter in arch if letter.isdigit()])
    return int(digits or 0)


def _fits(arch: str, own: int) -> bool:
    """True if a device of the capability ``own`` can run PTX for ``arch``; what is made for one family (``a``) runs there alone."""
    return _capability(arch) == own if arch.endswith("a") else _capability(arch) <= own


CUDA_RUNTIME = Runtime(CUDA_KIND, "cuda", _link, brings_entries=True)
register_runtime(CUDA_RUNTIME)
