"""inject_ptx_async_copy: copies from global to shared memory in asynchronous stages become ``T.ptx_cp_async``.

Rewrite, under the attribute "async_scope": ``S[i:i + 4] = A[j:j + 4]`` -> ``T.ptx_cp_async("float32", S.data, i, A.data, j,
16)``. If the value is ``T.if_then_else(cond, A[j], 0)``, or the store has a predicate that is the same for all lanes, the
condition becomes an argument, and the copy writes zeros where it is false. A copy has 4, 8 or 16 bytes, and both addresses are
multiples of its size. Other statements stay as they are and run synchronously.

Run it after ``flatten_buffer`` and ``vectorize_loop``, and after ``thread_sync``, which needs to see plain accesses.
"""

from __future__ import annotations

from typing import Any

from ....arith.analyzer import Analyzer
from ....ir.build import dtype_of, eq, floormod, intrinsic
from ....ir.expr import Call, FloatImm, IntImm
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import Broadcast, BufferLoad, Ramp
from ....ir.stmt import AttrStmt, BufferStore, Evaluate, Stmt
from ....ir.types import Expr
from ....ir.walk import StatementRewriter
from ...infra.passes import prim_func_pass
from .inject_software_pipeline import ASYNC_SCOPE

BYTES = (4, 8, 16)


def _zero(expr: Expr) -> bool:
    expr = expr.value if type(expr) is Broadcast else expr
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0


def _first(index: Expr) -> Expr | None:
    """The first index of contiguous elements; None for others."""
    if type(index) is Ramp:
        return index.base if type(index.stride) is IntImm and index.stride.value == 1 else None
    return index if dtype_of(index).lanes == 1 else None


def _copy(store: BufferStore) -> Stmt:
    value, condition = store.value, None
    if type(value) is Call and value.op_name == "T.if_then_else" and _zero(value.args[2]):
        condition, value = value.args[0], value.args[1]
    elif type(value) is BufferLoad and value.predicate is not None:  # lanes without it are zero
        condition, value = value.predicate, replace(value, predicate=None)
    condition = condition.value if type(condition) is Broadcast else condition
    if condition is not None and dtype_of(condition).lanes != 1:
        return store
    if type(value) is not BufferLoad or value.buffer.scope != "global" or value.buffer.dtype is not store.buffer.dtype:
        return store
    if not store.buffer.scope.startswith("shared") or len(store.indices) != 1 or len(value.indices) != 1:
        return store
    if store.predicate is not None or value.predicate is not None:
        return store
    to, source = _first(store.indices[0]), _first(value.indices[0])
    lanes = dtype_of(store.indices[0]).lanes
    size = lanes * store.buffer.dtype.itemsize
    if to is None or source is None or size not in BYTES or store.buffer.dtype.lanes != 1:
        return store
    analyzer = Analyzer()
    if lanes > 1 and not all([analyzer.can_prove(eq(floormod(at, lanes), 0)) for at in (to, source)]):
        return store
    extra = () if condition is None else (condition,)
    call = intrinsic(
        "ptx_cp_async",
        store.buffer.data,
        to,
        value.buffer.data,
        source,
        size,
        *extra,
        dtype=store.buffer.dtype,
        span=store.span,
    )
    return Evaluate(call, store.span)


class _Inject(StatementRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.beside = False

    def enter(self, node: Any) -> Any | None:
        if type(node) is AttrStmt and node.key == ASYNC_SCOPE:
            outer, self.beside = self.beside, True
            body = self.visit(node.body)
            self.beside = outer
            return body
        return _copy(node) if self.beside and type(node) is BufferStore else None


@prim_func_pass()
def inject_ptx_async_copy(func: PrimFunc) -> PrimFunc:
    """Replace copies of asynchronous stages by ``T.ptx_cp_async``."""
    return replace(func, body=_Inject()(func.body))
