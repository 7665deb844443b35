"""The rule for contractions: matrix products and channels-last convolutions as one register-tiled loop nest.

A tile of rows x columns is accumulated in registers over the whole reduction; columns run in vectors (`contraction_nest.py`).
The operand that rows share is read from packed panels ``[columns / tile][reduction][tile]``, laid out at build where it is a
constant. What consumes the result element by element runs on the tile. Source of the shape of the nest: Goto, van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34(3), 2008, without its cache blocking of the reduction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.scalar import IterVar
from ...ir.stmt import Block
from ...ir.types import Expr
from ...ir.walk import collect
from ...support.errors import ScheduleError
from ..auto_tensorize.dots import Dot, decided_intrinsic
from ..infra.backend import Machine
from ..schedule import BlockRV, Schedule
from ..tir.analysis.loop_nests import slope
from .amx_tiles import TileBlock, schedule_tile_block, tile_block_of, tile_multiple
from .base import Rule, Scheduled, is_touched, mark_scheduled, program_of, schedule_of, vectorize_copy
from .common.choices import choose, choose_lanes, choose_whether
from .common.tile_shape import UNKNOWN
from .contraction import Contraction, contraction_of, extent_of, is_parameter, steps_of
from .contraction_dots import dot_multiple, dot_of
from .contraction_nest import is_large, tile_nest, tile_size, transpose_tile
from .gathered import fused_reductions, gather
from .packing import Packing
from .padding import in_squares, is_turned, pad_to_tiles
from .transposed_output import columns_last

FULL_ROWS = 8
"""Rows that fill a tile well."""
DEEP = 128
"""Steps of a reduction from which on transposing tiles costs little beside it."""
PACKED_ROWS = 16
"""Rows from which on an operand that is not a constant is worth packing in the program."""
NEAR, NEAR_ROWS = 1 << 14, 128
"""Bytes of an operand of contiguous columns that the first cache keeps beside the rows, and rows up to which it is read as it
is: the copy costs more than what lies unaligned."""
FAR, FAR_ROWS = 0.5, 96
"""The same of the second cache, as a share of it."""


def schedule_contraction(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Schedule a program with one contraction, blocks before it, and at most one block after it.

    Raises ScheduleError E441 where the intrinsic that an annotation asks for does not fit.
    """
    found = _schedule_contraction(fn, constants, machine)
    for block in collect(fn.body, Block):
        wanted = decided_intrinsic(block)
        if wanted is not None and isinstance(found, str):
            raise ScheduleError("E441", f"{wanted} is not how block {block.name} can be computed here: {found}")
    return found


def _schedule_contraction(
    fn: PrimFunc, constants: Collection[int], machine: Machine, gathers: bool = True
) -> Scheduled | str:
    """The program scheduled; ``gathers``: its operands may be copied for an instruction."""
    blocks = collect(fn.body, Block)
    if len({b.name for b in blocks}) != len(blocks):
        return "two blocks have one name"
    found = [(b, contraction_of(b)) for b in blocks]
    main = [c for _, c in found if isinstance(c, Contraction)]
    turned = not main
    if turned:
        main = [c for b in blocks if isinstance(c := contraction_of(b, anywhere=True), Contraction)]
    if len(main) != 1:
        reasons = [c for b, c in found if isinstance(c, str) and b.init is not None]
        return reasons[0] if reasons else "no contraction" if not main else "several contractions"
    contraction = main[0]
    filled, width = machine.lanes(contraction.output.dtype.itemsize), extent_of(contraction.columns)
    lanes = choose_lanes(contraction.block, filled)
    if width is None or width < lanes:
        return f"{width} columns are less than a vector" if width is not None else "the number of columns is a symbol"
    sch = schedule_of(fn)
    block = sch.get_block(contraction.block.name)
    if is_touched(sch, block):
        return "its loops are scheduled already"
    consumers = sch.get_consumers(block)
    if len(consumers) > 1 or (consumers and is_parameter(fn, contraction.output) is not None):
        return "several blocks consume the result"
    after = sch.get(consumers[0]).name if consumers else None
    then, refused = None, ""
    if gathers and lanes == filled:
        gathered = _gathered(fn, contraction, constants, machine)
        if gathered is not None:
            return gathered
    if turned:
        constant = is_parameter(fn, contraction.weights.buffer) in constants
        pays = constant or dot_of(contraction, machine) is not None
        worth = decided_intrinsic(contraction.block) is not None or (pays and _worth_transposing(contraction, lanes))
        if not choose_whether(contraction.block, "transpose", worth and width % lanes == 0):
            reason = "tiles that are transposed would not be whole"
            return reason if worth else "vectors would not be contiguous in the output"
        fn, then = columns_last(fn, contraction, after)
        after = None
        (contraction,) = [c for b in collect(fn.body, Block) if isinstance(c := contraction_of(b), Contraction)]
    row = _row(contraction)
    tiles = tile_block_of(contraction, row, machine) if then is None else None
    whole = (tiles, dot_of(contraction, machine)) if lanes == filled else ()
    units: list[Dot | TileBlock | None] = [unit for unit in whole if unit is not None]
    if decided_intrinsic(contraction.block) is None:
        units.append(None)
    elif not units:
        return "its types, lanes or steps are others"
    slow = machine.slow_intrinsics
    own = next((k for k, unit in enumerate(units) if unit is None or unit.name not in slow), 0)
    for unit in units[choose(contraction.block, "instruction", range(len(units)), own) :]:
        try:
            made = _schedule(fn, contraction, after, then, row, constants, machine, width, lanes, unit)
        except ScheduleError as problem:
            refused += f"; {unit.name if unit is not None else 'a step'} does not apply: {problem.message}"
            continue
        return replace(made, reason=made.reason + refused) if isinstance(made, Scheduled) else made + refused
    return refused[2:]


def _gathered(
    fn: PrimFunc, contraction: Contraction, constants: Collection[int], machine: Machine
) -> Scheduled | str | None:
    """The program with its operands copied for an instruction that takes their types, but not as they lie; None where they stay."""
    row = _row(contraction)
    if tile_block_of(contraction, row, machine) is not None or dot_of(contraction, machine) is not None:
        return None
    if len(contraction.weight_order) < len(contraction.weights.indices):
        return None
    constant = is_parameter(fn, contraction.weights.buffer) in constants
    costs: dict[int, tuple[float, tuple[IterVar, ...]]] = {}
    for multiple, speed in (tile_multiple(contraction, row, machine), dot_multiple(contraction, machine)):
        cost = fused_reductions(contraction, multiple, speed, constant) if multiple else None
        if cost is not None:
            costs[multiple] = cost
    best = min(costs, key=lambda n: costs[n][0], default=0)
    wanted = decided_intrinsic(contraction.block) is not None
    worth = wanted or (best > 0 and costs[best][0] < steps_of(contraction.block.iter_vars))
    chosen = choose(contraction.block, "gather", (0, *costs), best if worth else 0) if costs else 0
    if not chosen:
        return None
    found = gather(fn, contraction, costs[chosen][1], chosen, constant)
    made = _schedule_contraction(found.func, constants, machine, gathers=False)
    if isinstance(made, str):
        return made
    packed = {k: found.packing(layout) if k == found.weights else layout for k, layout in made.packed.items()}
    return replace(made, packed=packed, reason=f"{made.reason}, gathered by {chosen}")


def _schedule(
    fn: PrimFunc,
    contraction: Contraction,
    after: str | None,
    then: str | None,
    row: IterVar | None,
    constants: Collection[int],
    machine: Machine,
    width: int,
    lanes: int,
    unit: Dot | TileBlock | None,
) -> Scheduled | str:
    height = 1 if row is None else extent_of(row) or UNKNOWN
    if isinstance(unit, TileBlock):
        rows, vectors = unit.rows, unit.columns // lanes
    else:
        whole = then is not None and width % lanes == 0
        rows, vectors = tile_size(contraction, height, -(-width // lanes), lanes, machine, whole)
    weights = is_parameter(fn, contraction.weights.buffer)
    constant = weights is not None and weights in constants
    near = unit is None and _is_near(contraction, machine)
    many = steps_of(contraction.rows, UNKNOWN) >= PACKED_ROWS and not near
    worth = constant or many or decided_intrinsic(contraction.block) is not None
    packs = choose_whether(contraction.block, "pack", worth)
    layout = _layout(contraction, vectors * lanes) if packs else None
    if layout is None and decided_intrinsic(contraction.block) is not None:
        return "an operand is not packed"
    unit = unit if layout is not None else None
    if layout is not None and unit is not None:
        layout = replace(layout, group=unit.group)
    if layout is None and slope(contraction.weights.indices[-1], contraction.columns.var) != 1:
        return "columns are not contiguous in an operand that is not packed"
    if layout is None and width % (vectors * lanes):
        return "columns that are not packed do not fill the last tile"
    padded = pad_to_tiles(fn, contraction, after, row, rows, layout, constant, isinstance(unit, TileBlock))
    sch = schedule_of(padded.func)
    block = sch.get_block(contraction.block.name)
    consumer = sch.get_block(padded.after)
    borders = [border for border in _before(sch, block) if sch.get(border).name != padded.copy]
    if isinstance(unit, TileBlock):
        assert row is not None
        place = schedule_tile_block(sch, block, consumer, contraction, row, unit, lanes, is_large(contraction), machine)
    else:
        place = tile_nest(sch, block, consumer, contraction, row, rows, vectors, lanes, unit, machine)
    if then is not None:
        transpose_tile(sch, sch.get_block(then), sch.get_block(padded.after), place, rows)
    for border in borders:
        vectorize_copy(sch, border, lanes)
    made = None
    if padded.copy is not None and layout is not None:
        made = in_squares(program_of(sch), padded.copy, machine) if is_turned(contraction, layout) else None
        if made is None:
            *_, step, lane = sch.get_loops(sch.get_block(padded.copy))
            sch.vectorize(sch.fuse(step, lane) if layout.group > 1 else lane)
    said = "not packed" if layout is None else "packed at build" if constant else "packed"
    packed = {weights: layout} if constant and layout is not None and weights is not None else {}
    said += f", {unit.name}" if unit is not None else ""
    func = mark_scheduled(program_of(sch) if made is None else made)
    return Scheduled(func, f"tile of {rows} x {vectors * lanes}, {said}", packed)


def _is_near(contraction: Contraction, machine: Machine) -> bool:
    """True if a batch of the weights stays in a cache while few rows read its lines, which are contiguous."""
    weights = contraction.weights
    inner = [contraction.columns, *contraction.reductions]
    if None in [extent_of(axis) for axis in (*inner, *contraction.rows)]:
        return False
    is_contiguous = slope(weights.indices[-1], contraction.columns.var) == 1
    size, rows = steps_of(inner) * weights.buffer.dtype.itemsize, steps_of(contraction.rows)
    limits = (NEAR, NEAR_ROWS), (FAR * machine.second_level, FAR_ROWS)
    return is_contiguous and any([size <= most and rows <= lines for most, lines in limits])


def _before(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """The blocks that a block depends on."""
    found = {sch.get(one).name: one for one in sch.get_producers(block)}
    for one in list(found.values()):
        found |= {sch.get(other).name: other for other in _before(sch, one)}
    return list(found.values())


def _row(contraction: Contraction) -> IterVar | None:
    """The axis whose iterations are the rows of a tile: the innermost of those that can fill one, else the longest."""
    if not contraction.rows:
        return None
    sizes = [
        (min(extent_of(axis) or UNKNOWN, FULL_ROWS), _place(axis.var, contraction.cell)) for axis in contraction.rows
    ]
    return contraction.rows[choose(contraction.block, "row_axis", range(len(sizes)), sizes.index(max(sizes)))]


def _place(var: Var, indices: tuple[Expr, ...]) -> int:
    return next((k for k, e in enumerate(indices) if e is var), -1)


def _layout(contraction: Contraction, tile: int) -> Packing | None:
    """Panels of the weights, where each of their axes is an iterator."""
    if len(contraction.weight_order) != len(contraction.weights.indices):
        return None
    order = {var: k for k, var in enumerate(contraction.weight_order)}
    outer, inner = [order[axis.var] for axis in contraction.batch], [order[axis.var] for axis in contraction.reductions]
    return Packing(tuple(outer), order[contraction.columns.var], tuple(inner), tile)


def _worth_transposing(contraction: Contraction, lanes: int) -> bool:
    """True if the reduction is long beside the transposition, and its output's last axis is short or not contiguous in the data."""
    last = next((axis for axis in contraction.rows if axis.var is contraction.cell[-1]), None)
    line = None if last is None else extent_of(last)
    if last is None or line is None or steps_of(contraction.reductions) < DEEP:
        return False
    return line < 2 * lanes or slope(contraction.data.indices[-1], last.var) != 1


CONTRACTION = Rule("contraction", schedule_contraction)
