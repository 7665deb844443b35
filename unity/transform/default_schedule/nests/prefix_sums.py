"""prefix_sums: a running sum along contiguous memory goes a vector at a time.

A vector is added to itself shifted by one lane, by two, by four; the sum before it is added to all lanes, and its last lane is
the sum behind it. Sums that are carried in a wider float than the elements, and sums of integers: others could overflow on a
way that elements in order do not take. Source: Hillis, Steele, "Data parallel algorithms", CACM 29(12), 1986.

Rewrite: ``for t: for lane: value = s[lane] + X[lane, t]; s[lane] = value; Y[lane, t] = value`` ->
``for t_vector: for lane: { x[0:8] = X[lane, t_vector * 8 : ..]; shifts and sums; Y[..] = x[0:8]; s[lane] = x[7] }``, and the loop
as it was for what is left. Functions that were scheduled stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.buffer import make_buffer
from ....ir.build import add, broadcast, const, dtype_of, floordiv, floormod, int_imm, int_value, maximum, mul
from ....ir.expr import Var
from ....ir.function import PrimFunc, is_scheduled, may_alias
from ....ir.node import replace
from ....ir.scalar import Add, BufferLoad, Cast, Ramp, Shuffle
from ....ir.stmt import AllocBuffer, Bind, Block, BufferStore, For, SeqStmt, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import StatementRewriter, collect, fresh_copy, substitute
from ...infra.backend import machine_in_use
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import calls_are_pure, slope
from ..common.choices import choose

MOST_LANES = 16
"""Elements of a vector, at most."""


@dataclass(slots=True, frozen=True)
class _Sum:
    """``loop`` over elements, ``lines`` side by side; ``carried`` is the sum before, ``term`` what is added, ``value`` the name of
    the sum behind, ``stores`` what is made of it."""

    loop: For
    lines: For
    carried: BufferStore
    term: Expr
    value: Var
    stores: tuple[BufferStore, ...]


def _sum_of(loop: For) -> _Sum | None:
    """A loop as a running sum."""
    lines = loop.body
    if loop.kind != "serial" or type(lines) is not For or lines.kind not in ("serial", "unrolled"):
        return None
    bind, *stores = lines.body.stmts if type(lines.body) is SeqStmt else [lines.body]
    own = stores[0] if stores else None
    if type(bind) is not Bind or type(own) is not BufferStore or own.value is not bind.var:
        return None
    total = bind.value
    if type(total) is not Add:
        return None
    if not all([type(store) is BufferStore and store.predicate is None for store in stores]):
        return None
    terms = [
        (a, b)
        for a, b in ((total.a, total.b), (total.b, total.a))
        if type(a) is BufferLoad and a.buffer is own.buffer and len(a.indices) == 1 and a.indices[0] is lines.loop_var
    ]
    found = terms[0][1] if len(terms) == 1 else None
    outs = [store for store in stores[1:] if type(store) is BufferStore]
    if found is None or own.indices != (lines.loop_var,) or not _is_safe(found) or not _along(loop, lines, found, outs):
        return None
    return _Sum(loop, lines, own, found, bind.var, tuple(outs))


def _is_safe(term: Expr) -> bool:
    """True if sums of elements in any order are those in order but for rounding."""
    dtype = dtype_of(term)
    if dtype.is_integral:
        return not dtype.is_bool
    return dtype.is_float and type(term) is Cast and dtype_of(term.value).bits < dtype.bits


def _along(loop: For, lines: For, term: Expr, outs: list[BufferStore]) -> bool:
    """True if what is read and written lies along the loop in memory, and nothing that is written is read."""
    loads = [load for part in (term, *[out.value for out in outs]) for load in collect(part, BufferLoad)]
    written = {out.buffer.data for out in outs}
    if not outs or any([load.buffer.data in written for load in loads]) or not calls_are_pure(term):
        return False
    accesses: list[BufferLoad | BufferStore] = [*loads, *outs]
    return all([_steps_by_one(access, loop.loop_var) for access in accesses]) and int_value(lines.extent) is not None


def _steps_by_one(access: BufferLoad | BufferStore, var: Var) -> bool:
    *first, last = [slope(index, var) for index in access.indices] or [None]
    return last == 1 and not any([step != 0 for step in first]) and not access.buffer.strides


def _in_vectors(found: _Sum, lanes: int) -> Stmt:
    """The loop with so many elements at a time, and the loop over what is left."""
    loop, lines = found.loop, found.lines
    index, dtype = prim_type(dtype_of(loop.loop_var)), dtype_of(found.term)
    size, zero = int_imm(lanes, index), int_imm(0, index)
    extent = maximum(loop.extent, zero)  # that of no element may be -1
    count = floordiv(extent, size)
    number, lane = Var(f"{loop.loop_var.name}_vector", index), Var("element", index)
    vector = prim_type(dtype.with_lanes(lanes))
    part = make_buffer(f"{found.carried.buffer.name}_vector", dtype, (lanes,), "local")
    whole = Ramp(const(0, "int64"), const(1, "int64"), lanes, prim_type(dtype_of(const(0, "int64")).with_lanes(lanes)))
    at = add(mul(number, size), lane)
    made: list[Stmt] = [
        AllocBuffer(part),
        For(lane, zero, size, "vectorized", BufferStore(part, substitute(found.term, {loop.loop_var: at}), (lane,))),
    ]
    sums: Expr = Var("sums", vector)
    assert isinstance(sums, Var)
    made.append(Bind(sums, BufferLoad(part, (whole,), vector)))
    nothing = broadcast(const(-0.0 if dtype.is_float else 0, dtype), lanes)  # added to -0.0 it leaves that
    distance = 1
    while distance < lanes:
        picks = tuple([const(k - distance if k >= distance else lanes, "int32") for k in range(lanes)])
        longer = Var("sums", vector)
        made.append(Bind(longer, add(sums, Shuffle((sums, nothing), picks, vector))))
        sums, distance = longer, 2 * distance
    before = BufferLoad(found.carried.buffer, found.carried.indices, prim_type(dtype))
    last = BufferLoad(part, (const(lanes - 1, "int64"),), prim_type(dtype))
    behind: Expr = last
    if dtype.is_integral:  # the next vector waits for one addition, and for no lane of this one
        behind = Var("behind", prim_type(dtype))
        made += [BufferStore(part, sums, (whole,)), Bind(behind, add(before, last))]
    made.append(BufferStore(part, add(broadcast(before, lanes), sums), (whole,)))
    for store in found.stores:
        values = {loop.loop_var: at, found.value: BufferLoad(part, (lane,), prim_type(dtype))}
        made.append(fresh_copy(For(lane, zero, size, "vectorized", substitute(store, values))))
    made.append(replace(found.carried, value=behind))
    vectors = For(number, zero, count, "serial", replace(lines, body=seq(*made), kind="unrolled", annotations=None))
    rest = replace(loop, extent=floormod(extent, size))
    moved = substitute(rest.body, {loop.loop_var: add(mul(count, size), loop.loop_var)})
    return seq(fresh_copy(vectors), fresh_copy(replace(rest, body=moved)))


class _Sums(StatementRewriter):
    """Rewrites the running sums of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.block: Block | None = None

    def enter(self, node: object) -> object | None:
        if type(node) is Block:
            before, self.block = self.block, node
            try:
                made = self.visit(node.body)
            finally:
                self.block = before
            return node if made is node.body else replace(node, body=made)
        found = _sum_of(node) if type(node) is For and self.block is not None else None
        if found is None or self.block is None:
            return None
        full = machine_in_use().lanes(dtype_of(found.term).itemsize)
        most = min(2 * full, MOST_LANES)  # a vector waits for the one before: of two registers there are half as many
        lanes = choose(self.block, "lanes", [0, *[n for n in (4, 8, 16) if n <= most]], most)
        return _in_vectors(found, lanes) if 1 < lanes <= int_value(found.loop.extent, lanes) else node


@prim_func_pass()
def prefix_sums(func: PrimFunc) -> PrimFunc:
    """Compute running sums along contiguous memory a vector at a time. For programs with blocks. Scheduled programs stay."""
    if is_scheduled(func) or may_alias(func):
        return func
    body = _Sums()(func.body)
    return func if body is func.body else replace(func, body=body)
