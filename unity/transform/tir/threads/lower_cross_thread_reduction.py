"""lower_cross_thread_reduction: a reduction over a loop bound to threads becomes partial results, which an allreduce combines.

Rewrite: ``for k0: for k1 in threadIdx.x: B[i] op= value`` with an initialisation -> ``for k1 in threadIdx.x: { partial = neutral;
for k0: partial op= value; T.tvm_thread_allreduce(1, partial, True, all, k1); if k1 == 0: B[i] = initial op all }``. If B is
memory of a thread (scope "local"), every thread stores the result. The partial result covers the loops right around the block that
reduce or are bound to threads; an iteration of a reduction loop further out adds to the cell: ``B[i] = B[i] op all``.

Not here: the exchange itself. Raises PassError E374 for any other reduction over threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.analysis.threads import ThreadAxis, axis_of, is_thread_axis, is_virtual
from ....ir.buffer import Buffer, Range, make_buffer
from ....ir.build import buffer_load, const, dtype_of, eq, highest, intrinsic, is_int, logical_and, lowest
from ....ir.expr import Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import And, BufferLoad, CommReducer, IterVar, Max, Min
from ....ir.stmt import AllocBuffer, AttrStmt, Block, BlockRealize, BufferStore, Evaluate, For, IfThenElse, Stmt, seq
from ....ir.structural import structural_equal
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, collect, free_vars, fresh_copy, rebuild
from ....support.errors import PassError
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import JOINS, neutral_value, reduced_value

_FORM = "its body is not one store of cell + value, cell * value, T.max(cell, value) or T.min(cell, value)"


class _Lower(StatementRewriter):
    """``around``: the loops, conditions and blocks around a statement, from the outside in."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[Stmt] = []

    def enter(self, node: object) -> object | None:
        if not isinstance(node, (For, AttrStmt, IfThenElse, BlockRealize)):
            return None
        made = _lowered(node, self.around) if isinstance(node, (For, BlockRealize)) else None
        if made is None:
            self.around.append(node)
            made = rebuild(node, self.visit, self.define)
            self.around.pop()
        return made


def _lowered(top: For | BlockRealize, around: Sequence[Stmt]) -> Stmt | None:
    """The statements for a nest whose block reduces over threads; None for another nest."""
    loops: list[For] = []
    at: Stmt = top
    while type(at) is For:
        loops.append(at)
        at = at.body
    if type(at) is not BlockRealize:
        return None
    block, store, init = at.block, at.block.body, at.block.init
    pairs = at.bindings
    reducing = {v for axis, value in pairs if axis.kind == "R" for v in free_vars(value)}
    spatial = {v for axis, value in pairs if axis.kind != "R" for v in free_vars(value)}
    threads = [loop for loop in loops if (loop.thread or "").startswith("threadIdx")]
    steps = [loop for loop in loops if loop.kind in ("serial", "unrolled") and loop.loop_var in reducing - spatial]
    axes = [axis_of(stmt) for stmt in (*around, *loops) if isinstance(stmt, (For, AttrStmt)) and is_thread_axis(stmt)]
    axes = [axis for axis in axes if not is_virtual(axis.tag)]
    across = [axis for axis in axes if axis.var in reducing]
    first = not loops or loops[0].loop_var in reducing or loops[0] in threads
    if not across or not first or len(threads) + len(steps) < len(loops):
        return None
    value = _reduced_value(store, init)
    obstacle = _obstacle(axes, across, around, spatial) or ("" if value is not None else _FORM)
    if value is None or obstacle:
        if all([is_int(axis.extent, 1) for axis in across]) or not collect(block.body, BufferStore):
            return None
        names = ", ".join([axis.tag for axis in across])
        raise PassError("E374", f"block {block.name} reduces over {names}, which has no lowering: {obstacle}", at.span,
                        help="reduce over loops of one thread; sch.rfactor(loop) gives each thread a result")  # fmt: skip
    assert type(store) is BufferStore
    operation, dtype = type(store.value), store.buffer.dtype
    neutral = _neutral(operation, store.buffer, init)
    partial, total = [
        make_buffer(f"{store.buffer.name}_{name}", store.buffer.dtype, (1,), "local") for name in ("partial", "total")
    ]
    zero = (const(0, "int64"),)
    here, everywhere = [BufferLoad(cell, zero, prim_type(dtype)) for cell in (partial, total)]
    join = JOINS[operation]
    step = replace(block, reads=None, writes=None, init=None, body=BufferStore(partial, join(here, value), zero))
    work: Stmt = replace(at, block=step)
    for loop in reversed([loop for loop in loops if loop not in threads]):
        work = replace(loop, body=work)
    x, y = [Var(name, prim_type(dtype)) for name in ("x", "y")]
    reducer = CommReducer((x,), (y,), (join(x, y),), (neutral,))
    call = intrinsic("tvm_thread_allreduce", const(1, "uint32"), here, const(True), everywhere,
                     *[axis.var for axis in across], dtype="handle")  # fmt: skip
    where = _without(at.predicate, reducing)
    for axis in across if store.buffer.scope != "local" else ():
        only = eq(axis.var, const(0, dtype_of(axis.var)))
        where = only if is_int(where, 1) else logical_and(where, only)
    made = seq(
        AllocBuffer(partial),
        AllocBuffer(total),
        _opaque(f"{block.name}_in_thread_init", BufferStore(partial, neutral, zero)),
        work,
        _opaque(f"{block.name}_cross_thread", AttrStmt(reducer, "reduce_scope", const(0), Evaluate(call))),
        fresh_copy(_write_back(at, store, neutral, everywhere, where, _outer_steps(around, reducing))),
    )
    for loop in reversed(threads):
        made = replace(loop, body=made)
    return made


def _obstacle(
    axes: Sequence[ThreadAxis], across: Sequence[ThreadAxis], around: Sequence[Stmt], spatial: set[Var]
) -> str | None:
    """The reason why the threads of some axes cannot combine their results where a block stands, or None."""
    strange = [axis.tag for axis in across if not axis.tag.startswith("threadIdx")]
    if strange:
        return f"{strange[0]} does not number the threads of one block"
    if spatial.intersection([axis.var for axis in across]):
        return "the same threads compute different cells"
    varying = {axis.var for axis in axes if axis.tag.startswith("threadIdx")}
    for stmt in around:
        differing: list[Expr] = []
        if type(stmt) is BlockRealize:
            differing.append(stmt.predicate)
            pairs = stmt.bindings
            varying.update([axis.var for axis, value in pairs if varying.intersection(free_vars(value))])
        elif type(stmt) is IfThenElse:
            differing.append(stmt.cond)
        elif type(stmt) is For and not is_thread_axis(stmt):
            differing += [stmt.min, stmt.extent]
            if stmt.kind == "vectorized":
                return f"it stands in the vectorized loop over {stmt.loop_var.name}"
        if any([varying.intersection(free_vars(expr)) for expr in differing]):
            return "not all threads of the block reach it"
    return None


def _neutral(operation: type, buffer: Buffer, init: Stmt | None) -> Expr:
    """The value with which each thread begins."""
    if type(init) is BufferStore and not free_vars(init.value) and not collect(init.value, BufferLoad):
        return neutral_value(operation, buffer.dtype, init.value)
    if operation not in (Max, Min):
        return neutral_value(operation, buffer.dtype, const(0))
    return (lowest if operation is Max else highest)(buffer.dtype)


def _outer_steps(around: Sequence[Stmt], reducing: set[Var]) -> list[IterVar]:
    """The iterations further out that add to the same cell."""
    steps: list[IterVar] = []
    for stmt in around:
        if type(stmt) is For and (not is_thread_axis(stmt) or is_virtual(stmt.thread or "")):
            steps.append(IterVar(stmt.loop_var, Range(stmt.min, stmt.extent), "R"))
        elif type(stmt) is BlockRealize:
            steps += stmt.block.iter_vars
    return [step for step in steps if step.var in reducing]


def _write_back(
    at: BlockRealize, store: BufferStore, neutral: Expr, total: Expr, where: Expr, steps: Sequence[IterVar]
) -> Stmt:
    """The block that puts what all threads reduced into the cell; ``steps`` are the iterations that do so one after another."""
    init = at.block.init
    pairs = [(axis, value) for axis, value in at.bindings if axis.kind != "R"]
    before: Expr = buffer_load(store.buffer, *store.indices)
    if init is not None and not steps:
        assert type(init) is BufferStore
        before, init = init.value, None
    pairs += [
        (replace(step, var=Var(step.var.name, step.var.ty), kind="R"), step.var) for step in steps if init is not None
    ]
    result = total if structural_equal(before, neutral) else JOINS[type(store.value)](before, total)
    block = Block(tuple([axis for axis, _ in pairs]), None, None, (), (), {}, f"{at.block.name}_write_back",
                  BufferStore(store.buffer, result, store.indices), init)  # fmt: skip
    return BlockRealize(tuple([value for _, value in pairs]), where, block)


def _reduced_value(store: Stmt, init: Stmt | None) -> Expr | None:
    """The value that a block joins to its one cell, None for another block."""
    if type(store) is not BufferStore or not (init is None or type(init) is BufferStore):
        return None
    if init is not None and not (init.buffer is store.buffer and structural_equal(init.indices, store.indices)):
        return None
    return reduced_value(store)


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
    return replace(func, body=_Lower()(func.body))
