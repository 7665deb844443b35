"""Allocations that stay whole after planning become a storage and a tensor in it.

Rewrite: ``y = R.builtin.alloc_tensor(shape, dtype, device, scope)`` -> ``storage = R.memory.alloc_storage(bytes, device, scope,
"uint8"); y = R.memory.alloc_tensor(storage, 0, shape, dtype, device)``. A tensor whose bytes are not known as an expression stays.
The default pipeline does without: bytecode has an instruction for whole tensors.
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Call, Var, VarBinding
from ....ir.function import Function
from ....ir.types import OBJECT, Expr, TensorType
from ....op.common.table import R
from ...infra.passes import function_pass
from ..rewriting.graph_rewriter import GraphRewriter
from .plan_memory import Storage, alloc_in, alloc_storage, bytes_of


@function_pass()
def lower_alloc_tensor(fn: Function) -> Function:
    """Give each tensor that ``plan_memory`` left whole a storage of its own."""

    def rule(value: Expr, rewriter: GraphRewriter) -> Any:
        if value.op_name != R.builtin.alloc_tensor.name or not isinstance(value.ty, TensorType):
            return value
        assert type(value) is Call and rewriter.var is not None
        size = bytes_of(value.ty)
        if size is None:
            return value
        storage = Storage(Var("storage", OBJECT), size, size, (value.args[2], value.args[3]))
        storage.var = rewriter.emit(alloc_storage(storage), "storage")
        return alloc_in(storage, VarBinding(rewriter.var, value))

    return GraphRewriter(rule).function(fn)
