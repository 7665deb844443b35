"""Matrix units of a warp: ``wmma`` fragments. A fragment lies in its buffer as a row-major matrix, one copy per warp.

Sums are formed in double precision and rounded once to the accumulator's type; the hardware leaves their order open.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ....support.source import Span
from ...build import dtype_of
from ...expr import Call, StringImm, Var
from ...types import PointerType, pointed
from ..common.arrays import caster, rounded
from .expressions import ExprCompiler
from .intrinsics import Effect, instruction
from .lanes import WARP, Mask
from .memory import Storage
from .operands import Operand, element_of
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


class Fragment(Operand):
    """A fragment at an argument of a call: which buffer, and which fragment of it, the argument ``index``."""

    def __init__(self, compiler: ExprCompiler, call: Call, position: int, index: int, kind: str) -> None:
        data, dtype, self.scope = fragment_of(call.args[position], call.span)
        super().__init__(compiler, call, position, dtype, kind, self.scope, offset=False)
        self.data, self.index = data, compiler.index(call.args[index])

    def places(self, mask: Mask, shape: tuple[int, ...], warps: np.ndarray) -> tuple[Storage, np.ndarray, np.ndarray]:
        """The memory, and addresses of the numbers with their lanes, for the first lanes of ``warps``."""
        storage, start = self.start(mask)
        count, index = math.prod(shape), self.wave.rows(self.index(mask))[warps]
        size = count * self.dtype.itemsize
        first = start[warps] + index * size
        self.wave.refuse(
            (first < 0) | (first + size > storage.limit), warps, "E372", self.span,
            lambda at: f"fragment {index[at]} of {storage.name} lies outside its memory",
        )  # fmt: skip
        self.wave.array = storage.flat(self.dtype, storage.name)
        address = first[:, None] + np.arange(count) * self.dtype.itemsize
        return storage, address.ravel(), np.repeat(warps, count)

    def matrices(self, mask: Mask, size: tuple[int, int, int], warps: np.ndarray) -> np.ndarray:
        """The matrices of the warps in a product of ``size``."""
        shape = part_shape(self.scope, size)
        return self.load(*self.places(mask, shape, warps)).reshape(len(warps), *shape)

    def fill(self, mask: Mask, values: np.ndarray, size: tuple[int, int, int], warps: np.ndarray) -> None:
        """Store the matrices of the warps in a product of ``size``."""
        storage, address, lanes = self.places(mask, values.shape[1:], warps)
        self.store(storage, address, lanes, values.ravel())
        storage.fragment = size


def full_warps(wave: Wave, mask: Mask, call: Call) -> np.ndarray:
    """First lanes of the warps that take part; a warp of which only some lanes do is reported."""
    rows = mask.lanes.reshape(-1, WARP)
    some = rows.any(axis=1)
    partly = some & ~rows.all(axis=1)
    if partly.any():
        warp = int(partly.argmax())
        wave.collective(call.op_name, warp * WARP + int(rows[warp].argmax()), None, call.span, int(partly.sum()))
    return np.flatnonzero(some) * WARP


def _size(call: Call) -> tuple[int, int, int]:
    values = [getattr(a, "value", None) for a in call.args[1:4]]
    if not all([isinstance(v, int) and v > 0 for v in values]):
        raise InterpreterError("E372", f"{call.op_name}: m, n, k must be constants", call.span)
    return values[0], values[1], values[2]  # type: ignore[return-value]


@instruction("tvm_fill_fragment")
def _fill(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: fragment, m, n, k, index, value."""
    target = Fragment(compiler, call, 0, 4, "store")
    size, value, wave = _size(call), compiler.visit(call.args[5]), compiler.wave
    shape = part_shape(target.scope, size)
    convert = caster(dtype_of(call.args[5]), target.dtype)

    def run(mask: Mask) -> None:
        warps = full_warps(wave, mask, call)
        given = np.broadcast_to(np.asarray(convert(value(mask))), wave.batch.size)[warps]
        target.fill(mask, np.broadcast_to(given[:, None, None], (len(warps), *shape)), size, warps)

    return run


@instruction("tvm_load_matrix_sync", "tvm_store_matrix_sync")
def _move(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: fragment, m, n, k, index, address, stride, layout."""
    loads = call.op_name == "T.tvm_load_matrix_sync"
    part = Fragment(compiler, call, 0, 4, "store" if loads else "load")
    size, stride = _size(call), compiler.index(call.args[6])
    layout = call.args[7].value if type(call.args[7]) is StringImm else ""
    if layout not in ("row_major", "col_major"):
        raise InterpreterError("E372", f"{call.op_name}: unknown layout {layout!r}", call.span)
    shape, dtype = part_shape(part.scope, size), element_of(call.args[5])
    if dtype is None:
        raise InterpreterError("E372", f"{call.op_name}: the address must say what it points to", call.span)
    if dtype is not part.dtype:
        text = f"{call.op_name}: {dtype.name} behind the address, {part.dtype.name} in the fragment"
        raise InterpreterError("E372", text, call.span)
    wave, ty = compiler.wave, call.args[5].ty
    scope = ty.scope if isinstance(ty, PointerType) else "global"
    memory = Operand(compiler, call, 5, dtype, "load" if loads else "store", scope, collective=True, offset=False)
    rows, columns = np.indices(shape)
    leading, other = (rows, columns) if layout == "row_major" else (columns, rows)

    def run(mask: Mask) -> None:
        warps = full_warps(wave, mask, call)
        storage, start = memory.start(mask)
        step = np.broadcast_to(np.asarray(stride(mask)), wave.batch.size)[warps]
        addresses = start[warps][:, None, None] + (leading * step[:, None, None] + other) * dtype.itemsize
        array = wave.array = storage.flat(dtype, memory.name)
        inside = (addresses >= 0) & (addresses + dtype.itemsize <= storage.limit)
        if not inside.all():
            row = int(np.argwhere(~inside)[0][0])
            wave.outside_memory(memory.site, array, warps[row : row + 1])
        lanes = np.broadcast_to(warps[:, None, None], inside.shape)[inside]
        if loads:
            values = np.zeros(inside.shape, dtype.numpy)
            values[inside] = memory.load(storage, addresses[inside], lanes)
            part.fill(mask, values, size, warps)
        else:
            values = part.matrices(mask, size, warps)
            wave.array = array
            memory.store(storage, addresses[inside], lanes, values[inside])
            wave.env[part.data].storage.fragment = size

    return run


@instruction("tvm_mma_sync")
def _mma(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: d, index, a, index, b, index, c, index: ``d = a @ b + c``."""
    d, a, b, c = [Fragment(compiler, call, k, k + 1, "store" if k == 0 else "load") for k in (0, 2, 4, 6)]
    if (d.scope, a.scope, b.scope, c.scope) != (
        "wmma.accumulator", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator",
    ):  # fmt: skip
        raise InterpreterError("E372", "T.tvm_mma_sync takes accumulator, matrix_a, matrix_b, accumulator", call.span)
    wave = compiler.wave

    def run(mask: Mask) -> None:
        warps = full_warps(wave, mask, call)
        size = wave.env[a.data].storage.fragment or wave.env[b.data].storage.fragment
        if size is None:
            text = f"fragment {a.data.name} is used before it was loaded or filled"
            raise wave.failure("E372", text, call.span, int(warps[0]))
        left, right, addend = [part.matrices(mask, size, warps) for part in (a, b, c)]
        d.fill(mask, multiply_add(left, right, addend, d.dtype), size, warps)

    return run


def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: DataType) -> np.ndarray:
    """Stacks of products plus an addend, in the type of the accumulator."""
    if dtype.is_float:
        total = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
        return np.asarray(rounded(total, dtype))
    found: np.ndarray = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(dtype.numpy)
    return found
