"""verify_gpu_code: refuse kernels that exceed the limits of a device.

It checks the threads of a block and of each axis, the blocks of an axis and the bytes of shared memory against the target in
force, or against the largest limits of any device. The launch checks sizes that are not constant. Raises PassError E375.
"""

from __future__ import annotations

import math

from ....ffi.targets.kinds import LLVM
from ....ffi.targets.target import Target
from ....ir.analysis.threads import axis_of, is_thread_axis
from ....ir.build import dtype_of, int_values
from ....ir.expr import IntImm
from ....ir.function import PrimFunc
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, Stmt
from ....ir.walk import collect
from ....support.errors import PassError
from ...infra.backend import GpuMachine, backend_of
from ...infra.passes import prim_func_pass
from .unify_thread_binding import kernels_of

WIDEST = GpuMachine(shared_bytes=227 << 10)
"""The device with the widest limits."""
AXIS_LIMITS = {
    "threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64,
    "blockIdx.x": (1 << 31) - 1, "blockIdx.y": 65535, "blockIdx.z": 65535,
}  # fmt: skip
"""Most threads or blocks along an axis of a launch."""


def _threads(kernel: Stmt, most: int) -> None:
    extents: dict[str, int] = {}
    for attr in collect(kernel, AttrStmt):
        if not is_thread_axis(attr) or type(attr.value) is not IntImm:
            continue
        axis, extent = axis_of(attr), attr.value.value
        if axis.tag not in AXIS_LIMITS:
            continue
        extents[axis.tag] = extent
        if extent > AXIS_LIMITS[axis.tag]:
            text = f"{axis.tag} has the extent {extent}, a device takes at most {AXIS_LIMITS[axis.tag]}"
            raise PassError("E375", text, attr.span, help="use another axis for the long loop, or split it")
    count = math.prod([n for tag, n in extents.items() if tag.startswith("threadIdx")])
    if count > most:
        text = f"a block has {count} threads, the device takes at most {most}"
        raise PassError(
            "E375",
            text,
            getattr(kernel, "span", None),
            help="bind shorter loops to threadIdx, and the rest to blockIdx",
        )


def _memory(kernel: Stmt, machine: GpuMachine) -> None:
    sizes = {"shared": 0, "shared.dyn": 0}
    for alloc in collect(kernel, AllocBuffer):
        buffer = alloc.buffer
        extents = int_values(buffer.shape)
        if buffer.scope not in sizes or len(extents) != len(buffer.shape):
            continue
        sizes[buffer.scope] += math.prod(extents) * buffer.dtype.itemsize
        if sizes["shared"] > machine.static_shared_bytes:
            raise PassError(
                "E375", f"a block needs {sizes['shared']} bytes of static shared memory, at most {machine.static_shared_bytes} "
                f"are there", buffer.span, help='use scope "shared.dyn", or smaller tiles',
            )  # fmt: skip
        if sum(sizes.values()) > machine.shared_bytes:
            text = f"a block needs {sum(sizes.values())} bytes of shared memory, the device has {machine.shared_bytes}"
            raise PassError(
                "E375", text, buffer.span, help="use smaller tiles or fewer stages of the software pipeline"
            )


def _vectors(kernel: Stmt, most: int) -> None:
    for access in collect(kernel, (BufferLoad, BufferStore)):
        lanes = dtype_of(access.indices[-1]).lanes if access.indices else 1
        size = lanes * access.buffer.dtype.itemsize
        if lanes > 1 and access.buffer.scope != "local" and size > most:
            text = f"an access of {access.buffer.name} is {size} bytes wide, at most {most} go at once"
            raise PassError("E375", text, access.span, help="vectorize a shorter loop")


@prim_func_pass()
def verify_gpu_code(func: PrimFunc, *, max_vector_bytes: int = 0) -> PrimFunc:
    """Refuse kernels that a device cannot run. Requires unified kernels with their memory, gives the program.

    Options of verify_gpu_code: bytes of one memory access (0: any; the code generator splits wide ones).
    """
    target = Target(str(func.attrs["target"])) if "target" in func.attrs else Target.current()
    known = target is not None and target.kind != LLVM.name
    machine = backend_of(target).machine(target).gpu if known and target is not None else WIDEST
    for kernel in kernels_of(func.body):
        _threads(kernel, machine.threads)
        _memory(kernel, machine)
        if max_vector_bytes:
            _vectors(kernel, max_vector_bytes)
    return func
