"""Parallel loops: which there are, and how they are shared.

share_loops: outermost loops whose iterations are independent are shared between threads, whatever they do. Most loops are shared by
the passes that order and tile them; this is for what those cannot read, such as a running sum along each row. Loops with symbolic
extents are marked too. Scheduled functions (attribute ``tir.is_scheduled``) stay as they are.

Rewrite: ``for i in 4096: for j: C[i, j] = C[i, j - 1] + A[i, j]`` -> ``for i in T.parallel(4096): ...``.

chunk_parallel: how many iterations of a parallel loop a thread takes at a time, and whether there is enough work to share.

Rewrite: ``for i in T.parallel(n): ...`` -> the same inside ``T.attr(0, "parallel_chunk", c)``: ``c`` is a number where the work is
known, else an expression that gives all ``n`` iterations where they turn out to be too little work. A loop of few iterations that
holds nothing but another parallel one becomes one loop over both. Code generation does as the attribute says.
"""

from __future__ import annotations

from ....ir.build import add, cast, ceildiv, const, dtype_of, floordiv, floormod, is_int, lt, maximum, mul, select
from ....ir.expr import Call, IntImm, Var
from ....ir.function import PrimFunc, keeps_loops, may_alias
from ....ir.node import replace
from ....ir.scalar import Add, BufferLoad, Min
from ....ir.stmt import AttrStmt, Bind, BufferStore, For, Stmt, seq
from ....ir.types import Expr
from ....ir.walk import children, collect, free_vars, rewrite_outermost, used_vars
from ...infra.passes import prim_func_pass
from ..analysis.loop_nests import is_shareable
from ..analysis.parallel_cost import PARALLEL_CHUNK, SHARED_WORK, is_few, store_work

CHUNKS = 64
"""Most chunks a loop is cut into."""

FEW_CHUNKS = 8
"""Chunks that loops with little work are cut into; enough for the threads to finish together."""

CHUNK_WORK = 1 << 15
"""Work that a chunk should have: taking it costs little beside that."""

UNKNOWN_EXTENT = 16
"""The count of an inner loop whose extent depends on the iteration."""


@prim_func_pass()
def chunk_parallel(func: PrimFunc) -> PrimFunc:
    """Choose the chunks of parallel loops, and run loops with little work serially.

    For programs without blocks. Gives the attribute ``parallel_chunk``, which code generation reads.
    """
    return rewrite_outermost(func, _chunked)


def _chunked(stmt: object) -> Stmt | None:
    """A parallel loop with its chunk."""
    if type(stmt) is AttrStmt and stmt.key == PARALLEL_CHUNK:
        return stmt  # said already
    if type(stmt) is not For or stmt.kind != "parallel" or stmt.step is not None:
        return None
    loop = _collapsed(stmt)
    return AttrStmt(const(0, "int32"), PARALLEL_CHUNK, _chunk(loop), loop)


def _collapsed(stmt: For) -> For:
    """A parallel loop that holds nothing but another one: one loop over both, where the outer one alone has few iterations."""
    inner = stmt.body
    if type(inner) is not For or inner.kind != "parallel" or not is_few(stmt.extent):
        return stmt
    if (
        not (stmt.counts_up and inner.counts_up)
        or stmt.loop_var in used_vars(inner.extent)
        or dtype_of(inner.loop_var) is not dtype_of(stmt.loop_var)
    ):
        return stmt
    both = Var(f"{stmt.loop_var.name}_{inner.loop_var.name}", stmt.loop_var.ty)
    body = seq(
        Bind(stmt.loop_var, floordiv(both, inner.extent)),
        Bind(inner.loop_var, floormod(both, inner.extent)),
        inner.body,
    )
    return replace(stmt, loop_var=both, extent=mul(stmt.extent, inner.extent), body=body)


def _chunk(stmt: For) -> Expr:
    """Iterations of a chunk."""
    symbolic = any([type(loop.extent) is not IntImm for loop in collect(stmt.body, For)])
    constant, extents = _work(stmt.body, set(free_vars(stmt)) if symbolic else set())
    if type(stmt.extent) is IntImm and not extents:
        total = stmt.extent.value
        chunks = max(FEW_CHUNKS, min(CHUNKS, total * constant // CHUNK_WORK))
        return const(max(1, -(-total // chunks)), "int64")
    count = cast(stmt.extent, "int64")
    chunk = maximum(ceildiv(count, CHUNKS), const(1, "int64"))
    work = cast(count, "float64")
    for extent in extents:
        work = mul(work, cast(extent, "float64"))
    return select(lt(work, const(SHARED_WORK / constant, "float64")), count, chunk)


def _work(body: object, outside: set[Var]) -> tuple[int, tuple[Expr, ...]]:
    """Work of a statement: a number, and extents that are known outside of it; of parts, those count that have most of these."""
    if type(body) is For:
        number, extents = _work(body.body, outside)
        known = [part for part in _parts(body.extent) if type(part) is IntImm]
        if known:
            return number * max(1, min([part.value for part in known])), extents
        if all([var in outside for var in used_vars(body.extent)]) and not collect(body.extent, (BufferLoad, Call)):
            return number, (*extents, body.extent)
        return number * UNKNOWN_EXTENT, extents
    if type(body) is BufferStore:
        return max(1, dtype_of(body.value).lanes) * store_work(body), ()
    inside = [_work(c, outside) for c in children(body) if isinstance(c, Stmt)] if isinstance(body, Stmt) else []
    deepest = max(inside, key=lambda found: len(found[1]), default=(1, ()))[1]
    return max(1, sum([number for number, extents in inside if len(extents) == len(deepest)])), deepest


def _parts(extent: Expr) -> list[Expr]:
    """The upper bounds of an extent: itself, or the operands of a minimum, and what is added to them."""
    if type(extent) is Add and type(extent.b) is IntImm:
        return [add(part, extent.b) for part in _parts(extent.a)]
    return _parts(extent.a) + _parts(extent.b) if type(extent) is Min else [extent]


def _shared(stmt: object) -> Stmt | None:
    """A serial loop as a parallel one, where it is worth that and may be."""
    if type(stmt) is not For or stmt.kind != "serial":
        return stmt if type(stmt) is For else None
    plain = not stmt.annotations and stmt.counts_up and not is_int(stmt.extent, 1)
    symbolic = any([type(loop.extent) is not IntImm for loop in collect(stmt, For)])
    if not plain or not (symbolic or _work(stmt, set())[0] >= SHARED_WORK) or not collect(stmt.body, For):
        return None
    return replace(stmt, kind="parallel") if is_shareable(stmt) else None


@prim_func_pass()
def share_loops(func: PrimFunc) -> PrimFunc:
    """Share outermost independent loops between threads. For programs without blocks whose buffers have their axes."""
    if keeps_loops(func) or may_alias(func):
        return func
    return rewrite_outermost(func, _shared)
