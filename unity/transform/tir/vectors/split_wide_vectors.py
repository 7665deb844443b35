"""split_wide_vectors: vectorized loops whose accesses of memory are wider than a device moves at once become loops of vectors.

Rewrite, float32 and 16 bytes: ``for i in T.vectorized(8): S[i] = A[i]`` -> ``for o in T.unroll(2): for i in T.vectorized(4):
S[o * 4 + i] = A[o * 4 + i]``. The widest elements of global and shared memory that move with the loop decide; the number of lanes
divides the extent. Loops over memory of a thread alone, and those of symbolic extent, stay.
"""

from __future__ import annotations

from ....ir.build import add, const, dtype_of, mul
from ....ir.expr import IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad
from ....ir.stmt import BufferStore, For
from ....ir.walk import collect, rewrite, substitute, used_vars
from ...infra.passes import prim_func_pass


def _split(loop: For, max_bytes: int) -> For:
    if loop.kind != "vectorized" or type(loop.extent) is not IntImm:
        return loop
    count = loop.extent.value
    moving = [
        access.buffer.dtype.itemsize
        for access in collect(loop.body, (BufferLoad, BufferStore))
        if access.buffer.scope != "local" and any([loop.loop_var in used_vars(index) for index in access.indices])
    ]
    most = max(1, max_bytes // max(moving, default=1))
    if not moving or count <= most:
        return loop
    lanes = max([n for n in range(1, most + 1) if count % n == 0])
    outer, inner = [Var(loop.loop_var.name, loop.loop_var.ty, loop.loop_var.span) for _ in range(2)]
    dtype = dtype_of(inner)
    body = substitute(loop.body, {loop.loop_var: add(loop.min, add(mul(outer, lanes), inner))})
    zero = const(0, dtype)
    vectors = replace(loop, loop_var=inner, min=zero, extent=const(lanes, dtype), body=body)
    if lanes == 1:
        vectors = replace(vectors, kind="serial")
    return For(outer, zero, const(count // lanes, dtype), "unrolled", vectors, span=loop.span)


@prim_func_pass()
def split_wide_vectors(func: PrimFunc, *, max_bytes: int = 16) -> PrimFunc:
    """Bound the bytes of vector accesses. Requires loops that may be vectorized, gives narrower ones.

    ``max_bytes``: most bytes of one access.
    """
    return rewrite(func, {For: lambda loop: _split(loop, max_bytes)})
