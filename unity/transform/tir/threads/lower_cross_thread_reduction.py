"""lower_cross_thread_reduction: a reduction over a loop bound to threads becomes partial results, which an allreduce combines.

Rewrite: ``for k0: for k1 in threadIdx.x: B[i] op= value`` with an initialisation -> ``for k1 in threadIdx.x: { partial = neutral;
for k0: partial op= value; T.tvm_thread_allreduce(1, partial, True, all, k1); if k1 == 0: B[i] = initial op all }``. If B is
memory of a thread (scope "local"), every thread stores the result.

Not here: the exchange itself. Invariant: from the first reduction loop inwards, loops are reduction loops or bound to threads.
"""

from __future__ import annotations

from ....ir.buffer import Buffer
from ....ir.build import const, dtype_of, eq, intrinsic, is_int, logical_and
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import And, BufferLoad, CommReducer
from ....ir.stmt import AllocBuffer, AttrStmt, Block, BlockRealize, BufferStore, Evaluate, For, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, PointerType, prim_type
from ....ir.walk import StatementRewriter, collect, free_vars, fresh_copy
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import JOINS, joined_to, neutral_value


class _Lower(StatementRewriter):
    def enter(self, node: object) -> object | None:
        return _lowered(node) if type(node) is For else None


def _lowered(top: For) -> Stmt | None:
    """The statements for a nest whose loops reduce over threads; None for another nest."""
    loops: list[For] = []
    at: Stmt = top
    while type(at) is For:
        loops.append(at)
        at = at.body
    if type(at) is not BlockRealize or type(at.block.body) is not BufferStore or type(at.block.init) is not BufferStore:
        return None
    block, store, init = at.block, at.block.body, at.block.init
    pairs = list(zip(block.iter_vars, at.iter_values))
    reducing = {v for axis, value in pairs if axis.kind == "R" for v in free_vars(value)}
    spatial = {v for axis, value in pairs if axis.kind != "R" for v in free_vars(value)}
    threads = [loop for loop in loops if (loop.thread or "").startswith("threadIdx")]
    joining = [loop for loop in threads if loop.loop_var in reducing]
    value = joined_to(store, collect(store.value, BufferLoad))
    first = top.loop_var in reducing or top in threads
    steps = [loop for loop in loops if loop.kind in ("serial", "unrolled") and loop.loop_var in reducing - spatial]
    plain = all([loop in threads or loop in steps for loop in loops])
    if not joining or value is None or not first or not plain or not structural_equal(store.indices, init.indices):
        return None
    operation, dtype = type(store.value), store.buffer.dtype
    neutral = neutral_value(operation, dtype, init.value)
    partial, total = [_cell(f"{store.buffer.name}_{name}", store.buffer) for name in ("partial", "total")]
    zero = (const(0, "int64"),)
    here, everywhere = [BufferLoad(cell, zero, prim_type(dtype)) for cell in (partial, total)]
    step = replace(
        block, reads=None, writes=None, init=None, body=BufferStore(partial, JOINS[operation](here, value), zero)
    )
    work: Stmt = replace(at, block=step)
    for loop in reversed([loop for loop in loops if loop not in threads]):
        work = replace(loop, body=work)
    x, y = [Var(name, prim_type(dtype)) for name in ("x", "y")]
    reducer = CommReducer((x,), (y,), (JOINS[operation](x, y),), (neutral,))
    call = intrinsic("tvm_thread_allreduce", const(1, "uint32"), here, const(True), everywhere,
                     *[loop.loop_var for loop in joining], dtype="handle")  # fmt: skip
    result = everywhere if structural_equal(neutral, init.value) else JOINS[operation](init.value, everywhere)
    own = [(axis, bound) for axis, bound in pairs if axis.kind != "R"]
    back = Block(tuple([axis for axis, _ in own]), None, None, (), (), {}, f"{block.name}_write_back",
                 BufferStore(store.buffer, result, store.indices))  # fmt: skip
    where = _without(at.predicate, reducing)
    for loop in joining if store.buffer.scope != "local" else ():
        only = eq(loop.loop_var, const(0, dtype_of(loop.loop_var)))
        where = only if is_int(where, 1) else logical_and(where, only)
    made = seq(
        AllocBuffer(partial),
        AllocBuffer(total),
        _opaque(f"{block.name}_in_thread_init", BufferStore(partial, neutral, zero)),
        work,
        _opaque(f"{block.name}_cross_thread", AttrStmt(reducer, "reduce_scope", const(0), Evaluate(call))),
        fresh_copy(BlockRealize(tuple([bound for _, bound in own]), where, back)),
    )
    for loop in reversed(threads):
        made = replace(loop, body=made)
    return made


def _cell(name: str, like: Buffer) -> Buffer:
    return Buffer(Var(name, PointerType(prim_type(like.dtype), "local")), like.dtype, (const(1, "int64"),), name=name)


def _opaque(name: str, body: Stmt) -> Stmt:
    return BlockRealize((), const(True), Block((), None, None, (), (), {}, name, body))


def _without(predicate: Expr, variables: set[Var]) -> Expr:
    """The parts of a condition that do not use the variables."""
    if type(predicate) is And:
        a, b = [_without(part, variables) for part in (predicate.a, predicate.b)]
        return b if is_int(a, 1) else a if is_int(b, 1) else logical_and(a, b)
    return const(True) if variables & set(free_vars(predicate)) else predicate


@prim_func_pass()
def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """Reduce over loops bound to threads: each thread computes a part, and a collective combines them.

    For programs with blocks. Gives ``T.tvm_thread_allreduce``.
    """
    body = _Lower()(func.body)
    return func if body is func.body else replace(func, body=body)
