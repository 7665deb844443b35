"""Allocations that stay whole after planning become a storage and a tensor in it.

Rewrite: ``y = R.builtin.alloc_tensor(shape, dtype, device, scope)`` -> ``storage = R.memory.alloc_storage(bytes, device, scope,
"uint8"); y = R.memory.alloc_tensor(storage, 0, shape, dtype, device)``. A tensor whose bytes are not known as an expression stays.
The default pipeline does without: bytecode has an instruction for whole tensors.
"""

from __future__ import annotations

from ....ir.expr import Call, Var, VarBinding
from ....ir.function import Function
from ....ir.types import OBJECT, Expr, TensorType
from ....op.common.table import R
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter, rewrite_calls
from .plan_memory import Storage, alloc_in, alloc_storage, bytes_of


@function_pass()
def lower_alloc_tensor(fn: Function) -> Function:
    """Give each tensor that ``plan_memory`` left whole a storage of its own."""

    def change(value: Call, rewriter: GraphRewriter) -> Expr | None:
        size = bytes_of(value.ty) if isinstance(value.ty, TensorType) else None
        if size is None or rewriter.var is None:
            return None
        storage = Storage(Var("storage", OBJECT), size, size, (value.args[2], value.args[3]))
        storage.var = rewriter.emit(alloc_storage(storage), "storage")
        return alloc_in(storage, VarBinding(rewriter.var, value))

    return rewrite_calls(fn, change, R.builtin.alloc_tensor.name)
