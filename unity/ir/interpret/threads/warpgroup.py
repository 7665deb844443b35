"""Products of a warpgroup (wgmma) whose factors lie in shared memory as bulk copies with a swizzle put them.

A product reads its factors when it is begun and may still when its group is waited for; until then its sums count as undefined, but
for products that add to them. Source: the PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ...analysis.asynchronous import warpgroup_product
from ...expr import Call
from .barriers import fenced, still_read, swizzled
from .expressions import ExprCompiler
from .fragments import full_warps, multiply_add
from .intrinsics import Done, Effect, Products, group_calls, instruction
from .lanes import WARP, Mask
from .mma import matrix_places
from .operands import Operand
from .wave import Wave

GROUP_WARPS = 4


def _groups(wave: Wave, mask: Mask, call: Call) -> np.ndarray:
    """First lanes of the warps that take part, which are whole groups of four."""
    warps = full_warps(wave, mask, call)
    group = wave.batch.block[warps] * 8 + wave.batch.thread[warps] // (GROUP_WARPS * WARP)
    _, index, count = np.unique(group, return_index=True, return_counts=True)
    some = count != GROUP_WARPS
    if some.any():
        wave.collective(call.op_name, int(warps[index[some][0]]), None, call.span, int(some.sum()))
    return warps


class _Tile(Operand):
    """A factor in shared memory: rows of ``swizzle`` bytes from the place of a pointer on."""

    def __init__(
        self, compiler: ExprCompiler, call: Call, index: int, dtype: DataType, swizzle: int, cells: np.ndarray
    ) -> None:
        """``cells``: bytes' numbers from the start of the tile."""
        super().__init__(compiler, call, index, dtype, "load", "shared", collective=True)
        self.swizzle, self.steps = swizzle, cells

    def factor(self, mask: Mask, warps: np.ndarray, behind: np.ndarray) -> tuple[np.ndarray, Done]:
        """The elements of each warp, so many bytes behind the start, and what tells that they may still be read."""
        wave, (storage, every) = self.wave, self.start(mask)
        start = every[warps]
        misaligned = warps[(start // self.swizzle * self.swizzle) % (8 * self.swizzle) != 0]
        if misaligned.size:
            wave.misaligned(self.site, storage.flat(self.dtype, self.name), misaligned, 8 * self.swizzle)
        addresses = swizzled((start + behind).reshape(-1, 1, 1) + self.steps, self.swizzle)
        lanes = np.repeat(warps, self.steps.size)
        flat = self.checked(storage, addresses.reshape(len(warps), -1), warps).ravel()
        values = self.load(storage, flat, lanes).reshape(addresses.shape)
        cells = self.cells(storage, flat, lanes)
        fenced(wave, storage, cells, lanes, self.site, "a product")
        return values, lambda due: still_read(wave, storage, cells, lanes, self.site, warps[due])


@instruction("ptx_wgmma")
def _product(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: see ``warpgroup_product``."""
    form, wave = warpgroup_product(call), compiler.wave
    if isinstance(form, str):
        raise InterpreterError("E372", f"{call.op_name}: {form}", call.span)
    item, depth, width = form.operand.itemsize, form.depth, form.swizzle
    k = np.arange(depth)
    column = np.arange(form.columns)
    wide = width // item
    b_cells = column * width + k[:, None] * item
    if form.b_transposed:
        b_cells = k[:, None] * width + (column // wide * form.pitch + column % wide) * item
    b = _Tile(compiler, call, 8, form.operand, width, b_cells)
    next_row, next_step = (item, width) if form.a_transposed else (width, item)
    a_cells = np.arange(16)[:, None] * next_row + k * next_step
    a = _Tile(compiler, call, 6, form.operand, width, a_cells) if not form.a_in_registers else None
    registers = Operand(compiler, call, 6, form.operand, "load") if form.a_in_registers else None
    a_row, a_column = matrix_places(16, depth, 8 * item)
    d = Operand(compiler, call, 10, form.total, "store")
    before = Operand(compiler, call, 10, form.total, "load")
    d_row, d_column = matrix_places(16, form.columns, 16)
    count = form.columns // 2
    adds = compiler.visit(call.args[13])

    def run(mask: Mask) -> None:
        warps = _groups(wave, mask, call)
        lanes = (warps[:, None] + np.arange(WARP)).ravel()
        notes = []
        if a is not None:
            rows = wave.batch.thread[warps] // WARP % GROUP_WARPS * 16
            left, note = a.factor(mask, warps, rows * next_row)
            notes.append(note)
        else:
            assert registers is not None
            left = np.zeros((len(warps), 16, depth), form.operand.numpy)
            left[:, a_row, a_column] = registers.read(mask, a_row.shape[1], lanes)
        right, note = b.factor(mask, warps, np.zeros(1, np.int64))
        notes.append(note)
        total = np.zeros((len(warps), 16, form.columns), form.total.numpy)
        products = wave.record(Products, wave.batch.size)
        storage, addresses = d.addresses(mask, count, lanes)
        keys = [(id(storage), int(warp)) for warp in warps]
        kept = wave.rows(adds(mask), np.bool_)[warps]
        if kept.any():
            if all([key in products.sums for key in keys]):
                at = storage.element_indices(addresses.ravel(), form.total.itemsize, np.repeat(lanes, count))
                old = storage.typed(form.total)[at].reshape(len(warps), WARP, -1)
            else:
                old = before.read(mask, count, lanes)
            total[:, d_row, d_column] = np.where(kept[:, None, None], old, 0)
        made = multiply_add(left, right, total, form.total)[:, d_row, d_column]
        values, owners = made.reshape(-1), np.repeat(lanes, count)
        d.store(storage, addresses.ravel(), owners, values, False)
        cells = d.cells(storage, addresses.ravel(), owners)
        for key in keys:
            products.sums[key] = products.sums.get(key, 0) + 1

        def done(due: np.ndarray) -> None:
            for note in notes:
                note(due)
            ended = [key for key, one in zip(keys, due) if one]
            for key in ended:
                products.sums[key] -= 1
            whole = [key for key in ended if not products.sums[key]]
            for key in whole:
                del products.sums[key]
            assert storage.written is not None
            first = np.array([warp for _, warp in whole], np.int64)
            storage.written[cells[np.isin(owners // WARP * WARP, first)]] = True

        products.begin(warps, done)

    return run


group_calls("ptx_wgmma", Products, _groups)


@instruction("ptx_wgmma_fence", "ptx_setmaxnreg")
def _no_op(compiler: ExprCompiler, call: Call) -> Effect:
    """Instructions of a warpgroup that change no value."""
    return lambda mask: _groups(compiler.wave, mask, call)
