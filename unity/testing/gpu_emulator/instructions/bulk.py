"""The bulk copy engine (TMA): cp.async.bulk and cp.async.bulk.tensor.

Copies arrive as late as they can: when no thread can go on. Until then what they will overwrite counts as undefined. A tensor map
is in the emulated driver's own form (``memory.tensor_map``); copies of tensors are tiles with the element strides 1, or pixels
under the window of a convolution (im2col).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ir.interpret.threads.barriers import swizzled
from ..machine.access import Access
from ..machine.batch import Batch, Index
from ..machine.findings import ILLEGAL_ADDRESS, ILLEGAL_INSTRUCTION, MISALIGNED
from ..machine.link import PARAM_WINDOW
from ..machine.reading import S32, S64, U32, Reading, Run, each
from ..memory.tensor_map import TensorMap, read_map
from ..ptx.types import TYPES
from .memory import HINTS
from .transactions import WINDOW, arrive, barrier_keys

Rows = np.ndarray
U16 = TYPES["u16"]


def bulk_copy(reading: Reading) -> Run:
    """The instruction behind ``cp.async.bulk``."""
    if reading.flag("commit_group"):
        return lambda batch, ix: None
    if reading.flag("wait_group"):
        reading.flag("read")
        reading.integer(0)
        return lambda batch, ix: None  # what is written to global memory is there at once
    if reading.flag("prefetch"):
        reading.words.clear()
        return lambda batch, ix: None
    tensor = reading.flag("tensor")
    rank = int(reading.one("1d", "2d", "3d", "4d", "5d")[0]) if tensor else 0
    windowed = reading.one("tile", "im2col", default="tile") == "im2col"
    reading.drop(*HINTS)
    if reading.flag("bulk_group"):
        return _out(reading, rank)
    reading.one("mbarrier::complete_tx::bytes")
    for word in ("shared::cta", "shared::cluster"):
        reading.flag(word)
    reading.one("global")
    return _tensor_in(reading, rank, windowed) if tensor else _plain_in(reading)


def _map_of(
    reading: Reading, index: int, rank: int, windowed: bool = False
) -> Callable[[Batch, Rows], tuple[list[TensorMap], list[Rows]]]:
    """The tensor maps and coordinates of an operand ``[map, {x, y}]``."""
    operand = reading.memory(index)
    if len(operand.coordinates) != rank:
        raise reading.refuse("a wrong number of coordinates")
    base = reading.value(operand.base, S64)
    coordinates = [reading.value(one, S32) for one in operand.coordinates]

    def find(batch: Batch, lanes: Rows) -> tuple[list[TensorMap], list[Rows]]:
        addresses = each(base, batch, lanes).tolist()
        maps = []
        for address in addresses:
            if address >> 60 == PARAM_WINDOW >> 60:
                start = address & int(WINDOW)
                raw = batch.launch.arguments[start : start + 128].tobytes()
            else:
                where = batch.memory.range(address, 128)
                raw = batch.memory.raw[where].tobytes() if where is not None else b""
            found = read_map(raw)
            if found is None or found.rank != rank or found.windowed != windowed or address % 64:
                kind = " and windows" if windowed else ""
                text = f"no tensor map of {rank} dimensions{kind} at the address of a bulk copy"
                raise reading.fault(batch, ILLEGAL_ADDRESS, "bounds", text)
            maps.append(found)
        return maps, [each(c, batch, lanes) for c in coordinates]

    return find


def _elements(tensor: TensorMap, corner: list[int]) -> tuple[Rows, Rows]:
    """Addresses of the bytes of a box in global memory in the order of shared memory, and which lie inside the tensor."""
    if tensor.windowed:
        coordinates = _pixels(tensor, corner)
    else:
        grid = np.indices(tuple(reversed(tensor.box[: tensor.rank]))).reshape(tensor.rank, -1)[::-1]
        coordinates = [row + first for row, first in zip(grid, corner)]
    strides = [tensor.item, *tensor.strides[: tensor.rank - 1]]
    address = np.zeros(len(coordinates[0]), np.int64)
    inside = np.ones(len(coordinates[0]), bool)
    for axis, coordinate in enumerate(coordinates):
        inside &= (coordinate >= 0) & (coordinate < tensor.sizes[axis])
        address += coordinate * strides[axis]
    address = (address + tensor.base)[:, None] + np.arange(tensor.item)
    return address.ravel(), np.repeat(inside, tensor.item)


def _pixels(tensor: TensorMap, corner: list[int]) -> list[Rows]:
    """The positions of a window from that at the corner on, each moved by the offsets behind the coordinates of the corner."""
    pixel, channel = np.indices((tensor.box[1], tensor.box[0])).reshape(2, -1)
    rows = list(zip(tensor.lower, tensor.upper, tensor.steps, tensor.sizes[1:], corner[1:]))[: tensor.rank - 2]
    counts = [(size - 1 + upper - lower) // step + 1 for lower, upper, step, size, _ in rows]
    first = corner[tensor.rank - 1]
    for (lower, _, step, _, begin), count in reversed(list(zip(rows, counts))):
        first = first * count + (begin - lower) // step
    number = pixel + first
    found = [corner[0] + channel]
    for (lower, _, step, _, _), count, offset in zip(rows, counts, corner[tensor.rank :]):
        found.append(number % count * step + lower + offset)
        number = number // count
    return [*found, number]


def _aligned(reading: Reading, batch: Batch, address: int, to: int) -> None:
    if address % to:
        text = f"shared memory at byte {address} of a bulk copy is not aligned to {to} bytes"
        raise reading.fault(batch, MISALIGNED, "alignment", text)


def _cornered(reading: Reading, batch: Batch, tensor: TensorMap, corner: list[int]) -> list[int]:
    """A corner whose innermost coordinate is a multiple of 16 bytes: an H100 ends a kernel at -8 bytes, whatever the swizzle."""
    if corner[0] * tensor.item % 16:
        text = f"a bulk copy whose corner is {corner[0] * tensor.item} bytes into a row, no multiple of 16"
        raise reading.fault(batch, ILLEGAL_INSTRUCTION, "alignment", text)
    return corner


def _bounded(reading: Reading, batch: Batch, start: int, size: int) -> None:
    if start < 0 or start + size > batch.shared_limit:
        text = f"a bulk copy of {size} bytes at byte {start} of the {batch.shared_limit} of shared memory"
        raise reading.fault(batch, ILLEGAL_ADDRESS, "bounds", text)


def _tensor_in(reading: Reading, rank: int, windowed: bool) -> Run:
    target, find, barrier = reading.address(0), _map_of(reading, 1, rank, windowed), reading.address(2)
    offsets = [reading.value(one, U16) for one in reading.items(3)] if windowed else []
    if len(offsets) != (rank - 2 if windowed else 0):
        raise reading.refuse("a wrong number of offsets")
    access = Access(reading, "global", "bulk load", 1)

    def copy(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        maps, corners = find(batch, lanes)
        corners += [each(offset, batch, lanes) for offset in offsets]
        starts = np.broadcast_to(target(batch, lanes) & WINDOW, len(lanes)).tolist()
        keys = barrier_keys(batch, lanes, barrier(batch, lanes))
        for k, tensor in enumerate(maps):
            _aligned(reading, batch, starts[k], 128)
            _bounded(reading, batch, starts[k], tensor.size)
            corner = _cornered(reading, batch, tensor, [int(c[k]) for c in corners])
            address, inside = _elements(tensor, corner)
            landing = swizzled(starts[k] + np.arange(tensor.size), tensor.swizzle) + batch.shared_base[lanes[k]]
            batch.shared_written[landing] = 0
            _engage(reading, batch, access, address, inside, tensor.fill, landing, keys[k])

    return copy


def _engage(
    reading: Reading, batch: Batch, access: Access, address: Rows, inside: Rows, fill: int, landing: Rows, key: int
) -> None:
    """Give a copy to the engine: it reads, stores and tells the barrier when it arrives."""

    def come() -> None:
        values = np.full(len(landing), fill, np.uint8)
        if inside.any():
            values[inside] = batch.memory.raw[access.offsets(batch, np.zeros(1, np.int64), address[inside])]
        batch.shared[landing] = values
        batch.shared_written[landing] = 1
        arrive(batch, key, reading, 0, 0, len(landing))

    batch.engine.append(come)


def _plain_in(reading: Reading) -> Run:
    """cp.async.bulk.shared.global.mbarrier... [d], [s], bytes, [barrier]"""
    target, source, size, barrier = reading.address(0), reading.address(1), reading.value(2, U32), reading.address(3)
    access = Access(reading, "global", "bulk load", 1)

    def copy(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        to, start, count = [each(get, batch, lanes).tolist() for get in (target, source, size)]
        for k, key in enumerate(barrier_keys(batch, lanes, barrier(batch, lanes))):
            inside = to[k] & int(WINDOW)
            for value in (inside, start[k], count[k]):
                _aligned(reading, batch, value, 16)
            _bounded(reading, batch, inside, count[k])
            landing = inside + np.arange(count[k]) + batch.shared_base[lanes[k]]
            batch.shared_written[landing] = 0
            _engage(reading, batch, access, start[k] + np.arange(count[k]), np.ones(count[k], bool), 0, landing, key)

    return copy


def _out(reading: Reading, rank: int) -> Run:
    """From shared to global memory, at once: cp.async.bulk{.tensor}.global.shared::cta.bulk_group"""
    reading.one("global")
    reading.one("shared::cta")
    source = reading.address(1)
    access = Access(reading, "global", "bulk store", 1)
    find = _map_of(reading, 0, rank) if rank else None
    target, size = (None, None) if rank else (reading.address(0), reading.value(2, U32))

    def copy(batch: Batch, ix: Index) -> None:
        lanes = batch.lanes(ix)
        starts = np.broadcast_to(source(batch, lanes) & WINDOW, len(lanes)).tolist()
        maps, corners = find(batch, lanes) if find is not None else ([], [])
        for k in range(len(lanes)):
            if find is not None:
                tensor = maps[k]
                _aligned(reading, batch, starts[k], 128)
                corner = _cornered(reading, batch, tensor, [int(c[k]) for c in corners])
                address, inside = _elements(tensor, corner)
                count, width = tensor.size, tensor.swizzle
            else:
                assert target is not None and size is not None
                count = int(each(size, batch, lanes)[k])
                first = int(each(target, batch, lanes)[k])
                for value in (starts[k], first, count):
                    _aligned(reading, batch, value, 16)
                address, inside, width = first + np.arange(count), np.ones(count, bool), 0
            _bounded(reading, batch, starts[k], count)
            landing = swizzled(starts[k] + np.arange(count), width) + batch.shared_base[lanes[k]]
            if inside.any():
                offset = access.offsets(batch, lanes[k : k + 1], address[inside])
                batch.memory.raw[offset] = batch.shared[landing[inside]]
                batch.memory.written[offset] = batch.shared_written[landing[inside]]

    return copy
