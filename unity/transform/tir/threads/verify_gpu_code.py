"""verify_gpu_code: refuse kernels that exceed the limits of a device.

It checks the threads of a block and of each axis, the blocks of an axis and the bytes of shared memory against the target in
force, or against the largest limits of any device. The launch checks sizes that are not constant. Raises PassError E375.

verify_memory: refuse host code that touches device memory, which only kernels can access: the statements under loops bound to
threads. It runs first, while blocks and loops still have the names that a schedule uses. Programs whose attribute "target" is a
processor are not checked. Raises PassError E374, "did you forget to bind?", with the step that makes a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....ffi.targets.kinds import LLVM
from ....ffi.targets.target import Target
from ....ir.analysis.threads import axis_of, is_thread_axis
from ....ir.build import dtype_of
from ....ir.expr import Call, IntImm
from ....ir.function import PrimFunc
from ....ir.scalar import BufferLoad
from ....ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, Stmt
from ....ir.walk import children, collect
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
        extents = [extent.value for extent in buffer.shape if type(extent) is IntImm]
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


AXES = ("blockIdx.x", "threadIdx.x")


def _first_touch(func: PrimFunc) -> tuple[Any, tuple[Any, ...]] | None:
    """An access of the device's memory outside of every kernel, and the loops and blocks around it."""
    pending: list[tuple[Any, tuple[Any, ...]]] = [(func.body, ())]
    while pending:
        node, around = pending.pop()
        if is_thread_axis(node) or (
            type(node) is Call and node.op_name in ("T.call_packed", "T.call_cpacked", "T.tvm_call_packed")
        ):
            continue
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.scope == "global":
            return node, around
        if isinstance(node, (For, Block)):
            around = (*around, node)
        if not node.is_reference:
            pending += [(child, around) for child in reversed(children(node)) if not child.is_reference]
    return None


def _step(around: Sequence[Any]) -> str:
    """The schedule that makes a kernel of loops."""
    blocks = [node for node in around if type(node) is Block and node.name != "root"]
    loops = [node for node in around if type(node) is For]
    if not loops:
        return 'put the statement under a loop and bind that: sch.bind(loop, "threadIdx.x")'
    get = f'sch.get_loops("{blocks[-1].name}")' if blocks else "its loops"
    if len(loops) == 1:
        return f'outer, inner = sch.split({get}[0], [None, 256]); sch.bind(outer, "{AXES[0]}"); sch.bind(inner, "{AXES[1]}")'
    return f'sch.bind({get}[0], "{AXES[0]}"); sch.bind({get}[1], "{AXES[1]}")'


@prim_func_pass()
def verify_memory(func: PrimFunc) -> PrimFunc:
    """Refuse host code that touches device memory. Requires blocks and loops as scheduled, gives the program."""
    if str(func.attrs.get("target", "")).split(" ")[0] == LLVM.name:
        return func
    found = _first_touch(func)
    if found is None:
        return func
    node, around = found
    raise PassError(
        "E374", f"code of the host touches {node.buffer.name}, which lies in the memory of the device: did you forget to bind?",
        node.span, help=_step(around),
    )  # fmt: skip
