"""wgmma: products of a warpgroup whose factors lie in shared memory, by descriptors, or in registers.

Each warp computes its 16 rows of the 64 by itself. Results are there at once: a missing ``wgmma.wait_group`` is not seen.
Source: the PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from __future__ import annotations

import re

import numpy as np

from ....ir.interpret.threads.barriers import swizzled
from ....ir.interpret.threads.lanes import WARP
from ....ir.interpret.threads.mma import matrix_places
from ..machine.batch import Batch, Index
from ..machine.findings import ILLEGAL_ADDRESS, LAUNCH_FAILED, finding
from ..machine.reading import Get, Reading, each
from ..machine.rounding import decode
from ..ptx.program import Number, Vector
from ..ptx.types import TYPES, UNSIGNED, Type
from .flow import warp_operation
from .matrix import Fragment, full_warps, product
from .table import Step, control

Rows = np.ndarray
B64 = TYPES["b64"]
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
ATOMS = {0: 16, 1: 128, 2: 64, 3: 32}
"""Bytes of a row of the swizzle by the upper bits of a descriptor; 16 where there is none."""


def tile_offsets(descriptor: Rows, rows: int, depth: int, item: int, transposed: bool) -> Rows:
    """Bytes' numbers of the elements (warps x rows x depth) that descriptors name."""
    fields = [descriptor >> np.uint64(low) & np.uint64(0x3FFF) for low in (0, 16, 32)]
    start, leading, stride = [field.astype(np.int64)[:, None, None] << np.int64(4) for field in fields]
    mode = int(descriptor[0] >> np.uint64(62))
    atom = ATOMS[mode]
    r, k = np.arange(rows)[:, None], np.arange(depth)[None]
    if transposed:
        per = atom // item
        if mode:
            offsets = start + r // per * leading + k // 8 * stride + (k % 8 * atom + r % per * item)
        else:
            offsets = start + r // per * stride + k // 8 * leading + (k % 8 * atom + r % per * item)
    elif mode:
        offsets = start + r // 8 * stride + (r % 8 * atom + k * item)
    else:
        offsets = start + r // 8 * stride + k * item // 16 * leading + (r % 8 * 16 + k * item % 16)
    return swizzled(offsets, atom if mode else 0)


def _tile(
    reading: Reading, batch: Batch, warps: Rows, descriptors: Rows, rows: int, first: Rows, depth: int, type_: Type,
    transposed: bool,
) -> Rows:  # fmt: skip
    """A factor out of shared memory: rows ``first`` to ``first + rows`` of each warp."""
    if len(np.unique(descriptors >> np.uint64(62))) > 1:
        raise reading.refuse("descriptors of several swizzles")
    most = rows + int(first.max())
    offsets = tile_offsets(descriptors, most, depth, type_.bytes, transposed)
    offsets = np.take_along_axis(offsets, (first[:, None] + np.arange(rows))[:, :, None], axis=1)
    if (offsets < 0).any() or (offsets + type_.bytes > batch.shared_limit).any():
        text = f"a descriptor that reaches beyond the {batch.shared_limit} bytes of shared memory"
        raise reading.fault(batch, ILLEGAL_ADDRESS, "bounds", text)
    at = (offsets + batch.shared_base[warps[:, 0]][:, None, None]) // type_.bytes
    bad = batch.shared_flags[type_.bytes][at] != np.full(type_.bytes, 1, "u1").view(UNSIGNED[type_.bytes])[0]
    if bad.any():
        key = ("uninitialised", reading.instruction)
        if not batch.launch.log.known(key, int(bad.sum())):
            text = "a factor in shared memory is read before anything was stored there"
            batch.launch.log.add(key, finding(batch, "uninitialised", text, reading.instruction.span), int(bad.sum()))
    raw = batch.shared_views[type_.bytes][at]
    if type_.kind != "f":
        integers: Rows = raw.view(type_.numpy).astype(np.int64)
        return integers
    return decode(raw if type_.name in ("bf16", "e4m3", "e5m2") else raw.view(type_.numpy), type_.name)


def _uniform(reading: Reading, batch: Batch, warps: Rows, get: Get) -> Rows:
    """A descriptor of each warp."""
    values = np.broadcast_to(get(batch, warps.ravel()), warps.size).reshape(-1, WARP)
    if (values != values[:, :1]).any():
        text = "descriptors that differ between the lanes of a warp"
        raise reading.fault(batch, LAUNCH_FAILED, "collective", text)
    return values[:, 0].copy()


@control("wgmma")
def _wgmma(reading: Reading) -> Step:
    """wgmma.mma_async.sync.aligned.m64nNkK.d.a.b d, a, b, scale-d, scale-a, scale-b{, transpose-a, transpose-b}"""
    what = reading.one("mma_async", "fence", "commit_group", "wait_group")
    if reading.flag("sp"):
        raise reading.refuse()
    reading.one("sync")
    reading.flag("aligned")
    if what != "mma_async":
        return warp_operation(reading, lambda batch, ix: None)
    shape = next((w for w in reading.words if re.fullmatch(r"m64n\d+k\d+", w)), "")
    if not shape:
        raise reading.refuse()
    reading.words.remove(shape)
    n, depth = [int(v) for v in re.findall(r"\d+", shape)[1:]]
    saturate = reading.flag("satfinite")
    d_type, a_type, b_type = reading.type(), reading.type(), reading.type()
    if DEPTHS.get(a_type.name) != depth or a_type.bits != b_type.bits or n % 8 or not 8 <= n <= 256:
        raise reading.refuse()
    numbers = [reading.integer(k) for k in range(4, len(reading.operands))]
    signs, trans = numbers[:2] or [1, 1], numbers[2:]
    held = isinstance(reading.operands[1], Vector)
    trans_a, trans_b = (0, trans[0] if trans else 0) if held else (trans[0], trans[1]) if len(trans) == 2 else (0, 0)
    total = Fragment(d_type, matrix_places(16, n, 16), (16, n))
    puts, olds = total.writers(reading, reading.items(0)), total.readers(reading, reading.items(0))
    left = Fragment(a_type, matrix_places(16, depth, a_type.bits), (16, depth))
    a_registers = left.readers(reading, reading.items(1)) if held else []
    a_descriptor = None if held else reading.value(1, B64)
    b_descriptor = reading.value(2, B64)
    keeps = reading.operands[3]
    scale = None if isinstance(keeps, Number) and keeps.value else reading.predicate(3)

    def run(batch: Batch, ix: Index) -> None:
        warps = full_warps(batch, ix, reading)
        flat = warps.ravel()
        first = (warps[:, 0] % batch.padded) // WARP % 4 * 16
        zero = np.zeros(len(warps), np.int64)
        if a_descriptor is None:
            a = left.read(batch, warps, a_registers)
        else:
            descriptors = _uniform(reading, batch, warps, a_descriptor)
            a = _tile(reading, batch, warps, descriptors, 16, first, depth, a_type, bool(trans_a))
        b = _tile(
            reading, batch, warps, _uniform(reading, batch, warps, b_descriptor), n, zero, depth, b_type, bool(trans_b)
        )
        c = total.read(batch, warps, olds)
        if scale is not None:
            kept = each(scale, batch, flat).reshape(-1, WARP)[:, 0]
            c = np.where(kept[:, None, None], c, 0)
        if signs[0] * signs[1] < 0:
            a = -a
        total.write(batch, warps, puts, product(a, b.transpose(0, 2, 1), c, saturate))

    return warp_operation(reading, run)
