"""Matrix instructions on registers (``mma.sync``, ``ldmatrix``) and asynchronous copies (``cp.async``).

Which lane holds which element follows the PTX ISA 8.x, section "Warp Level Matrix Multiply-Accumulate": group = lane / 4, member =
lane % 4. A copy's data arrive when its group is waited for; until then the destination counts as unwritten.
"""

from __future__ import annotations

import numpy as np

from ....ffi.dtype import DataType
from ....support.errors import InterpreterError
from ...expr import Call, StringImm
from ...types import PrimType
from .expressions import ExprCompiler
from .fragments import full_warps, multiply_add
from .intrinsics import Copies, Effect, group_calls, instruction
from .lanes import WARP, Mask
from .memory import Storage
from .operands import Operand, element_of
from .wave import Wave

GROUP, MEMBER = np.arange(WARP) // 4, np.arange(WARP) % 4
PTX_TYPES = {
    "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "int8": "int8", "uint8": "uint8", "int32": "int32",
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32",
}  # fmt: skip
Places = tuple[np.ndarray, np.ndarray]
"""Row and column of each element: lanes x registers."""


def matrix_places(rows: int, columns: int, bits: int) -> Places:
    """Elements of A: neighbours along its columns that fill a word lie in one lane. B lies as A does where its columns are rows; C
    and D as a matrix of 16 bits."""
    run = max(1, 32 // bits)
    i = np.arange(rows * columns // WARP)
    row = GROUP[:, None] + 8 * (i // run % (rows // 8))
    column = MEMBER[:, None] * run + i % run + i // run // (rows // 8) * 4 * run
    return np.broadcast_arrays(row, column)  # type: ignore[return-value]


FORMS = {("m16n8k8", 32), ("m16n8k8", 16), ("m16n8k16", 16), ("m16n8k16", 8), ("m16n8k32", 8)}
"""Shapes, and bits of the elements of A and B."""


def _text(call: Call, index: int) -> str:
    arg = call.args[index]
    return arg.value if type(arg) is StringImm else ""


def _type(call: Call, index: int) -> DataType:
    name = PTX_TYPES.get(_text(call, index))
    if name is None:
        raise InterpreterError("E369", f"T.ptx_mma of type {_text(call, index)!r}", call.span)
    return DataType(name)


@instruction("ptx_mma")
def _mma(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: shape, layouts of A and B, types of A, B, C, then pointer and offset of A, B, C, saturate."""
    shape, wave = _text(call, 0), compiler.wave
    a_type, b_type, c_type = _type(call, 3), _type(call, 4), _type(call, 5)
    if (
        (shape, a_type.bits) not in FORMS
        or a_type.bits != b_type.bits
        or (_text(call, 1), _text(call, 2)) != ("row", "col")
    ):
        text = f"T.ptx_mma {shape} of {a_type.name}, {_text(call, 1)} by {_text(call, 2)}"
        raise InterpreterError("E369", text, call.span)
    if getattr(call.args[12], "value", 0):
        raise InterpreterError("E369", "T.ptx_mma with saturation", call.span)
    a = Operand(compiler, call, 6, a_type, "load")
    b = Operand(compiler, call, 8, b_type, "load")
    c = Operand(compiler, call, 10, c_type, "load")
    d = Operand(compiler, call, 10, c_type, "store")
    k = int(shape.rpartition("k")[2])
    a_row, a_column = matrix_places(16, k, a_type.bits)
    b_column, b_row = matrix_places(8, k, b_type.bits)
    c_row, c_column = matrix_places(16, 8, 16)

    def run(mask: Mask) -> None:
        warps = full_warps(wave, mask, call)
        lanes = (warps[:, None] + np.arange(WARP)).ravel()
        left = np.zeros((len(warps), 16, k), a_type.numpy)
        right = np.zeros((len(warps), k, 8), b_type.numpy)
        total = np.zeros((len(warps), 16, 8), c_type.numpy)
        left[:, a_row, a_column] = a.read(mask, a_row.shape[1], lanes)
        right[:, b_row, b_column] = b.read(mask, b_row.shape[1], lanes)
        total[:, c_row, c_column] = c.read(mask, 4, lanes)
        d.write(mask, multiply_add(left, right, total, c_type)[:, c_row, c_column], lanes)

    return run


@instruction("ptx_ldmatrix")
def _ldmatrix(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: trans, number of 8x8 matrices, ".b16", local pointer and offset, shared pointer and offset of the lane's row."""
    trans, number = getattr(call.args[0], "value", None), getattr(call.args[1], "value", None)
    if number not in (1, 2, 4) or _text(call, 2) != ".b16" or trans is None or not isinstance(call.ty, PrimType):
        raise InterpreterError("E369", "T.ptx_ldmatrix takes 1, 2 or 4 matrices of .b16", call.span)
    wave, dtype = compiler.wave, call.ty.dtype.element
    each = 4 // dtype.itemsize
    if not each or (trans and each != 2):
        raise InterpreterError("E369", f"T.ptx_ldmatrix of {dtype.name}{' transposed' if trans else ''}", call.span)
    target = Operand(compiler, call, 3, dtype, "store")
    source = Operand(compiler, call, 5, dtype, "load", "shared")
    wide = 4 * each
    row, column = matrix_places(8, wide, 32 // each)
    if trans:
        row, column = column, row

    def run(mask: Mask) -> None:
        warps = full_warps(wave, mask, call)
        storage, start = source.start(mask)
        givers = (warps[:, None] + np.arange(8 * number)).ravel()
        addresses = source.run(storage, start, wide, givers)
        source.aligned(start, givers, 16)
        giving = np.zeros(wave.batch.size, np.bool_)
        giving[givers] = True
        wave.count(source.site, storage, start, Mask(giving), 16)
        rows = source.load(storage, addresses.ravel(), np.repeat(givers, wide))
        matrices = rows.reshape(len(warps), number, 8, wide)
        found = matrices[:, :, row, column]  # warps x matrices x lanes x elements
        lanes = (warps[:, None] + np.arange(WARP)).ravel()
        target.write(mask, found.transpose(0, 2, 1, 3).reshape(len(warps), WARP, -1), lanes)

    return run


# ---- asynchronous copies


def copies_of(wave: Wave) -> Copies:
    """The copies of the running batch."""
    return wave.record(Copies, wave.batch.size)


@instruction("ptx_cp_async")
def _cp_async(compiler: ExprCompiler, call: Call) -> Effect:
    """Arguments: shared pointer and offset, global pointer and offset (in elements), bytes, and optionally a condition."""
    size = getattr(call.args[4], "value", None)
    if size not in (4, 8, 16):
        raise InterpreterError("E372", "T.ptx_cp_async copies 4, 8 or 16 bytes", call.span)
    condition = compiler.visit(call.args[5]) if len(call.args) > 5 else None
    wave = compiler.wave
    fallback = call.ty.dtype.element if isinstance(call.ty, PrimType) else DataType("uint8")
    to_type, source_type = [element_of(call.args[index]) or fallback for index in (0, 2)]
    if to_type.itemsize != source_type.itemsize:
        raise InterpreterError("E372", f"T.ptx_cp_async from {source_type.name} to {to_type.name}", call.span)
    source = Operand(compiler, call, 2, to_type, "load", "global")
    target = Operand(compiler, call, 0, to_type, "store", "shared")
    count = size // to_type.itemsize

    def addresses(operand: Operand, mask: Mask) -> tuple[Storage, np.ndarray]:
        storage, start = operand.start(mask)
        found = operand.run(storage, start, count, mask.index)
        operand.aligned(start, mask.index, size)
        wave.count(operand.site, storage, start, mask, size)
        return storage, found

    def run(mask: Mask) -> None:
        where = mask.where(condition(mask)) if condition is not None else mask
        lanes = mask.index
        storage, destination = addresses(target, mask)
        values = np.zeros((wave.batch.size, count), to_type.numpy)  # where the condition fails, zeros arrive
        if where.count:
            origin, begin = addresses(source, where)
            values[where.index] = source.load(origin, begin.ravel(), np.repeat(where.index, count)).reshape(-1, count)

        def store(some: np.ndarray, arrived: bool) -> None:
            everyone, arriving = np.repeat(lanes[some], count), values[lanes[some]].ravel()
            target.checked(storage, destination, lanes)
            target.store(storage, destination[some].ravel(), everyone, arriving, arrived)

        store(np.ones(len(lanes), np.bool_), False)
        copies_of(wave).begin(lanes, lambda due: store(due, True))

    return run


group_calls("ptx", Copies)
