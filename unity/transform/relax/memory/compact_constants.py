"""compact_constants: constants that are views in another order of their memory (folded transposes) become compact.

Until here they cost nothing, so that a pass which lays weights out anew copies them once. Kernels take compact tensors only.
"""

from __future__ import annotations

from ....ffi.native.compact import compact
from ....ir.expr import Constant
from ....ir.function import Function
from ....ir.walk import rewrite
from ...infra.constant_lifetime import drop_use
from ...infra.constant_provenance import derive, peek, recipe
from ...infra.passes import function_pass

recipe("compact")(compact)


@function_pass()
def compact_constants(fn: Function) -> Function:
    """Copy constants that are not in row-major order; one that several calls share is copied once.

    Gives compact constants, which kernels require.
    """
    made: dict[int, Constant] = {}

    def rule(node: Constant) -> Constant:
        if peek(node.data).flags.c_contiguous:
            return node
        found = made.get(id(node.data))
        if found is None:
            found = made[id(node.data)] = Constant(derive("compact", node.data), node.ty, node.span)
        drop_use(node.data)
        return found

    result: Function = rewrite(fn, {Constant: rule})
    return result
