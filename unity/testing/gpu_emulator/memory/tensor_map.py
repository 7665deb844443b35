"""Tensor maps of the emulated driver: 128 bytes that describe a tensor in global memory and the box of a bulk copy.

NVIDIA's form is secret; this one is read by ``instructions.bulk``.
"""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass, replace

from ....ir.analysis.asynchronous import CORNER_BITS, MOST_BOX, MOST_PIXELS

_FORM = struct.Struct("<8sQ5Q4Q5HBBBB3h3h3B")
_MAGIC = b"unitymap"
_SWIZZLES = (0, 32, 64, 128)
ITEMS = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Bytes of an element by CUtensorMapDataType."""


@dataclass(slots=True, frozen=True)
class TensorMap:
    """``sizes`` and ``box`` from the innermost dimension; ``strides`` in bytes of the others; ``fill`` of what lies outside. A map
    of windows (im2col) has ``steps``, and for each axis of an image the corners of its positions; its box is channels and
    positions."""

    base: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    rank: int
    item: int
    swizzle: int
    fill: int
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def windowed(self) -> bool:
        """True for a map of windows."""
        return any(self.steps)

    @property
    def size(self) -> int:
        """Bytes of a box."""
        return self.item * math.prod(self.box[: 2 if self.windowed else self.rank])

    def pack(self) -> bytes:
        """The 128 bytes."""
        wide = [(*row, *[0] * 5)[:n] for row, n in ((self.sizes, 5), (self.strides, 4), (self.box, 5))]
        rest = (self.rank, self.item, self.swizzle, self.fill)
        windows = [n for row in (self.lower, self.upper, self.steps) for n in (*row, *[0] * 3)[:3]]
        return _FORM.pack(_MAGIC, self.base, *wide[0], *wide[1], *wide[2], *rest, *windows).ljust(128, b"\0")


def read_map(raw: bytes) -> TensorMap | None:
    """The tensor map in 128 bytes; None where there is none."""
    if len(raw) != 128 or not raw.startswith(_MAGIC):
        return None
    _, base, *rest = _FORM.unpack(raw[: _FORM.size])
    rank, item, swizzle, fill = rest[14:18]
    windows = [tuple(rest[k : k + 3]) for k in (18, 21, 24)]
    return TensorMap(base, tuple(rest[:5]), tuple(rest[5:9]), tuple(rest[9:14]), rank, item, swizzle, fill, *windows)


def encode(
    kind: int, base: int, sizes: list[int], strides: list[int], box: list[int], steps: list[int], interleave: int, swizzle: int,
    fill: int,
) -> TensorMap | None:  # fmt: skip
    """The map of cuTensorMapEncodeTiled; None for arguments that the driver refuses, or that are not modelled."""
    rank = len(sizes)
    if not 1 <= rank <= 5 or not 0 <= kind < len(ITEMS) or not 0 <= swizzle < len(_SWIZZLES) or interleave:
        return None
    item = ITEMS[kind]
    inner = box[0] * item
    if base % 16 or any([stride % 16 or stride >= 1 << 40 for stride in strides]) or any([step != 1 for step in steps]):
        return None
    if (
        any([not 1 <= extent <= MOST_BOX for extent in box])
        or any([not 1 <= size <= 1 << 32 for size in sizes])
        or inner % 16
    ):
        return None
    if swizzle and inner > _SWIZZLES[swizzle]:
        return None
    return TensorMap(
        base, tuple(sizes), tuple(strides), tuple(box), rank, item, _SWIZZLES[swizzle], 0xFF if fill else 0
    )


def encode_at(
    kind: int, rank: int, base: int, pointers: tuple[int | None, ...], interleave: int, swizzle: int, fill: int
) -> TensorMap | None:
    """The map of sizes, strides, box and element strides that lie at addresses."""
    sizes, strides, box, steps = pointers
    if not 1 <= rank <= 5 or not base or not sizes or not box or not steps or (rank > 1 and not strides):
        return None
    extents = list((ctypes.c_uint64 * rank).from_address(sizes))
    apart = list((ctypes.c_uint64 * (rank - 1)).from_address(strides)) if strides and rank > 1 else []
    short = [list((ctypes.c_uint32 * rank).from_address(pointer)) for pointer in (box, steps)]
    return encode(kind, base, extents, apart, short[0], short[1], interleave, swizzle, fill)


def encode_windows_at(
    kind: int, rank: int, base: int, pointers: tuple[int, ...], box: tuple[int, int], interleave: int, swizzle: int, fill: int,
) -> TensorMap | None:  # fmt: skip
    """The map of cuTensorMapEncodeIm2col: sizes, strides, corners and steps lie at addresses; ``box``: channels and positions."""
    if not 3 <= rank <= 5 or not base or not all(pointers):
        return None
    sizes, strides, lower, upper, steps = pointers
    extents = list((ctypes.c_uint64 * rank).from_address(sizes))
    apart = list((ctypes.c_uint64 * (rank - 1)).from_address(strides))
    corners = [tuple((ctypes.c_int * (rank - 2)).from_address(pointer)) for pointer in (lower, upper)]
    moved = list((ctypes.c_uint32 * rank).from_address(steps))
    most = 1 << CORNER_BITS[rank - 2] - 1
    if not all([-most <= number < most for row in corners for number in row]) or not 1 <= box[1] <= MOST_PIXELS:
        return None
    if moved[0] != 1 or moved[-1] != 1 or not all([1 <= step <= 8 for step in moved]):
        return None
    plain = encode(kind, base, extents, apart, [box[0], *[1] * (rank - 1)], [1] * rank, interleave, swizzle, fill)
    if plain is None:
        return None
    return replace(plain, box=box, lower=corners[0], upper=corners[1], steps=tuple(moved[1:-1]))
