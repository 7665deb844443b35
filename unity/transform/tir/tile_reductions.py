"""tile_reductions: outputs of a reduction are computed in tiles that stay in registers.

For a perfect nest over one reduction block (`nests.point_update`) of constant output axes: one output axis along which memory is
contiguous becomes vectors, another becomes rows; a tile of rows x vectors (`tile_shape.py`) is accumulated in a local buffer
through all reduction loops and stored once. Every cell is accumulated in the written order. Consumers that do no more than
compute cell by cell from the result follow at the tile (`_epilogue`): the result is then never stored.

Rewrite: ``for i, j, k: [init C[i, j]]; C[i, j] += A[i, k] * B[k, j]`` ->
``for jo, io: { t = 0; for k: for ii, ji: t[ii, ji] += A[..] * B[..]; for ii, ji: C[..] = t[ii, ji] }``.
Functions that were scheduled (attribute ``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ffi.llvm import host_features
from ...ir.buffer import Buffer
from ...ir.build import add, const, dtype_of, if_then_else, int_imm, is_int, lt, mul
from ...ir.expr import IntImm, Var
from ...ir.function import PrimFunc
from ...ir.node import replace
from ...ir.scalar import BufferLoad, Div, FloorDiv, FloorMod, Mod
from ...ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, For, IfThenElse, SeqStmt, Stmt, seq
from ...ir.types import Expr, PointerType, prim_type
from ...ir.walk import Rewriter, collect, fresh_copy, rewrite, substitute
from ..base import prim_func_pass
from .lower_init_block import REDUCTION
from .nests import Nest, Update, perfect_nest, point_update, small_stride, stride_class
from .tile_shape import Machine, tile_shape

PARALLEL_WORK = 1 << 18
"""Multiply-adds from which on a nest is shared between threads."""


@dataclass(slots=True, frozen=True)
class TileOptions:
    """``vector_bytes`` of one register (0: what this machine has); ``accumulators``: registers a tile may take (0: as many as
    leave room for operands); ``parallel``: share large nests between threads."""

    vector_bytes: int = 0
    accumulators: int = 0
    parallel: bool = True

    def machine(self, item_bytes: int) -> Machine:
        """Lanes and registers for elements of a size."""
        features = host_features()
        wide = self.vector_bytes or (64 if "+avx512f" in features else 32 if "+avx" in features else 16)
        registers = 32 if wide >= 64 else 16
        return Machine(max(1, wide // item_bytes), self.accumulators or registers - 6)


@dataclass(slots=True)
class _Plan:
    """A nest that is going to be tiled."""

    nest: Nest
    update: Update
    columns: For
    """The loop that becomes vectors."""
    rows: For | None
    """The loop that becomes rows of the tile."""
    outer: list[For]
    reductions: list[For]
    height: int
    width: int
    lanes: int
    epilogue: Update | None = None
    parallel: bool = False


def _extent(loop: For) -> int:
    assert type(loop.extent) is IntImm
    return loop.extent.value


def _iterators(update: Update) -> dict[Var, Var]:
    """Block iterator by loop variable."""
    return {loop: iterator for iterator, loop in update.axis.items()}


def _may_fail(value: Expr) -> bool:
    """Integer division by what is no constant: not to be tried in lanes that do not count."""
    divisions = collect(value, (Div, Mod, FloorDiv, FloorMod))
    return any([not dtype_of(d).is_float and (type(d.b) is not IntImm or d.b.value == 0) for d in divisions])


def _operands(update: Update) -> list[BufferLoad]:
    return [load for load in update.loads if load.buffer is not update.store.buffer]


def _plan(stmt: For, options: TileOptions) -> _Plan | None:
    nest = perfect_nest(stmt)
    update = point_update(nest) if nest is not None else None
    if nest is None or update is None or nest.realize.block.init is None:
        return None
    spatial = [loop for loop in nest.loops if update.kinds[loop.loop_var] == "S"]
    reductions = [loop for loop in nest.loops if update.kinds[loop.loop_var] == "R"]
    dtype = update.store.buffer.dtype
    if not reductions or not spatial or dtype.bits < 8 or dtype.lanes != 1 or dtype.is_bool:
        return None
    if _may_fail(update.store.value):
        return None
    iterator = _iterators(update)
    fixed = [loop for loop in spatial if type(loop.extent) is IntImm and _extent(loop) > 1]
    candidates = [
        loop
        for loop in fixed
        if stride_class(update.store, iterator[loop.loop_var]) == 1
        and all([small_stride(load, iterator[loop.loop_var]) for load in _operands(update)])
    ]
    columns = max(candidates, key=_extent, default=None)
    machine = options.machine(max(1, dtype.bits // 8))
    if columns is None or 2 * _extent(columns) < min(machine.lanes, 8):
        return None
    moving = [load for load in _operands(update) if stride_class(load, iterator[columns.loop_var]) > 0]
    rows = _rows(update, [loop for loop in fixed if loop is not columns], moving)
    height, vectors = tile_shape(_extent(rows) if rows is not None else 1, _extent(columns), machine)
    outer = [loop for loop in spatial if loop is not columns and loop is not rows]
    work = 1
    for loop in nest.loops:
        work *= _extent(loop) if type(loop.extent) is IntImm else 64
    parallel = options.parallel and work >= PARALLEL_WORK
    plan = _Plan(nest, update, columns, rows, outer, reductions, height, vectors * machine.lanes, machine.lanes)
    plan.parallel = parallel
    return plan


def _rows(update: Update, loops: list[For], moving: list[BufferLoad]) -> For | None:
    """The loop whose iterations read the same vectors, else the one that shares most reads."""
    iterator = _iterators(update)
    best, best_shared = None, 0
    for loop in loops:
        var = iterator[loop.loop_var]
        shared = sum([4 if load in moving else 1 for load in _operands(update) if stride_class(load, var) == 0])
        if shared > best_shared:
            best, best_shared = loop, shared
    return best


def _footprint(plan: _Plan, load: BufferLoad) -> int:
    """Cells of a buffer that the nest reads, at most."""
    count = 1
    for extent in load.buffer.shape:
        count *= extent.value if type(extent) is IntImm else 64
    return count


def _order(plan: _Plan) -> list[For]:
    """Loops over tiles from the outside in: first those that move in the largest operand."""
    loops = [*plan.outer, plan.columns] + ([plan.rows] if plan.rows is not None else [])
    loads = _operands(plan.update)
    if not loads:
        return loops
    largest = max(loads, key=lambda load: _footprint(plan, load))
    iterator = _iterators(plan.update)
    moves = [loop for loop in loops if stride_class(largest, iterator[loop.loop_var]) > 0]
    return moves + [loop for loop in loops if loop not in moves]


class _Writer:
    """Writes the tiled nest of a plan."""

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.order = _order(plan)
        self.shared = next((i for i, loop in enumerate(self.order) if not is_int(loop.extent, 1)), -1)
        self.values: dict[Var, Expr] = {}
        """Value of each loop variable at the corner of the tile."""

    def nest(self, position: int = 0, width: int = 0, height: int = 1) -> Stmt:
        """Loops over tiles from ``position`` on; ``width`` and ``height`` are those of the tile decided so far."""
        plan = self.plan
        if position == len(self.order):
            return self.tile(width, height)
        loop = self.order[position]
        if loop is not plan.columns and loop is not plan.rows:
            self.values[loop.loop_var] = loop.loop_var
            body = self.nest(position + 1, width, height)
            return replace(loop, body=body, kind=self.kind(position))
        size = plan.width if loop is plan.columns else plan.height
        parts: list[Stmt] = []
        whole, rest = divmod(_extent(loop), size)
        for first, count, piece in ((0, whole, size), (whole * size, 1, rest)):
            if not count or not piece:
                continue
            ty = prim_type(dtype_of(loop.loop_var))
            tile_var = Var(f"{loop.loop_var.name}_tile", ty)
            step = mul(tile_var, int_imm(size, ty)) if count > 1 else int_imm(first, ty)
            self.values[loop.loop_var] = step
            inner = (piece, height) if loop is plan.columns else (width, piece)
            body = self.nest(position + 1, *inner)
            if count > 1:
                body = For(tile_var, int_imm(0, ty), int_imm(count, ty), self.kind(position), body)
            parts.append(body)
        return seq(*parts)

    def kind(self, position: int) -> str:
        """The outermost loop of a large nest is parallel."""
        return "parallel" if self.plan.parallel and position == self.shared else "serial"

    def tile(self, width: int, height: int) -> Stmt:
        """One tile of ``width`` outputs along the vectors and ``height`` rows."""
        plan, update = self.plan, self.plan.update
        store, block = update.store, plan.nest.realize.block
        assert type(block.init) is BufferStore
        initial = block.init.value
        lanes = -(-width // plan.lanes) * plan.lanes
        dtype = store.buffer.dtype
        shape = (const(height, "int64"), const(lanes, "int64"))
        data = Var(f"{store.buffer.name}_tile", PointerType(prim_type(dtype), "local"))
        tile = Buffer(data, dtype, shape, name=data.name)

        def over(make: Any) -> Stmt:
            row_type = prim_type(dtype_of(plan.rows.loop_var) if plan.rows is not None else "int64")
            column_type = prim_type(dtype_of(plan.columns.loop_var))
            zero, count = int_imm(0, column_type), int_imm(plan.lanes, column_type)
            row, vector, lane = Var("row", row_type), Var("vector", column_type), Var("lane", column_type)
            values = dict(self.values)
            if plan.rows is not None:
                values[plan.rows.loop_var] = add(values[plan.rows.loop_var], row)
            whole, rest = divmod(width, plan.lanes)
            parts: list[Stmt] = []
            for number, inside in (
                (mul(vector, count), None),
                (int_imm(whole * plan.lanes, column_type), lt(lane, rest)),
            ):
                column = add(number, lane)
                values[plan.columns.loop_var] = add(self.values[plan.columns.loop_var], column)
                places = {iterator: values.get(loop, loop) for iterator, loop in update.axis.items()}
                body: Stmt = For(lane, zero, count, "vectorized", make(places, (row, column), inside))
                if inside is None:
                    body = For(vector, zero, int_imm(whole, column_type), "unrolled", body)
                if whole if inside is None else rest:
                    parts.append(fresh_copy(body))
            return For(row, int_imm(0, row_type), int_imm(height, row_type), "unrolled", seq(*parts))

        def start(places: dict[Var, Expr], cell: tuple[Expr, ...], inside: Expr | None) -> Stmt:
            return BufferStore(tile, substitute(initial, places), cell)

        def accumulate(places: dict[Var, Expr], cell: tuple[Expr, ...], inside: Expr | None) -> Stmt:
            value = substitute(_guarded(store.value, plan, inside), places)
            value = rewrite(value, {BufferLoad: lambda load: _in_tile(load, store.buffer, tile, cell)})
            return AttrStmt(const(0, "int32"), REDUCTION, 1, BufferStore(tile, value, cell))

        def write(places: dict[Var, Expr], cell: tuple[Expr, ...], inside: Expr | None) -> Stmt:
            result = Var("result", prim_type(dtype))  # read outside the condition: the tile itself has all lanes
            made: Stmt = substitute(replace(store, value=result), places)
            if plan.epilogue is not None:
                made = _follow(plan.epilogue, store, result, places)
            bound = Bind(result, BufferLoad(tile, cell, prim_type(dtype)))
            return seq(bound, made if inside is None else IfThenElse(inside, made))

        body = over(accumulate)
        for depth, loop in enumerate(reversed(plan.reductions)):
            small = type(loop.extent) is IntImm and _extent(loop) <= 4
            notes = {"unroll": 4} if depth == 0 and not small else None
            body = replace(loop, body=body, kind="unrolled" if depth == 0 and small else "serial", annotations=notes)
        return fresh_copy(seq(AllocBuffer(tile), over(start), body, over(write)))  # type: ignore[no-any-return]


def _guarded(value: Expr, plan: _Plan, inside: Expr | None) -> Expr:
    """A value whose reads along the vectors happen only inside."""
    if inside is None:
        return value
    iterator = _iterators(plan.update)[plan.columns.loop_var]

    def guard(load: BufferLoad) -> Expr:
        if load.buffer is plan.update.store.buffer or stride_class(load, iterator) == 0:
            return load
        zero = const(0 if load.buffer.dtype.is_integral else 0.0, load.buffer.dtype)
        return if_then_else(inside, load, zero)

    return rewrite(value, {BufferLoad: guard})  # type: ignore[no-any-return]


def _in_tile(load: BufferLoad, old: Buffer, tile: Buffer, cell: tuple[Expr, ...]) -> BufferLoad:
    return replace(load, buffer=tile, indices=cell) if load.buffer is old else load


def _follow(epilogue: Update, store: BufferStore, result: Var, places: dict[Var, Expr]) -> Stmt:
    """The consumer's store for the cell that ``store`` would have written."""
    read = next(load for load in epilogue.loads if load.buffer is store.buffer)
    where: dict[Var, Expr] = {}
    for index, source in zip(read.indices, store.indices):
        if type(index) is Var:
            where[index] = substitute(source, places)
    made = rewrite(epilogue.store, {BufferLoad: lambda load: result if load.buffer is store.buffer else load})
    return substitute(made, where)  # type: ignore[no-any-return]


def _epilogue(plan: _Plan, following: Stmt, func: PrimFunc) -> Update | None:
    """The update of the next statement, if it may be computed tile by tile in the place of storing the result."""
    nest = perfect_nest(following) if type(following) is For else None
    update = point_update(nest) if nest is not None else None
    result = plan.update.store.buffer
    if nest is None or update is None or nest.realize.block.init is not None or "R" in update.kinds.values():
        return None
    reads = [load for load in update.loads if load.buffer is result]
    if not reads or result in func.buffer_map.values() or update.store.buffer.data is result.data:
        return None
    spatial = set(update.axis)
    extents = {loop.loop_var: loop.extent for loop in nest.loops}
    for load in reads:
        used = [index for index in load.indices if type(index) is Var and index in spatial]
        if len(set(used)) != len(spatial) or len(used) != len(spatial):
            return None
        for index, extent in zip(load.indices, result.shape):
            whole = type(index) is Var and index in spatial and _same(extents[update.axis[index]], extent)
            if not whole and not (is_int(index, 0) and is_int(extent, 1)):
                return None
        if [i if type(i) is Var else None for i in load.indices] != [
            i if type(i) is Var else None for i in reads[0].indices
        ]:
            return None
    written = {load.buffer.data for load in plan.update.loads}
    if update.store.buffer.data in written:
        return None
    column = next(iterator for iterator, loop in plan.update.axis.items() if loop is plan.columns.loop_var)
    axis = next(i for i, index in enumerate(plan.update.store.indices) if index is column)
    along = reads[0].indices[axis]
    if type(along) is not Var or stride_class(update.store, along) != 1:
        return None
    if not all([small_stride(load, along) for load in update.loads if load.buffer is not result]):
        return None
    here = [a for part in (plan.nest.loops[0], following) for a in collect(part, (BufferLoad, BufferStore))]
    everywhere = [a for a in collect(func.body, (BufferLoad, BufferStore)) if a.buffer.data is result.data]
    return update if all([a in here for a in everywhere]) else None


def _same(a: Expr, b: Expr) -> bool:
    return a is b or (type(a) is IntImm and type(b) is IntImm and a.value == b.value)


class _Outermost(Rewriter):
    def __init__(self, func: PrimFunc, options: TileOptions) -> None:
        super().__init__()
        self.func, self.options = func, options

    def enter(self, node: object) -> object | None:
        if type(node) is For:
            plan = _plan(node, self.options)
            return _Writer(plan).nest() if plan is not None else None
        if type(node) is SeqStmt:
            return self.sequence(node)
        return None

    def sequence(self, stmt: SeqStmt) -> Stmt:
        parts: list[Stmt] = []
        position = 0
        changed = False
        while position < len(stmt.stmts):
            part = stmt.stmts[position]
            plan = _plan(part, self.options) if type(part) is For else None
            if plan is None:
                made = self.visit(part)
            else:
                if position + 1 < len(stmt.stmts):
                    plan.epilogue = _epilogue(plan, stmt.stmts[position + 1], self.func)
                    position += plan.epilogue is not None
                made = _Writer(plan).nest()
            changed = changed or made is not part
            parts.append(made)
            position += 1
        return seq(*parts) if changed else stmt


@prim_func_pass(options=TileOptions)
def tile_reductions(func: PrimFunc, options: TileOptions) -> PrimFunc:
    """Keep tiles of reductions' outputs in registers."""
    if func.attrs.get("tir.is_scheduled"):
        return func
    body = _Outermost(func, options)(func.body)
    return func if body is func.body else replace(func, body=body)
