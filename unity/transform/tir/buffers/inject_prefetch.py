"""inject_prefetch: loops that ask for it fetch ahead what later iterations read.

A loop with the annotation ``software_prefetch: d`` gets, for each read whose index moves with the loop, a ``T.prefetch`` of the
element it has ``d`` iterations later (that of the last iteration near the end). For programs over flat buffers.

Rewrite: ``for i in T.serial(n, annotations={"software_prefetch": 8}): s(A[i])`` ->
``for i in range(n): { T.prefetch(T.address_of(A[min(i + 8, n - 1)]), 0, 3, 1); s(A[i]) }``.
A loop over tiles with ``software_prefetch_panel: n`` fetches panels ahead (``prefetch_panels.py``).
"""

from __future__ import annotations

from ....ir.build import add, buffer_load, dtype_of, int_imm, minimum, sub
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import Bind, For, Stmt, seq
from ....ir.types import prim_type
from ....ir.walk import collect, rewrite, substitute
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from .prefetch_panels import fetch_panels, first_elements, prefetch_of

SOFTWARE_PREFETCH = "software_prefetch"
"""Annotation of a loop: how many iterations ahead."""


def _loop(loop: For) -> Stmt:
    distance = loop.note(SOFTWARE_PREFETCH)
    if distance is None:
        return loop
    if not isinstance(distance, int) or distance < 0:
        raise PassError(
            "E532", f"{SOFTWARE_PREFETCH} of loop {loop.loop_var.name} must be a count of iterations", loop.span
        )
    bare = loop.without_notes(SOFTWARE_PREFETCH)
    if not distance:
        return bare
    inner = {part.loop_var for part in collect(loop.body, For)} | {part.var for part in collect(loop.body, Bind)}
    ty = prim_type(dtype_of(loop.loop_var))
    last = add(loop.min, sub(loop.extent, int_imm(1, ty)))
    ahead = minimum(add(loop.loop_var, int_imm(distance, ty)), last)
    fetches = [
        prefetch_of(buffer_load(load.buffer, substitute(index, {loop.loop_var: ahead})), 3)
        for load, index in first_elements(loop, loop.body, set(), inner)
    ]
    return replace(bare, body=seq(*fetches, loop.body))


@prim_func_pass()
def inject_prefetch(func: PrimFunc) -> PrimFunc:
    """Prefetch what later iterations of a loop read. For flat buffers and the annotation ``software_prefetch``."""
    return rewrite(rewrite(func, {For: _loop}), {For: fetch_panels})
