"""lower_thread_allreduce: an allreduce of threads becomes shuffles inside warps and an exchange through shared memory.

The threads that reduce together are those that agree in the other axes of the block: a group. With ``n`` threads in a group:

- a power of two up to 32 in neighbouring lanes: shuffles alone;
- neighbouring lanes, whole warps of each group, or one group of any size: shuffles in each warp, the results of the warps through
  shared memory, shuffles again;
- otherwise, for instance if the axes are not adjacent: a tree in shared memory.

Every thread of the block takes part and gets the result. Sizes may be symbolic. ``thread_sync`` runs later and inserts the
barriers.

Rewrite, 32 threads: ``T.tvm_thread_allreduce(1, v, True, out[0], tx)`` -> ``red[0] = v; other = T.tvm_warp_shuffle_down(mask,
red[0], 16, 32, 32); red[0] = red[0] + other; ...; out[0] = T.tvm_warp_shuffle(mask, red[0], 0, 32, 32)``.

Raises PassError E374 where an axis is not an axis of ``threadIdx`` of the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.analysis.threads import axis_of, is_thread_axis, is_virtual
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import (
    add,
    cast,
    ceildiv,
    const,
    eq,
    floordiv,
    floormod,
    if_then_else,
    int_value,
    intrinsic,
    is_int,
    lt,
    mul,
    scalar_type,
    select,
    sub,
)
from ....ir.expr import Call, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import BufferLoad, CommReducer
from ....ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, Evaluate, For, IfThenElse, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, fresh_copy, substitute, used_vars
from ....support.errors import PassError
from ...infra.passes import prim_func_pass

WARP = 32
MAX_THREADS = 1024
"""Most threads of a block."""
_MASK = (1 << WARP) - 1
_INT = "int32"


@dataclass(slots=True)
class _Group:
    """Threads that reduce together: ``rank`` of the thread within its group of ``size``, the number ``group`` of ``groups``.

    ``neighbours``: the ranks of a group are neighbouring lanes, from a multiple of ``size`` on.
    """

    rank: Expr
    size: Expr
    group: Expr
    groups: Expr
    neighbours: bool


class _Values:
    """The values of one reduction: one memory cell per thread and value, and how two tuples are combined."""

    def __init__(self, reducer: CommReducer) -> None:
        self.reducer = reducer
        self.types = [scalar_type(v) for v in reducer.lhs]
        self.cells = [make_buffer(f"red{k}", ty.dtype, (1,), "local") for k, ty in enumerate(self.types)]
        self.allocated: list[Stmt] = [AllocBuffer(cell) for cell in self.cells]

    def shared(self, name: str, count: int) -> list[Buffer]:
        """Memory of the block with ``count`` elements for each value."""
        made = [make_buffer(f"{name}{k}", ty.dtype, (count,), "shared") for k, ty in enumerate(self.types)]
        self.allocated += [AllocBuffer(buffer) for buffer in made]
        return made

    @property
    def current(self) -> list[Expr]:
        """The current values of the thread."""
        return [_load(cell, const(0, _INT)) for cell in self.cells]

    def store(self, values: Sequence[Expr]) -> list[Stmt]:
        """Replace the current values of the thread."""
        return [BufferStore(cell, value, (const(0, _INT),)) for cell, value in zip(self.cells, values)]

    def combine(self, others: Sequence[Expr], where: Expr | None = None) -> list[Stmt]:
        """Combine the current values with others if a condition holds."""
        made: list[Stmt] = []
        bound = [_bound(made, "other", value) for value in others]
        current = self.current
        reducer = self.reducer
        mapping = {**dict(zip(reducer.lhs, current)), **dict(zip(reducer.rhs, bound))}
        results: list[Expr] = [substitute(value, mapping) for value in reducer.result]
        if where is not None:
            results = [select(where, value, old) for value, old in zip(results, current)]
        if len(results) > 1:
            results = [_bound(made, "joined", value) for value in results]
        return [*made, *self.store(results)]


def _load(buffer: Buffer, index: Expr) -> Expr:
    return BufferLoad(buffer, (index,), prim_type(buffer.dtype))


def _bound(made: list[Stmt], name: str, value: Expr) -> Var:
    var = Var(name, scalar_type(value))
    made.append(Bind(var, value))
    return var


def _shuffle(kind: str, value: Expr, where: Expr, width: int) -> Expr:
    name = f"tvm_warp_shuffle{kind}"
    return intrinsic(name, const(_MASK, "uint32"), value, where, const(width, _INT), const(WARP, _INT))


def _next_power(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


# ---- ways to exchange


def _in_lanes(values: _Values, width: int) -> list[Stmt]:
    """Groups of ``width`` neighbouring lanes, a power of two: the first lane of each gets the result."""
    made: list[Stmt] = []
    step = width // 2
    while step:
        made += values.combine([_shuffle("_down", own, const(step, _INT), width) for own in values.current])
        step //= 2
    return made


def _in_part(values: _Values, lane: Expr, count: Expr, width: int = WARP) -> list[Stmt]:
    """The first ``count`` lanes of a warp, of at most ``width``: the first gets the result."""
    made: list[Stmt] = []
    step = width // 2
    while step:
        reach = lt(add(lane, step), count)
        source = select(reach, add(lane, step), lane)
        made += values.combine([_shuffle("", own, source, WARP) for own in values.current], reach)
        step //= 2
    return made


def _from_first(values: _Values, width: int) -> list[Stmt]:
    """All lanes of a group of lanes get what the first has."""
    return values.store([_shuffle("", own, const(0, _INT), width) for own in values.current])


def _of_whole_warps(values: _Values, at: _Group, size: int, groups: int) -> list[Stmt]:
    """Each group consists of whole warps. Every warp combines the results of the warps of its group."""
    warps = size // WARP
    staged = values.shared("warp", groups * warps)
    lane, warp = floormod(at.rank, WARP), floordiv(at.rank, WARP)
    slot = add(mul(at.group, warps), warp)
    made = [*_in_lanes(values, WARP), _where(eq(lane, 0), _stored(staged, slot, values.current))]
    width = _next_power(warps)
    first = mul(at.group, warps)
    inside = lt(lane, warps)
    identity = values.reducer.identity
    loads = [_load(buffer, add(first, select(inside, lane, const(0, _INT)))) for buffer in staged]
    made += values.store([select(inside, load, none) for load, none in zip(loads, identity)] if width > warps else
                       [_load(buffer, add(first, floormod(lane, width))) for buffer in staged])  # fmt: skip
    return [*made, *_in_lanes(values, width), *_from_first(values, width if width == warps else WARP)]


def _of_one_group(values: _Values, at: _Group) -> list[Stmt]:
    """All threads of the block are one group; its last warp may have fewer than 32 lanes. The first warp combines the results."""
    size = int_value(at.size)
    warps = ceildiv(at.size, WARP)
    most = MAX_THREADS // WARP if size is None else -(-size // WARP)
    staged, result = values.shared("warp", most), values.shared("all", 1)
    lane, warp = floormod(at.rank, WARP), floordiv(at.rank, WARP)
    made = [
        *_in_part(values, lane, sub(at.size, mul(warp, WARP))),
        _where(eq(lane, 0), _stored(staged, warp, values.current)),
    ]
    inside = lt(lane, warps)
    loads = [_load(buffer, select(inside, lane, const(0, _INT))) for buffer in staged]
    first = [
        *values.store(loads),
        *_in_part(values, lane, warps, _next_power(most)),
        _where(eq(lane, 0), _stored(result, const(0, _INT), values.current)),
    ]
    return [
        *made,
        _where(lt(at.rank, WARP), first),
        *values.store([_load(buffer, const(0, _INT)) for buffer in result]),
    ]


def _as_tree(values: _Values, at: _Group) -> list[Stmt]:
    """Groups of any shape: halves are combined in shared memory until one value is left."""
    size, groups = int_value(at.size), int_value(at.groups)
    staged = values.shared("tree", MAX_THREADS if size is None or groups is None else size * groups)

    def slot(rank: Expr) -> Expr:
        return add(mul(at.group, at.size), rank) if at.neighbours else add(mul(rank, at.groups), at.group)

    def halved(rest: Expr, half: Expr) -> list[Stmt]:
        inside, here, there = lt(at.rank, rest), slot(at.rank), slot(add(at.rank, half))
        if len(staged) == 1:  # one statement, in which no thread touches what another one does
            both = {values.reducer.lhs[0]: _load(staged[0], here), values.reducer.rhs[0]: _load(staged[0], there)}
            return [_where(inside, _stored(staged, here, [substitute(values.reducer.result[0], both)]))]
        step = values.combine([_load(buffer, there) for buffer in staged])
        return [_where(inside, step), _where(inside, _stored(staged, here, values.current))]

    made = _stored(staged, slot(at.rank), values.current)
    if size is not None:
        while size > 1:
            rest = size // 2
            size -= rest
            made += halved(const(rest, _INT), const(size, _INT))
    else:
        level = Var("level", prim_type(_INT))
        steps: list[Stmt] = []

        def left(more: int) -> Expr:
            """Values left after some more levels: size / 2 ** level, rounded up."""
            by = intrinsic("shift_left", const(1, _INT), add(level, more))
            return intrinsic("shift_right", add(at.size, sub(by, 1)), add(level, more))

        half = _bound(steps, "half", left(1))
        steps += halved(_bound(steps, "rest", sub(left(0), half)), half)
        levels = (MAX_THREADS - 1).bit_length()
        made.append(For(level, const(0, _INT), const(levels, _INT), "serial", seq(*steps)))
    return [*made, *values.store([_load(buffer, slot(const(0, _INT))) for buffer in staged])]


def _stored(buffers: Sequence[Buffer], slot: Expr, values: Sequence[Expr]) -> list[Stmt]:
    return [BufferStore(buffer, value, (slot,)) for buffer, value in zip(buffers, values)]


def _where(condition: Expr, stmts: Sequence[Stmt]) -> Stmt:
    return IfThenElse(condition, seq(*stmts))


def _exchange(values: _Values, at: _Group) -> list[Stmt]:
    size, groups = int_value(at.size), int_value(at.groups)
    if size == 1:
        return []
    if at.neighbours and size is not None and size <= WARP and size == _next_power(size):
        return [*_in_lanes(values, size), *_from_first(values, size)]
    if at.neighbours and size is not None and groups is not None and size % WARP == 0:
        return _of_whole_warps(values, at, size, groups)
    if groups == 1 and size is not None and size <= WARP:
        return [*_in_part(values, at.rank, at.size), *_from_first(values, WARP)]
    return _of_one_group(values, at) if groups == 1 else _as_tree(values, at)


class _Lower(StatementRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, tuple[Var, Expr]] = {}
        """Thread axes of the current kernel: variable and extent by tag."""

    def enter(self, node: Any) -> Any | None:
        if is_thread_axis(node) and type(node) is AttrStmt and not is_virtual(node.node.thread_tag):
            axis = axis_of(node)
            outer = self.threads
            self.threads = {**outer, axis.tag: (axis.var, axis.extent)}
            body = self.visit(node.body)
            self.threads = outer
            return replace(node, body=body)
        if type(node) is AttrStmt and type(node.node) is CommReducer and type(node.body) is Evaluate:
            call = node.body.value
            if type(call) is Call and call.op_name == "T.tvm_thread_allreduce":
                return self._lowered(node.node, call)
        return None

    def _lowered(self, reducer: CommReducer, call: Call) -> Stmt:
        values = _Values(reducer)
        count = len(reducer.lhs)
        given, condition = call.args[1 : 1 + count], call.args[1 + count]
        targets, axes = call.args[2 + count : 2 + 2 * count], call.args[2 + 2 * count :]
        if not is_int(condition, 1):
            given = tuple([if_then_else(condition, v, none) for v, none in zip(given, reducer.identity)])
        stmts = [*values.store(given), *_exchange(values, self._group(axes, call))]
        for target, value in zip(targets, values.current):
            if type(target) is not BufferLoad or target.ty is not value.ty:
                raise PassError("E374", f"a reduction of {value.ty} over threads into {target}, which is {target.ty}", call.span,
                                help="the reducer, the values and the elements that receive them have one type")  # fmt: skip
            stmts.append(BufferStore(target.buffer, value, target.indices))
        return fresh_copy(seq(*values.allocated, *stmts))

    def _group(self, axes: Sequence[Expr], call: Call) -> _Group:
        wanted = {var for axis in axes for var in used_vars(axis)}
        block = [(tag, *self.threads[tag]) for tag in sorted(self.threads) if tag.startswith("threadIdx.")]
        strange = wanted - {var for _, var, _ in block}
        if strange or not all([used_vars(axis) or is_int(axis, 0) for axis in axes]):  # 0: an axis of one thread
            names = ", ".join([var.name for var in strange]) or "nothing"
            raise PassError("E374", f"a reduction over threads over {names}, which is not an axis of threadIdx of the launch",
                            call.span, help="run unify_thread_binding first; reduce over loops bound to threadIdx")  # fmt: skip
        block = [part for part in block if not is_int(part[2], 1)]
        inner, others = [p for p in block if p[1] in wanted], [p for p in block if p[1] not in wanted]
        rank, size = _linear(inner)
        group, groups = _linear(others)
        return _Group(rank, size, group, groups, block[: len(inner)] == inner)


def _linear(axes: Sequence[tuple[str, Var, Expr]]) -> tuple[Expr, Expr]:
    """Number of a thread along some axes, the first one fastest, and how many there are."""
    slot, size = const(0, _INT), const(1, _INT)
    for _, var, extent in axes:
        slot = add(slot, mul(cast(var, _INT), size))
        size = mul(size, cast(extent, _INT))
    return slot, size


@prim_func_pass()
def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    """Lower reductions across threads to shuffles and shared memory."""
    return replace(func, body=_Lower()(func.body))
