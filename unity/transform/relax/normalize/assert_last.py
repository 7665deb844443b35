"""Assertions about tensors come last: where nothing behind them has an effect, kernels need not wait until the host has looked.

Rewrite: ``R.assert_op(t); y = f(x); g(y)`` -> ``y = f(x); g(y); R.assert_op(t)``. For devices that compute beside the host: an
assertion copies its condition and waits, and the device would be idle until the next kernel is launched. The call raises as before.
"""

from __future__ import annotations

from ....ir.expr import Binding, BindingBlock, Call, SeqExpr
from ....ir.function import Function
from ....ir.infer import find_impure_call
from ....ir.node import replace
from ....ir.types import TensorType
from ....op.common.table import R
from ...infra.passes import function_pass


@function_pass()
def assert_last(fn: Function) -> Function:
    """Move assertions about tensors behind what has no effect, to the end of a function."""
    if type(fn.body) is not SeqExpr:
        return fn
    whole, moved = fn.body.bindings, list[Binding]()
    for binding in reversed(whole):
        value = binding.value
        if type(value) is Call and value.op_name == R.assert_op.name and isinstance(value.args[0].ty, TensorType):
            moved.insert(0, binding)
        elif find_impure_call(value) is not None:
            break
    if not moved or whole[-len(moved) :] == moved:
        return fn
    blocks = [
        replace(block, bindings=tuple([b for b in block.bindings if not any([b is other for other in moved])]))
        for block in fn.body.blocks
    ]
    kept = [block for block in blocks if block.bindings]
    return replace(fn, body=replace(fn.body, blocks=(*kept, BindingBlock(tuple(moved)))))
