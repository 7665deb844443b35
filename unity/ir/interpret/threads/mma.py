"""Matrix instructions on registers (``mma.sync``, ``ldmatrix``) and asynchronous copies (``cp.async``).

Which lane holds which element follows the PTX ISA 8.x, section "Warp Level Matrix Multiply-Accumulate": group = lane / 4, member =
lane % 4. A copy's data arrive when its group is waited for; until then the destination counts as unwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ....support.source import Span
from ...expr import Call, Op, StringImm, Var
from ...types import PointerType, PrimType
from ..common.arrays import Value
from ..common.expressions import Closure
from .expressions import ExprCompiler
from .findings import Site
from .fragments import multiply_add, whole_warps
from .groups import Copies
from .intrinsics import register
from .lanes import WARP, Mask
from .memory import Address, Storage
from .wave import Wave

GROUP, MEMBER = np.arange(WARP) // 4, np.arange(WARP) % 4
PTX_TYPES = {
    "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "int8": "int8", "uint8": "uint8", "int32": "int32",
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32",
}  # fmt: skip
Places = tuple[np.ndarray, np.ndarray]
"""Row and column of each element: lanes x registers."""


def _halves(count: int, width: int, k: int) -> tuple[Places, Places]:
    """Elements of A and B whose runs of ``width`` neighbours along k lie in one lane."""
    i = np.arange(count)
    run = i // width
    row = GROUP[:, None] + 8 * (run % 2)
    column = MEMBER[:, None] * width + i % width + (run // 2) * 4 * width
    j = np.arange(count // 2)
    depth = MEMBER[:, None] * width + j % width + (j // width) * 4 * width
    return (row, column), (depth, np.broadcast_to(GROUP[:, None], depth.shape))


LAYOUTS: dict[tuple[str, int], tuple[Places, Places]] = {
    ("m16n8k8", 32): _halves(4, 1, 8),
    ("m16n8k8", 16): _halves(4, 2, 8), ("m16n8k16", 16): _halves(8, 2, 16), ("m16n8k16", 8): _halves(8, 4, 16),
    ("m16n8k32", 8): _halves(16, 4, 32),
}  # fmt: skip
"""Places of A and B by shape and bits of their elements."""
_I = np.arange(4)
ACCUMULATOR: Places = (GROUP[:, None] + 8 * (_I // 2), MEMBER[:, None] * 2 + _I % 2)


class Registers:
    """An operand in the registers of the lanes: a pointer into local memory and an offset in elements."""

    def __init__(self, compiler: ExprCompiler, call: Call, place: int, dtype: DataType, kind: str) -> None:
        self.wave, self.dtype, self.span = compiler.wave, dtype, call.span
        self.address, self.offset = compiler.address(call.args[place], call), compiler.index(call.args[place + 1])
        self.name = str(getattr(call.args[place], "name", "registers"))
        self.site = self.wave.log.site(self.name, kind, "local", call.span)

    def places(self, mask: Mask, count: int, lanes: np.ndarray) -> tuple[Storage, np.ndarray]:
        """Byte addresses of ``count`` elements in each lane."""
        target: Address = self.address(mask)
        start = target.offset + self.offset(mask) * self.dtype.itemsize
        first = np.broadcast_to(np.asarray(start, np.int64), self.wave.batch.size)[lanes]
        places = first[:, None] + np.arange(count) * self.dtype.itemsize
        return target.storage, checked(self.wave, target.storage, places, lanes, self.dtype, self.name, self.span)

    def read(self, mask: Mask, count: int, lanes: np.ndarray) -> np.ndarray:
        """``count`` elements of each lane."""
        storage, places = self.places(mask, count, lanes)
        found = self.wave.accesses.load(storage, places.ravel(), np.repeat(lanes, count), self.dtype, self.site)
        return found.reshape(-1, WARP, count)

    def write(self, mask: Mask, values: np.ndarray, lanes: np.ndarray) -> None:
        """Store the elements of each lane (warps x lanes x elements)."""
        count = values.shape[-1]
        storage, places = self.places(mask, count, lanes)
        self.wave.accesses.store(
            storage, places.ravel(), np.repeat(lanes, count), values.ravel(), self.dtype, self.site, True
        )


def checked(
    wave: Wave, storage: Storage, places: np.ndarray, lanes: np.ndarray, dtype: DataType, name: str, span: Span | None
) -> np.ndarray:
    """Byte addresses (lanes first) that must lie inside a memory. Raises InterpreterError E310."""
    wrong = (places < 0) | (places + dtype.itemsize > storage.limit) | (places % dtype.itemsize != 0)
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise wave.failure("E310", f"{name} reaches outside its memory of {storage.limit} bytes", span, int(lanes[row]))
    wave.array = storage.flat(dtype, name)
    return places


def _text(call: Call, place: int) -> str:
    arg = call.args[place]
    return arg.value if type(arg) is StringImm else ""


def _type(call: Call, place: int) -> DataType:
    name = PTX_TYPES.get(_text(call, place))
    if name is None:
        raise InterpreterError("E369", f"T.ptx_mma of type {_text(call, place)!r}", call.span)
    return DataType(name)


@register("ptx_mma")
def _mma(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: shape, layouts of A and B, types of A, B, C, then pointer and offset of A, B, C, saturate."""
    shape, wave = _text(call, 0), compiler.wave
    a_type, b_type, c_type = _type(call, 3), _type(call, 4), _type(call, 5)
    layout = LAYOUTS.get((shape, a_type.bits))
    if layout is None or a_type.bits != b_type.bits or (_text(call, 1), _text(call, 2)) != ("row", "col"):
        text = f"T.ptx_mma {shape} of {a_type.name}, {_text(call, 1)} by {_text(call, 2)}"
        raise InterpreterError("E369", text, call.span)
    if getattr(call.args[12], "value", 0):
        raise InterpreterError("E369", "T.ptx_mma with saturation", call.span)
    a = Registers(compiler, call, 6, a_type, "load")
    b = Registers(compiler, call, 8, b_type, "load")
    c = Registers(compiler, call, 10, c_type, "load")
    d = Registers(compiler, call, 10, c_type, "store")
    k = int(shape.rpartition("k")[2])
    (a_row, a_column), (b_row, b_column) = layout
    c_row, c_column = ACCUMULATOR

    def run(mask: Mask) -> Value:
        warps = whole_warps(wave, mask, "T.ptx_mma", call.span)
        if not len(warps):
            return np.zeros((), c_type.numpy)[()]
        lanes = (warps[:, None] + np.arange(WARP)).ravel()
        left = np.zeros((len(warps), 16, k), a_type.numpy)
        right = np.zeros((len(warps), k, 8), b_type.numpy)
        total = np.zeros((len(warps), 16, 8), c_type.numpy)
        left[:, a_row, a_column] = a.read(mask, a_row.shape[1], lanes)
        right[:, b_row, b_column] = b.read(mask, b_row.shape[1], lanes)
        total[:, c_row, c_column] = c.read(mask, 4, lanes)
        d.write(mask, multiply_add(left, right, total, c_type)[:, c_row, c_column], lanes)
        return np.zeros((), c_type.numpy)[()]

    return run


def _pointed(expr: Any, fallback: DataType) -> DataType:
    """Element type behind an address."""
    if type(expr) is Call and type(expr.op) is Op and expr.op.name == "T.tvm_access_ptr":
        ty = expr.args[0].ty
        return ty.dtype.element if isinstance(ty, PrimType) else fallback
    if isinstance(expr, Var) and isinstance(expr.ty, PointerType) and isinstance(expr.ty.element, PrimType):
        return expr.ty.element.dtype.element
    return fallback


def name_of(expr: Any) -> str:
    """The name of the memory behind an address, for messages."""
    if type(expr) is Call and len(expr.args) > 1:
        return str(getattr(expr.args[1], "name", "memory"))
    return str(getattr(expr, "name", "memory"))


@register("ptx_ldmatrix")
def _ldmatrix(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: trans, number of 8x8 matrices, ".b16", local pointer and offset, shared pointer and offset of the lane's row."""
    trans, number = getattr(call.args[0], "value", None), getattr(call.args[1], "value", None)
    if number not in (1, 2, 4) or _text(call, 2) != ".b16" or trans is None or not isinstance(call.ty, PrimType):
        raise InterpreterError("E369", "T.ptx_ldmatrix takes 1, 2 or 4 matrices of .b16", call.span)
    wave, dtype = compiler.wave, call.ty.dtype.element
    each = 4 // dtype.itemsize
    if not each or (trans and each != 2):
        raise InterpreterError("E369", f"T.ptx_ldmatrix of {dtype.name}{' transposed' if trans else ''}", call.span)
    target = Registers(compiler, call, 3, dtype, "store")
    address, offset = compiler.address(call.args[5], call), compiler.index(call.args[6])
    name = name_of(call.args[5])
    site = wave.log.site(name, "load", "shared", call.span)
    wide = 4 * each
    row = np.broadcast_to(GROUP[:, None], (WARP, each))
    column = MEMBER[:, None] * each + np.arange(each)
    if trans:
        row, column = column, row

    def run(mask: Mask) -> Value:
        warps = whole_warps(wave, mask, "T.ptx_ldmatrix", call.span)
        if not len(warps):
            return np.zeros((), dtype.numpy)[()]
        source: Address = address(mask)
        givers = (warps[:, None] + np.arange(8 * number)).ravel()
        start = np.broadcast_to(np.asarray(source.offset + offset(mask) * dtype.itemsize, np.int64), wave.batch.size)
        crooked = givers[start[givers] % 16 != 0]
        places = start[givers][:, None] + np.arange(wide) * dtype.itemsize
        checked(wave, source.storage, places, givers, dtype, name, call.span)
        if crooked.size and wave.array is not None:
            wave.misaligned(site, wave.array, crooked, 16)
        giving = np.zeros(wave.batch.size, np.bool_)
        giving[givers] = True
        wave.count(site, source.storage, start, Mask(giving), 16)
        rows = wave.accesses.load(source.storage, places.ravel(), np.repeat(givers, wide), dtype, site)
        matrices = rows.reshape(len(warps), number, 8, wide)
        found = matrices[:, :, row, column]  # warps x matrices x lanes x elements
        lanes = (warps[:, None] + np.arange(WARP)).ravel()
        target.write(mask, found.transpose(0, 2, 1, 3).reshape(len(warps), WARP, -1), lanes)
        return np.zeros((), dtype.numpy)[()]

    return run


# ---- asynchronous copies


def copies_of(wave: Wave) -> Copies:
    """The copies of the running batch."""
    return wave.record(Copies, wave.batch.size)


@register("ptx_cp_async")
def _cp_async(compiler: ExprCompiler, call: Call) -> Closure:
    """Arguments: shared pointer and offset, global pointer and offset (in elements), bytes, and optionally a condition."""
    to, to_offset = compiler.address(call.args[0], call), compiler.index(call.args[1])
    source, source_offset = compiler.address(call.args[2], call), compiler.index(call.args[3])
    size = getattr(call.args[4], "value", None)
    if size not in (4, 8, 16):
        raise InterpreterError("E372", "T.ptx_cp_async copies 4, 8 or 16 bytes", call.span)
    condition = compiler.visit(call.args[5]) if len(call.args) > 5 else None
    wave, span = compiler.wave, call.span
    fallback = call.ty.dtype.element if isinstance(call.ty, PrimType) else DataType("uint8")
    to_type, source_type = _pointed(call.args[0], fallback), _pointed(call.args[2], fallback)
    if to_type.itemsize != source_type.itemsize:
        raise InterpreterError("E372", f"T.ptx_cp_async from {source_type.name} to {to_type.name}", span)
    names = name_of(call.args[2]), name_of(call.args[0])
    reading: Site = wave.log.site(names[0], "load", "global", span)
    writing: Site = wave.log.site(names[1], "store", "shared", span)
    count, item = size // to_type.itemsize, to_type.itemsize

    def places(address: Address, offset: Value, lanes: np.ndarray, name: str, site: Site, mask: Mask) -> np.ndarray:
        start = np.broadcast_to(np.asarray(address.offset + offset * item, np.int64), wave.batch.size)
        found: np.ndarray = start[lanes][:, None] + np.arange(count) * item
        checked(wave, address.storage, found, lanes, to_type, name, span)
        crooked = lanes[start[lanes] % size != 0]
        if crooked.size and wave.array is not None:
            wave.misaligned(site, wave.array, crooked, size)
        wave.count(site, address.storage, start, mask, size)
        return found

    def run(mask: Mask) -> Value:
        where = mask.where(condition(mask)) if condition is not None else mask
        lanes = mask.index
        target: Address = to(mask)
        destination = places(target, to_offset(mask), lanes, names[1], writing, mask)
        values = np.zeros((wave.batch.size, count), to_type.numpy)  # where the condition fails, zeros arrive
        if where.count:
            origin: Address = source(where)
            begin = places(origin, source_offset(where), where.index, names[0], reading, where)
            found = wave.accesses.load(origin.storage, begin.ravel(), np.repeat(where.index, count), to_type, reading)
            values[where.index] = found.reshape(-1, count)

        def store(some: np.ndarray, arrived: bool) -> None:
            everyone, arriving = np.repeat(lanes[some], count), values[lanes[some]].ravel()
            checked(wave, target.storage, destination, lanes, to_type, names[1], span)
            wave.accesses.store(
                target.storage, destination[some].ravel(), everyone, arriving, to_type, writing, arrived
            )

        store(np.ones(len(lanes), np.bool_), False)
        copies_of(wave).begin(lanes, lambda due: store(due, True))
        return np.zeros((), to_type.numpy)[()]

    return run


@register("ptx_commit_group")
def _commit(compiler: ExprCompiler, call: Call) -> Closure:
    def run(mask: Mask) -> Value:
        copies_of(compiler.wave).commit(mask.index)
        return np.int32(0)

    return run


@register("ptx_wait_group")
def _wait(compiler: ExprCompiler, call: Call) -> Closure:
    left = getattr(call.args[0], "value", None)
    if not isinstance(left, int) or left < 0:
        raise InterpreterError("E372", "T.ptx_wait_group takes a constant number of groups", call.span)

    def run(mask: Mask) -> Value:
        copies_of(compiler.wave).wait(mask, left)
        return np.int32(0)

    return run
