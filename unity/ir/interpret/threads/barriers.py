"""Barriers that count arrivals and bytes (mbarrier), and the bulk copies that tell them when they have come.

A thread that waits lets the others of its block go on (``fibers``). Who sees a phase ended comes after all that was done before its
end. A bulk copy comes as late as it can; until then its destination counts as unwritten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError, Note
from ...analysis.asynchronous import TensorCopy, Window, tensor_copy
from ...build import dtype_of
from ...expr import Call
from ..common.arrays import Value
from ..common.expressions import Closure
from .expressions import ExprCompiler
from .fibers import Fibers
from .findings import Finding, Site
from .intrinsics import Effect, Stores, group_calls, instruction, register
from .lanes import WARP, Mask
from .memory import Storage
from .mma import copies_of
from .operands import Operand
from .shadow import NOBODY
from .wave import Wave


class Barriers:
    """The barriers of the blocks of a batch, by block and number."""

    def __init__(self, blocks: int, count: int) -> None:
        shape = (blocks, count)
        self.count = count
        self.expected, self.pending, self.bytes, self.parity = [np.zeros(shape, np.int64) for _ in range(4)]
        self.ended = np.zeros(shape, np.int64)
        """The clock at the end of the last phase."""
        self.made, self.maker = np.zeros(shape, np.int64), np.full(shape, -1)
        """When and by whom a barrier was begun."""

    def end_phases(self, wave: Wave) -> None:
        """End the phases for which everything has come."""
        done = (self.expected > 0) & (self.pending == 0) & (self.bytes == 0)
        if done.any():
            self.parity[done] ^= 1
            self.pending[done] = self.expected[done]
            wave.batch.clock += 1
            self.ended[done] = wave.batch.clock


Places = tuple[Barriers, np.ndarray, np.ndarray, np.ndarray]
"""Barriers, and the lanes that name one, their blocks and its number."""


def barriers_at(compiler: ExprCompiler, call: Call, index: int, creates: bool = False) -> Callable[[Mask], Places]:
    """The barriers that an argument names."""
    wave, span = compiler.wave, call.span
    number = compiler.index(call.args[index])

    def find(mask: Mask) -> Places:
        barriers, lanes = wave.env.get(Barriers), mask.index
        if barriers is None:
            raise InterpreterError("E372", f"{call.op_name} without T.create_barriers", span)
        numbers = wave.rows(number(mask))[lanes]
        blocks = wave.batch.within[lanes] // wave.batch.geometry.padded
        wrong = (numbers < 0) | (numbers >= barriers.count)
        wave.refuse(wrong, lanes, "E372", span, lambda at: f"barrier {numbers[at]} of {barriers.count}")
        if not creates:
            missing = barriers.expected[blocks, numbers] == 0
            text = "is used before T.ptx_init_barrier_thread_count"
            wave.refuse(missing, lanes, "E364", span, lambda at: f"barrier {numbers[at]} {text}")
            _check_visible(wave, barriers, call, lanes, blocks, numbers)
        return barriers, lanes, blocks, numbers

    return find


def _check_visible(
    wave: Wave, barriers: Barriers, call: Call, lanes: np.ndarray, blocks: np.ndarray, numbers: np.ndarray
) -> None:
    """Report barriers that another thread began, with no barrier of the block since."""
    base = np.broadcast_to(wave.batch.block_base, wave.batch.size)[lanes]
    maker = barriers.maker[blocks, numbers]
    early = (maker != wave.batch.number[lanes]) & (barriers.made[blocks, numbers] >= base)
    key = ("race", "barrier", call.span)
    if early.any() and not wave.log.known(key, int(early.sum())):
        one, two = wave.batch.geometry.thread_id(int(maker[early.argmax()])), wave.thread(int(lanes[early.argmax()]))
        text = f"barrier {int(numbers[early.argmax()])} is begun by {one} and used by {two}, nothing orders the two"
        help = 'put T.tvm_storage_sync("shared") after T.ptx_init_barrier_thread_count'
        found = Finding("E360", "race", text, call.span, help=help, threads=(one, two))
        wave.log.add(key, found, int(early.sum()))


@instruction("create_barriers")
def _create(compiler: ExprCompiler, call: Call) -> Effect:
    wave, count = compiler.wave, getattr(call.args[0], "value", 0)

    def run(mask: Mask) -> None:
        wave.env[Barriers] = Barriers(wave.batch.blocks, count)

    return run


@instruction("ptx_init_barrier_thread_count")
def _initialize(compiler: ExprCompiler, call: Call) -> Effect:
    find, arrivals, wave = barriers_at(compiler, call, 0, creates=True), compiler.index(call.args[1]), compiler.wave

    def run(mask: Mask) -> None:
        barriers, lanes, blocks, numbers = find(mask)
        count = wave.rows(arrivals(mask))[lanes]
        wave.refuse(count < 1, lanes, "E372", call.span, lambda _: "a barrier of no arrivals")
        at = (blocks, numbers)
        barriers.expected[at] = barriers.pending[at] = count
        barriers.parity[at] = barriers.bytes[at] = 0
        barriers.made[at], barriers.maker[at] = wave.batch.clock, wave.batch.number[lanes]

    return run


@instruction("ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx")
def _arrive(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: barrier, and the bytes that are to come."""
    find, wave = barriers_at(compiler, call, 0), compiler.wave
    announced = compiler.index(call.args[1]) if len(call.args) > 1 else None

    def run(mask: Mask) -> None:
        barriers, lanes, blocks, numbers = find(mask)
        if announced is not None:
            np.add.at(barriers.bytes, (blocks, numbers), wave.rows(announced(mask))[lanes])
        np.subtract.at(barriers.pending, (blocks, numbers), 1)
        expected = barriers.expected[blocks, numbers]
        wave.refuse(
            barriers.pending[blocks, numbers] < 0, lanes, "E362", call.span,
            lambda at: f"more arrivals at barrier {numbers[at]} than the {expected[at]} of a phase",
        )  # fmt: skip
        barriers.end_phases(wave)

    return run


@instruction("ptx_wait_barrier")
def _wait(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: barrier, parity of the phase."""
    find, wave = barriers_at(compiler, call, 0), compiler.wave
    parity = compiler.index(call.args[1]) if len(call.args) > 1 else None

    def run(mask: Mask) -> None:
        barriers, lanes, blocks, numbers = find(mask)
        asked = np.broadcast_to(np.asarray(parity(mask) if parity is not None else 0), wave.batch.size)[lanes] & 1
        wave.record(Fibers).wait(
            lambda: bool((barriers.parity[blocks, numbers] != asked).all()), lambda: deadlock(wave, call, int(lanes[0]))
        )
        base = np.broadcast_to(wave.batch.block_base, wave.batch.size).copy()
        base[lanes] = np.maximum(base[lanes], barriers.ended[blocks, numbers])
        wave.batch.block_base = base

    return run


def deadlock(wave: Wave, call: Call, lane: int) -> Exception:
    """The error of threads that all wait."""
    error = wave.failure("E362", "no thread can go on: a phase that nobody ends is waited for", call.span, lane)
    error.notes += [
        Note(f"found before: {found.message}", found.span) for found in list(wave.log.findings.values())[:3]
    ]
    error.help = "count arrivals and bytes; threads that wait for each other stand in the two cases of one condition"
    return error


@instruction("ptx_cp_async_barrier")
def _arrive_when_copied(compiler: ExprCompiler, call: Call) -> Effect:
    find, wave = barriers_at(compiler, call, 0), compiler.wave

    def run(mask: Mask) -> None:
        find(mask)
        copies_of(wave).wait(mask, -1)

    return run


# ---- bulk copies


def swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Addresses in shared memory under the exchange of 16-byte pieces within ``width`` bytes (0: none)."""
    bits = {128: 7, 64: 3, 32: 1, 0: 0}[width]
    found: np.ndarray = address ^ ((address >> np.int64(7) & np.int64(bits)) << np.int64(4))
    return found


@instruction("ptx_cp_async_bulk")
def _bulk(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: shared pointer and offset, global pointer and offset (in elements), bytes, barrier."""
    wave, size, offset = compiler.wave, compiler.index(call.args[4]), compiler.index(call.args[3])
    item = dtype_of(call).itemsize

    def bytes_of(mask: Mask) -> int:
        found = np.unique(np.broadcast_to(np.asarray(size(mask)), wave.batch.size)[mask.index])
        if len(found) != 1 or found[0] % 16 or found[0] <= 0:
            raise wave.failure(
                "E372", "a bulk copy is a multiple of 16 bytes, and of one size", call.span, int(mask.index[0])
            )
        return int(found[0])

    def source(mask: Mask) -> tuple[np.ndarray, np.ndarray]:
        first = wave.rows(offset(mask))[mask.index]
        elements = first[:, None] + np.arange(bytes_of(mask) // item)
        return elements, np.ones(elements.shape, np.bool_)

    return _copying(compiler, call, 5, source, 0, 16)


def _form(call: Call) -> TensorCopy:
    form = tensor_copy(call)
    if isinstance(form, str):
        raise InterpreterError("E372", f"{call.op_name}: {form}", call.span)
    return form


def _box(compiler: ExprCompiler, form: TensorCopy) -> Callable[[Mask], tuple[np.ndarray, np.ndarray]]:
    """The elements of a box by number, and which of them the tensor has."""
    wave = compiler.wave
    sizes, corner = [[compiler.index(e) for e in row] for row in (form.sizes, form.corner)]
    grid = np.indices(form.box).reshape(len(form.box), -1)
    if form.window is not None:
        return _pixels(compiler, form, form.window)

    def source(mask: Mask) -> tuple[np.ndarray, np.ndarray]:
        extents, begins = [[wave.rows(e(mask))[mask.index] for e in row] for row in (sizes, corner)]
        return _numbered([begin[:, None] + along for begin, along in zip(begins, grid)], extents)

    return source


def _numbered(coordinates: list[np.ndarray], extents: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of elements by their coordinates (lanes x elements) along each axis, and which of them lie inside."""
    elements, inside = np.zeros(coordinates[0].shape, np.int64), np.ones(coordinates[0].shape, np.bool_)
    for coordinate, extent in zip(coordinates, extents):
        inside &= (coordinate >= 0) & (coordinate < extent[:, None])
        elements = elements * extent[:, None] + coordinate
    return elements, inside


def _pixels(
    compiler: ExprCompiler, form: TensorCopy, window: Window
) -> Callable[[Mask], tuple[np.ndarray, np.ndarray]]:
    """The same for pixels under a window: its places are counted from that at the corner."""
    wave = compiler.wave
    sizes, corner, offsets = [[compiler.index(e) for e in row] for row in (form.sizes, form.corner, window.offsets)]
    pixel, channel = np.indices(form.box).reshape(2, -1)

    def source(mask: Mask) -> tuple[np.ndarray, np.ndarray]:
        lanes = mask.index
        extents, begins, moved = [[wave.rows(e(mask))[lanes] for e in row] for row in (sizes, corner, offsets)]
        rows = list(zip(window.lower, window.upper, window.strides, extents[1:-1], begins[1:-1]))
        counts = [(extent - 1 + upper - lower) // stride + 1 for lower, upper, stride, extent, _ in rows]
        number = begins[0]
        for (lower, _, stride, _, begin), count in zip(rows, counts):
            number = number * count + (begin - lower) // stride
        number = number[:, None] + pixel
        found = [begins[-1][:, None] + channel]
        for (lower, _, stride, _, _), count, offset in reversed(list(zip(rows, counts, moved))):
            found.append(number % count[:, None] * stride + lower + offset[:, None])
            number = number // count[:, None]
        return _numbered([number, *reversed(found)], extents)

    return source


@instruction("ptx_cp_async_bulk_tensor", "ptx_cp_async_bulk_tensor_im2col")
def _bulk_tensor(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: see ``tensor_copy``."""
    form = _form(call)
    return _copying(compiler, call, 3, _box(compiler, form), form.swizzle, 128)


def _copying(
    compiler: ExprCompiler, call: Call, barrier: int, source: Callable[[Mask], tuple[np.ndarray, np.ndarray]], swizzle: int,
    align: int,
) -> Effect:  # fmt: skip
    """A copy of the elements behind the global pointer that ``source`` numbers, zeros for those outside."""
    wave, dtype = compiler.wave, DataType(dtype_of(call).element.name)
    find, item = barriers_at(compiler, call, barrier), dtype.itemsize
    origin = Operand(compiler, call, 2, dtype, "bulk load", "global", offset=False)
    target = Operand(compiler, call, 0, dtype, "bulk store", "shared")

    def run(mask: Mask) -> None:
        barriers, lanes, blocks, numbers = find(mask)
        elements, inside = source(mask)
        (here, base), (storage, start) = origin.start(mask), target.start(mask)
        address = base[lanes][:, None] + elements * item
        everyone = np.broadcast_to(lanes[:, None], elements.shape)
        values = np.zeros(elements.shape, dtype.numpy)
        if inside.any():
            wanted = origin.checked(here, address[inside], everyone[inside])
            values[inside] = origin.load(here, wanted, everyone[inside])
        landing = swizzled(start[lanes][:, None] + np.arange(elements.shape[1]) * item, swizzle)

        def store(come: bool) -> None:
            flat, owners = target.checked(storage, landing, lanes).ravel(), everyone.ravel()
            target.store(storage, flat, owners, values.ravel(), come)
            if storage.stored is not None:
                storage.stored[target.cells(storage, flat, owners)] = NOBODY

        target.checked(storage, landing, lanes)
        target.aligned(start, lanes, align)
        store(False)

        def come() -> None:
            store(True)
            np.subtract.at(barriers.bytes, (blocks, numbers), elements.shape[1] * item)
            barriers.end_phases(wave)

        wave.record(Fibers).late.append(come)

    return run


@instruction("ptx_cp_async_bulk_tensor_store")
def _bulk_store(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: see ``tensor_copy``. Global memory is written at once, shared memory may be read until the group is waited for."""
    form, wave = _form(call), compiler.wave
    box, dtype, item = _box(compiler, form), form.dtype, form.dtype.itemsize
    source = Operand(compiler, call, 0, dtype, "bulk load", "shared")
    target = Operand(compiler, call, 2, dtype, "bulk store", "global", offset=False)

    def run(mask: Mask) -> None:
        lanes = mask.index
        elements, inside = box(mask)
        everyone = np.broadcast_to(lanes[:, None], elements.shape)
        (here, start), (there, base) = source.start(mask), target.start(mask)
        from_ = swizzled(start[lanes][:, None] + np.arange(elements.shape[1]) * item, form.swizzle)
        source.checked(here, from_, lanes)
        source.aligned(start, lanes, 128)
        owners = everyone[inside]
        values = source.load(here, from_[inside], owners)
        cells = source.cells(here, from_[inside], owners)
        fenced(wave, here, cells, owners, source.site, "a bulk copy")
        landing = target.checked(there, (base[lanes][:, None] + elements * item)[inside], owners)
        target.store(there, landing, owners, values)
        wave.record(Stores, wave.batch.size).begin(
            lanes, lambda due: still_read(wave, here, cells, owners, source.site, lanes[due])
        )

    return run


group_calls("ptx_cp_async_bulk", Stores)


def end_stores(wave: Wave) -> None:
    """A kernel ends: copies to global memory that nobody has waited for have read until now."""
    wave.record(Stores, wave.batch.size).wait(wave.batch.start, -1)


def still_read(wave: Wave, storage: Storage, cells: np.ndarray, lanes: np.ndarray, site: Site, by: np.ndarray) -> None:
    """Record that an instruction beside the threads has read cells until now, for those of ``lanes`` that are ``by``."""
    if storage.shadow is not None:
        some = np.isin(lanes, by)
        storage.shadow.readers.forget(cells[some].ravel())
        wave.accesses.record(storage, cells[some], lanes[some], site, False)


def fenced(wave: Wave, storage: Storage, cells: np.ndarray, lanes: np.ndarray, site: Site, reader: str) -> None:
    """Report cells that a thread has stored and an instruction beside the threads reads, without a fence since."""
    if storage.stored is None:
        return
    by = storage.stored[cells].ravel()
    late, key = by != NOBODY, ("race", "proxy", site.number)
    if late.any() and not wave.log.known(key, int(late.sum())):
        at = int(late.argmax())
        one, two = wave.batch.geometry.thread_id(int(by[at])), wave.thread(int(lanes[at * len(lanes) // len(by)]))
        text = f"{site.buffer} is stored by {one} and read by {reader} of {two}, no T.ptx_fence_proxy_async between"
        help = "put T.ptx_fence_proxy_async() after the stores, before the barrier"
        found = Finding("E360", "race", text, site.span, help=help, buffer=site.buffer, threads=(one, two))
        wave.log.add(key, found, int(late.sum()))


@instruction("ptx_fence_proxy_async")
def _fence_proxy(compiler: ExprCompiler, call: Call) -> Effect:
    wave = compiler.wave

    def run(mask: Mask) -> None:
        for storage in wave.proxied:
            if storage.stored is not None:
                storage.stored[np.isin(storage.stored, wave.batch.number[mask.index])] = NOBODY

    return run


@register("ptx_elect_sync")
def _elect(compiler: ExprCompiler, call: Call) -> Closure:
    def run(mask: Mask) -> Value:
        rows = mask.lanes.reshape(-1, WARP)
        found = np.zeros(rows.shape, np.bool_)
        found[np.arange(len(rows)), rows.argmax(axis=1)] = True
        return found.ravel()

    return run
