"""tile_reductions: outputs of a reduction are computed in tiles that stay in registers.

For a perfect nest over one reduction block (``loop_nests.cell_nest``) of constant output axes: one output axis along which
memory is contiguous becomes vectors, another becomes rows; a tile of rows x vectors is accumulated in a local buffer through all
reduction loops and stored once. Every cell is accumulated in the written order; a long sum of floats in chunks of it, whose sums
are added to a tile of totals in float64. Sizes are those of `transform/default_schedule/common/tile_shape.py`. A consumer that
does no more than compute cell by cell from the result follows at the tile (`epilogues.py`): the result is then never stored.

Rewrite: ``for i, j, k: [init C[i, j]]; C[i, j] += A[i, k] * B[k, j]`` ->
``for jo, io: { t = 0; for k: for ii, ji: t[ii, ji] += A[..] * B[..]; for ii, ji: C[..] = t[ii, ji] }``.
Functions that were scheduled (attribute ``tir.is_scheduled``) stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul as times

from ....ffi.dtype import DataType
from ....ir.analysis.reductions import REDUCTION
from ....ir.buffer import Buffer, make_buffer
from ....ir.build import add, buffer_load, cast, const, dtype_of, if_then_else, int_imm, lt, mul
from ....ir.constant import is_int
from ....ir.expr import Call, FloatImm, IntImm, Var
from ....ir.function import PrimFunc
from ....ir.node import replace
from ....ir.scalar import Add, BufferLoad, Max, Min
from ....ir.stmt import AllocBuffer, AttrStmt, BufferStore, For, Stmt, seq
from ....ir.types import Expr, prim_type
from ....ir.walk import collect, fresh_copy, rewrite, substitute
from ...infra.backend import machine_in_use
from ...infra.passes import prim_func_pass
from ...tir.analysis.loop_nests import Nest, is_choice, reduced_value, slope, small_stride, stride_class
from ..common.choices import LEAST_LANES, choose, choose_lanes
from ..common.tile_shape import LATENCY, RESERVED, WIDEST, chunk_of, most_rows, tile_rows, tile_shape
from .epilogues import Plan, tile_outermost
from .tile_walk import Walk, find_walk, meets_condition, runs_on, step_of
from .tiles import Corner, Piece, extent_of, loop_order, nested, over_tiles, reduction_nest, shared_loops, split_loop

MOST_ROWS, MOST_VECTORS = 16, 16
"""Rows and vectors of a tile, at most."""
FULL_ROWS = 8
"""Rows that fill a tile well."""
WINDOW, LONE_WINDOW = 9, 49
"""Steps of the two innermost loops of a reduction that are both written out, at most: those of a window of 3 x 3; of 7 x 7 where
the reduction has no further steps and rows read lines of their own."""
SHORT, SHORT_VECTORS = 32, 256
"""Steps of a lone loop that is written out where there are masks, and vectors in all of them, at most: turns that are left over
cost more."""
BORDERED_ROWS = 4
"""Rows of a tile of several vectors with the border of an image in its cells, at most: what rows share stays in registers, and
masks have few."""
SUMS_OF_WINDOWS = 0.4
"""Share of the registers that is left to sums where each row reads vectors of its own, as lines of windows: what several rows read
stays as well. Beside weights, or lanes that are picked, no more sums than are under way at once are worth it."""
WHOLE_ROWS, WHOLE_STEPS = 3, 5
"""Rows of a tile and steps from which on windows without weights take whole lines of ``WIDEST`` vectors: these are read once, one
after the other."""
SUMS_OF_STEPS = 0.7
"""Share of the registers up to which sums leave room for the operands of several steps, which LLVM loads at once: beyond it keeps
sums in memory."""
WRITTEN = 1024
"""Vectors of sums in all steps that are written out, at most: more instructions stay in no cache, and take seconds to compile.
Lanes, where these are picked under conditions."""


@dataclass(slots=True, frozen=True)
class _Cells:
    """A vector of cells of a tile: values of the iterators, and its place; ``inside`` tells which lanes count where not all do.
    ``running``: values of the iterators for reads that run on from line to line, and which lanes read then."""

    places: Corner
    cell: tuple[Expr, ...]
    inside: Expr | None
    running: tuple[Corner, Expr | None] | None = None


@dataclass(slots=True, kw_only=True)
class _Plan(Plan):
    columns: For
    """The loop that becomes vectors."""
    rows: For | None
    """The loop that becomes rows of the tile."""
    walk: Walk | None
    """Rows of short lines taken together as one line of vectors."""
    height: int
    width: int
    lanes: int
    windows: bool
    """Each row reads vectors of its own."""

    def write(self) -> Stmt:
        """The loops over tiles."""
        tiled = ([self.rows] if self.rows is not None else []) + [self.columns]  # lines of memory one after the other
        across = [] if self.walk is None else [self.walk.across]
        others = [loop for loop in self.nest.of_kind("S") if loop not in tiled and loop not in across]
        order = loop_order(others + tiled, self.nest)
        line, width = self.columns, self.width
        if self.walk is not None:
            line, width = self.walk.tiled, self.walk.lines or self.width
        order = [line if loop is self.columns else loop for loop in order]
        sizes = {line: width}
        if self.rows is not None:
            sizes[self.rows] = self.height
        turning = [loop for loop in order if not is_int(loop.extent, 1) and extent_of(loop) > sizes.get(loop, 1)]
        moved = list(turning)
        for index in range(min(2, len(moved) - 1)):
            at = choose(self.nest.block, f"loop_{index}", range(len(moved) - index), 0)
            moved.insert(index, moved.pop(index + at))
        order = [moved.pop(0) if loop in turning else loop for loop in order]
        vectors = (line, self.lanes)
        bordered = [self.rows] if self.rows is not None and meets_condition(self.nest, self.rows) else []

        def leaf(corner: Corner, pieces: dict[For, Piece]) -> Stmt:
            return _Tile(self, corner, pieces).write()

        return over_tiles(order, sizes, shared_loops(self.nest, order), leaf, vectors, bordered)


def _plan(stmt: Stmt) -> _Plan | None:
    nest = reduction_nest(stmt)
    if nest is None:
        return None
    fixed = [loop for loop in nest.of_kind("S") if extent_of(loop) > 1]
    candidates = [
        loop
        for loop in fixed
        if nest.stride(nest.store, loop) == 1
        and all([small_stride(load, nest.iterator[loop.loop_var].var) for load in nest.operands])
    ]
    block = nest.block
    extents = [extent_of(loop) for loop in candidates]
    own = extents.index(max(extents)) if extents else 0
    columns = candidates[choose(block, "columns", range(len(extents)), own)] if extents else None
    if columns is None:
        return None
    machine = machine_in_use()
    lanes = _lanes(nest, columns, fixed, machine.lanes(nest.store.buffer.dtype.itemsize))
    moving = [load for load in nest.operands if nest.stride(load, columns) > 0]
    size = extent_of(columns)
    is_short = size <= 2 * lanes or (size % lanes > 0 and size <= 4 * lanes)

    def rows_without(across: For | None) -> For | None:
        others = [loop for loop in fixed if loop is not columns and loop is not across]
        return _rows(nest, others, moving, is_short)

    def height_without(across: For | None) -> int:
        found = rows_without(across)
        return 1 if found is None else extent_of(found)

    registers = machine.registers - 1
    walk = find_walk(nest, fixed, columns, lanes, registers, height_without)
    rows = rows_without(None if walk is None else walk.across)
    others = [loop for loop in fixed if loop is not columns and (walk is None or loop is not walk.across)]
    picks = any([nest.stride(load, columns) > 1 for load in moving])
    if rows is None and walk is None and is_short and others and picks and machine.masks:
        rows = others[-1]  # its sums go on while others wait for their lanes
    axis = choose(block, "row_axis", range(-1, len(others)), others.index(rows) if rows is not None else -1)
    rows = others[axis] if axis >= 0 else None
    length = extent_of(columns if walk is None else walk.loop)
    if 2 * length < min(lanes, 8):
        return None
    most = extent_of(rows) if rows is not None else 1
    windows = rows is not None and all([nest.stride(load, rows) > 0 for load in moving])
    if windows:
        sums = int(registers * SUMS_OF_WINDOWS)
        registers = RESERVED + (min(sums, int(2 * LATENCY)) if picks or len(moving) < len(nest.operands) else sums)
    if walk is not None and walk.lines:
        vectors = -(-length // lanes)
        height = tile_rows(most, vectors, registers)[1]
    else:
        height, vectors = tile_shape(most, length, lanes, registers)
        whole = -(-length // lanes)
        steps = math.prod([extent_of(loop) for loop in nest.of_kind("R")])
        if windows and not picks and len(moving) == len(nest.operands) and whole == WIDEST and steps >= WHOLE_STEPS:
            fitting = tile_rows(most, whole, registers)[1]
            height, vectors = (fitting, whole) if fitting >= WHOLE_ROWS else (height, vectors)
        vectors = choose(block, "vectors", range(1, MOST_VECTORS + 1), vectors, whole)
    fit = min(most, most_rows(vectors, machine.registers))
    if vectors > 1 and rows is not None and meets_condition(nest, rows):
        height = min(height, BORDERED_ROWS)
    height = choose(block, "rows", range(1, MOST_ROWS + 1), height, fit)
    return _Plan(
        nest=nest, column=nest.iterator[columns.loop_var].var, columns=columns, rows=rows, walk=walk,
        height=height, width=vectors * lanes, lanes=lanes, windows=windows,
    )  # fmt: skip


def _lanes(nest: Nest, columns: For, loops: list[For], full: int) -> int:
    """Elements of a vector: of the least one for lines that fill most of it, where no other lines go into the same vector."""
    fills_least = 3 * LEAST_LANES <= 4 * extent_of(columns) < 4 * LEAST_LANES
    is_alone = fills_least and all([step_of(nest, loop, columns) is None for loop in loops])
    return choose_lanes(nest.block, full, min(full, LEAST_LANES) if is_alone else full)


def _rows(nest: Nest, loops: list[For], moving: list[BufferLoad], is_short: bool) -> For | None:
    """The loop whose iterations read the same vectors, else the one that shares most reads, else one whose windows overlap, if
    lines are short; of several one that fills a tile."""
    steps = {nest.iterator[loop.loop_var].var: extent_of(loop) for loop in nest.of_kind("R")}
    best, most, loads = None, (0, 0), nest.operands
    for loop in loops:
        var = nest.iterator[loop.loop_var].var
        shared = sum([8 if load in moving else 2 for load in loads if stride_class(load, var) == 0])
        if not shared and is_short and loop is loops[-1]:
            shared = sum([_overlaps(index, var, steps) for load in loads for index in load.indices])
        found = shared, min(extent_of(loop), FULL_ROWS)
        if shared and (found > most or (found == most and shared < 8)):
            best, most = loop, found
    return best


def _overlaps(index: Expr, var: Var, steps: dict[Var, int]) -> bool:
    """True if at least half of the cells that an index goes through in all steps are those of the neighbour along a variable."""
    own = slope(index, var)
    reach = 1 + sum([(slope(index, step) or 0) * (extent - 1) for step, extent in steps.items()])
    return own is not None and 0 < own * 2 <= reach


def _picks_lanes(plan: _Plan) -> bool:
    """True if a value is read with a step between lanes that takes instructions for each: under a condition, or without masks."""
    value = plan.nest.store.value
    alone = [call for call in collect(value, Call) if is_choice(call)] if machine_in_use().masks else [value]
    return any([plan.nest.stride(load, plan.columns) > 1 for part in alone for load in collect(part, BufferLoad)])


class _Tile:
    """One tile: its buffer, the initial values, the accumulation, the stores."""

    def __init__(self, plan: _Plan, corner: Corner, pieces: dict[For, Piece]) -> None:
        self.plan, self.corner = plan, corner
        self.walk = plan.walk
        self.line = plan.columns if plan.walk is None else plan.walk.tiled
        size, self.limit = pieces[self.line].size, pieces[self.line].limit
        self.width = size if plan.walk is None else plan.walk.width(size)
        self.height = pieces[plan.rows].size if plan.rows is not None else 1
        self.store = plan.nest.store
        self.buffer = self.total = self.tile("tile", self.store.buffer.dtype)

    def tile(self, name: str, dtype: DataType) -> Buffer:
        """A buffer for the cells of the tile."""
        lanes = -(-self.width // self.plan.lanes) * self.plan.lanes
        return make_buffer(f"{self.store.buffer.name}_{name}", dtype, (self.height, lanes), "local")

    def lanes_of(self, rest: int | Expr) -> int:
        """Lanes of the last vector, which is not filled: the part of a register that has ``rest`` lanes."""
        fitting = [self.plan.lanes]
        while type(rest) is int and fitting[-1] // 2 >= max(rest, LEAST_LANES):
            fitting.append(fitting[-1] // 2)
        return fitting[-1]

    def write(self) -> Stmt:
        """All of it."""
        loops = self.plan.nest.of_kind("R")
        float_sum = type(self.store.value) is Add and self.buffer.dtype.is_float and self.buffer.dtype.bits >= 32
        cut = chunk_of([extent_of(s) if type(s.extent) is IntImm else None for s in loops]) if float_sum else None
        body = self.steps(loops, self.over(self.accumulate)) if cut is None else self.chunks(loops, *cut)
        parts = [AllocBuffer(self.total), self.over(self.start), body, self.over(self.finish)]
        return fresh_copy(seq(*parts))

    def steps(self, loops: list[For], body: Stmt) -> Stmt:
        """Reduction loops around a step, the innermost written out."""
        block = self.plan.nest.block
        fixed = [type(loop.extent) is IntImm for loop in reversed(loops)]
        most = fixed.index(False) if False in fixed else len(fixed)
        own = int(fixed[0] and extent_of(loops[-1]) <= 4)
        window = math.prod([extent_of(loop) for loop in loops[-2:]])
        is_alone = window == math.prod([extent_of(loop) for loop in loops])
        if is_alone and self.plan.windows and most > 1 and WINDOW < window <= LONE_WINDOW:
            own = 2
        own += int(own == 1 and most > 1 and window <= WINDOW)
        vectors = self.height * -(-self.width // self.plan.lanes)
        size = vectors * (self.plan.lanes if _picks_lanes(self.plan) else 1)
        if len(loops) == 1 and fixed[0] and self.plan.rows is not None and not self.plan.windows:
            # what all rows read stays in registers from tile to tile
            kept = (extent_of(loops[0]) + self.plan.height) * (self.plan.width // self.plan.lanes)
            own = int(own or kept <= machine_in_use().registers)
        elif len(loops) == 1 and fixed[0] and extent_of(loops[0]) <= SHORT and machine_in_use().masks:
            own = int(own or extent_of(loops[0]) * size <= SHORT_VECTORS)
        steps = accumulate([extent_of(loop) for loop in reversed(loops)][:most], times)
        counts = [1, *steps]
        fits = sum([n * size <= WRITTEN for n in counts[1:]])
        written = choose(block, "written", range(most + 1), min(own, fits), fits)
        room = written or vectors <= machine_in_use().registers * SUMS_OF_STEPS
        turns = max(4, WRITTEN // max(1, counts[written] * size))
        unrolled = 4 if written == len(loops) else choose(block, "unrolled", (1, 2, 4, 8), 4 if room else 1, turns)
        first = self.first_step() if written == len(loops) else None
        if first is not None:
            return self.steps_behind(first, loops, body)
        for depth, loop in enumerate(reversed(loops)):
            kind = "unrolled" if depth < written else "serial"
            notes = {"unroll": unrolled} if depth == written and (depth == 0 or unrolled != 4) else None
            body = replace(loop, body=body, kind=kind, annotations=notes)
        return body

    def first_step(self) -> Expr | None:
        """The value of a step where the first may take the place of the initial value: extremes of floats that begin with infinity.
        It saves three instructions of AVX-512, as LLVM knows nothing about ``vrangeps``."""
        initial, sign = self.plan.initial, {Max: -1.0, Min: 1.0}.get(type(self.store.value))
        is_neutral = sign is not None and type(initial) is FloatImm and initial.value == sign * math.inf
        return reduced_value(self.store) if is_neutral else None

    def steps_behind(self, value: Expr, loops: list[For], body: Stmt) -> Stmt:
        """All steps written out, the first of which stores its value."""
        begin: dict[Var, Expr] = {loop.loop_var: loop.min for loop in loops}
        parts = [substitute(self.over(lambda cells: self.step(cells, value)), begin)]
        for loop in reversed(loops):
            count, one = extent_of(loop) - 1, int_imm(1, prim_type(dtype_of(loop.loop_var)))
            del begin[loop.loop_var]
            if count:
                later = substitute(body, {**begin, loop.loop_var: add(loop.loop_var, one)})
                parts.append(
                    replace(loop, extent=int_imm(count, one.ty), body=later, kind="unrolled", annotations=None)
                )
            body = replace(loop, body=body, kind="unrolled", annotations=None)
        return seq(*[fresh_copy(part) for part in parts])

    def chunks(self, loops: list[For], first: int, size: int) -> Stmt:
        """The reduction in chunks: ``size`` steps of the loop before ``first`` and all loops from there on."""
        self.buffer, self.total = self.tile("chunk", self.buffer.dtype), self.tile("total", DataType("float64"))
        step = self.over(self.accumulate)
        outer, inner = loops[:first], loops[first:]
        if size > 1:
            loop = outer[-1]
            outer[-1], here, at = split_loop(loop, size)
            step, inner = substitute(step, {loop.loop_var: at}), [here, *inner]
        body = seq(AllocBuffer(self.buffer), self.over(self.clear), self.steps(inner, step), self.over(self.add_chunk))
        return nested(outer, body)

    def clear(self, cells: _Cells) -> Stmt:
        """The sum of no step."""
        return BufferStore(self.buffer, const(0.0, self.buffer.dtype), cells.cell)

    def add_chunk(self, cells: _Cells) -> Stmt:
        """The sum of a chunk added to the total."""
        total, part = [buffer_load(buffer, *cells.cell) for buffer in (self.total, self.buffer)]
        return BufferStore(self.total, add(total, cast(part, self.total.dtype)), cells.cell)

    def over(self, make: Callable[[_Cells], Stmt]) -> Stmt:
        """Loops over the cells of the tile with ``make`` of a vector of them inside."""
        plan = self.plan
        row_type = prim_type(dtype_of(plan.rows.loop_var) if plan.rows is not None else "int64")
        column_type = prim_type(dtype_of(plan.columns.loop_var))
        zero, full = int_imm(0, column_type), int_imm(plan.lanes, column_type)
        row, vector, lane = Var("row", row_type), Var("vector", column_type), Var("lane", column_type)
        values = dict(self.corner)
        if plan.rows is not None:
            values[plan.rows.loop_var] = add(values[plan.rows.loop_var], row)
        whole, rest = (0, self.limit) if self.limit is not None else divmod(self.width, plan.lanes)
        parts: list[Stmt] = []
        first: Expr = int_imm(whole * plan.lanes, column_type)
        filled: list[tuple[bool, Expr, Expr, Expr | None]] = [(True, full, mul(vector, full), None)] if whole else []
        if rest != 0:
            filled.append((False, int_imm(self.lanes_of(rest), column_type), first, lt(lane, rest)))
        for many, count, number, inside in filled:
            column = add(number, lane)
            corner = self.corner[self.line.loop_var]
            lines = None if plan.walk is None or not plan.walk.lines else corner
            at = add(corner, column) if lines is None else column
            values[plan.columns.loop_var] = at
            running = None
            if plan.walk is not None:
                if lines is not None:
                    running = plan.iterators({**values, plan.walk.across.loop_var: lines}), inside
                values.update(plan.walk.places(at, lines))
                inside = plan.walk.inside(at, inside)
            cells = _Cells(plan.iterators(values), (row, column), inside, running)
            body: Stmt = For(lane, zero, count, "vectorized", make(cells))
            if many:
                body = For(vector, zero, int_imm(whole, column_type), "unrolled", body)
            parts.append(fresh_copy(body))
        return For(row, int_imm(0, row_type), int_imm(self.height, row_type), "unrolled", seq(*parts))

    def start(self, cells: _Cells) -> Stmt:
        """The initial value of a cell."""
        return BufferStore(self.total, cast(substitute(self.plan.initial, cells.places), self.total.dtype), cells.cell)

    def accumulate(self, cells: _Cells) -> Stmt:
        """One step of the reduction for a cell."""
        return self.step(cells, self.store.value)

    def step(self, cells: _Cells, value: Expr) -> Stmt:
        """The store of a value to a cell; reads along the vectors happen in lanes that count."""
        old = self.store.buffer
        nest = self.plan.nest

        def read(load: BufferLoad) -> Expr:
            if load.buffer is old:
                return replace(load, buffer=self.buffer, indices=cells.cell)
            made: Expr = load
            inside = cells.inside
            if nest.stride(load, self.plan.columns) == 0:
                return load
            on = (
                None
                if self.walk is None or cells.running is None
                else runs_on(load, nest.iterator[self.walk.across.loop_var].var)
            )
            if on is not None and cells.running is not None:
                inside, made = cells.running[1], substitute(on, cells.running[0])
            if inside is None:
                return made
            zero = const(0 if load.buffer.dtype.is_integral else 0.0, load.buffer.dtype)
            return if_then_else(inside, made, zero)

        made = substitute(rewrite(value, {BufferLoad: read}), cells.places)
        may = nest.block.annotations.get(REDUCTION, 1)
        return AttrStmt(const(0, "int32"), REDUCTION, may, BufferStore(self.buffer, made, cells.cell))

    def finish(self, cells: _Cells) -> Stmt:
        """The store of a cell, or what follows in its place."""
        total = cast(buffer_load(self.total, *cells.cell), self.store.buffer.dtype)
        return self.plan.finish(total, cells.places, cells.inside)


@prim_func_pass()
def tile_reductions(func: PrimFunc) -> PrimFunc:
    """Compute outputs of reductions in tiles that stay in registers. For programs with blocks. Scheduled programs stay."""
    return tile_outermost(func, _plan)
