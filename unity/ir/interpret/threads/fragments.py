"""Matrix units of a warp: ``wmma`` fragments. A fragment lies in its buffer as a row-major matrix, one copy per warp.

Sums are formed in double precision and rounded once to the accumulator's type; the hardware leaves their order open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ....support.source import Span
from ...build import dtype_of
from ...expr import Call, StringImm, Var
from ...types import PointerType, pointed
from ..common.arrays import Value, caster, rounded
from ..common.expressions import Closure
from ..common.intrinsics import short_name
from .expressions import ExprCompiler
from .findings import Site
from .intrinsics import register
from .lanes import WARP, Mask
from .memory import Address
from .operands import NOTHING, element_of, name_of
from .wave import Wave


def fragment_of(expr: Any, span: Span | None) -> tuple[Var, DataType, str]:
    """Pointer, element type and scope of a fragment operand."""
    ty, dtype = expr.ty, pointed(expr.ty)
    if not isinstance(expr, Var) or not isinstance(ty, PointerType) or dtype is None:
        raise InterpreterError("E372", "a fragment must be given as the data of its buffer", span)
    if ty.scope not in ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"):
        raise InterpreterError("E372", f"{expr.name} is not a fragment: its scope is {ty.scope!r}", span)
    return expr, dtype.element, ty.scope


def part_shape(scope: str, size: tuple[int, int, int]) -> tuple[int, int]:
    """Rows and columns of a fragment of a product of ``size`` (m, n, k)."""
    m, n, k = size
    return {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n), "wmma.accumulator": (m, n)}[scope]


@dataclass(slots=True)
class Fragment:
    """A fragment operand of a call: which buffer, which fragment of it."""

    wave: Wave
    data: Var
    dtype: DataType
    scope: str
    index: Closure
    span: Span | None
    site: Site

    def addresses(self, mask: Mask, shape: tuple[int, int], warps: np.ndarray) -> tuple[Address, np.ndarray]:
        """Addresses of the numbers (warps x rows x columns) for the first lanes of ``warps``."""
        target: Address = self.wave.env[self.data]
        count = shape[0] * shape[1]
        index = self.wave.rows(self.index(mask))[warps]
        start = self.wave.rows(target.offset)[warps]
        item = self.dtype.itemsize
        first = start + index * count * item
        limit = target.storage.limit
        wrong = (first < 0) | (first + count * item > limit)
        if wrong.any():
            text = f"fragment {int(index[wrong.argmax()])} of {target.storage.name} lies outside its memory"
            raise self.wave.failure("E372", text, self.span, int(warps[wrong.argmax()]))
        return target, first[:, None] + np.arange(count) * item

    def read(self, mask: Mask, shape: tuple[int, int], warps: np.ndarray) -> np.ndarray:
        """The matrices of the warps."""
        target, address = self.addresses(mask, shape, warps)
        self.wave.array = target.storage.flat(self.dtype, target.storage.name)
        lanes = np.repeat(warps, address.shape[1])
        found = self.wave.accesses.load(target.storage, address.ravel(), lanes, self.dtype, self.site)
        return found.reshape(len(warps), *shape)

    def write(self, mask: Mask, values: np.ndarray, warps: np.ndarray) -> None:
        """Store the matrices of the warps."""
        target, address = self.addresses(mask, values.shape[1:], warps)
        self.wave.array = target.storage.flat(self.dtype, target.storage.name)
        lanes = np.repeat(warps, address.shape[1])
        self.wave.accesses.store(target.storage, address.ravel(), lanes, values.ravel(), self.dtype, self.site, True)


def fragment(compiler: ExprCompiler, call: Call, position: int, index: int, kind: str) -> Fragment:
    """The fragment at argument ``place`` with its number at argument ``index``."""
    data, dtype, scope = fragment_of(call.args[position], call.span)
    site = compiler.wave.log.site(data.name, kind, scope, call.span)
    return Fragment(compiler.wave, data, dtype, scope, compiler.index(call.args[index]), call.span, site)


def full_warps(wave: Wave, mask: Mask, what: str, span: Span | None) -> np.ndarray:
    """First lanes of the warps that take part; a warp of which only some lanes do is reported."""
    rows = mask.lanes.reshape(-1, WARP)
    some = rows.any(axis=1)
    partly = some & ~rows.all(axis=1)
    if partly.any():
        warp = int(partly.argmax())
        wave.collective(what, warp * WARP + int(rows[warp].argmax()), None, span, int(partly.sum()))
    return np.flatnonzero(some) * WARP


def _size(call: Call) -> tuple[int, int, int]:
    values = [getattr(a, "value", None) for a in call.args[1:4]]
    if not all([isinstance(v, int) and v > 0 for v in values]):
        raise InterpreterError("E372", f"T.{short_name(call)}: m, n, k must be constants", call.span)
    return values[0], values[1], values[2]  # type: ignore[return-value]


@register("tvm_fill_fragment")
def _fill(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: fragment, m, n, k, index, value."""
    target = fragment(compiler, call, 0, 4, "store")
    size, value, wave = _size(call), compiler.visit(call.args[5]), compiler.wave
    shape = part_shape(target.scope, size)
    convert = caster(dtype_of(call.args[5]), target.dtype)

    def run(mask: Mask) -> Value:
        warps = full_warps(wave, mask, "T.tvm_fill_fragment", call.span)
        given = np.broadcast_to(np.asarray(convert(value(mask))), wave.batch.size)[warps]
        target.write(mask, np.broadcast_to(given[:, None, None], (len(warps), *shape)), warps)
        wave.env[target.data].storage.fragment = size
        return NOTHING

    return run


@register("tvm_load_matrix_sync", "tvm_store_matrix_sync")
def _move(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: fragment, m, n, k, index, address, stride, layout."""
    loads = short_name(call) == "tvm_load_matrix_sync"
    part = fragment(compiler, call, 0, 4, "store" if loads else "load")
    size, address, stride = _size(call), compiler.address(call.args[5], call), compiler.index(call.args[6])
    layout = call.args[7].value if type(call.args[7]) is StringImm else ""
    if layout not in ("row_major", "col_major"):
        raise InterpreterError("E372", f"T.{short_name(call)}: unknown layout {layout!r}", call.span)
    shape = part_shape(part.scope, size)
    dtype, name = element_of(call.args[5]), name_of(call.args[5])
    if dtype is None:
        raise InterpreterError("E372", f"T.{short_name(call)}: the address must say what it points to", call.span)
    if dtype is not part.dtype:
        text = f"T.{short_name(call)}: {dtype.name} behind the address, {part.dtype.name} in the fragment"
        raise InterpreterError("E372", text, call.span)
    wave = compiler.wave
    ty = call.args[5].ty
    scope = ty.scope if isinstance(ty, PointerType) else "global"
    site = wave.log.site(name, "load" if loads else "store", scope, call.span, collective=True)
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    item = dtype.itemsize

    def run(mask: Mask) -> Value:
        warps = full_warps(wave, mask, f"T.{short_name(call)}", call.span)
        if not len(warps):
            return NOTHING
        target: Address = address(mask)
        wave.env[part.data].storage.fragment = size
        start = wave.rows(target.offset)[warps]
        step = np.broadcast_to(np.asarray(stride(mask)), wave.batch.size)[warps]
        leading, other = (rows, columns) if layout == "row_major" else (columns, rows)
        addresses = start[:, None, None] + (leading * step[:, None, None] + other) * item
        where, good = target_memory(wave, target, addresses.reshape(len(warps), -1), dtype, name, site, warps)
        lanes = np.repeat(warps, where.shape[1])
        if loads:
            values = np.zeros(where.size, dtype.numpy)
            values[good] = wave.accesses.load(target.storage, where.ravel()[good], lanes[good], dtype, site)
            part.write(mask, values.reshape(len(warps), *shape), warps)
        else:
            values = part.read(mask, shape, warps).ravel()
            wave.array = target.storage.flat(dtype, name)
            wave.accesses.store(target.storage, where.ravel()[good], lanes[good], values[good], dtype, site, True)
        return NOTHING

    return run


def target_memory(
    wave: Wave, target: Address, addresses: np.ndarray, dtype: DataType, name: str, site: Site, warps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Byte addresses and the numbers of those inside the memory; the others are reported."""
    item, storage = dtype.itemsize, target.storage
    wave.array = storage.flat(dtype, name)
    inside = (addresses >= 0) & (addresses + item <= storage.limit)
    if not inside.all():
        row = int(np.argwhere(~inside)[0][0])
        wave.outside_memory(site, wave.array, warps[row : row + 1])
    return addresses, np.flatnonzero(inside)


@register("tvm_mma_sync")
def _mma(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: d, index, a, index, b, index, c, index: ``d = a @ b + c``."""
    d, a, b, c = [fragment(compiler, call, k, k + 1, "store" if k == 0 else "load") for k in (0, 2, 4, 6)]
    if (d.scope, a.scope, b.scope, c.scope) != (
        "wmma.accumulator", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator",
    ):  # fmt: skip
        raise InterpreterError("E372", "T.tvm_mma_sync takes accumulator, matrix_a, matrix_b, accumulator", call.span)
    wave = compiler.wave

    def run(mask: Mask) -> Value:
        warps = full_warps(wave, mask, "T.tvm_mma_sync", call.span)
        if not len(warps):
            return NOTHING
        size = wave.env[a.data].storage.fragment or wave.env[b.data].storage.fragment
        if size is None:
            text = f"fragment {a.data.name} is used before it was loaded or filled"
            raise wave.failure("E372", text, call.span, int(warps[0]))
        left = a.read(mask, part_shape(a.scope, size), warps)
        right = b.read(mask, part_shape(b.scope, size), warps)
        addend = c.read(mask, part_shape(c.scope, size), warps)
        d.write(mask, multiply_add(left, right, addend, d.dtype), warps)
        wave.env[d.data].storage.fragment = size
        return NOTHING

    return run


def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: DataType) -> np.ndarray:
    """Stacks of products plus an addend, in the type of the accumulator."""
    if dtype.is_float:
        total = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
        return np.asarray(rounded(total, dtype))
    found: np.ndarray = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(dtype.numpy)
    return found
