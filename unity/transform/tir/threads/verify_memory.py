"""verify_memory: refuse host code that touches device memory.

The tensors of a program for a device are in its memory, which only kernels can access: the statements under loops bound to
threads. Run it first, while blocks and loops still have the names that a schedule uses. Programs whose attribute "target" is
a processor are not checked. Raises PassError E374, "did you forget to bind?", with the step that makes a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ffi.targets.kinds import LLVM
from ....ir.analysis.threads import is_thread_axis
from ....ir.expr import Call
from ....ir.function import PrimFunc
from ....ir.scalar import BufferLoad
from ....ir.stmt import Block, BufferStore, For
from ....ir.walk import children
from ....support.errors import PassError
from ...infra.passes import prim_func_pass

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
