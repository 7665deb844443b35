"""Sums of products: which iterators make rows, columns and reduction steps, and the rewrite of the program to tiles of them.

Rewrite: ``C[i, j] += A[i, k] * B[k, j]`` -> ``A_tile[io, ko, ii, ki] = A[io * 128 + ii, ko * 32 + ki]`` (zero behind the ends), the
same of B, ``C_tile[io, jo, ii, ji] += A_tile[..] * B_tile[..]`` over whole tiles, ``C[i, j] = C_tile[i // 128, j // 128, i % 128,
j % 128]``. Several iterators of one kind count as one; a convolution's windows are unfolded while its tiles are filled. A block
that is the only reader of C, by element, replaces the last one. Not here: how the tiles are scheduled (`tiles.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace as replace_fields
from functools import reduce

from .....arith import Analyzer
from .....ir.analysis.reductions import reduction_operand
from .....ir.buffer import Buffer, make_buffer
from .....ir.build import add, ceildiv, const, dtype_of, floordiv, floormod, if_then_else, is_int, logical_and, lt, mul
from .....ir.expr import Var
from .....ir.function import PrimFunc
from .....ir.node import replace
from .....ir.scalar import Add, BufferLoad, Cast, IterVar, Mul
from .....ir.stmt import AllocBuffer, BufferStore, Stmt, seq
from .....ir.structural import structural_equal
from .....ir.types import Expr, prim_type
from .....ir.walk import collect, rewrite, substitute, used_vars
from ....schedule import BlockRV, Schedule
from ....schedule.core.tree import ROOT
from ....tir.analysis.loop_nests import slope
from ...base import program_of, schedule_of
from ...nest_building import INT, iterators_of, nest_of, replace_nests
from ..common.stages import Stage, is_multiple, is_simple, own_producers, size_of, stage_of, variables


@dataclass(slots=True, frozen=True)
class Product:
    """A stage that sums products, with its iterators by what they select. Rows select ``left``, columns ``right``; the last axis of
    the output is a column if possible. ``after``: the stage that is the only reader of the output."""

    stage: Stage
    store: BufferStore
    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    steps: tuple[IterVar, ...]
    left: Expr
    right: Expr
    after: Stage | None

    @property
    def name(self) -> str:
        """The name of its block."""
        return self.stage.name

    @property
    def first(self) -> Expr:
        """The value that a sum begins with."""
        assert isinstance(self.stage.block.init, BufferStore)
        return self.stage.block.init.value


@dataclass(slots=True, frozen=True)
class Tile:
    """Sizes of a tile: rows, steps, and columns as ``lanes`` times ``per_lane``. ``contiguous``: the columns of a lane are,
    otherwise those of neighbouring lanes are. ``left_steps``, ``right_steps``: steps are contiguous in memory for an operand.

    In shared memory, steps are contiguous for such a left operand. Columns are always contiguous, with a padding element after
    them if they are strided in memory, so that what one warp writes across them is in different banks."""

    rows: int
    lanes: int
    per_lane: int
    steps: int
    contiguous: bool
    left_steps: bool
    right_steps: bool

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.per_lane

    def column(self, lane: Expr, number: Expr) -> Expr:
        """The column of a lane."""
        outer, inner, size = (lane, number, self.per_lane) if self.contiguous else (number, lane, self.lanes)
        return add(mul(outer, const(size, INT)), inner)

    def lane_of(self, column: Expr) -> tuple[Expr, Expr]:
        """The lane that a column of the product belongs to, and the column's number within the lane."""
        offset = floormod(column, const(self.columns, INT))
        if self.contiguous:
            return floordiv(offset, const(self.per_lane, INT)), floormod(column, const(self.per_lane, INT))
        return floormod(column, const(self.lanes, INT)), floordiv(offset, const(self.lanes, INT))


def products_of(sch: Schedule, single: bool = False) -> list[Product]:
    """The sums of products among the stages that are not bound; with ``single``, also those of one row or one column, which then
    have no iterators."""
    root = sch.get_block(ROOT)
    children = sch.get_child_blocks(root)
    stages = [stage for stage in [stage_of(sch, rv) for rv in children] if stage is not None]
    found = [product for product in [_product(stage, single) for stage in stages] if product is not None]
    if not found:
        return []
    blocks = [sch.get(rv) for rv in children]
    readers = {
        buffer: [b for b in blocks if buffer in [r.buffer for r in b.reads]] for buffer in sch.get(root).alloc_buffers
    }
    made = []
    for product in found:
        buffer = product.store.buffer
        others = [b for b in readers.get(buffer, []) if b.name != product.name]
        made.append(replace_fields(product, after=_after(product, stages)) if len(others) == 1 else product)
    return made


def _product(stage: Stage, single: bool) -> Product | None:
    store = stage.store
    if store is None or not is_simple(stage) or not isinstance(stage.block.init, BufferStore):
        return None
    term = reduction_operand(store) if isinstance(store.value, Add) else None
    if term is None or collect(stage.block.init.value, BufferLoad):
        return None
    if not isinstance(term, Mul) or not all([isinstance(i, Var) or is_int(i, 0) for i in store.indices]):
        return None
    a, b = set(used_vars(term.a)), set(used_vars(term.b))
    axes = [axis for axis in stage.block.iter_vars if not is_int(axis.domain.extent, 1)]
    spatial = [axis for axis in axes if axis.kind == "S"]
    steps = [axis for axis in axes if axis.kind == "R"]
    if not all([axis.var in a | b for axis in spatial]) or not steps:
        return None
    of_a = [axis for axis in spatial if axis.var in a - b]
    of_b = [axis for axis in spatial if axis.var in b - a]
    batch = [axis for axis in spatial if axis.var in a & b]
    if not (of_a or of_b) or not (single or (of_a and of_b)):
        return None
    left, right = term.a, term.b
    last = [index for index in store.indices if isinstance(index, Var)][-1:]
    if not of_b or (last and last[0] in [axis.var for axis in of_a]):
        of_a, of_b, left, right = of_b, of_a, right, left
    order = {index: k for k, index in enumerate(store.indices)}
    b_axes, rows, columns = [tuple(sorted(part, key=lambda axis: order[axis.var])) for part in (batch, of_a, of_b)]
    return Product(stage, store, b_axes, rows, columns, _steps(steps, left), left, right, None)


def _buffers(expr: Expr) -> list[Buffer]:
    return [load.buffer for load in collect(expr, BufferLoad)]


def _steps(axes: Sequence[IterVar], operand: Expr) -> tuple[IterVar, ...]:
    """The reduction iterators; one that walks an operand contiguously comes last."""
    position = {
        v: k for load in collect(operand, BufferLoad) for k, index in enumerate(load.indices) for v in used_vars(index)
    }
    return tuple(sorted(axes, key=lambda axis: position.get(axis.var, -1)))


def contiguous_along(operand: Expr, steps: Sequence[IterVar], others: Sequence[IterVar]) -> bool:
    """True if more elements of an operand are neighbours in memory along the steps than along the iterators that select it."""
    loads = sorted(collect(operand, BufferLoad), key=lambda load: -len(load.indices))
    return bool(loads) and _neighbours(loads[0], steps) >= max(1, _neighbours(loads[0], others))


def _neighbours(load: BufferLoad, axes: Sequence[IterVar]) -> int:
    """So many neighbours in memory are read while iterators count; with a stride, the share of those passed."""
    found = 0
    moving = [axis for axis in axes if not is_int(axis.domain.extent, 1)]
    places = [place for place in zip(load.indices, load.buffer.shape) if not is_int(place[1], 1)]
    for axis, (index, width) in zip(reversed(moving), reversed(places)):
        step, extent = slope(index, axis.var), axis.domain.extent
        if not step:
            break
        found = max(1, found) * max(1, size_of([extent]) // abs(step))
        if index is not axis.var or not structural_equal(extent, width):
            break
    return found


def _after(product: Product, stages: Sequence[Stage]) -> Stage | None:
    """The stage that reads each element of the product once, and nothing that is computed after the product."""
    stage, store = product.stage, product.store
    readers = [s for s in stages if s is not stage and s.store is not None and store.buffer in _buffers(s.store.value)]
    if len(readers) != 1 or not is_simple(readers[0]) or readers[0].block.init is not None:
        return None
    reader = readers[0]
    assert reader.store is not None
    loads = [load for load in collect(reader.store.value, BufferLoad) if load.buffer is store.buffer]
    if not all([structural_equal(load.indices, loads[0].indices) for load in loads[1:]]):
        return None
    moving = [v for v, e in zip(variables(reader), reader.extents) if v is not None and not is_int(e, 1)]
    units = [v for v in variables(reader) if v is not None and v not in moving]
    indices = [index for index in loads[0].indices if not is_int(index, 0) and index not in units]
    if set(indices) != set(moving) or len(indices) != len(moving):
        return None
    later = stages[list(stages).index(stage) + 1 :]
    written = {s.store.buffer for s in later if s.store is not None and s is not reader}
    return None if written & set(_buffers(reader.store.value)) else reader


def extent_of(axes: Sequence[IterVar]) -> Expr:
    return Analyzer().simplify(reduce(mul, [axis.domain.extent for axis in axes], const(1, INT)))


def count_of(axes: Sequence[IterVar]) -> int:
    """The values of iterators together; a symbol counts as UNKNOWN."""
    return size_of([axis.domain.extent for axis in axes])


def stored(operand: Expr) -> Expr:
    """An operand as it is in memory, before it is converted."""
    return operand.value if isinstance(operand, Cast) else operand


def unravel(axes: Sequence[IterVar], flat: Expr, lanes: int = 1, lane: Expr | None = None) -> dict[Var, Expr]:
    """The values of iterators from one number that counts through them; with ``lane``, through groups of ``lanes`` along the last
    one."""
    found: dict[Var, Expr] = {}
    for number, axis in reversed(list(enumerate(axes))):
        last = lane is not None and number == len(axes) - 1
        extent = floordiv(axis.domain.extent, const(lanes, INT)) if last else axis.domain.extent
        digit = flat if number == 0 else floormod(flat, extent)
        found[axis.var] = add(mul(digit, const(lanes, INT)), lane) if last and lane is not None else digit
        flat = floordiv(flat, extent)
    return found


def iterator_values(product: Product, values: Mapping[Var, Expr]) -> dict[Var, Expr]:
    """The values of all iterators of a product; those that are not given are zero."""
    rest = [axis.var for axis in product.stage.block.iter_vars if axis.var not in values]
    return {**values, **{var: const(0, dtype_of(var)) for var in rest}}


@dataclass(slots=True, frozen=True)
class Tiled:
    """The program on tiles, and the names of its blocks: two that fill the tiles of the operands, the sum, and the last one."""

    func: PrimFunc
    left: str
    right: str
    main: str
    last: str


def tile_product(func: PrimFunc, product: Product, tile: Tile) -> Tiled:
    """Rewrite a product to tiles."""
    name = product.name
    parts = (product.batch, product.rows, product.columns, product.steps)
    batch, rows, columns, steps = [extent_of(part) for part in parts]
    sizes = [const(n, INT) for n in (tile.rows, tile.columns, tile.steps)]
    counts = [ceildiv(extent, size) for extent, size in zip((rows, columns, steps), sizes)]
    own = (const(tile.lanes, INT), const(tile.per_lane, INT))
    result = make_buffer(f"{name}_tile", product.store.buffer.dtype.name, (batch, *counts[:2], sizes[0], *own), "local")
    filled = []
    sides = (
        ("left", product.left, product.rows, 0, tile.left_steps, rows),
        ("right", product.right, product.columns, 1, False, columns),
    )
    for side, value, selected, operand, by_steps, extent in sides:
        filled.append(
            _fill(
                f"{name}_{side}", value, product, selected, operand, by_steps, extent, steps, counts, sizes, batch, tile
            )
        )
    axes = iterators_of("b io jo ii jl jj ko ki", (batch, *counts[:2], sizes[0], *own, counts[2], sizes[2]), "SSSSSSRR")
    b, io, jo, ii, jl, jj, ko, ki = [axis.var for axis in axes]
    operands: list[Expr] = []
    for (_, buffer), value, (outer, inner), by_steps in zip(
        filled, (product.left, product.right), ((io, ii), (jo, tile.column(jl, jj))), (tile.left_steps, False)
    ):
        load: Expr = BufferLoad(
            buffer, (b, outer, ko, *((inner, ki) if by_steps else (ki, inner))), prim_type(buffer.dtype)
        )
        operands.append(Cast(load, value.ty) if isinstance(value, Cast) else load)
    cell = (b, io, jo, ii, jl, jj)
    load_own = BufferLoad(result, cell, prim_type(result.dtype))
    main = nest_of(
        name,
        axes,
        BufferStore(result, add(load_own, mul(operands[0], operands[1])), cell),
        BufferStore(result, product.first, cell),
    )
    last, last_name = _output_nest(product, result, (batch, rows, columns), sizes, tile)
    nests = [made for made, _ in filled] + [main, last]
    allocations = [AllocBuffer(buffer) for buffer in (*[buffer for _, buffer in filled], result)]
    gone = {product.stage.block: seq(*nests)}
    dead = product.after.block if product.after is not None else None
    body = seq(*allocations, *replace_nests(func.body, gone, dead, product.store.buffer))
    return Tiled(replace(func, body=body), f"{name}_left", f"{name}_right", name, last_name)


def _fill(
    name: str, value: Expr, product: Product, axes: Sequence[IterVar], operand: int, by_steps: bool, extent: Expr,
    steps: Expr, counts: Sequence[Expr], sizes: Sequence[Expr], batch: Expr, tile: Tile,
) -> tuple[Stmt, Buffer]:  # fmt: skip
    """The nest that fills the tiles of an operand, and their buffer. The block that reads the tiles does conversions."""
    value = stored(value)
    inner = (sizes[operand], sizes[2]) if by_steps else (sizes[2], sizes[operand])
    names = "b o ko i ki" if by_steps else "b o ko ki i"
    made = iterators_of(names, (batch, counts[operand], counts[2], *inner), "SSSSS")
    by_name = {axis.var.name[1:]: axis.var for axis in made}
    at = add(mul(by_name["o"], sizes[operand]), by_name["i"])
    step = add(mul(by_name["ko"], sizes[2]), by_name["ki"])
    values = {**unravel(product.batch, by_name["b"]), **unravel(axes, at), **unravel(product.steps, step)}
    element = substitute(value, iterator_values(product, values))
    inside = [
        lt(index, limit) for index, limit, size in ((at, extent, sizes[operand]), (step, steps, sizes[2]))
        if not is_multiple(limit, size)
    ]  # fmt: skip
    if inside:
        dtype = dtype_of(value)
        zero = const(0.0 if dtype.is_float else 0, dtype)
        element = if_then_else(inside[0] if len(inside) == 1 else logical_and(inside[0], inside[1]), element, zero)
    free = add(inner[1], const(int(operand == 1 and tile.right_steps), INT))
    buffer = make_buffer(name, dtype_of(value).name, (batch, counts[operand], counts[2], inner[0], free), "shared")
    store = BufferStore(buffer, element, tuple([axis.var for axis in made]))
    return nest_of(name, made, store), buffer


def _output_nest(
    product: Product, result: Buffer, extents: Sequence[Expr], sizes: Sequence[Expr], by: Tile
) -> tuple[Stmt, str]:
    """The nest that writes the output from its tiles, by batch, row and column, and its name."""
    made = iterators_of("b i j", extents, "SSS")
    b, i, j = [axis.var for axis in made]
    tile = (b, floordiv(i, sizes[0]), floordiv(j, sizes[1]), floormod(i, sizes[0]), *by.lane_of(j))
    values = {**unravel(product.batch, b), **unravel(product.rows, i), **unravel(product.columns, j)}
    name = f"{product.name}_out" if product.after is None else product.after.name
    return nest_of(name, made, output_at(product, values, BufferLoad(result, tile, prim_type(result.dtype)))), name


def output_at(product: Product, given: Mapping[Var, Expr], cell: Expr) -> BufferStore:
    """The store of a finished sum at given values of the iterators; the store of the stage after it if there is one."""
    values = iterator_values(product, given)
    if product.after is None:
        return BufferStore(
            product.store.buffer, cell, tuple([substitute(index, values) for index in product.store.indices])
        )
    after = product.after.block
    store = after.body
    assert isinstance(store, BufferStore)
    read = next(load for load in collect(store.value, BufferLoad) if load.buffer is product.store.buffer)
    moved: dict[Var, Expr] = {
        index: substitute(own, values)
        for index, own in zip(read.indices, product.store.indices)
        if isinstance(index, Var)
    }
    moved |= {axis.var: const(0, dtype_of(axis.var)) for axis in after.iter_vars if axis.var not in moved}
    value = rewrite(store.value, {BufferLoad: lambda load: cell if load.buffer is product.store.buffer else load})
    return BufferStore(store.buffer, substitute(value, moved), tuple([substitute(e, moved) for e in store.indices]))


def inline_producers(sch: Schedule, reader: BlockRV) -> None:
    """Inline what is computed for a block alone, such as the padding of an image, into its reads."""
    for producer in own_producers(sch, reader):
        sch.compute_inline(producer)


def replace_product(sch: Schedule, product: Product, *made: Stmt) -> Schedule:
    """The schedule of the program in which statements compute a product and what follows it."""
    func = program_of(sch)
    dead = product.after.block if product.after is not None else None
    body = seq(*replace_nests(func.body, {product.stage.block: seq(*made)}, dead, product.store.buffer))
    return schedule_of(replace(func, body=body))
