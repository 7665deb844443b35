"""independent_lanes: vectorized loops of which it is not proved that no iteration touches what another writes run in order.

Rewrite: ``for i in T.vectorized(8): A[p[i]] = A[p[i]] + x[i]`` -> ``for i in range(8): ...``. So a vectorized loop gives what the
loop in order gives, whatever it does; what certainly is not a vector loop the verifier refuses before (E351). Run behind
``lower_opaque_block``, while buffers have their axes.
"""

from __future__ import annotations

from ....ir.analysis.lanes import independent
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.stmt import For, Stmt
from ....ir.walk import rewrite
from ...infra.passes import prim_func_pass


def _loop(loop: For) -> Stmt:
    return replace(loop, kind="serial") if loop.kind == "vectorized" and not independent(loop) else loop


@prim_func_pass()
def independent_lanes(func: PrimFunc) -> PrimFunc:
    """Make vectorized loops serial unless their iterations are proved independent.

    For programs without blocks whose buffers have their axes.
    """
    return rewrite(func, {For: _loop})
