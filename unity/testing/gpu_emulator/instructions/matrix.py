"""Matrix instructions of a warp: mma.sync, wmma, ldmatrix, stmatrix.

Which lane holds which element of an ``mma`` is what the thread checker says (``matrix_places``). The layout of ``wmma`` fragments
is the machine's secret; here it is the row-major order.
Products are exact and summed in double precision, then rounded once; the machine's order of additions is not known.
"""

from __future__ import annotations

import re

import numpy as np

from ....ir.interpret.threads.lanes import WARP
from ....ir.interpret.threads.mma import Places, matrix_places
from ..machine.access import Access
from ..machine.batch import Batch, Index
from ..machine.findings import LAUNCH_FAILED
from ..machine.reading import U32, Get, Put, Reading, each
from ..machine.rounding import decode, encode
from ..ptx.program import Operand
from ..ptx.types import TYPES, UNSIGNED, Type
from .flow import warp_operation
from .memory import space_of
from .table import Step, control

Rows = np.ndarray
B32 = TYPES["b32"]


def full_warps(batch: Batch, ix: Index, reading: Reading) -> Rows:
    """The lanes of an index, which must be whole warps, as rows of 32. Raises Fault."""
    lanes = batch.lanes(ix)
    if len(lanes) % WARP == 0:
        rows = lanes.reshape(-1, WARP)
        if (rows[:, 0] % WARP == 0).all() and (rows[:, -1] - rows[:, 0] == WARP - 1).all():
            return rows
    counts = batch.mask(ix).reshape(-1, WARP).sum(axis=1)
    warp = int(((counts > 0) & (counts < WARP)).argmax())
    one = batch.thread(warp * WARP)
    text = f"{reading.instruction.text!r} with {counts[warp]} of 32 lanes of the warp of {one}"
    raise reading.fault(batch, LAUNCH_FAILED, "collective", text)


class Fragment:
    """Registers of a warp that hold a matrix: ``coordinates`` of elements of a type, which may be packed into words."""

    def __init__(self, type_: Type, coordinates: Places, shape: tuple[int, int]) -> None:
        self.type, self.coordinates, self.shape = type_, coordinates, shape
        self.per = max(1, 32 // type_.bits)
        self.word = B32 if type_.bits <= 32 else TYPES["b64"]

    def registers(self) -> int:
        """The number of registers of each lane."""
        return int(self.coordinates[0].shape[1]) // self.per

    def readers(self, reading: Reading, operands: tuple[Operand, ...]) -> list[Get]:
        """The registers as operands. Refuses a wrong number of them."""
        if len(operands) != self.registers():
            raise reading.refuse(f"{self.registers()} registers are wanted, not {len(operands)}")
        return [reading.value(one, self.word) for one in operands]

    def writers(self, reading: Reading, operands: tuple[Operand, ...]) -> list[Put]:
        """The registers as destinations."""
        if len(operands) != self.registers():
            raise reading.refuse(f"{self.registers()} registers are wanted, not {len(operands)}")
        return [reading.into(one, self.word) for one in operands]

    def read(self, batch: Batch, lanes: Rows, gets: list[Get]) -> Rows:
        """Matrices of the warps: doubles, or int64 of integers."""
        flat = lanes.ravel()
        words = np.stack([each(get, batch, flat) for get in gets], axis=1)
        elements = self._elements(words.reshape(len(lanes), WARP, len(gets)))
        made = np.zeros((len(lanes), *self.shape), elements.dtype)
        made[:, self.coordinates[0], self.coordinates[1]] = elements
        return made

    def _elements(self, words: Rows) -> Rows:
        type_ = self.type
        if type_.bits == 4:
            nibbles = (words[..., None] >> (np.arange(8, dtype="u4") * np.uint32(4))) & np.uint32(15)
            values = nibbles.reshape(*words.shape[:2], -1).astype("i8")
            return np.where(values > 7, values - 16, values) if type_.kind == "s" else values
        name = "f32" if type_.name == "b32" else type_.name
        kind = UNSIGNED[type_.bytes] if name in ("bf16", "e4m3", "e5m2") else type_.numpy
        parts = np.ascontiguousarray(words).view(kind)
        return decode(parts, name) if type_.kind == "f" else parts.astype("i8")

    def write(self, batch: Batch, lanes: Rows, puts: list[Put], matrices: Rows) -> None:
        """Store matrices of doubles or int64 into the registers."""
        elements = matrices[:, self.coordinates[0], self.coordinates[1]]
        if self.type.kind == "f":
            values = encode(elements, self.type.name)
        else:
            values = elements.astype(self.type.numpy)
        words = np.ascontiguousarray(values).view(UNSIGNED[self.word.bytes]).reshape(-1, len(puts))
        flat = lanes.ravel()
        ix = batch.narrowed(flat) if batch.everyone is None else flat
        for k, put in enumerate(puts):
            put(batch, ix, words[:, k].copy())


SHAPES = {
    ("f16", 16): (8, 16), ("bf16", 16): (8, 16), ("tf32", 16): (4, 8), ("f64", 16): (4, 8, 16), ("f64", 8): (4,),
    ("e4m3", 16): (16, 32), ("e5m2", 16): (16, 32), ("s8", 16): (16, 32), ("u8", 16): (16, 32), ("s8", 8): (16,), ("u8", 8): (16,),
    ("s4", 16): (32, 64), ("u4", 16): (32, 64), ("s4", 8): (32,), ("u4", 8): (32,),
}  # fmt: skip
"""Depths k of mma.sync, by the type of A and the rows of the result."""


def product(a: Rows, b: Rows, c: Rows, saturate: bool) -> Rows:
    """a @ b + c of matrices of doubles, or of int64 which wrap or are clamped to 32 bits."""
    found: Rows = np.matmul(a, b) + c
    if found.dtype.kind == "i":
        return np.clip(found, -(1 << 31), (1 << 31) - 1) if saturate else found.astype("u4").view("i4").astype("i8")
    return found


@control("mma")
def _mma(reading: Reading) -> Step:
    """mma.sync.aligned.shape.row.col{.satfinite}.d.a.b.c"""
    if reading.words[:1] == ["sp"] or not reading.flag("sync"):
        raise reading.refuse()
    reading.flag("aligned")
    shape = next((w for w in reading.words if re.fullmatch(r"m\d+n8k\d+", w)), "")
    if not shape or reading.words[1:3] != ["row", "col"]:
        raise reading.refuse()
    reading.drop(shape, "row", "col")
    saturate = reading.flag("satfinite")
    d_type, a_type, b_type, c_type = reading.type(), reading.type(), reading.type(), reading.type()
    m, k = [int(v) for v in re.fullmatch(r"m(\d+)n8k(\d+)", shape).groups()]  # type: ignore[union-attr]
    if k not in SHAPES.get((a_type.name, m), ()) or a_type.bits != b_type.bits or a_type.kind == "f" != b_type.kind:
        raise reading.refuse()
    a = Fragment(a_type, matrix_places(m, k, a_type.bits), (m, k))
    b = Fragment(b_type, matrix_places(8, k, b_type.bits)[::-1], (k, 8))
    c, d = [Fragment(type_, matrix_places(m, 8, 16), (m, 8)) for type_ in (c_type, d_type)]
    puts = d.writers(reading, reading.items(0))
    gets = [part.readers(reading, reading.items(n + 1)) for n, part in enumerate((a, b, c))]

    def run(batch: Batch, ix: Index) -> None:
        lanes = full_warps(batch, ix, reading)
        left, right, total = [part.read(batch, lanes, g) for part, g in zip((a, b, c), gets)]
        found = product(left, right, total, saturate)
        d.write(batch, lanes, puts, found)

    return warp_operation(reading, run)


# ---- fragments in memory


@control("ldmatrix")
def _ldmatrix(reading: Reading) -> Step:
    """ldmatrix.sync.aligned.m8n8.{x1, x2, x4}{.trans}.shared.b16 d, [a]: lane 8 * n + r gives row r of matrix n."""
    count, trans, access, address = _matrices(reading, 1, "load")
    into = reading.items(0)
    puts = [reading.into(one, B32) for one in into]
    if len(puts) != count:
        raise reading.refuse()

    def run(batch: Batch, ix: Index) -> None:
        warps = full_warps(batch, ix, reading)
        givers = warps[:, : 8 * count].ravel()
        rows = access.load(batch, givers, address(batch, givers)).view("u2").reshape(len(warps), count, 8, 8)
        if trans:
            rows = np.ascontiguousarray(rows.transpose(0, 1, 3, 2))
        words = rows.view("u4").reshape(len(warps), count, WARP)
        flat = warps.ravel()
        for n, put in enumerate(puts):
            put(batch, batch.narrowed(flat) if batch.everyone is None else flat, words[:, n].ravel().copy())

    return warp_operation(reading, run)


@control("stmatrix")
def _stmatrix(reading: Reading) -> Step:
    """stmatrix.sync.aligned.m8n8.{x1, x2, x4}{.trans}.shared.b16 [a], d"""
    count, trans, access, address = _matrices(reading, 0, "store")
    gets = [reading.value(one, B32) for one in reading.items(1)]
    if len(gets) != count:
        raise reading.refuse()

    def run(batch: Batch, ix: Index) -> None:
        warps = full_warps(batch, ix, reading)
        flat, givers = warps.ravel(), warps[:, : 8 * count].ravel()
        words = np.stack([each(get, batch, flat) for get in gets], axis=0)
        halves = np.ascontiguousarray(words.reshape(count, len(warps), WARP).transpose(1, 0, 2)).view("u2")
        rows = halves.reshape(len(warps), count, 8, 8)
        if trans:
            rows = rows.transpose(0, 1, 3, 2)
        bits = np.ascontiguousarray(rows).view("c16").ravel()
        access.store(batch, givers, address(batch, givers), bits)

    return warp_operation(reading, run)


def _matrices(reading: Reading, index: int, kind: str) -> tuple[int, bool, Access, Get]:
    reading.one("sync")
    reading.flag("aligned")
    reading.one("m8n8")
    count = int(reading.one("x1", "x2", "x4")[1:])
    trans = reading.flag("trans")
    space = space_of(reading)
    if reading.type().name != "b16":
        raise reading.refuse()
    known = reading.constant_address(index)
    space = known[0] if known is not None else "shared" if space == "shared" else "generic"
    access = Access(reading, space, kind, 16, collective=True)
    return count, trans, access, reading.address(index)


def _row_major(rows: int, columns: int, per_lane: int) -> Places:
    """Elements in their order over the lanes; where there is room for more, again from the first."""
    flat_index = (np.arange(WARP)[:, None] * per_lane + np.arange(per_lane)) % (rows * columns)
    return flat_index // columns, flat_index % columns


def _fragment(reading: Reading, which: str, shape: str, type_: Type, registers: int) -> Fragment:
    m, n, k = [int(v) for v in re.findall(r"\d+", shape)]
    rows, columns = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    per = max(1, 32 // type_.bits)
    if registers * per * WARP < rows * columns or registers * per * WARP % (rows * columns):
        raise reading.refuse("an unexpected number of registers")
    return Fragment(type_, _row_major(rows, columns, registers * per), (rows, columns))


@control("wmma")
def _wmma(reading: Reading) -> Step:
    """wmma.{load.a, load.b, load.c, store.d, mma}.sync.aligned..."""
    kind = reading.one("load", "store", "mma")
    if kind == "mma":
        return _wmma_mma(reading)
    which = reading.one("a", "b", "c", "d")
    reading.one("sync")
    reading.flag("aligned")
    layout = reading.one("row", "col")
    shape = _shape(reading)
    space = space_of(reading)
    type_ = reading.type()
    if type_.bits < 8:
        raise reading.refuse()
    registers, memory = (0, 1) if kind == "load" else (1, 0)
    fragment = _fragment(reading, which, shape, type_, len(reading.items(registers)))
    access = Access(reading, space, kind, type_.bytes, collective=True)
    address = reading.address(memory)
    stride = reading.value(2, U32) if len(reading.operands) > 2 else None
    default = fragment.shape[1] if layout == "row" else fragment.shape[0]
    rows, columns = fragment.coordinates
    raw = Type(type_.name, "b", type_.bits, UNSIGNED[type_.bytes])
    plain = Fragment(raw, fragment.coordinates, fragment.shape)
    gets = plain.readers(reading, reading.items(registers)) if kind == "store" else []
    puts = plain.writers(reading, reading.items(registers)) if kind == "load" else []

    def run(batch: Batch, ix: Index) -> None:
        warps = full_warps(batch, ix, reading)
        flat = warps.ravel()
        base = each(address, batch, flat).reshape(-1, WARP)[:, :1]
        step = each(stride, batch, flat).astype("i8").reshape(-1, WARP)[:, :1] if stride else default
        values = np.zeros(0)
        if kind == "store":
            values = np.stack([each(get, batch, flat) for get in gets], axis=1).view(raw.numpy)
        found = np.zeros((len(flat), rows.shape[1]), raw.numpy)
        for k in range(rows.shape[1]):
            first, second = (rows[:, k], columns[:, k]) if layout == "row" else (columns[:, k], rows[:, k])
            position = (base + (first * step + second) * type_.bytes).ravel()
            if kind == "load":
                found[:, k] = access.load(batch, flat, position)
            else:
                access.store(batch, flat, position, values[:, k])
        if kind == "load":
            packed = found.view(UNSIGNED[plain.word.bytes])
            for k, put in enumerate(puts):
                put(batch, flat, packed[:, k].copy())

    return warp_operation(reading, run)


def _shape(reading: Reading) -> str:
    found = next((w for w in reading.words if re.fullmatch(r"m\d+n\d+k\d+", w)), "")
    if not found:
        raise reading.refuse()
    reading.words.remove(found)
    return found


def _wmma_mma(reading: Reading) -> Step:
    """wmma.mma.sync.aligned.layouts.shape{.d.c or .d.a.b.c}{.satfinite}"""
    reading.one("sync")
    reading.flag("aligned")
    for _ in range(2):
        reading.one("row", "col")
    shape = _shape(reading)
    saturate = reading.flag("satfinite")
    types = [reading.type() for _ in [w for w in reading.words if w in TYPES]]
    if len(types) == 2:
        f16 = TYPES["f16"]
        types = [types[0], f16, f16, types[1]]
    if len(types) != 4 or types[1].bits < 8:
        raise reading.refuse()
    parts = [
        _fragment(reading, which, shape, type_, len(reading.items(n)))
        for n, (which, type_) in enumerate(zip(("d", "a", "b", "c"), types))
    ]
    puts = parts[0].writers(reading, reading.items(0))
    gets = [part.readers(reading, reading.items(n)) for n, part in enumerate(parts) if n]

    def run(batch: Batch, ix: Index) -> None:
        lanes = full_warps(batch, ix, reading)
        left, right, total = [part.read(batch, lanes, g) for part, g in zip(parts[1:], gets)]
        found = product(left, right, total, saturate)
        parts[0].write(batch, lanes, puts, found)

    return warp_operation(reading, run)
