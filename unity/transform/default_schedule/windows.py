"""The rule for windows over channels-last images: depthwise convolutions and pooling, the border and the consumer with them.

Each output channel depends on its own input channel, so vectors run along channels. A tile of places along a line x one vector
is accumulated in registers over the taps, where neighbouring places share what they read. A block of lines is bordered into a
buffer that stays in cache, instead of a bordered copy of the whole image.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...ir.expr import Var
from ...ir.function import PrimFunc
from ...ir.scalar import BufferLoad, IterVar
from ...ir.stmt import Block, BufferStore
from ...ir.walk import collect, free_vars
from ...support.errors import ScheduleError
from ..infra.backend import Machine
from ..schedule import BlockRV, LoopRV, Schedule
from ..tir.analysis.loop_nests import calls_are_pure, linear_step, slope, stride_class
from ..tir.analysis.parallel_cost import SHARED_WORK
from .base import Rule, Scheduled, is_touched, mark_scheduled, program_of, schedule_of, split_and_vectorize
from .common.choices import choose, choose_whether
from .common.tile_shape import divisors
from .contraction import extent_of, is_parameter, steps_of

PLACES = 14
"""Most places of a tile."""
TAPS = 256
"""Most taps of a window: more are not worth unrolling along a line."""
VECTORS = 4
"""Most vectors of channels that share a bordered block of lines."""
CACHED = 1 << 16
"""Most elements of a bordered block of lines."""
LINES = 8
"""Most lines of a block."""
CHANNELS, MOST_LINES = 16, 64
"""Vectors and lines of a block that are candidates."""
DEFAULT_PLACES = 8
"""Places of a tile where the length of a line is a symbol."""
PARALLEL_WORK = SHARED_WORK // 2
"""Steps from which on a program is shared between threads."""


@dataclass(slots=True, frozen=True)
class Window:
    """A reduction over windows: iterators in the order of the output's axes, the channels last, and the taps."""

    block: Block
    data: BufferLoad
    outer: tuple[IterVar, ...]
    lines: IterVar | None
    places: IterVar
    channels: IterVar
    taps: tuple[IterVar, ...]


def window_of(block: Block) -> Window | str:
    """A block as a reduction over windows of a channels-last image, or why it is none."""
    store = block.body
    if type(store) is not BufferStore or store.predicate is not None or block.init is None:
        return "no reduction of one store"
    axes = {axis.var: axis for axis in block.iter_vars if axis.kind == "S"}
    taps = [axis for axis in block.iter_vars if axis.kind == "R"]
    if not all([isinstance(e, Var) and e in axes for e in store.indices]) or len(set(store.indices)) != len(axes):
        return "the output is not written along its axes"
    cells = [axes[e] for e in store.indices if isinstance(e, Var)]
    if len(cells) != len(store.indices) or len(cells) < 3 or not taps:
        return "no places and channels"
    if any([extent_of(tap) is None for tap in taps]) or steps_of(taps) > TAPS or not calls_are_pure(store.value):
        return "the window is not small and constant"
    loads = [load for load in collect(store.value, BufferLoad) if load.buffer is not store.buffer]
    channels = cells[-1]
    single = [tap.var for tap in taps if extent_of(tap) == 1]
    if not all([_along(load, channels.var) for load in loads]):
        return "vectors of channels would not be contiguous"
    windowed = [axis for axis in cells[:-1] for load in loads if _moves(load, axis.var, taps)]
    data = [load for load in loads if any([_moves(load, axis.var, taps) for axis in cells[:-1]])]
    if len(data) != 1 or not windowed:
        return "no image that windows move over"
    last = data[0].indices[-1]
    if slope(last, channels.var) != 1 or any([v is not channels.var and v not in single for v in free_vars(last)]):
        return "channels of the image are not those of the output"
    spatial = {axis.var for axis in windowed}
    sliding = {v for e in data[0].indices if spatial & set(free_vars(e)) for v in free_vars(e)}
    if not all([tap.var in sliding or tap.var in single for tap in taps]):
        return "a sum over more than a window"
    places = windowed[-1]
    above = [axis for axis in windowed if axis is not places]
    lines = above[-1] if above else None
    outer = tuple([axis for axis in cells[:-1] if axis is not places and axis is not lines])
    return Window(block, data[0], outer, lines, places, channels, tuple(taps))


def _along(load: BufferLoad, var: Var) -> bool:
    """True if an access moves by one element, or not at all, along an iterator."""
    return stride_class(load, var) < 2 or linear_step(load, var) == 1


def _moves(load: BufferLoad, var: Var, taps: list[IterVar]) -> bool:
    """True if an iterator of the output stands together with one of a window in an index."""
    kinds = [set(free_vars(e)) for e in load.indices]
    return any([var in found and any([tap.var in found for tap in taps]) for found in kinds])


def schedule_windows(fn: PrimFunc, constants: Collection[int], machine: Machine) -> Scheduled | str:
    """Schedule a program of one reduction over windows, at most one block that borders its image, and at most one consumer."""
    blocks = collect(fn.body, Block)
    main = [b for b in blocks if b.init is not None]
    if len(main) != 1 or len({b.name for b in blocks}) != len(blocks):
        return "not one reduction"
    window = window_of(main[0])
    if isinstance(window, str):
        return window
    sch = schedule_of(fn)
    block = sch.get_block(window.block.name)
    before, after = sch.get_producers(block), sch.get_consumers(block)
    if len(before) > 1 or len(after) > 1 or len(blocks) != 1 + len(before) + len(after):
        return "other blocks than a border and a consumer"
    if before and [load.buffer for load in collect(sch.get(before[0]).body, BufferStore)] != [window.data.buffer]:
        return "a block before it is not a border of the image"
    if is_touched(sch, block):
        return "its loops are scheduled already"
    if after and is_parameter(fn, window.block.body.buffer) is not None:  # type: ignore[attr-defined]
        return "the result is used twice"
    sizes = tile_sizes(window, machine)
    if isinstance(sizes, str):
        return sizes
    try:
        _schedule(sch, block, before, after, window, sizes)
    except ScheduleError as problem:
        return f"a step does not apply: {problem.message}"
    said = f"{sizes.lines} lines, tile of {sizes.places} places x {sizes.vector} channels"
    return Scheduled(mark_scheduled(program_of(sch)), said)


@dataclass(slots=True, frozen=True)
class Sizes:
    """Lines of a block, places of a tile, channels of one vector (or few), vectors that share a block of lines."""

    lines: int
    places: int
    vector: int
    vectors: int


def _divisor(extent: int, most: int) -> int:
    return max(divisors(extent, most), default=1)


def tile_sizes(window: Window, machine: Machine) -> Sizes | str:
    """Sizes that divide the extents where some do, or why there are none."""
    lanes = machine.lanes(window.block.body.buffer.dtype.itemsize)  # type: ignore[attr-defined]
    channels, length = extent_of(window.channels), extent_of(window.places)
    if channels is None or channels < max(2, lanes // 2):
        return f"{channels} channels do not fill a vector"
    if channels % lanes == 0:
        vector, vectors = lanes, _divisor(channels // lanes, VECTORS)
    elif channels <= VECTORS * lanes:
        vector, vectors = channels, 1
    else:
        return f"{channels} channels do not divide into vectors"
    if vector == lanes:
        vectors = choose(window.block, "vectors", divisors(channels // lanes, CHANNELS), vectors)
    most = max(1, min(PLACES, (machine.registers - 12) // -(-vector // lanes)))
    if length is None:
        places = min(most, DEFAULT_PLACES)
    elif not length:
        return "an empty image"
    else:
        places = min(range(1, min(most, length) + 1), key=lambda n: (-(-length // n) * n + 2 * -(-length // n), -n))
    places = choose(window.block, "places", range(1, min(PLACES, length or PLACES) + 1), places)
    lines = (extent_of(window.lines) or 1) if window.lines is not None else 1
    cells = max(1, (length or 64) * vector * vectors)
    own = _divisor(lines, max(1, min(LINES, CACHED // cells)))
    return Sizes(choose(window.block, "lines", divisors(lines, MOST_LINES), own), places, vector, vectors)


def _schedule(
    sch: Schedule, block: BlockRV, before: list[BlockRV], after: list[BlockRV], window: Window, sizes: Sizes
) -> None:
    if after:
        consumer = after[0]
        sch.set_scope(block, 0, "local")
    else:
        consumer = sch.cache_write(block, 0, "local")
    loops = dict(zip([axis.var for axis in window.block.iter_vars], sch.get_loops(block)))
    outer = [loops[axis.var] for axis in window.outer]
    c0, c1, c2 = sch.split(loops[window.channels.var], [None, sizes.vectors, sizes.vector])
    w0, w1 = sch.split(loops[window.places.var], [None, sizes.places])
    inner: list[LoopRV] = []
    if window.lines is not None:
        h0, h1 = sch.split(loops[window.lines.var], [None, sizes.lines])
        outer.append(h0)
        inner.append(h1)
    taps = [loops[axis.var] for axis in window.taps]
    sch.reorder(*outer, c0, *inner, w0, c1, *taps, w1, c2)
    sch.reverse_compute_at(consumer, c1)
    if before:
        sch.compute_at(before[0], c0)
        *_, last = sch.get_loops(before[0])
        split_and_vectorize(sch, last, sizes.vector)
    if choose_whether(window.block, "parallel", steps_of(window.block.iter_vars) >= PARALLEL_WORK):
        sch.parallel(sch.fuse(*outer, c0))
    sch.unroll(w1)
    sch.vectorize(c2)
    own = int(extent_of(window.taps[-1]) != 1 or len(taps) == 1)
    for tap in taps[len(taps) - choose(window.block, "unrolled", range(len(taps) + 1), own) :]:
        sch.unroll(tap)
    init = sch.decompose_reduction(block, taps[0])
    *_, place, lane = sch.get_loops(init)
    sch.unroll(place)
    sch.vectorize(lane)
    around = [sch.get(loop) for loop in sch.get_loops(consumer)]
    mine = sch.get_loops(consumer)[around.index(sch.get(c1)) + 1 :]
    for loop in mine[:-1]:
        sch.unroll(loop)
    if mine:
        sch.vectorize(mine[-1])


WINDOWS = Rule("windows", schedule_windows)
