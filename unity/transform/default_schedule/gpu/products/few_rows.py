"""The rule for products of few rows, or of few columns: what they take is the time in which the large operand is read.

Each block has a few columns and all rows, and its threads keep as many reads on their way as memory needs. A number of rows that is
not known has versions for one and for few of them, beside the one of the rules that follow; the launch chooses.

Constants were measured on an H100 (132 multiprocessors, 3.35 TB/s), up to 20 divisions of each product: 1, 2, 4 and 8 rows by 4096
steps and columns in float16, bfloat16 and float32, 16 in float16; one row, and 8 where steps are contiguous, by 4096 x 1024,
14336 x 4096, 4096 x 14336 and 4096 x 32000 in float16. With weights of 32 MB and more the best read 2.1 to 3.1 TB/s. Times at a
constant are of float16, and of 4096 steps and columns where nothing else is said.
Not here: what a block does (`lane_work.py`, `lane_sums.py`, `lane_matrices.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace as with_fields
from typing import NamedTuple

from .....ffi.dtype import DataType
from .....ir.build import dtype_of, le
from .....ir.expr import Call, IntImm, Var
from .....ir.function import PrimFunc
from .....ir.scalar import BufferLoad, IterVar
from .....ir.stmt import BufferStore, Stmt
from .....ir.types import Expr, prim_type
from .....ir.walk import collect, substitute, used_vars
from ....infra.backend import GpuMachine
from ....schedule import Schedule
from ...base import schedule_of
from ...common.choices import choose, choose_whether
from ...nest_building import INT
from ..common.stages import size_of
from . import lane_matrices, lane_sums
from .lane_matrices import COLUMNS
from .lane_work import LaneTile, Work
from .product import (
    Product,
    contiguous_along,
    extent_of,
    inline_producers,
    products_of,
    replace_product,
    stored,
    unravel,
)
from .tile_blocks import WARP, registers
from .tile_sides import CHUNK_BYTES, Side, is_aligned_vector, last_divides

MOST_ROWS = 8
"""Rows up to which reading is what takes the time."""
MATRIX_ROWS = 16
"""The same where an instruction of a warp is all there is for tensor cores: 16 rows take 16 us here, and 32 us in tiles of shared
memory; in tiles of warpgroups 15.5 us."""
LEAST_MATRIX = 2
"""Rows from which on tensor cores multiply, where they have an instruction: with fewer, each thread has few products to add. One
row takes 95 us by them and 88 us without with 32000 columns, 7.1 and 5.4 us with 1024."""
LEAST_ALONG = 5
"""The same for floating-point numbers whose steps are contiguous, where a thread has fewer sums: 2 rows take 14.4 us by them and
13.1 us without, 4 rows 14.6 and 13.6 us, 8 rows 14.6 and 16.4 us."""
MATRICES = 80
"""The least compute capability of devices that have these instructions."""
WORD = 4
"""Bytes of a register; a lane has two of each column in an instruction."""
MATRIX_WIDTHS = ((8, 3.0), (4, 0.75))
"""Columns that a lane reads at once for an instruction, and blocks for each multiprocessor from which on."""
MATRIX_STEPS = 4
"""Lanes along the steps of an instruction, and the least number of them."""
FORMS = {
    ("float16", "float32"): ("m16n8k16", "fp16", "fp32"), ("bfloat16", "float32"): ("m16n8k16", "bf16", "fp32"),
    ("int8", "int32"): ("m16n8k32", "int8", "int32"), ("uint8", "int32"): ("m16n8k32", "uint8", "int32"),
}  # fmt: skip
"""Shape and types of the instruction of a warp by types of the operands and of the sums."""
LIMITS = (1, 8)
"""Rows of the versions that a product with a number of rows that is not known has for few."""
MOST_SYMBOLS = 2
"""Iterators of rows up to which there are such versions: images have more, and are never that small."""
LEAST_COLUMNS = 32
"""Columns from which on there is work for a block."""
LEAST_STEPS = 32
"""Steps from which on lanes share them."""
SUMS = ("float32", "float64", "int32", "int64")
"""Types of sums that do not lose by another order."""
ON_THE_WAY = 8
"""Reads of a thread that are on their way at once."""
MOST_WARPS = 32
"""Warps of the largest block."""
MOST_AHEAD = 32
"""Elements up to which a thread of the largest block, which has 64 registers, has all of these reads on its way, else half of them:
one row with 1024 columns takes 5.4 us with 4 reads of 8 elements and 5.9 us with 8."""
BLOCKS_EACH = 3
"""Groups of columns for each multiprocessor from which on a warp has several columns, where steps are contiguous."""
FILLED = 3 / 8
"""Blocks for each multiprocessor that keep memory busy: of divisions with as many that with the most lanes along columns reads
the longest pieces of a line. One row by 14336 x 4096 takes 42.1 us in 64 blocks of 8 such lanes and 47.1 us in 128 blocks of 4; but
by 4096 x 1024 7.9 us in 16 blocks of 8 and 5.4 us in 64 blocks of 2."""
BUSY_WARPS = 24
"""Warps of a multiprocessor for which steps are divided: with eight reads of 16 bytes in each lane they have 96 KiB on the way."""
ALONG = 8
"""Warps that share contiguous steps, if there are steps for them, however many columns there are: one row with 14336 columns takes
40.0 us by 8 warps and 42.5 us by one, 8 rows with 32000 columns take 93 us by 8 warps and 106 us by 2."""
LEAST_K_TILES = 3
"""K-tiles from which on a last one that is not full costs little: 3.5 k-tiles of 2 reads of 4 columns take 42.0 us for one row by
14336 x 4096."""
REGISTERS = 1 << 16
"""Registers of a multiprocessor."""


def few_products(sch: Schedule, limit: int = 0) -> list[Product]:
    """The products of a program that have few rows or columns; a number that is not known counts as ``limit``, if that is not 0."""
    return [product for product in products_of(sch, True) if _few_side(product, limit) is not None]


def few_conditions(fn: PrimFunc) -> dict[int, list[Expr]]:
    """The conditions under which products of a program whose rows, or columns, have a number that is not known have few of them, by
    limit."""
    products = products_of(schedule_of(fn), True)
    found: dict[int, list[Expr]] = {}
    for limit in LIMITS:
        sides = [(product, _few_side(product, limit)) for product in products]
        few = [extent_of(p.columns if side.is_swapped else p.rows) for p, side in sides if side is not None]
        found[limit] = [le(extent, limit) for extent in few if type(extent) is not IntImm]
    return found


class Few(NamedTuple):
    """A number of rows that is small, and whether these are the columns of the result."""

    rows: int
    is_swapped: bool


def _few_side(product: Product, limit: int) -> Few | None:
    """The side of a product that is small. None if none is, or it is not a product for this rule."""
    init = product.stage.block.init
    if not isinstance(init, BufferStore) or getattr(init.value, "value", None) != 0 or not _is_simple(product):
        return None
    if product.store.buffer.dtype.name not in SUMS or size_of([extent_of(product.steps)]) < LEAST_STEPS:
        return None
    found = []
    for axes, others, swapped in ((product.rows, product.columns, False), (product.columns, product.rows, True)):
        extent = extent_of(axes)
        count = extent.value if type(extent) is IntImm else limit * (len(axes) <= MOST_SYMBOLS)
        if 0 < count <= MATRIX_ROWS and size_of([extent_of(others)]) >= LEAST_COLUMNS:
            found.append(Few(count, swapped))
    return min(found, default=None)


def _is_simple(product: Product) -> bool:
    """True if no index is made of two iterators, as those of windows are."""
    axes = {axis.var for axis in product.stage.block.iter_vars}
    loads = [load for value in (product.left, product.right) for load in collect(value, BufferLoad)]
    return all([len(axes & set(used_vars(index))) <= 1 for load in loads for index in load.indices])


def bind_few_rows(sch: Schedule, product: Product, gpu: GpuMachine, limit: int = 0) -> tuple[Schedule, str] | None:
    """Replace a product by its kernel, and return the schedule of the new program and a description."""
    side = _few_side(product, limit)
    if side is None or gpu.warp != WARP or not choose_whether(product.stage.block, "few_rows", True):
        return None
    inline_producers(sch, product.stage.rv)
    product = next(p for p in products_of(sch, True) if p.name == product.name)
    work = _work(product, *side, gpu)
    if side.rows > MOST_ROWS and (gpu.warpgroups or not work.tile.form):
        return None
    tile = work.tile
    how = f"by {tile.rows} rows, {work.columns} columns of {tile.warps} warps, {tile.step_warps} along its steps"
    return replace_product(sch, product, _kernel(work)), f"{product.name} {how}"


def _kernel(work: Work) -> Stmt:
    if not work.tile.form:
        return lane_sums.kernel(work)
    return lane_matrices.kernel(work, *_types(work.product)[1:])


def _types(product: Product) -> tuple[str, str, str]:
    """The shape of the instruction of tensor cores for a product, and its types; "" where there is none."""
    left, right = [_element(value).name for value in (product.left, product.right)]
    return FORMS.get((left, product.store.buffer.dtype.name), ("", "", "")) if left == right else ("", "", "")


def _work(product: Product, rows: int, is_swapped: bool, gpu: GpuMachine) -> Work:
    """A product with the tile of a block and the registers of a thread."""
    small_value, large_value = (product.right, product.left) if is_swapped else (product.left, product.right)
    few, many = (product.columns, product.rows) if is_swapped else (product.rows, product.columns)
    side, small_side = _side(product, "large", large_value, many), _side(product, "small", small_value, few)
    form = _form(product, side, rows, gpu)
    if form and not side.by_steps:
        wide = next(
            (n for n, least in MATRIX_WIDTHS if _columns(product, side) >= n * COLUMNS * gpu.processors * least), 2
        )
        side = with_fields(side, width=min(side.width, choose(product.stage.block, "width", (2, 4, 8, 16), wide)))
    tile = _by_steps(product, side, rows, gpu, form) if side.by_steps else _by_columns(product, side, rows, gpu, form)
    work = Work(product, side, small_side, tile, is_swapped)
    length = work.run if small_side.by_steps else 1 if tile.form else tile.rows
    work = with_fields(work, small=with_fields(small_side, width=math.gcd(small_side.width, length)))
    large_regs = registers(f"{product.name}_large_regs", side.buffer.dtype.name, work.large_count)
    small_regs = registers(f"{product.name}_small_regs", small_side.buffer.dtype.name, work.small_count)
    large = with_fields(side, buffer=large_regs)
    return with_fields(work, large=large, small=with_fields(work.small, buffer=small_regs))


def _form(product: Product, side: Side, rows: int, gpu: GpuMachine) -> str:
    """The instruction that multiplies; "" where threads do it for themselves."""
    form, element = _types(product)[0] if gpu.capability >= MATRICES else "", _element(side.value)
    if not form or (side.by_steps and side.width < 2 * WORD // element.itemsize):
        return ""
    least = LEAST_ALONG if side.by_steps and element.is_float else LEAST_MATRIX
    return form if choose_whether(product.stage.block, "matrices", rows >= least) else ""


def _side(product: Product, name: str, value: Expr, axes: tuple[IterVar, ...]) -> Side:
    """An operand, by the axis that is contiguous in memory."""
    by_steps = contiguous_along(value, product.steps, axes) or not axes
    value = stored(value)
    buffer = registers(f"{product.name}_{name}", dtype_of(value).name, 1)
    side = Side(value, axes, 0, 0, by_steps, False, 1, buffer)
    chunk = CHUNK_BYTES // dtype_of(value).itemsize
    widths = [chunk >> k for k in range(chunk.bit_length())]
    return with_fields(side, width=next(width for width in widths if _is_vector(product, side, width)))


def _is_vector(product: Product, side: Side, width: int) -> bool:
    """True if so many neighbours are one aligned vector in memory, or are computed from such and from what all of them share."""
    along = product.steps if side.by_steps else side.axes
    if width == 1:
        return True
    if not last_divides(along, width) or collect(side.value, Call):
        return False
    lane, group = Var("lane", prim_type(INT)), Var("group", prim_type(INT))
    value = substitute(side.value, unravel(along, group, width, lane))
    loads = [load for load in collect(value, BufferLoad) if lane in used_vars(load)]
    return bool(loads) and all(
        [load.buffer.scope == "global" and is_aligned_vector(load, lane, width) for load in loads]
    )


def _by_steps(product: Product, side: Side, rows: int, gpu: GpuMachine, form: str) -> LaneTile:
    """Lanes along steps: fewer where there are few steps. A thread has columns and steps for its reads on the way; for an
    instruction it has several columns only where steps are few."""
    block, columns, steps = product.stage.block, _columns(product, side), size_of([extent_of(product.steps)])
    lanes = MATRIX_STEPS if form else WARP
    while lanes > MATRIX_STEPS and lanes * side.width >= 2 * steps:
        lanes //= 2
    over, pieces = WARP // lanes, max(1, steps // (lanes * side.width))
    most = 4 if not form else 2 if pieces < ON_THE_WAY else 1
    own = next((n for n in (most, 2) if columns >= n * over * BLOCKS_EACH * gpu.processors), 1)
    vectors = choose(block, "columns", (1, 2, 4, 8), own)
    groups = -(-columns // (vectors * over))
    along = ALONG if groups * ALONG >= BUSY_WARPS * gpu.processors else 2 * ALONG
    along = min(along, 1 << pieces.bit_length() - 1)
    most = min(gpu.threads // WARP, _warps_with_room(product, rows * vectors * over, gpu))
    along = choose(block, "step_warps", (1, 2, 4, 8, 16), along, most)
    across = choose(block, "column_warps", (1, 2, 4, 8), max(1, min(8 // along, 2)), most // along)
    ahead = max(1, ON_THE_WAY // vectors)
    while ahead > 1 and pieces % (along * ahead) and pieces < LEAST_K_TILES * along * ahead:
        ahead //= 2
    return LaneTile(rows, vectors, over, across, along, choose(block, "ahead", (1, 2, 4, 8), ahead), form)


def _by_columns(product: Product, side: Side, rows: int, gpu: GpuMachine, form: str) -> LaneTile:
    """Lanes along columns, as many as leave columns for all blocks, and along steps; warps along steps."""
    block, columns, steps = product.stage.block, _columns(product, side), size_of([extent_of(product.steps)])
    lanes = next((n for n in (8, 4) if columns >= n * side.width * gpu.processors * FILLED), 2)
    lanes = COLUMNS if form else choose(block, "column_lanes", (1, 2, 4, 8, 16, 32), lanes)
    sums = 4 * side.width if form else rows * side.width
    blocks = -(-columns // (lanes * side.width))
    limit = min(gpu.threads // WARP, _warps_with_room(product, rows * lanes * side.width, gpu))

    def warps(ahead: int) -> tuple[int, int]:
        """The warps along steps for so many reads ahead, and the most that there can be."""
        most = next(n for n in (32, 16, 8, 4) if n * WARP * (24 + sums * 5 // 4 + 2 * ahead) <= REGISTERS)
        each, busy = WARP // lanes * ahead, BUSY_WARPS * gpu.processors
        own = next((n for n in (1, 2, 4, 8, 16) if n * each >= steps or blocks * n >= busy), MOST_WARPS)
        return own, min(most, limit)

    own = ON_THE_WAY if form or sums <= 32 else ON_THE_WAY // 2
    if not form and min(warps(own)) == MOST_WARPS and own * side.width > MOST_AHEAD:
        own = ON_THE_WAY // 2
    ahead = choose(block, "ahead", (8, 16) if form else (1, 2, 4, 8, 16), own)
    along = choose(block, "step_warps", (1, 2, 4, 8, 16, 32), *warps(ahead))
    return LaneTile(rows, 1, lanes, 1, along, ahead, form)


def _columns(product: Product, side: Side) -> int:
    """Columns of all batches."""
    return size_of([extent_of(side.axes)]) * size_of([extent_of(product.batch)])


def _warps_with_room(product: Product, cells: int, gpu: GpuMachine) -> int:
    """So many warps, a power of two, have room in shared memory for their sums of a block's cells."""
    room = gpu.static_shared_bytes // (cells * product.store.buffer.dtype.itemsize)
    return 1 << max(1, room).bit_length() - 1


def _element(value: Expr) -> DataType:
    """The data type of an operand in memory."""
    return dtype_of(stored(value))
