"""Expression objects that stand in many places are bound once, so that nothing after has to visit every place.

Rewrite: ``B[i] = x`` with ``x = y + y``, ``y = z + z`` ... as shared objects -> ``T.Let`` around the value, one per object.
Programs read from script share nothing; those built in Python may.
"""

from __future__ import annotations

from ....ir.common_subtrees import bind_shared_values
from ....ir.function import PrimFunc
from ...infra.passes import prim_func_pass


@prim_func_pass()
def bind_shared(func: PrimFunc) -> PrimFunc:
    """Bind expression objects that stand in many places to variables. Gives ``T.Let``. Programs read from script share none."""
    return bind_shared_values(func)
